// SPDX-License-Identifier: Apache-2.0
#include "server/api/serving_context.h"

#include <algorithm>
#include <spdlog/spdlog.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/api/validation_error.h"
#include "server/base/error.h"
#include "server/catalog/catalog_errors.h"
#include "server/protocol/commands.h"

namespace duetime::api {
namespace {

absl::Status StartingError() {
  return base::MakeError(
      absl::StatusCode::kUnavailable, "the server is opening its storage",
      {.reason = "STARTING", .field = "", .metadata = {}, .retry_after_ms = 1000});
}

absl::Status NotLeaderError(const std::string& leader) {
  return base::MakeError(absl::StatusCode::kUnavailable,
                         leader.empty()
                             ? "no member of the cell leads now"
                             : absl::StrCat("another member of the cell leads: ", leader),
                         {.reason = "NOT_LEADER",
                          .field = "",
                          .metadata = {{"leader", leader}},
                          .retry_after_ms = 200});
}

absl::Status DiskLowError() {
  return base::MakeError(
      absl::StatusCode::kResourceExhausted,
      "the disk is nearly full: no new messages are taken; acks and cancels still work",
      {.reason = "DISK_LOW", .field = "", .metadata = {}, .retry_after_ms = 10'000});
}

}  // namespace

absl::Status ServingContext::FailedError() const {
  return roster != nullptr ? NotLeaderError("") : base::StorageFailedError();
}

absl::Status ServingContext::Admit(CallKind kind) const {
  if (kind == CallKind::kAlways) return absl::OkStatus();
  switch (state.load(std::memory_order_acquire)) {
    case ServingState::kStarting:
      return StartingError();
    case ServingState::kStandby:
      return NotLeaderError(leader());
    case ServingState::kServing:
      break;
    case ServingState::kDraining:
      if (kind != CallKind::kOther || ending.load()) return base::DrainingError();
      if (node.load() == nullptr) return StartingError();  // stopped before it had started
      break;
    case ServingState::kStorageFailed:
      return FailedError();
  }
  // This member may lead no more, without knowing it yet.
  if (!node.load(std::memory_order_acquire)->MayServe()) return NotLeaderError("");
  if (kind == CallKind::kSchedule && DiskLow()) return DiskLowError();
  return absl::OkStatus();
}

absl::StatusOr<catalog::TopicPtr> ServingContext::FindTopic(absl::string_view name,
                                                            const std::string& field) const {
  if (absl::Status status = ValidateTopic(name, field); !status.ok()) return status;
  catalog::TopicPtr topic = catalog().FindTopic(name);
  if (topic == nullptr) return TopicNotFoundError(name);
  return topic;
}

catalog::SubscriptionPtr ServingContext::FindSubscription(absl::string_view topic,
                                                          absl::string_view name) const {
  const catalog::Snapshot& snapshot = catalog();
  const catalog::TopicPtr found = snapshot.FindTopic(topic);
  return found == nullptr ? nullptr : snapshot.FindSubscription(found->id, name);
}

absl::Status ServingContext::MayCreateTopic(absl::string_view name) const {
  const catalog::CatalogOptions& limits = node_options.catalog;
  if (!limits.auto_create) return TopicNotFoundError(name);
  const catalog::Snapshot& now = catalog();
  const catalog::TopicPtr deleted = now.FindTopicEvenIfDeleted(name);
  const catalog::TopicNeed need{.topics = 1, .names = deleted == nullptr ? size_t{1} : size_t{0}};
  absl::Status status =
      now.CheckRoom(limits.topics_max, clock->Read().wall_ms, now.counted(), now.names(), need);
  if (!status.ok() && deleted != nullptr && now.ReservesName(deleted->id)) return absl::OkStatus();
  return status;
}

void ServingContext::GiveBackDamaged(protocol::StreamId stream,
                                     const std::vector<protocol::LeaseToken>& tokens) {
  stats->damaged_records.fetch_add(tokens.size(), std::memory_order_relaxed);
  for (const protocol::LeaseToken token : tokens) {
    protocol::SettleCommand command;
    command.stream = stream;
    command.settlements.push_back(
        {.token = token, .action = protocol::SettleAction::kRelease, .ms = kDamagedRetryMs});
    node.load()->PostAlways(protocol::ShardOfLease(token), std::move(command));
  }
  spdlog::error("{} damaged message(s) were not delivered; the next attempt is in {} s",
                tokens.size(), kDamagedRetryMs / 1000);
}

}  // namespace duetime::api
