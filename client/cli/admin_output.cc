// SPDX-License-Identifier: Apache-2.0
#include "client/cli/admin_output.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/layout.h"
#include "client/cli/message_output.h"
#include "client/cli/output.h"
#include "client/cli/time_text.h"
#include "client/convert.h"

namespace duetime::cli {
namespace {

using client::FromProto;

// More empty bars than this in a row are one line.
constexpr int64_t kEmptyBarsMax = 3;
// In what is shown of a template.
constexpr size_t kListedPayloadBytes = 500;

std::string TimeOf(bool given, const google::protobuf::Timestamp& time,
                   const absl::TimeZone& zone) {
  return given ? FormatTimeText(FromProto(time), zone) : "";
}

std::string DurationOf(bool given, const google::protobuf::Duration& duration) {
  return given ? FormatDurationText(FromProto(duration)) : "";
}

// "FIRE_ONCE" as "fire once".
std::string Word(const std::string& name) {
  std::string word = absl::AsciiStrToLower(name);
  std::replace(word.begin(), word.end(), '_', ' ');
  return word;
}

// ---- Forecast

absl::Duration LengthOf(v1::ForecastRequest::Bucket bucket) {
  switch (bucket) {
    case v1::ForecastRequest::SECOND:
      return absl::Seconds(1);
    case v1::ForecastRequest::MINUTE:
      return absl::Minutes(1);
    case v1::ForecastRequest::DAY:
      return absl::Hours(24);
    default:
      return absl::Hours(1);
  }
}

std::string BucketLabel(v1::ForecastRequest::Bucket bucket, absl::Time time,
                        const absl::TimeZone& zone) {
  return absl::FormatTime(
      bucket == v1::ForecastRequest::SECOND ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M", time, zone);
}

void AddEmpty(v1::ForecastRequest::Bucket bucket, absl::Time from, absl::Time to,
              const absl::TimeZone& zone, std::vector<ChartRow>* rows) {
  const absl::Duration length = LengthOf(bucket);
  const int64_t count = (to - from) / length;
  if (count > kEmptyBarsMax) {
    rows->push_back({.label = "", .value = count});
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    rows->push_back({.label = BucketLabel(bucket, from + i * length, zone), .value = 0});
  }
}

std::string CountAndBytes(const v1::ForecastCount& count) {
  return absl::StrCat(count.messages(), " (", BytesText(count.bytes()), ")");
}

// ---- Operations

std::string ActionText(const v1::Operation& operation) {
  std::string text =
      Word(std::string(absl::StripPrefix(v1::BulkAction_Name(operation.action()), "BULK_")));
  if (operation.has_shift_by()) {
    const absl::Duration by = FromProto(operation.shift_by());
    absl::StrAppend(&text, " by ", by > absl::ZeroDuration() ? "+" : "", FormatDurationText(by));
  }
  return text;
}

std::string FilterText(const v1::BulkFilter& filter, const absl::TimeZone& zone) {
  std::vector<std::string> parts;
  if (!filter.key_prefix().empty()) {
    parts.push_back("key prefix " +
                    PrintablePayload(filter.key_prefix(), filter.key_prefix().size()));
  }
  if (!filter.labels().empty()) parts.push_back("labels " + PairsText(filter.labels()));
  if (filter.has_start_time()) {
    parts.push_back("from " + FormatTimeText(FromProto(filter.start_time()), zone));
  }
  if (filter.has_end_time()) {
    parts.push_back("to " + FormatTimeText(FromProto(filter.end_time()), zone));
  }
  std::string text;
  for (const std::string& part : parts) absl::StrAppend(&text, text.empty() ? "" : ", ", part);
  return text.empty() ? "all messages" : text;
}

// ---- Recurrences

std::string RuleText(const v1::RecurrenceSchedule& schedule) {
  if (schedule.has_interval()) {
    return absl::StrCat("every ", FormatDurationText(FromProto(schedule.interval())));
  }
  return absl::StrCat(schedule.cron(), " in ",
                      schedule.time_zone().empty() ? "UTC" : schedule.time_zone());
}

// ---- Topics

std::string RateText(const v1::TopicSettings& settings) {
  if (!settings.has_rate()) return "as fast as it can be";
  const v1::DeliveryRate& rate = settings.rate();
  std::string text = absl::StrCat(rate.messages_per_second(), " messages per second");
  if (rate.burst() > 0) absl::StrAppend(&text, ", ", rate.burst(), " at once");
  return text;
}

std::string MinuteLimitText(const v1::TopicSettings& settings) {
  if (!settings.has_minute_limit()) return "no limit";
  const v1::MinuteLimit& limit = settings.minute_limit();
  std::string beyond = "accepted with a warning";
  if (limit.policy() == v1::MinuteLimit::REFUSE) beyond = "refused";
  if (limit.policy() == v1::MinuteLimit::SPREAD) {
    beyond = absl::StrCat("delivered up to ", DurationOf(true, limit.spread_max()), " later");
  }
  return absl::StrCat(limit.messages(), " messages; more are ", beyond);
}

}  // namespace

std::string ForecastText(const v1::ForecastRequest& request, const v1::ForecastResponse& response,
                         const absl::TimeZone& zone) {
  std::vector<ChartRow> rows;
  absl::Time next = FromProto(response.start_time());
  int64_t in_range = 0;
  for (const v1::ForecastBucket& bucket : response.buckets()) {
    const absl::Time start = FromProto(bucket.start_time());
    AddEmpty(request.bucket(), next, start, zone, &rows);
    rows.push_back(
        {.label = BucketLabel(request.bucket(), start, zone), .value = bucket.count().messages()});
    in_range += bucket.count().messages();
    next = start + LengthOf(request.bucket());
  }
  AddEmpty(request.bucket(), next, FromProto(response.end_time()), zone, &rows);
  return absl::StrCat(ChartText(rows), "\n",
                      FieldsText({{"before", CountAndBytes(response.overdue())},
                                  {"in the chart", absl::StrCat(in_range)},
                                  {"later", CountAndBytes(response.later())},
                                  {"in all", CountAndBytes(response.total())}}));
}

std::string OperationText(const v1::Operation& operation, const absl::TimeZone& zone) {
  std::string text = FieldsText(
      {{"operation", operation.dry_run() ? "a dry run: nothing is changed" : operation.name()},
       {"topic", operation.topic()},
       {"messages", FilterText(operation.filter(), zone)},
       {"action", ActionText(operation)},
       {"state", Word(v1::Operation::State_Name(operation.state()))},
       {"started", TimeOf(operation.has_create_time(), operation.create_time(), zone)},
       {"ended", TimeOf(operation.has_end_time(), operation.end_time(), zone)},
       {"decided up to",
        operation.state() == v1::Operation::RUNNING
            ? TimeOf(operation.has_progress_time(), operation.progress_time(), zone)
            : ""},
       {"matched", absl::StrCat(operation.matched())},
       {"changed", operation.dry_run() ? "" : absl::StrCat(operation.changed())},
       {"left alone", operation.dry_run() ? "" : absl::StrCat(operation.unchanged())},
       {"error", operation.has_error()
                     ? PrintablePayload(operation.error().message(), kListedPayloadBytes)
                     : ""}});
  if (!operation.sample().empty()) {
    absl::StrAppend(&text, "\nsome of them\n", MessageTable(operation.sample(), zone));
  }
  return text;
}

std::string OperationTable(const google::protobuf::RepeatedPtrField<v1::Operation>& operations,
                           const absl::TimeZone& zone) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Operation& operation : operations) {
    rows.push_back({operation.name(), operation.topic(), ActionText(operation),
                    Word(v1::Operation::State_Name(operation.state())),
                    absl::StrCat(operation.matched()), absl::StrCat(operation.changed()),
                    TimeOf(operation.has_create_time(), operation.create_time(), zone)});
  }
  return TableText({"NAME", "TOPIC", "ACTION", "STATE", "MATCHED", "CHANGED", "STARTED"}, rows);
}

