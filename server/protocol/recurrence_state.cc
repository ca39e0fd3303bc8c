// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/recurrence_state.h"

#include "server/base/error.h"
#include "server/protocol/object_codec.h"
#include "server/protocol/objects.pb.h"

namespace duetime::protocol {
namespace {

// DATA_LOSS if a number is no enumerator.
absl::Status Check(const RecurrenceState& state) {
  const RecurrenceSpec& spec = state.spec;
  if (spec.topic == storage::TopicId{} || spec.overlap < Overlap::kAllow ||
      spec.overlap > Overlap::kSkip || spec.misfire < Misfire::kFireOnce ||
      spec.misfire > Misfire::kSkip || state.status < RecurrenceStatus::kActive ||
      state.status > RecurrenceStatus::kCompleted) {
    return DamagedObjectError();
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeRecurrence(const RecurrenceState& state) {
  internal::RecurrenceRecord record;
  const RecurrenceSpec& spec = state.spec;
  record.set_topic(static_cast<uint32_t>(spec.topic));
  internal::RuleRecord* const rule = record.mutable_rule();
  rule->set_cron(spec.rule.cron);
  rule->set_interval_ms(spec.rule.interval_ms);
  rule->set_time_zone(spec.rule.time_zone);
  rule->set_start_ms(spec.rule.start_ms);
  if (spec.rule.end_ms.has_value()) rule->set_end_ms(*spec.rule.end_ms);
  rule->set_max_count(spec.rule.max_count);
  rule->set_jitter_ms(spec.rule.jitter_ms);
  record.set_overlap(static_cast<uint32_t>(spec.overlap));
  record.set_misfire(static_cast<uint32_t>(spec.misfire));
  record.set_status(static_cast<uint32_t>(state.status));
  record.set_message(spec.message);
  Write(spec.content, record.mutable_content());
  record.set_revision(state.revision);
  record.set_create_ms(state.create_ms);
  record.set_update_ms(state.update_ms);
  record.set_made(state.made);
  record.set_skipped(state.skipped);
  record.set_nominal_ms(state.nominal_ms);
  Write(state.current, record.mutable_current());
  record.set_current_deliver_ms(state.current_deliver_ms);
  Write(state.previous, record.mutable_previous());
  return EncodeObject(record);
}

absl::Status RecurrenceNotFoundError(const std::string& name) {
  return base::MakeError(absl::StatusCode::kNotFound, "there is no recurrence of this name",
                         {.reason = "RECURRENCE_NOT_FOUND",
                          .field = "name",
                          .metadata = {{"name", name}},
                          .retry_after_ms = 0});
}

absl::StatusOr<RecurrenceState> DecodeRecurrence(absl::string_view name, absl::string_view bytes) {
  internal::RecurrenceRecord record;
  if (absl::Status status = DecodeObject(bytes, &record); !status.ok()) return status;
  RecurrenceState state;
  state.name = std::string(name);
  RecurrenceSpec& spec = state.spec;
  spec.topic = storage::TopicId{record.topic()};
  const internal::RuleRecord& rule = record.rule();
  spec.rule.cron = rule.cron();
  spec.rule.interval_ms = rule.interval_ms();
  spec.rule.time_zone = rule.time_zone();
  spec.rule.start_ms = rule.start_ms();
  if (rule.has_end_ms()) spec.rule.end_ms = rule.end_ms();
  spec.rule.max_count = rule.max_count();
  spec.rule.jitter_ms = rule.jitter_ms();
  spec.overlap = EnumOf<Overlap>(record.overlap());
  spec.misfire = EnumOf<Misfire>(record.misfire());
  state.status = EnumOf<RecurrenceStatus>(record.status());
  spec.message = record.message();
  spec.content = ReadFingerprint(record.content());
  state.revision = record.revision();
  state.create_ms = record.create_ms();
  state.update_ms = record.update_ms();
  state.made = record.made();
  state.skipped = record.skipped();
  state.nominal_ms = record.nominal_ms();
  state.current = ReadKey(record.current());
  state.current_deliver_ms = record.current_deliver_ms();
  state.previous = ReadKey(record.previous());
  if (absl::Status status = Check(state); !status.ok()) return status;
  return state;
}

}  // namespace duetime::protocol
