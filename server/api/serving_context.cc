// SPDX-License-Identifier: Apache-2.0
#include "server/api/serving_context.h"

#include <spdlog/spdlog.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "storage/time_units.h"

namespace duetime::api {
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

absl::Status NoDeadLetterTopicError(absl::string_view topic) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition,
      absl::StrCat("the name of topic ", topic,
                   " is too long for a dead-letter topic to be named after it: set one"),
      {.reason = "NO_DEAD_LETTER_TOPIC",
       .field = "",
       .metadata = {{"topic", std::string(topic)}},
       .retry_after_ms = 0});
}

}  // namespace

absl::Status ServingContext::Admit(CallKind kind) const {
  if (kind == CallKind::kAlways) return absl::OkStatus();
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
  protocol::ObjectCommand command;
  command.tag = kNoReply;
  command.kind = storage::ObjectKind::kTopicSettings;
  command.name = std::string(topic);
  static_cast<void>(node.load()->Post(0, std::move(command)));
  // The next change comes behind it.
  topics.EndChange(topic);
}

size_t ServingContext::TellShards(const TopicRegistry::Topic& topic, protocol::CallTag tag) {
  base::MutexLock lock(&tell_mutex_);
  if (topic.deleted) {
    watched_.insert(topic.id);
  } else {
    watched_.erase(topic.id);
  }
  const auto now = topics.FindEvenIfDeleted(topic.name);
  DT_CHECK(now.has_value());
  return Tell(*now, tag);
}

size_t ServingContext::Tell(const TopicRegistry::Topic& topic, protocol::CallTag tag) {
  runtime::Node* to = node.load();
  protocol::TopicCommand command;
  command.tag = tag;
  command.topic = topic.id;
  command.tombstone_retention_ms =
      topic.settings.tombstone_retention_ms.value_or(shard_limits.tombstone_retention_ms);
  command.quota = topic.quota;
  command.watch = watched_.contains(topic.id);
  command.paused = topic.settings.paused;
  command.pace = topic.pace;
  command.minute_max = topic.settings.minute_max;
  command.bucket_policy = topic.settings.minute_policy;
  // A minute is the step.
  command.spread_minutes_max =
      static_cast<uint32_t>(topic.settings.minute_spread_ms / storage::kMinuteMs);
  command.dead_letter = topic.dead_letters;
  if (topic.dead_letters != storage::TopicId{}) {
    command.dead_letter_name = std::string(topics.Name(topic.dead_letters).value_or(""));
  }
  size_t told = 0;
  for (uint16_t shard = 0; shard < to->shard_count(); ++shard) {
    // Never refused for want of room: there is one per change of a topic.
    if (to->Post(shard, command).ok()) ++told;
  }
  return told;
}

absl::Status ServingContext::DeadLettersOf(const TopicRegistry::Topic& topic,
                                           TopicRegistry::Topic* dead_letters) {
  // Again if the settings change meanwhile: then it is another one.
  for (;;) {
    auto now = topics.FindEvenIfDeleted(topic.name);
    DT_CHECK(now.has_value());
    const std::string name = TopicRegistry::DeadLettersName(*now);
    if (name.empty()) return NoDeadLetterTopicError(topic.name);
    absl::Status status = Resolve(name, TopicRegistry::Use::kCreate, dead_letters);
    if (!status.ok() || now->dead_letters == dead_letters->id) return status;
    base::MutexLock lock(&tell_mutex_);
    now = topics.FindEvenIfDeleted(topic.name);
    now->dead_letters = dead_letters->id;
    Tell(*now, kNoReply);
    // Whoever finds it there need not tell again: so not before.
    if (topics.SetDeadLetters(topic.id, *dead_letters)) return absl::OkStatus();
  }
}

absl::Status ServingContext::Resolve(absl::string_view name, TopicRegistry::Use use,
                                     TopicRegistry::Topic* topic) {
  absl::Status status = topics.Resolve(name, use, topic);
  if (status.ok() && topic->revived) ForgetTopicObject(topic->name);
  return status;
}

void ServingContext::GiveBackDamaged(protocol::StreamId stream,
                                     const std::vector<protocol::LeaseToken>& tokens) {
  stats->damaged_records.fetch_add(tokens.size(), std::memory_order_relaxed);
  for (const protocol::LeaseToken token : tokens) {
    protocol::SettleCommand command;
    command.stream = stream;
    command.nacks.push_back({.token = token, .delay_ms = kDamagedRetryMs, .reason = "damaged"});
    static_cast<void>(node.load()->Post(protocol::ShardOfLease(token), std::move(command)));
  }
  spdlog::error("{} stored message(s) damaged: not delivered, looked at again in {} s",
                tokens.size(), kDamagedRetryMs / 1000);
}

absl::Status StreamLimitError(size_t limit) {
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("too many streams, limit ", limit),
                         {.reason = "STREAM_LIMIT",
                          .field = "",
                          .metadata = {{"limit", absl::StrCat(limit)}},
                          .retry_after_ms = 1'000});
}

}  // namespace duetime::api