std::string RecurrenceText(const v1::Recurrence& recurrence, const absl::TimeZone& zone) {
  const v1::RecurrenceSchedule& schedule = recurrence.schedule();
  const v1::MessageTemplate& message = recurrence.template_();
  const bool skips = recurrence.overlap() == v1::Recurrence::SKIP;
  return FieldsText(
      {{"name", recurrence.name()},
       {"topic", recurrence.topic()},
       {"state", Word(v1::Recurrence::State_Name(recurrence.state()))},
       {"rule", RuleText(schedule)},
       {"start", TimeOf(schedule.has_start_time(), schedule.start_time(), zone)},
       {"end", TimeOf(schedule.has_end_time(), schedule.end_time(), zone)},
       {"max count", schedule.max_count() == 0 ? "" : absl::StrCat(schedule.max_count())},
       {"jitter", DurationOf(schedule.has_jitter(), schedule.jitter())},
       {"overlap", skips ? "skip" : "allow"},
       {"misfire", recurrence.misfire() == v1::Recurrence::MISFIRE_UNSPECIFIED
                       ? "fire once"
                       : Word(v1::Recurrence::Misfire_Name(recurrence.misfire()))},
       {"next", TimeOf(recurrence.has_next_deliver_time(), recurrence.next_deliver_time(), zone)},
       {"next id", recurrence.next_message_id()},
       {"made", absl::StrCat(recurrence.occurrences())},
       {"skipped", absl::StrCat(recurrence.skipped())},
       {"created", TimeOf(recurrence.has_create_time(), recurrence.create_time(), zone)},
       {"updated", TimeOf(recurrence.has_update_time(), recurrence.update_time(), zone)},
       {"etag", recurrence.etag()},
       {"attributes", PairsText(message.attributes())},
       {"labels", PairsText(message.labels())},
       {"ordering key", PrintablePayload(message.ordering_key(), message.ordering_key().size())},
       {"ttl", DurationOf(message.has_ttl(), message.ttl())},
       {"late", message.late_policy() == v1::Message::LATE_POLICY_UNSPECIFIED
                    ? ""
                    : Word(v1::Message::LatePolicy_Name(message.late_policy()))},
       {"payload", PrintablePayload(message.payload(), kListedPayloadBytes)}});
}

