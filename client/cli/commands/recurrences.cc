// SPDX-License-Identifier: Apache-2.0
//
// Recurrences: their fields as rows, and their commands.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/field_mask_util.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using google::protobuf::util::FieldMaskUtil;

std::string RuleText(const v1::Recurrence& recurrence, const absl::TimeZone&) {
  const v1::RecurrenceSchedule& schedule = recurrence.schedule();
  if (schedule.has_interval()) {
    return absl::StrCat("every ", FormatDurationText(client::FromProto(schedule.interval())));
  }
  return absl::StrCat(schedule.cron(), " in ",
                      schedule.time_zone().empty() ? "UTC" : schedule.time_zone());
}

std::string PayloadText(const v1::Recurrence& recurrence, const absl::TimeZone&) {
  return Printable(recurrence.template_().payload(), kShownBytesMax);
}

std::string OccurrenceTimeText(const v1::PreviewRecurrenceResponse::Occurrence& occurrence,
                               const absl::TimeZone&) {
  if (!occurrence.has_civil_time()) return "";
  return absl::StrCat(occurrence.civil_time().local(), " ", occurrence.civil_time().time_zone());
}

Rows ScheduleRows() {
  return {
      Row("schedule.cron", "--cron",
          "When: minute hour day month weekday, as in \"0 9 * * MON-FRI\"; also L, LW, 5L, 5#3, "
          "@daily, and seconds as a sixth field in front"),
      Row("schedule.interval", "--every", "When: at this interval, in elapsed time: 90s, 1h30m",
          {Reset("none"), Excludes({"--cron"})}),
      Row("schedule.time_zone", "--tz",
          "The time zone of --cron, such as Europe/Berlin (default: UTC)"),
      Row("schedule.start_time", "--start",
          "Not before this moment; --every counts from it (default: now)",
          {Reset("none"), Line("start")}),
      Row("schedule.end_time", "--end", "Not at or after this moment",
          {Reset("none"), Line("end")}),
      Row("schedule.max_count", "--max-count", "How many in all; 0: no limit",
          {Range(0), HidesZero(), Line("max count")}),
      Row("schedule.jitter", "--jitter",
          "Deliver each message at a random point within this after its time",
          {Reset("none"), Line("jitter")}),
  };
}

Rows TemplateRows() {
  return {
      Row("template.attributes", "--attr", "An attribute of each message; may be repeated",
          {Line("attributes")}),
      Row("template.labels", "--label", "A label of each message; may be repeated",
          {Line("labels")}),
      Row("template.ordering_key", "--ordering-key", "The ordering key of each message",
          {Line("ordering key")}),
      Row("template.ttl", "--ttl", "Each message is worth delivering for this long after its time",
          {Reset("none"), Line("ttl")}),
      LatePolicyRow("template.late_policy"),
      Row("template.payload", "PAYLOAD",
          "The payload; - reads it from standard input; default empty",
          {As(PayloadText), Line("payload")}),
      PayloadFileRow("template.payload"),
  };
}

Rows PolicyRows() {
  return {
      Row("overlap", "--overlap",
          "When a message is due and the one before it has not ended: deliver it (allow, the "
          "default), or skip it",
          {Line("overlap", "allow")}),
      Row("misfire", "--misfire",
          "Of the messages missed while no server ran or the recurrence was paused: make the last "
          "one (once, the default), all, or none (skip)",
          {OneOf({{"once", v1::Recurrence::MISFIRE_FIRE_ONCE},
                  {"all", v1::Recurrence::MISFIRE_FIRE_ALL},
                  {"skip", v1::Recurrence::MISFIRE_SKIP_MISSED}}),
           Line("misfire", "fire once")}),
  };
}

Row RecurrenceNameRow() {
  return Row("name", "RECURRENCE", "The name of the recurrence, unique on the server",
             {Required(), Key(), Line("name"), Column("NAME")});
}

