// SPDX-License-Identifier: Apache-2.0
//
// The commands for messages: schedule, reschedule, cancel, get, explain, list.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/terminal/progress.h"
#include "client/cli/terminal/signals.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/delay_client.h"

namespace duetime::cli {
namespace {

using client::Client;

// ---- The time of a message

Rows WhenRows() {
  const Trait one_of_three = Group("Time (one of the three)");
  return {
      Row("delay", "--in", "Deliver this long from now: 90s, 1h30m, 2d, 1w, 500ms",
          {NotEmpty(), one_of_three}),
      Row("", "--at",
          "Deliver at this time: \"2026-12-24 18:00\", 2026-12-24T18:00:00+08:00 or \"tomorrow "
          "9:00\"; a time that the zone's clocks skip or show twice is refused",
          {Type(Row::Type::kTime), one_of_three}),
      Row("civil_time.local", "--local",
          "Deliver at this local time of --tz; the server keeps both, and takes the next or the "
          "first moment if the clocks skip it or show it twice",
          {one_of_three}),
      AllowPastRow("Also deliver for a time more than a day ago: it is due at once"),
      Row("", "--tz",
          "The time zone of --at (default: this machine's) or --local, such as Asia/Shanghai"),
  };
}

// A year that was mistyped would deliver at once.
absl::Status CheckPast(const Input& input, const std::string& text, absl::Time time) {
  if (input.Has("--allow-past") || !IsLongPast(time, absl::Now())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is ", kAllowPastAdvice));
}

template <typename Request>
absl::Status CompleteWhen(const Settings& settings, Input* input) {
  auto* request = input->Mutable<Request>();
  const std::string zone_name = input->Text("--tz");
  if (request->has_delay()) {
    return zone_name.empty() ? absl::OkStatus()
                             : absl::InvalidArgumentError("--tz goes with --at or --local");
  }
  if (request->has_civil_time()) {
    if (zone_name.empty()) {
      return absl::InvalidArgumentError("--local needs --tz, such as Europe/Berlin");
    }
    std::string* local = request->mutable_civil_time()->mutable_local();
    if (local->size() > 10 && (*local)[10] == ' ') (*local)[10] = 'T';
    request->mutable_civil_time()->set_time_zone(zone_name);
    const absl::StatusOr<absl::TimeZone> zone = ParseTimeZone(zone_name);
    // The server may know what this machine does not.
    const auto time = zone.ok() ? ParseTimeText(*local, *zone, settings.local())
                                : absl::StatusOr<absl::Time>(zone.status());
    return time.ok() ? CheckPast(*input, *local, *time) : absl::OkStatus();
  }
  std::optional<absl::TimeZone> zone;
  if (!zone_name.empty()) {
    const absl::StatusOr<absl::TimeZone> named = ParseTimeZone(zone_name);
    if (!named.ok()) return named.status();
    zone = *named;
  }
  const std::string at = input->Text("--at");
  const auto time = ParseMomentText(at, zone, settings.local(), absl::Now());
  if (!time.ok()) return time.status();
  *request->mutable_deliver_time() = client::ToProto(*time);
  return CheckPast(*input, at, *time);
}

// ---- The message that a command means

// The rows of ID, --topic and --key, for fields with these paths.
Rows TargetRows(const std::string& id, const std::string& topic, const std::string& key,
                Row::Type type) {
  return {Row(id, "ID", "The id that schedule printed", {Type(type)}),
          Row(topic, "--topic", "The topic of --key", {Needs({"--key"}), Excludes({"ID"})}),
          Row(key, "--key", "The key that schedule got",
              {Type(type), Needs({"--topic"}), Excludes({"ID"})})};
}
Rows TargetRows() { return TargetRows("message_id", "key.topic", "key.key", Row::Type::kText); }

absl::Status NoTarget() {
  return absl::InvalidArgumentError("say which message: an ID, or --topic TOPIC --key KEY");
}

template <typename Request>
absl::Status CheckTarget(Input* input) {
  return input->As<Request>().target_case() == Request::TARGET_NOT_SET ? NoTarget()
                                                                       : absl::OkStatus();
}

// ---- schedule, reschedule

Rows ContentRows() {
  return {
      Row("key", "--key",
          "A name for the message, unique in its topic, to find, move or cancel it by"),
      Row("on_conflict", "--on-conflict",
          "If the key has a pending message: fail, unless it is the same (default); replace it; "
          "replace all but its time; replace it and only move it later; once: as fail, and a "
          "message "
          "that has ended counts, too",
          {Needs({"--key"})}),
      Row("max_wait", "--max-wait",
          "With push-back: not later than this after the first time it was scheduled",
          {Needs({"--key"})}),
      Row("only_if_exists", "--only-if-exists", "Replace a pending message, but create none",
          {Needs({"--key"})}),
      Row("request_id", "--request-id",
          "Makes a repeat of this command safe for an hour: it is one message"),
      Row("attributes", "--attr", "An attribute, delivered with the payload; may be repeated"),
      Row("labels", "--label", "A label, to list and select by; may be repeated"),
      Row("ttl", "--ttl", "Worth delivering for this long after its time"),
      Row("expire_time", "--expire-at",
          "Worth delivering until this moment: \"2026-12-24 18:00\" or +2h", {Excludes({"--ttl"})}),
      LatePolicyRow("late_policy"),
      Row("spread", "--spread",
          "Deliver at a random point within this after its time, so that not all messages come at "
          "once"),
      Row("ordering_key", "--ordering-key",
          "Messages with the same one are delivered in order, one at a time"),
      Row("validate_only", "--dry-run",
          "Check everything and say what would happen; change nothing"),
      Row("", "--count", "Schedule the same message this often (to try out load)",
          {Type(Row::Type::kNumber), Range(1, 1e9), Default("1")}),
  };
}

absl::Status CheckCount(Input* input) {
  const auto& request = input->As<v1::ScheduleRequest>();
  if (input->Number("--count") == 1 || (request.key().empty() && request.request_id().empty())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("with --key or --request-id, --count would be one message");
}

// Schedules the message of `request` many times, in batches.
ExitCode ScheduleMany(const Settings& settings, const v1::ScheduleRequest& request, int64_t count,
                      Client* client) {
  const auto bytes = static_cast<int64_t>(request.ByteSizeLong()) + 8;
  const int64_t batch_max = std::clamp(kBatchBytes / bytes, int64_t{1}, kBatchMessages);
  std::atomic<int64_t> done = 0;
  const LastLine last_line(settings, [&done, count] {
    return absl::StrCat("interrupted; scheduled ", done.load(), " of ", count, " messages, or ",
                        "a batch more");
  });
  Progress progress(settings);
  v1::ScheduleResponse last;
  while (done < count) {
    v1::ScheduleBatchRequest batch;
    for (int64_t i = 0; i < std::min(count - done, batch_max); ++i) {
      *batch.add_messages() = request;
    }
    // Without request ids: a load test measures the cost of messages, not of their ids.
    const auto results = client->ScheduleBatch(batch, client::Repeat::kNever);
    if (!results.ok()) return Fail(settings, results.status());
    std::string lines;
    absl::Status status;
    for (const absl::StatusOr<v1::ScheduleResponse>& result : *results) {
      status = result.status();
      if (!status.ok()) break;
      if (settings.json) lines += JsonLine(*result);
      last = *result;
    }
    if (!Print(lines)) return kNotWritten;
    if (!status.ok()) return Fail(settings, status);
    done += batch.messages_size();
    progress.Show(absl::StrCat("scheduled ", done.load(), " of ", count, " messages"));
  }
  progress.Clear();
  if (!settings.json) {
    Print(absl::StrCat("scheduled ", count, " messages; the last one:\n",
                       ScheduledText(request, last, settings.zone)));
  }
  return kDone;
}

ExitCode RunSchedule(const Settings& settings, const Input& input,
                     const v1::ScheduleRequest& request, Client* client) {
  const int64_t count = input.Number("--count");
  if (count > 1) return ScheduleMany(settings, request, count, client);
  return Show(settings, client->Schedule(request), [&](const v1::ScheduleResponse& answer) {
    return ScheduledText(request, answer, settings.zone);
  });
}

Command ScheduleCommand() {
  return {
      "schedule",
      "Schedule a message for a time",
      "Prints the id, by which the message can be found, moved and cancelled. A time in the past "
      "is due at once; one more than a day ago needs --allow-past.\nIf the answer is lost, the "
      "tool asks again; that creates no second "
      "message.",
      {"orders '{\"order\": 17}' --in 30m --attr kind=reminder",
       "greetings \"good evening\" --at \"2030-12-24 18:00\" --tz Asia/Shanghai",
       "reports --file report.pdf --local \"2030-03-31 02:30\" --tz Europe/Berlin",
       "orders pay --key order-17 --in 3d --label customer=42",
       "orders 'pay now' --key order-17 --in 1d --on-conflict replace",
       "drafts save --key draft-9 --in 10m --on-conflict push-back --max-wait 1h",
       "sales open --at \"2030-11-29 00:00\" --spread 15m --ttl 5m --late drop"},
      Join({{Row("topic", "TOPIC", "The topic of the message", {Required()}),
             Row("payload", "PAYLOAD",
                 "What to deliver; - reads it from standard input; default empty"),
             PayloadFileRow("payload")},
            WhenRows(),
            ContentRows()}),
      Do<Client, v1::ScheduleRequest>(RunSchedule)
          .After(CompleteWhen<v1::ScheduleRequest>)
          .After(CheckCount)};
}

ExitCode RunReschedule(const Settings& settings, const Input&, const v1::RescheduleRequest& request,
                       Client* client) {
  const absl::StatusOr<v1::RescheduleResponse> answer = client->Reschedule(request);
  const ExitCode shown = Show(settings, answer, [&](const v1::RescheduleResponse& moved) {
    return RescheduledText(request, moved, settings.zone);
  });
  const bool moved =
      answer.ok() && answer->outcome() == v1::RescheduleResponse::OUTCOME_RESCHEDULED;
  return shown == kDone && !moved ? kNotAsWished : shown;
}

// ---- cancel

// Prints one result of a cancel and returns its exit code.
ExitCode ShowCancel(const Settings& settings, const client::Target& target,
                    const absl::StatusOr<client::CancelResult>& result) {
  if (!result.ok()) return Fail(settings, result.status());
  Print(settings.json ? JsonLine(result->answer)
                      : CancelText(target.name(), *result, settings.zone));
  if (settings.json && result->tried_before) {
    PrintError(ErrorJson(absl::UnknownError(
        absl::StrCat("the first try to cancel ", target.name(),
                     " went unanswered, so the state in the answer may be its effect"))));
  }
  return result->answer.outcome() == v1::CancelResponse::OUTCOME_CANCELLED ? kDone : kNotAsWished;
}

ExitCode RunCancel(const Settings& settings, const Input& input) {
  std::vector<client::Target> targets;
  for (const std::string& id : input.List("ID")) targets.push_back(client::Target::Id(id));
  for (const std::string& key : input.List("--key")) {
    targets.push_back(client::Target::Key(input.Text("--topic"), key));
  }
  const bool stop_redelivery = input.Has("--stop-redelivery");
  return With<Client>(settings, [&](Client* client) {
    if (targets.size() == 1) {
      return ShowCancel(settings, targets[0], client->Cancel(targets[0], stop_redelivery));
    }
    const auto results = client->CancelBatch(targets, stop_redelivery);
    if (!results.ok()) return Fail(settings, results.status());
    ExitCode worst = kDone;
    for (size_t i = 0; i < results->size(); ++i) {
      const ExitCode code = ShowCancel(settings, targets[i], (*results)[i]);
      // The exit code says "refused" if one cancel was refused, whatever the other outcomes are.
      if (worst == kDone || code == kRefused) worst = code;
    }
    return worst;
  });
}

// ---- list

std::string ContentText(const v1::Message& message, const absl::TimeZone&) {
  return Printable(message.payload(), kShownBytesMax);
}

ExitCode RunList(const Settings& settings, const Input& input, const v1::ListRequest& request,
                 Client* client) {
  Rows rows = MessageRows();
  if (input.Has("--full")) {
    rows = Join({rows,
                 {Row("attributes", {Column("ATTRIBUTES")}),
                  Row("", {As(ContentText), Column("CONTENT")})}});
  }
  return ShowPages(settings, request, input.Has("--all"), rows,
                   [client](const v1::ListRequest& page) { return client->List(page); });
}

absl::Status CheckTargets(Input* input) {
  return input->Has("ID") || input->Has("--key") ? absl::OkStatus() : NoTarget();
}

Command ListCommand() {
  return {"list",
          "List the pending messages of a topic, the next one due first",
          "With --key-prefix they come in the order of their keys. With --json each message is a "
          "line, "
          "and a last line\nwith next_page_token says that there are more.",
          {"orders", "orders --from now --to +1h --label customer=42",
           "orders --key-prefix order- --state scheduled,due --all --json", "orders --full"},
          Join({{Row("topic", "TOPIC", "The topic", {Required()})},
                FilterRows(),
                {Row("states", "--state",
                     "Only messages in this state; may be repeated or listed by commas",
                     {OneOf({{"scheduled", v1::Message::STATE_SCHEDULED},
                             {"due", v1::Message::STATE_DUE},
                             {"in-flight", v1::Message::STATE_IN_FLIGHT}})})},
                {Row("", "--full", "Show attributes and the beginning of each payload too",
                     {Type(Row::Type::kFlag)})},
                PageRows()}),
          Do<Client, v1::ListRequest>(RunList).After([](Input* input) {
            if (!input->Has("--full")) return;
            input->Mutable<v1::ListRequest>()->set_view(v1::MESSAGE_VIEW_FULL);
          })};
}

}  // namespace

Row LatePolicyRow(const std::string& path) {
  return Row(path, "--late",
             "What to do after that: deliver it all the same (default), drop it, or make it a dead "
             "letter",
             {Line("late")});
}

Row AllowPastRow(const std::string& help) {
  return Row("", "--allow-past", help, {Type(Row::Type::kFlag)});
}

Row PayloadFileRow(const std::string& path) {
  return Row(path, "--file", "Deliver the content of this file",
             {FromFile(), Excludes({"PAYLOAD"})});
}

Commands MessageCommands() {
  const Action reschedule = Do<Client, v1::RescheduleRequest>(RunReschedule);
  const Action get = Call<Client, v1::GetRequest>(
      [](Client* client, const auto& request) { return client->Get(request); }, GetText);
  const Action explain = Call<Client, v1::ExplainRequest>(
      [](Client* client, const auto& request) { return client->Explain(request); },
      [](const v1::ExplainResponse& story, const absl::TimeZone& zone) {
        return ExplainText(story, absl::Now(), zone);
      });
  return {
      ScheduleCommand(),
      {"reschedule",
       "Move a pending message to another time",
       "Earlier or later; id, key and content stay. Exit code 3: the message can no longer be "
       "moved; the command\nprints why.",
       {"0g1yay0000000000g9r8cwx3v4 --in 2h",
        "--topic orders --key order-17 --at \"2030-12-24 18:00\""},
       Join({TargetRows(),
             WhenRows(),
             {Row("etag", "--etag", "Only if this is still the etag that get prints")}}),
       reschedule.After(CheckTarget<v1::RescheduleRequest>)
           .After(CompleteWhen<v1::RescheduleRequest>)},
      {"cancel",
       "Cancel messages, and say what became of each",
       "Exit code 0: no message was delivered and none will be. Exit code 3: the command prints "
       "the "
       "other outcomes.\nFor all messages that match a filter: duetime bulk cancel.",
       {"0g1yay0000000000g9r8cwx3v4", "--topic orders --key order-17 --key order-18"},
       Join({TargetRows("", "", "", Row::Type::kList),
             {Row("", "--stop-redelivery",
                  "Also end messages that were delivered and are not settled",
                  {Type(Row::Type::kFlag)})}}),
       Action{.run = RunCancel}.After(CheckTargets)},
      {"get",
       "Show a message, or the record of one that has ended",
       "",
       {"0g1yay0000000000g9r8cwx3v4 --full", "--topic orders --key order-17"},
       Join({TargetRows(),
             {Row("", "--full", "Show payload and attributes too", {Type(Row::Type::kFlag)})}}),
       get.After(CheckTarget<v1::GetRequest>).After([](Input* input) {
         input->Mutable<v1::GetRequest>()->set_view(input->Has("--full") ? v1::MESSAGE_VIEW_FULL
                                                                         : v1::MESSAGE_VIEW_BASIC);
       })},
      {"explain",
       "Show the history of one message: why it is late, or came back",
       "",
       {"0g1yay0000000000g9r8cwx3v4", "--topic orders --key order-17"},
       TargetRows(),
       explain.After(CheckTarget<v1::ExplainRequest>)},
      ListCommand(),
  };
}

}  // namespace duetime::cli