std::string RecurrenceTable(const google::protobuf::RepeatedPtrField<v1::Recurrence>& recurrences,
                            const absl::TimeZone& zone) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Recurrence& recurrence : recurrences) {
    rows.push_back(
        {recurrence.name(), recurrence.topic(),
         Word(v1::Recurrence::State_Name(recurrence.state())),
         TimeOf(recurrence.has_next_deliver_time(), recurrence.next_deliver_time(), zone),
         absl::StrCat(recurrence.occurrences()), RuleText(recurrence.schedule())});
  }
  return TableText({"NAME", "TOPIC", "STATE", "NEXT", "MADE", "RULE"}, rows);
}

std::string PreviewText(const v1::PreviewRecurrenceResponse& response, const absl::TimeZone& zone) {
  if (response.occurrences().empty()) return "it does not come any more\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto& occurrence : response.occurrences()) {
    rows.push_back({absl::StrCat(occurrence.number()),
                    FormatTimeText(FromProto(occurrence.time()), zone),
                    occurrence.has_civil_time() ? absl::StrCat(occurrence.civil_time().local(), " ",
                                                               occurrence.civil_time().time_zone())
                                                : ""});
  }
  return TableText({"NUMBER", "TIME", "LOCAL TIME"}, rows);
}

std::string TopicText(const v1::Topic& topic) {
  const v1::TopicSettings& settings = topic.settings();
  std::vector<std::pair<std::string, std::string>> fields = {
      {"topic", topic.name()},
      {"paused", settings.paused() ? "yes: messages are accepted and wait" : ""},
      {"max pending",
       settings.max_pending() == 0 ? "no limit" : absl::StrCat(settings.max_pending())},
      {"max payload", settings.max_payload_bytes() == 0 ? "the server's limit"
                                                        : BytesText(settings.max_payload_bytes())},
      {"default ttl",
       settings.has_default_ttl() ? DurationOf(true, settings.default_ttl()) : "none"},
      {"remembers", settings.has_fate_retention() ? DurationOf(true, settings.fate_retention())
                                                  : "as long as the server's fate_retention"},
      {"rate", RateText(settings)},
      {"per minute", MinuteLimitText(settings)},
      {"dead letters", settings.dead_letter_topic().empty() ? topic.name() + ".dlq"
                                                            : settings.dead_letter_topic()}};
  if (topic.has_counts()) {
    const v1::TopicCounts& counts = topic.counts();
    fields.emplace_back(
        "pending", absl::StrCat(counts.pending(), " (", BytesText(counts.pending_bytes()), ")"));
    fields.emplace_back("of these due", absl::StrCat(counts.due()));
  }
  return FieldsText(fields);
}

std::string TopicTable(const google::protobuf::RepeatedPtrField<v1::Topic>& topics) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Topic& topic : topics) {
    const v1::TopicSettings& settings = topic.settings();
    rows.push_back(
        {topic.name(), settings.paused() ? "paused" : "active",
         settings.has_rate() ? absl::StrCat(settings.rate().messages_per_second(), "/s") : "-",
         settings.max_pending() == 0 ? "-" : absl::StrCat(settings.max_pending()),
         settings.max_payload_bytes() == 0 ? "-" : BytesText(settings.max_payload_bytes()),
         settings.has_default_ttl() ? DurationOf(true, settings.default_ttl()) : "-",
         settings.has_fate_retention() ? DurationOf(true, settings.fate_retention()) : "-"});
  }
  return TableText(
      {"NAME", "STATE", "RATE", "MAX PENDING", "MAX PAYLOAD", "DEFAULT TTL", "REMEMBERS"}, rows);
}

}  // namespace duetime::cli
