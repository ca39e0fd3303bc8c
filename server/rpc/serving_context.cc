// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/serving_context.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"

namespace duetime::rpc {
namespace {

absl::Status StartingError() {
  return base::MakeError(
      absl::StatusCode::kUnavailable, "the server is opening its storage",
      {.reason = "STARTING", .field = "", .metadata = {}, .retry_after_ms = 1000});
}

absl::Status DiskLowError() {
  return base::MakeError(
      absl::StatusCode::kResourceExhausted,
      "the disk is nearly full: no new messages are taken; acks and cancels still work",
      {.reason = "DISK_LOW", .field = "", .metadata = {}, .retry_after_ms = 10'000});
}

}  // namespace

absl::Status ServingContext::Admit(CallKind kind) const {
  switch (state.load(std::memory_order_acquire)) {
    case ServingState::kStarting:
      return StartingError();
    case ServingState::kServing:
      break;
    case ServingState::kDraining:
      if (kind != CallKind::kOther || ending.load()) return base::DrainingError();
      if (node.load() == nullptr) return StartingError();  // stopped before it had started
      break;
    case ServingState::kStorageFailed:
      return base::StorageFailedError();
  }
  if (kind == CallKind::kSchedule && DiskLow()) return DiskLowError();
  return absl::OkStatus();
}

void ServingContext::ForgetTopicObject(absl::string_view topic) {
  if (!topics.BeginChange(topic).has_value()) return;
  delivery::ObjectCommand command;
  command.tag = kNobody;
  command.kind = storage::ObjectKind::kTopicSettings;
  command.name = std::string(topic);
  static_cast<void>(node.load()->Post(0, std::move(command)));
  // The next change comes behind it.
  topics.EndChange(topic);
}

size_t ServingContext::TellShards(const TopicRegistry::Topic& topic, delivery::CallTag tag) {
  runtime::Node* to = node.load();
  delivery::TopicCommand command;
  command.tag = tag;
  command.topic = topic.id;
  command.fate_retention_ms = topic.settings.fate_retention_ms.value_or(options.fate_retention_ms);
  command.quota = topic.quota;
  command.watch = topic.deleted;
  size_t told = 0;
  for (uint16_t shard = 0; shard < to->shard_count(); ++shard) {
    // Never refused for want of room: there is one per change of a topic.
    if (to->Post(shard, command).ok()) ++told;
  }
  return told;
}

bool ServingContext::Advance(ServingState next) {
  ServingState current = state.load();
  while (current < next) {
    if (state.compare_exchange_weak(current, next)) return true;
  }
  return false;
}

absl::Status StreamLimitError(size_t limit) {
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("too many streams, limit ", limit),
                         {.reason = "STREAM_LIMIT",
                          .field = "",
                          .metadata = {{"limit", absl::StrCat(limit)}},
                          .retry_after_ms = 1'000});
}

}  // namespace duetime::rpc