Row TopicRow() {
  return Row("topic", "TOPIC", "The topic of its messages",
             {Required(), Line("topic"), Column("TOPIC")});
}

Rows RecurrenceRows() {
  return Join(
      {{RecurrenceNameRow(), TopicRow(), Row("state", {Line("state"), Column("STATE")}),
        Row("state_reason", {Warns(), Line("because")}),
        Row("schedule", {As(RuleText), Line("rule")})},
       ScheduleRows(),
       PolicyRows(),
       {Row("next_deliver_time", {Line("next"), Column("NEXT")}),
        Row("next_message_id", {Line("next id")}),
        Row("occurrences", {Line("made"), Column("MADE")}), Row("skipped", {Line("skipped")}),
        Row("create_time", {Line("created")}), Row("update_time", {Line("updated")}),
        Row("etag", {Line("etag")}), Row("schedule", {As(RuleText), Column("RULE")})},
       TemplateRows()});
}

// The options that describe a recurrence, below `first`.
Rows OptionRows(const Rows& first) {
  return OptionsBelow("recurrence", Join({first, TemplateRows(), ScheduleRows(), PolicyRows()}));
}

absl::Status CheckRule(const v1::RecurrenceSchedule& schedule) {
  if (schedule.rule_case() == v1::RecurrenceSchedule::RULE_NOT_SET) {
    return absl::InvalidArgumentError("say when: --cron or --every");
  }
  if (schedule.has_interval() && !schedule.time_zone().empty()) {
    return absl::InvalidArgumentError("--tz goes with --cron");
  }
  return absl::OkStatus();
}

std::string CreatedText(const v1::CreateRecurrenceRequest& request,
                        const v1::Recurrence& recurrence, const absl::TimeZone& zone) {
  return (request.validate_only() ? "dry run, nothing is changed:\n" : "") +
         LinesText(RecurrenceRows(), recurrence, zone);
}

// Puts the changes into the current recurrence, because the server replaces template and schedule
// as a whole. The etag makes reading and writing one step.
absl::StatusOr<v1::Recurrence> UpdateRecurrence(AdminClient* client,
                                                const v1::UpdateRecurrenceRequest& changes) {
  v1::GetRecurrenceRequest get;
  get.set_name(changes.recurrence().name());
  const absl::StatusOr<v1::Recurrence> current = client->GetRecurrence(get);
  if (!current.ok()) return current;
  v1::UpdateRecurrenceRequest request;
  *request.mutable_recurrence() = *current;
  request.set_etag(current->etag());
  FieldMaskUtil::MergeOptions replace;
  replace.set_replace_message_fields(true);
  replace.set_replace_repeated_fields(true);
  FieldMaskUtil::MergeMessageTo(changes.recurrence(), changes.update_mask(), replace,
                                request.mutable_recurrence());
  std::set<std::string> parts;
  for (const std::string& path : changes.update_mask().paths()) {
    parts.insert(path.substr(0, path.find('.')));
  }
  for (const std::string& part : parts) request.mutable_update_mask()->add_paths(part);
  return client->UpdateRecurrence(request);
}

std::string DeletedRecurrenceText(const v1::DeleteRecurrenceRequest& request,
                                  const v1::DeleteRecurrenceResponse& answer,
                                  const absl::TimeZone&) {
  return absl::StrCat("recurrence ", request.name(), " is deleted",
                      answer.occurrence_cancelled()
                          ? ", and the message that was pending is cancelled\n"
                          : "; no message was pending\n");
}

std::string PreviewText(const v1::PreviewRecurrenceResponse& answer, const absl::TimeZone& zone) {
  if (answer.occurrences().empty()) return "no more messages come\n";
  const Rows rows = {Row("number", {Column("NUMBER")}), Row("time", {Column("TIME")}),
                     Row("civil_time", {As(OccurrenceTimeText), Column("LOCAL TIME")})};
  return TableText(rows, answer.occurrences(), zone);
}

