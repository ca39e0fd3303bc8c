// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/recurrence_state.h"

#include "server/protocol/field_codec.h"

namespace duetime::protocol {
namespace {

constexpr uint8_t kRecurrenceVersion = 1;

void WriteKey(const storage::MessageKey& key, FieldWriter* writer) {
  writer->Number(key.due_ms).Number(key.id.high).Number(key.id.low);
}

storage::MessageKey ReadKey(FieldReader* reader) {
  storage::MessageKey key;
  key.due_ms = reader->Number();
  key.id.high = reader->Number();
  key.id.low = reader->Number();
  return key;
}

}  // namespace

std::string EncodeRecurrence(const RecurrenceState& state) {
  FieldWriter writer(kRecurrenceVersion);
  const RecurrenceSpec& spec = state.spec;
  const calendar::RecurrenceRule& rule = spec.rule;
  writer.Number(static_cast<uint64_t>(spec.topic));
  writer.Text(rule.cron).Number(static_cast<uint64_t>(rule.interval_ms)).Text(rule.time_zone);
  writer.Number(static_cast<uint64_t>(rule.start_ms)).Number(rule.end_ms.has_value() ? 1 : 0);
  writer.Number(static_cast<uint64_t>(rule.end_ms.value_or(0))).Number(rule.max_count);
  writer.Number(static_cast<uint64_t>(rule.jitter_ms));
  writer.Number(static_cast<uint64_t>(spec.overlap)).Number(static_cast<uint64_t>(spec.misfire));
  writer.Text(spec.message).Number(spec.content.high).Number(spec.content.low);
  writer.Number(static_cast<uint64_t>(state.status)).Number(state.revision);
  writer.Number(state.create_ms).Number(state.update_ms).Number(state.made).Number(state.skipped);
  writer.Number(state.nominal_ms);
  WriteKey(state.current, &writer);
  writer.Number(state.current_deliver_ms);
  WriteKey(state.previous, &writer);
  return writer.Take();
}

absl::StatusOr<RecurrenceState> DecodeRecurrence(absl::string_view name, absl::string_view bytes) {
  FieldReader reader(bytes, kRecurrenceVersion);
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
  spec.overlap = static_cast<Overlap>(reader.Number());
  spec.misfire = static_cast<Misfire>(reader.Number());
  spec.message = reader.Text();
  spec.content.high = reader.Number();
  spec.content.low = reader.Number();
  state.status = static_cast<RecurrenceStatus>(reader.Number());
  state.revision = reader.Number();
  state.create_ms = reader.Number();
  state.update_ms = reader.Number();
  state.made = reader.Number();
  state.skipped = reader.Number();
  state.nominal_ms = reader.Number();
  state.current = ReadKey(&reader);
  state.current_deliver_ms = reader.Number();
  state.previous = ReadKey(&reader);
  if (absl::Status status = reader.Done(); !status.ok()) return status;
  return state;
}

}  // namespace duetime::protocol
