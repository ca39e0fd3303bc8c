// SPDX-License-Identifier: Apache-2.0
#include "server/api/api_worker.h"

#include <utility>

#include "storage/message_id.h"

namespace duetime::api {
namespace {

// Workers begin at different slots, so that they do not all load the same shard at once.
uint32_t FirstSlot(size_t worker) {
  return static_cast<uint32_t>(worker * 1'597) % storage::MessageId::kSlotCount;
}

}  // namespace

ApiWorker::ApiWorker(ServingContext* context, rpc::CqWorker* shell)
    : context_(context),
      shell_(shell),
      replies_(shell->index()),
      catalog_replies_(shell->index()),
      streams_(uint64_t{shell->index()} << kWorkerShift),
      router_(context, FirstSlot(shell->index())) {}

void ApiWorker::Push(uint16_t shard, protocol::Effects effects) {
  RunHere([this, shard, effects = std::move(effects)]() mutable {
    Distribute(shard, std::move(effects));
  });
}

void ApiWorker::Push(std::vector<catalog::Reply> replies) {
  RunHere([this, replies = std::move(replies)]() mutable {
    for (catalog::Reply& reply : replies) {
      CatalogReplySink* const sink = catalog_replies_.Find(reply.tag);
      if (sink != nullptr) sink->OnReply(std::move(reply));
    }
  });
}

void ApiWorker::Distribute(uint16_t shard, protocol::Effects effects) {
  for (const auto& reply : effects.settles) {
    if (StreamSink* stream = streams_.Touch(reply.stream)) stream->AddSettles(reply);
  }
  if (!effects.frames.empty()) {
    const base::Now now = context_->clock->Read();
    for (auto& frame : effects.frames) {
      if (StreamSink* stream = streams_.Touch(frame.stream)) {
        stream->AddDeliveries(now, std::move(frame.deliveries));
      }
    }
  }
  for (auto& reply : effects.replies) {
    ReplySink* const sink = replies_.Find(protocol::TagOf(reply));
    if (sink != nullptr) sink->OnReply(shard, std::move(reply));
  }
}

void ApiWorker::OnServingState() {
  // A copy: a listener may remove itself.
  const std::vector<StateListener*> listeners(listeners_.begin(), listeners_.end());
  for (StateListener* listener : listeners) {
    if (listeners_.contains(listener)) listener->OnServingState();
  }
}

void ApiWorker::OnSweep() {
  if (listeners_.empty()) return;
  const std::vector<StateListener*> listeners(listeners_.begin(), listeners_.end());
  for (StateListener* listener : listeners) {
    if (listeners_.contains(listener)) listener->OnSweep();
  }
}

std::unique_ptr<ScheduleJob> ApiWorker::TakeJob() {
  if (jobs_.empty()) return std::make_unique<ScheduleJob>();
  std::unique_ptr<ScheduleJob> job = std::move(jobs_.back());
  jobs_.pop_back();
  return job;
}

void ApiWorker::ReturnJob(std::unique_ptr<ScheduleJob> job) {
  job->Clear();
  jobs_.push_back(std::move(job));
}

}  // namespace duetime::api