Rows PreviewRows() {
  Rows schedule = ScheduleRows();
  for (Row& row : schedule) row.excludes.emplace_back("RECURRENCE");
  return Join({{Row("name", "RECURRENCE", "A recurrence that exists")},
               schedule,
               {Row("after_time", "--after", "Times after this moment (default: all that come)"),
                Row("count", "--count", "How many (default: 10)", {Range(1, 1'000)})}});
}

Command PreviewCommand() {
  return {"recur preview",
          "Show the times of a schedule, or of a recurrence that exists",
          "",
          {"--cron \"30 2 * * *\" --tz Europe/Berlin --after \"2027-03-27 00:00\" --count 3",
           "standup"},
          PreviewRows(),
          Call(&AdminClient::PreviewRecurrence, PreviewText).After([](Input* input) {
            const auto& request = input->As<v1::PreviewRecurrenceRequest>();
            return request.name().empty() ? CheckRule(request.schedule()) : absl::OkStatus();
          })};
}

}  // namespace

Commands RecurrenceCommands() {
  const Rows name = {RecurrenceNameRow()};
  const std::string cron = "--cron \"30 9 * * MON-FRI\" --tz Europe/Berlin";
  return {
      {"recur",
       "Messages that come again and again",
       "Each occurrence is an ordinary message of its topic.\nEach command has its own help: "
       "duetime recur create --help",
       {"preview " + cron, "create standup chat 'time to talk' " + cron, "get standup"}},
      {"recur create",
       "Schedule a message again and again",
       "To see the times first: duetime recur preview --cron \"0 18 LW * *\" --tz "
       "America/New_York",
       {"standup chat 'time to talk' " + cron,
        "month-end reports run --cron \"0 18 LW * *\" --tz America/New_York",
        "heartbeat probes ping --every 30s --overlap skip --misfire skip"},
       Join({OptionRows({RecurrenceNameRow(), TopicRow()}),
             {Row("validate_only", "--dry-run", "Check everything; create nothing")}}),
       Call(&AdminClient::CreateRecurrence, CreatedText).After([](Input* input) {
         return CheckRule(input->As<v1::CreateRecurrenceRequest>().recurrence().schedule());
       })},
      {"recur update",
       "Change the options given, keep the others",
       "--attr and --label replace all attributes or labels. The word none removes --start, --end, "
       "--jitter or --ttl.",
       {"standup --cron \"0 10 * * MON-FRI\"", "standup 'talk now' --end none"},
       OptionRows(name),
       Call<AdminClient, v1::UpdateRecurrenceRequest>(UpdateRecurrence, RecurrenceRows())
           .After([](Input* input) {
             return FillMask(input->given, "recurrence",
                             input->Mutable<v1::UpdateRecurrenceRequest>()->mutable_update_mask());
           })},
      PreviewCommand(),
      {"recur get",
       "Show a recurrence and its next message",
       "",
       {"standup"},
       name,
       Call(&AdminClient::GetRecurrence, RecurrenceRows())},
      {"recur list",
       "List recurrences by name",
       "",
       {"chat"},
       Join({{Row("topic", "TOPIC", "Only recurrences of this topic")}, PageRows()}),
       Pages(&AdminClient::ListRecurrences, RecurrenceRows())},
      {"recur pause",
       "Make no more messages until it is resumed",
       "",
       {"standup"},
       name,
       Call(&AdminClient::PauseRecurrence, RecurrenceRows())},
      {"recur resume",
       "Make messages again after a pause",
       "",
       {"standup"},
       name,
       Call(&AdminClient::ResumeRecurrence, RecurrenceRows())},
      {"recur delete",
       "Delete a recurrence, and cancel its pending message",
       "",
       {"standup"},
       name,
       Call(&AdminClient::DeleteRecurrence, DeletedRecurrenceText)},
  };
}

}  // namespace duetime::cli
