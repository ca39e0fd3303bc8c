// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/old_objects.h"

#include <utility>

#include "server/base/check.h"
#include "server/protocol/field_codec.h"
#include "server/protocol/object_codec.h"

namespace duetime::protocol {
namespace {

storage::MessageKey ReadOldKey(FieldReader* reader) {
  storage::MessageKey key;
  key.due_ms = reader->Number();
  key.id.high = reader->Number();
  key.id.low = reader->Number();
  return key;
}

}  // namespace

absl::StatusOr<Operation> DecodeOldOperation(absl::string_view name, absl::string_view bytes) {
  FieldReader reader(bytes, kOldObjectVersion);
  Operation operation;
  operation.name = std::string(name);
  OperationSpec& spec = operation.spec;
  spec.topic = static_cast<storage::TopicId>(reader.Number());
  spec.filter.key_prefix = reader.Text();
  const uint64_t labels = reader.Number();
  for (uint64_t i = 0; i < labels && reader.ok(); ++i) {
    std::string key = reader.Text();
    spec.filter.labels.emplace_back(std::move(key), reader.Text());
  }
  spec.filter.from_ms = reader.Number();
  spec.filter.until_ms = reader.Number();
  spec.action = EnumOf<BulkAction>(reader.Number());
  spec.shift_ms = static_cast<int64_t>(reader.Number());
  spec.horizon_ms = reader.Number();
  operation.content.high = reader.Number();
  operation.content.low = reader.Number();
  operation.state = EnumOf<OperationState>(reader.Number());
  operation.create_ms = reader.Number();
  operation.end_ms = reader.Number();
  operation.cursor = ReadOldKey(&reader);
  operation.matched = reader.Number();
  operation.changed = reader.Number();
  operation.unchanged = reader.Number();
  if (absl::Status status = reader.Done(); !status.ok()) return status;
  return operation;
}

absl::StatusOr<RecurrenceState> DecodeOldRecurrence(absl::string_view name,
                                                    absl::string_view bytes) {
  FieldReader reader(bytes, kOldObjectVersion);
  RecurrenceState state;
  state.name = std::string(name);
  RecurrenceSpec& spec = state.spec;
  calendar::RecurrenceRule& rule = spec.rule;
  spec.topic = static_cast<storage::TopicId>(reader.Number());
  rule.cron = reader.Text();
  rule.interval_ms = static_cast<int64_t>(reader.Number());
  rule.time_zone = reader.Text();
  rule.start_ms = static_cast<int64_t>(reader.Number());
  const bool ends = reader.Number() != 0;
  const auto end_ms = static_cast<int64_t>(reader.Number());
  if (ends) rule.end_ms = end_ms;
  rule.max_count = reader.Number();
  rule.jitter_ms = static_cast<int64_t>(reader.Number());
  spec.overlap = EnumOf<Overlap>(reader.Number());
  spec.misfire = EnumOf<Misfire>(reader.Number());
  spec.message = reader.Text();
  spec.content.high = reader.Number();
  spec.content.low = reader.Number();
  state.status = EnumOf<RecurrenceStatus>(reader.Number());
  state.revision = reader.Number();
  state.create_ms = reader.Number();
  state.update_ms = reader.Number();
  state.made = reader.Number();
  state.skipped = reader.Number();
  state.nominal_ms = reader.Number();
  state.current = ReadOldKey(&reader);
  state.current_deliver_ms = reader.Number();
  state.previous = ReadOldKey(&reader);
  if (absl::Status status = reader.Done(); !status.ok()) return status;
  return state;
}

absl::StatusOr<SubscriptionState> DecodeOldSubscription(storage::SubscriptionId id,
                                                        absl::string_view bytes) {
  DT_CHECK(IsOldSubscription(bytes));
  constexpr uint64_t kDeleting = 1;
  constexpr uint64_t kDeleted = 2;
  constexpr uint64_t kPaused = 4;
  FieldReader reader(bytes, static_cast<uint8_t>(bytes[0]));
  SubscriptionState state;
  SubscriptionSettings& settings = state.settings;
  RetryPolicy& retry = settings.retry;
  state.id = id;
  state.topic = static_cast<storage::TopicId>(reader.Number());
  state.topic_name = reader.Text();
  state.name = reader.Text();
  const uint64_t flags = reader.Number();
  state.deleting = (flags & kDeleting) != 0;
  state.deleted = (flags & kDeleted) != 0;
  settings.paused = (flags & kPaused) != 0;
  state.start.high = reader.Number();
  state.start.low = reader.Number();
  state.create_ms = reader.Number();
  state.fill_until_ms = reader.Number();
  settings.lease_ms = reader.Number();
  // 0 was the default of both.
  const uint64_t min_backoff_ms = reader.Number();
  retry.max_backoff_ms = reader.Number();
  retry.min_backoff_ms =
      min_backoff_ms > 0 ? min_backoff_ms : RetryPolicy::DefaultMinBackoffMs(retry.max_backoff_ms);
  retry.multiplier_percent = static_cast<uint32_t>(reader.Number());
  const auto jitter_percent = static_cast<uint32_t>(reader.Number());
  if (jitter_percent > 0) retry.jitter_percent = jitter_percent;
  retry.max_attempts = static_cast<uint32_t>(reader.Number());
  settings.dead_letter_name = reader.Text();
  settings.dead_letter = static_cast<storage::TopicId>(reader.Number());
  settings.retention_ms = reader.Number();
  const uint64_t policy = reader.Number();
  if (bytes[0] != kOldObjectVersion) settings.retention_max_messages = reader.Number();
  if (absl::Status status = reader.Done(); !status.ok()) return status;
  if (flags > (kDeleting | kDeleted | kPaused) || policy < 1 || policy > 2) {
    return DamagedObjectError();
  }
  settings.retention_policy = static_cast<RetentionPolicy>(policy);
  return state;
}

std::string ContentOf(const OperationSpec& spec) {
  FieldWriter writer(kOldObjectVersion);
  writer.Number(static_cast<uint64_t>(spec.topic));
  writer.Text(spec.filter.key_prefix).Number(spec.filter.labels.size());
  for (const auto& [key, value] : spec.filter.labels) writer.Text(key).Text(value);
  writer.Number(spec.filter.from_ms).Number(spec.filter.until_ms);
  writer.Number(static_cast<uint64_t>(spec.action));
  writer.Number(static_cast<uint64_t>(spec.shift_ms)).Number(spec.horizon_ms);
  // The remaining fields of a new object, with their first values.
  writer.Number(0).Number(0).Number(static_cast<uint64_t>(OperationState::kRunning)).Zeros(8);
  // Version 1 had no id.
  if (spec.filter.id != storage::MessageId{}) {
    writer.Number(spec.filter.id.high).Number(spec.filter.id.low);
  }
  return writer.Take();
}

std::string ContentOf(const RecurrenceSpec& spec) {
  FieldWriter writer(kOldObjectVersion);
  const calendar::RecurrenceRule& rule = spec.rule;
  writer.Number(static_cast<uint64_t>(spec.topic));
  writer.Text(rule.cron).Number(static_cast<uint64_t>(rule.interval_ms)).Text(rule.time_zone);
  writer.Number(static_cast<uint64_t>(rule.start_ms)).Number(rule.end_ms.has_value() ? 1 : 0);
  writer.Number(static_cast<uint64_t>(rule.end_ms.value_or(0))).Number(rule.max_count);
  writer.Number(static_cast<uint64_t>(rule.jitter_ms));
  writer.Number(static_cast<uint64_t>(spec.overlap)).Number(static_cast<uint64_t>(spec.misfire));
  // The remaining fields of a new object, with their first values.
  writer.Text(spec.message).Number(0).Number(0);
  writer.Number(static_cast<uint64_t>(RecurrenceStatus::kActive)).Zeros(13);
  return writer.Take();
}

}  // namespace duetime::protocol
