// SPDX-License-Identifier: Apache-2.0
#include "server/api/recurrences/recurrence_view.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "server/api/messages/message_view.h"
#include "server/api/messages/schedule_validation.h"
#include "server/api/messages/target_validation.h"
#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/api/when.h"
#include "server/calendar/recurrence_rule.h"
#include "server/protocol/etag.h"
#include "storage/message_record.h"

namespace duetime::api {
namespace {

using protocol::Misfire;
using protocol::Overlap;
using protocol::RecurrenceStatus;

constexpr absl::string_view kRecurrenceReason = "INVALID_RECURRENCE";
constexpr size_t kNameBytesMax = 255;
// The calendar reads longer expressions, which recurrences of earlier versions may have.
constexpr size_t kCronBytesMax = 255;

v1::Recurrence::State StateToProto(RecurrenceStatus status) {
  switch (status) {
    case RecurrenceStatus::kActive:
      return v1::Recurrence::STATE_ACTIVE;
    case RecurrenceStatus::kPaused:
      return v1::Recurrence::STATE_PAUSED;
    case RecurrenceStatus::kCompleted:
      return v1::Recurrence::STATE_COMPLETED;
  }
  return v1::Recurrence::STATE_UNSPECIFIED;
}

absl::Status ReadTime(const google::protobuf::Timestamp& time, const std::string& field,
                      int64_t* ms) {
  const auto read = TimestampToMs(time);
  if (!read.has_value()) {
    return Invalid(kRecurrenceReason, field,
                   "not a valid timestamp: years 0001-9999, nanos 0 to 999999999");
  }
  *ms = static_cast<int64_t>(*read);
  return absl::OkStatus();
}

absl::Status ReadDuration(const google::protobuf::Duration& duration, const std::string& field,
                          int64_t* ms) {
  const auto read = DurationToMs(duration);
  if (!read.has_value())
    return Invalid(kRecurrenceReason, field, "negative, or not a valid duration");
  *ms = static_cast<int64_t>(*read);
  return absl::OkStatus();
}

// The limits of a rule that requests have and stored rules need not have.
absl::Status CheckRule(const calendar::RecurrenceRule& rule, const RequestLimits& limits,
                       uint64_t now_ms, const std::string& field) {
  if (rule.cron.size() > kCronBytesMax) {
    return OverLimit("INVALID_CRON", field + ".cron", rule.cron.size(), kCronBytesMax, "bytes");
  }
  const auto interval_ms = static_cast<uint64_t>(rule.interval_ms);
  if (interval_ms > limits.horizon_ms) {
    return OverLimit(kRecurrenceReason, field + ".interval", interval_ms, limits.horizon_ms, "ms");
  }
  const auto start_ms = static_cast<uint64_t>(rule.start_ms);
  if (start_ms > LatestMs(limits.horizon_ms, now_ms)) {
    return OverLimit(kRecurrenceReason, field + ".start_time", start_ms - now_ms, limits.horizon_ms,
                     "ms ahead");
  }
  return absl::OkStatus();
}

void FillSchedule(const calendar::RecurrenceRule& rule, v1::RecurrenceSchedule* schedule) {
  if (rule.cron.empty()) {
    SetDuration(static_cast<uint64_t>(rule.interval_ms), schedule->mutable_interval());
  } else {
    schedule->set_cron(rule.cron);
  }
  schedule->set_time_zone(rule.time_zone);
  SetTimestamp(static_cast<uint64_t>(rule.start_ms), schedule->mutable_start_time());
  if (rule.end_ms.has_value()) {
    SetTimestamp(static_cast<uint64_t>(*rule.end_ms), schedule->mutable_end_time());
  }
  schedule->set_max_count(static_cast<int64_t>(rule.max_count));
  if (rule.jitter_ms > 0) {
    SetDuration(static_cast<uint64_t>(rule.jitter_ms), schedule->mutable_jitter());
  }
}

// False if the template is damaged.
bool FillTemplate(const std::string& message, bool full, v1::MessageTemplate* proto) {
  storage::MessageRecord record;
  if (!storage::DecodeMessageRecord(message, &record).ok()) return false;
  if (full) proto->set_payload(record.payload.data(), record.payload.size());
  for (const auto& [key, value] : record.attributes) {
    (*proto->mutable_attributes())[std::string(key)] = std::string(value);
  }
  for (const auto& [key, value] : record.labels) {
    (*proto->mutable_labels())[std::string(key)] = std::string(value);
  }
  proto->set_ordering_key(std::string(record.ordering_key));
  if (record.ttl_ms == 0) return true;
  SetDuration(record.ttl_ms, proto->mutable_ttl());
  proto->set_late_policy(api::ToProto(record.late_policy));
  return true;
}

// Why an active recurrence makes no occurrences; empty if it makes them. The shard decides by the
// same facts.
std::string StallOf(const protocol::RecurrenceSpec& spec, bool template_ok) {
  if (!template_ok) return "its template is damaged; update it";
  const auto rule = calendar::Recurrence::Compile(spec.rule, "recurrence.schedule");
  return rule.ok() ? "" : std::string(rule.status().message());
}

}  // namespace

absl::Status ValidateRecurrenceName(const std::string& name, const std::string& field) {
  return ValidateName("INVALID_RECURRENCE_NAME", field, name, kNameBytesMax);
}

absl::Status ReadRule(const v1::RecurrenceSchedule& schedule, const RequestLimits& limits,
                      uint64_t now_ms, const std::string& field, calendar::RecurrenceRule* rule) {
  *rule = {};
  rule->cron = schedule.cron();
  rule->time_zone = schedule.time_zone();
  rule->start_ms = static_cast<int64_t>(now_ms);
  absl::Status status;
  if (schedule.has_interval()) {
    status = ReadDuration(schedule.interval(), field + ".interval", &rule->interval_ms);
  }
  if (status.ok() && schedule.has_start_time()) {
    status = ReadTime(schedule.start_time(), field + ".start_time", &rule->start_ms);
  }
  if (status.ok() && schedule.has_end_time()) {
    int64_t end_ms = 0;
    status = ReadTime(schedule.end_time(), field + ".end_time", &end_ms);
    rule->end_ms = end_ms;
  }
  if (status.ok() && schedule.has_jitter()) {
    status = ReadDuration(schedule.jitter(), field + ".jitter", &rule->jitter_ms);
  }
  if (status.ok() && schedule.max_count() < 0) {
    status = Invalid(kRecurrenceReason, field + ".max_count", "negative");
  }
  rule->max_count = static_cast<uint64_t>(schedule.max_count());
  if (status.ok()) status = CheckRule(*rule, limits, now_ms, field);
  return status;
}

absl::Status ReadTemplate(const v1::MessageTemplate& from, const TopicSettings& settings,
                          const RequestLimits& limits, std::string* message) {
  // A template may hold what a message may hold, so ValidateSchedule checks it.
  v1::ScheduleRequest request;
  request.set_topic("t");  // a placeholder: the caller checks the topic
  request.set_payload(from.payload());
  *request.mutable_attributes() = from.attributes();
  *request.mutable_labels() = from.labels();
  request.set_ordering_key(from.ordering_key());
  if (from.has_ttl()) *request.mutable_ttl() = from.ttl();
  request.set_late_policy(from.late_policy());
  request.mutable_delay();
  ValidSchedule valid;
  absl::Status status = ValidateSchedule(request, limits, 0, kSingle, &valid);
  if (status.ok()) status = ApplyTopicSettings(settings, kSingle, &valid);
  if (!status.ok()) return status;
  storage::MessageRecord record;
  record.attributes = valid.attributes;
  record.payload = valid.payload;
  record.ttl_ms = valid.ttl_ms;
  record.late_policy = valid.late_policy;
  if (!valid.plain) {
    record.labels = valid.labels;
    record.ordering_key = valid.ordering_key;
  }
  *message = storage::EncodeMessageRecord(record);
  return absl::OkStatus();
}

absl::Status ReadPolicies(const v1::Recurrence& from, Overlap* overlap, Misfire* misfire) {
  switch (from.overlap()) {
    case v1::Recurrence::OVERLAP_UNSPECIFIED:
    case v1::Recurrence::OVERLAP_ALLOW:
      *overlap = Overlap::kAllow;
      break;
    case v1::Recurrence::OVERLAP_SKIP:
      *overlap = Overlap::kSkip;
      break;
    default:
      return Invalid(kRecurrenceReason, "recurrence.overlap",
                     absl::StrCat("unknown value ", from.overlap()),
                     {{"value", absl::StrCat(from.overlap())}});
  }
  switch (from.misfire()) {
    case v1::Recurrence::MISFIRE_UNSPECIFIED:
    case v1::Recurrence::MISFIRE_FIRE_ONCE:
      *misfire = Misfire::kFireOnce;
      break;
    case v1::Recurrence::MISFIRE_FIRE_ALL:
      *misfire = Misfire::kFireAll;
      break;
    case v1::Recurrence::MISFIRE_SKIP_MISSED:
      *misfire = Misfire::kSkip;
      break;
    default:
      return Invalid(kRecurrenceReason, "recurrence.misfire",
                     absl::StrCat("unknown value ", from.misfire()),
                     {{"value", absl::StrCat(from.misfire())}});
  }
  return absl::OkStatus();
}

void FillRecurrence(const protocol::RecurrenceState& state, absl::string_view topic, bool full,
                    v1::Recurrence* proto) {
  const protocol::RecurrenceSpec& spec = state.spec;
  proto->set_name(state.name);
  proto->set_topic(std::string(topic));
  const bool template_ok = FillTemplate(spec.message, full, proto->mutable_template_());
  FillSchedule(spec.rule, proto->mutable_schedule());
  proto->set_overlap(spec.overlap == Overlap::kSkip ? v1::Recurrence::OVERLAP_SKIP
                                                    : v1::Recurrence::OVERLAP_ALLOW);
  proto->set_misfire(spec.misfire == Misfire::kFireAll ? v1::Recurrence::MISFIRE_FIRE_ALL
                     : spec.misfire == Misfire::kSkip  ? v1::Recurrence::MISFIRE_SKIP_MISSED
                                                       : v1::Recurrence::MISFIRE_FIRE_ONCE);
  proto->set_state(StateToProto(state.status));
  if (state.status == RecurrenceStatus::kActive) {
    proto->set_state_reason(StallOf(spec, template_ok));
    if (!proto->state_reason().empty()) proto->set_state(v1::Recurrence::STATE_STALLED);
  }
  proto->set_etag(EtagText(protocol::EtagOf(state)));
  SetTimestamp(state.create_ms, proto->mutable_create_time());
  if (state.update_ms != 0) SetTimestamp(state.update_ms, proto->mutable_update_time());
  if (state.current.id != storage::MessageId{}) {
    proto->set_next_message_id(state.current.id.ToString());
    SetTimestamp(state.current_deliver_ms, proto->mutable_next_deliver_time());
  }
  proto->set_occurrences(static_cast<int64_t>(state.made));
  proto->set_skipped(static_cast<int64_t>(state.skipped));
}

}  // namespace duetime::api
