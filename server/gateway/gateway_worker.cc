// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/gateway_worker.h"

#include <algorithm>

#include "server/gateway/reconciler.h"

namespace duetime::gateway {

GatewayWorker::GatewayWorker(GatewayContext* context, rpc::CqWorker* shell)
    : context_(context), shell_(shell), turn_(shell->index()) {
  for (size_t cell = 0; cell < map().size(); ++cell) {
    stubs_.emplace_back(context->channels[cell]);
    lines_.emplace_back([context, cell] { return context->open_channel(cell); });
  }
  if (shell->index() == 0) reconciler_ = std::make_unique<Reconciler>(this);
}

GatewayWorker::~GatewayWorker() = default;

size_t GatewayWorker::NextCell() {
  const size_t cells = map().size();
  for (size_t i = 0; i < cells; ++i) {
    const size_t cell = turn_++ % cells;
    if (!context_->complete[cell].load(std::memory_order_relaxed)) continue;
    if (context_->channels[cell]->GetState(/*try_to_connect=*/true) == GRPC_CHANNEL_READY) {
      return cell;
    }
  }
  return turn_++ % cells;
}

void GatewayWorker::OnServingState() {
  if (shell_->ending()) reconciler_.reset();
}

void GatewayWorker::OnSweep() {
  if (reconciler_ == nullptr) return;
  context_->LookAtChannels();
  reconciler_->OnSweep();
  if (context_->state.load() != rpc::ServingState::kStarting) return;
  const bool all = std::all_of(context_->complete.begin(), context_->complete.end(),
                               [](const auto& complete) { return complete.load(); });
  const uint64_t age_ms = context_->clock->Read().mono_ms - context_->started.mono_ms;
  if (!all && age_ms < kServeAfterMs) return;
  if (context_->Advance(rpc::ServingState::kServing)) context_->wake_all();
}

}  // namespace duetime::gateway
