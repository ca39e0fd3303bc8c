// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/catalog_engine.h"

#include <chrono>
#include <pthread.h>
#include <utility>

#include "server/base/check.h"
#include "server/catalog/catalog_records.h"
#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/subscription_state.h"

namespace duetime::runtime {
namespace {

// Arbitrary, because the catalog has no timers.
constexpr std::chrono::seconds kSleepMax{10};

}  // namespace

CatalogEngine::CatalogEngine(const catalog::CatalogOptions& options, const MailboxLimits& limits,
                             storage::MessageStore* store, base::Clock* clock, Committer* committer,
                             Deliver deliver)
    : clock_(clock),
      committer_(committer),
      deliver_(std::move(deliver)),
      mailbox_(limits),
      catalog_(options, store) {}

void CatalogEngine::Start() {
  DT_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Run(); });
}

void CatalogEngine::Join() {
  if (thread_.joinable()) thread_.join();
}

void CatalogEngine::Run() {
  pthread_setname_np(pthread_self(), "dt-catalog");
  for (;;) {
    mailbox_.Take(!AtLimit(), std::exchange(handled_, {}), &taken_);
    Turn();
    if (taken_.stopping && uncommitted_ == 0) return;
    const size_t wake_commands = AtLimit() ? CatalogMailbox::kNoCommands : 1;
    mailbox_.Wait(kSleepMax, wake_commands, std::exchange(handled_, {}));
  }
}

void CatalogEngine::Turn() {
  const base::Now now = clock_->Read();
  for (const Completion& completion : taken_.completions) {
    DT_CHECK_GT(uncommitted_.load(), 0u);
    --uncommitted_;
    catalog_.OnCommitted(now, completion.sequence, completion.outcome);
  }
  for (catalog::Command& command : taken_.commands) {
    ++handled_.commands;
    handled_.bytes += CommandBytes(command);
    catalog_.Handle(now, std::move(command));
  }
  // The next start continues the open changes.
  if (taken_.stopping) catalog_.Stop();
  SubmitBatch();
  catalog::Effects effects = catalog_.TakeEffects();
  const size_t open = catalog_.open_requests();
  handled_.commands += std::exchange(open_requests_, open);
  DT_CHECK_GE(handled_.commands, open);
  handled_.commands -= open;
  if (effects.failed) committer_->Fence();
  if (!effects.empty()) deliver_(std::move(effects));
}

void CatalogEngine::SubmitBatch() {
  auto batch = catalog_.TakeBatch();
  if (!batch.has_value()) return;
  const size_t bytes = BytesOf(batch->records);
  ++uncommitted_;
  committer_->Submit(Submission{.participant = kCatalogParticipant,
                                .reply_to = &mailbox_,
                                .sequence = batch->sequence,
                                .records = std::move(batch->records),
                                .bytes = bytes,
                                .durability = batch->durability});
}

// Both the catalog and the shards have records of subscriptions.
std::vector<storage::TopicId> TopicsOfObject(storage::ObjectKind kind, uint16_t partition,
                                             absl::string_view name, absl::string_view value) {
  const auto of_subscription = [](const auto& state) {
    return std::vector<storage::TopicId>{state.topic, protocol::DeadLetterOf(state.settings)};
  };
  switch (kind) {
    case storage::ObjectKind::kSubscription: {
      if (partition == catalog::kPartition) {
        const auto stored = catalog::DecodeSubscription(value);
        if (stored.ok()) return of_subscription(*stored);
        break;
      }
      const auto state = protocol::DecodeSubscription(name, value);
      if (state.ok()) return of_subscription(*state);
      break;
    }
    case storage::ObjectKind::kRecurrence: {
      const auto state = protocol::DecodeRecurrence(name, value);
      if (state.ok()) return {state->spec.topic};
      break;
    }
    case storage::ObjectKind::kOperation: {
      const auto operation = protocol::DecodeOperation(name, value);
      if (operation.ok()) return {operation->spec.topic};
      break;
    }
    case storage::ObjectKind::kTopicSettings:
    case storage::ObjectKind::kCatalog:
    case storage::ObjectKind::kCell:
    case storage::ObjectKind::kSubscriptionStart:
      break;
  }
  return {};
}

}  // namespace duetime::runtime
