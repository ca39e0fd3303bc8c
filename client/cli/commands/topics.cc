// SPDX-License-Identifier: Apache-2.0
//
// Topics: their settings as rows, and their commands.
#include <string>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using client::AdminClient;

std::string ShortRateText(const v1::Topic& topic, const absl::TimeZone&) {
  if (!topic.settings().has_rate()) return "";
  return absl::StrCat(topic.settings().rate().messages_per_second(), "/s");
}

std::string RateText(const v1::Topic& topic, const absl::TimeZone&) {
  if (!topic.settings().has_rate()) return "";
  const v1::DeliveryRate& rate = topic.settings().rate();
  std::string text = absl::StrCat(rate.messages_per_second(), " messages per second");
  if (rate.burst() > 0) absl::StrAppend(&text, ", ", rate.burst(), " at once");
  return text;
}

std::string MinuteLimitText(const v1::Topic& topic, const absl::TimeZone&) {
  if (!topic.settings().has_minute_limit()) return "";
  const v1::MinuteLimit& limit = topic.settings().minute_limit();
  std::string rest = "accepted with a warning";
  if (limit.policy() == v1::MinuteLimit::POLICY_REFUSE) rest = "refused";
  if (limit.policy() == v1::MinuteLimit::POLICY_SPREAD) {
    rest = absl::StrCat("delivered up to ",
                        FormatDurationText(client::FromProto(limit.spread_max())), " later");
  }
  return absl::StrCat(limit.messages(), " messages; more are ", rest);
}

std::string DeadLetterTopicText(const v1::Topic& topic, const absl::TimeZone&) {
  const std::string& name = topic.settings().dead_letter_topic();
  return name.empty() ? topic.name() + ".dlq" : name;
}

std::string PendingText(const v1::Topic& topic, const absl::TimeZone&) {
  if (!topic.has_counts()) return "";
  return absl::StrCat(topic.counts().pending(), " (", BytesText(topic.counts().pending_bytes()),
                      ")");
}

Row BurstRow(const std::string& rate_option) {
  return Row("settings.rate.burst", "--burst",
             "Messages that may go at once after a quiet time (default: those of one second)",
             {Range(1, 1'000'000), Mask("settings.rate"), Needs({rate_option})});
}

Row TopicNameRow() {
  return Row("name", "TOPIC", "The topic", {Required(), Key(), Line("topic"), Column("NAME")});
}

// To add a setting of a topic, add a row here.
Rows TopicRows() {
  return {
      TopicNameRow(),
      Row("settings.paused",
          {WordForTrue("yes: messages are accepted and wait"), Warns(), Line("paused")}),
      Row("paused_by_restore",
          {WordForTrue("yes: it waits for duetime restore release"), Warns(), Line("restored")}),
      Row("settings.paused", {WordForTrue("paused"), Column("STATE", "active")}),
      Row("settings.rate", {As(ShortRateText), Column("RATE", "-")}),
      Row("settings.max_pending", "--max-pending",
          "Refuse messages beyond this many pending ones; 0: no limit",
          {Range(0), HidesZero(), Line("max pending", "no limit"), Column("MAX PENDING", "-")}),
      Row("settings.max_payload_bytes", "--max-payload-bytes",
          "Refuse larger payloads; 0: the server's own limit",
          {Range(0), HidesZero(), Bytes(), Line("max payload", "the server's limit"),
           Column("MAX PAYLOAD", "-")}),
      Row("settings.default_ttl", "--default-ttl",
          "The ttl of messages that have none: 1h; or none",
          {Reset("none"), Line("default ttl", "none"), Column("DEFAULT TTL", "-")}),
      Row("settings.tombstone_retention", "--tombstone-retention",
          "Remember for this long how messages ended: 7d; or default, the server's",
          {Reset("default"), Line("remembers", "as long as the server's tombstone_retention"),
           Column("REMEMBERS", "-")}),
      Row("settings.rate.messages_per_second", "--rate",
          "Deliver this many messages per second to each subscription; or none, no limit",
          {Range(1), Reset("none"), Mask("settings.rate"), As(RateText),
           Line("rate", "as fast as it can be")}),
      BurstRow("--rate"),
      Row("settings.minute_limit.messages", "--minute-limit",
          "Messages that may be due in one minute; 0: no limit",
          {Range(0), Reset("0"), Mask("settings.minute_limit"), As(MinuteLimitText),
           Line("per minute", "no limit")}),
      Row("settings.minute_limit.policy", "--minute-policy",
          "Beyond that: accept and warn (default), refuse, or deliver in a later minute",
          {Mask("settings.minute_limit"), Needs({"--minute-limit"})}),
      Row("settings.minute_limit.spread_max", "--spread-max",
          "With spread: at most this much later: 1h",
          {Mask("settings.minute_limit"), Needs({"--minute-limit"})}),
      Row("settings.dead_letter_topic", "--dead-letter-topic",
          "Where dead letters go; \"\": to TOPIC.dlq (the default)",
          {As(DeadLetterTopicText), Line("dead letters")}),
      Row("counts", {As(PendingText), Line("pending")}),
      Row("counts.due", {Line("of these due")}),
  };
}

template <typename Request>
absl::Status CheckMinuteLimit(Input* input) {
  const v1::MinuteLimit& limit = input->As<Request>().topic().settings().minute_limit();
  if ((limit.policy() == v1::MinuteLimit::POLICY_SPREAD) == limit.has_spread_max()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("--minute-policy spread and --spread-max go together");
}

std::string DeletedTopicText(const v1::DeleteTopicRequest& request,
                             const v1::DeleteTopicResponse& answer) {
  if (answer.operation().empty()) return absl::StrCat("topic ", request.name(), " is deleted\n");
  return absl::StrCat("topic ", request.name(),
                      " is being purged; when that has ended, delete it again. To see the "
                      "progress: duetime bulk get ",
                      answer.operation(), "\n");
}

// With --wait, deletes the topic again after the end of a purge.
ExitCode DeleteTopic(const Settings& settings, const Input& input,
                     const v1::DeleteTopicRequest& request, AdminClient* client) {
  constexpr int kRoundsMax = 4;
  const bool waits = input.Has("--wait");
  for (int i = 0; i < kRoundsMax; ++i) {
    absl::StatusOr<v1::DeleteTopicResponse> answer = client->DeleteTopic(request);
    // Another client deleted it during the purge.
    if (i > 0 && absl::IsNotFound(answer.status())) answer = v1::DeleteTopicResponse();
    const bool purges = answer.ok() && !answer->operation().empty();
    // ABORTED: a client used the topic during the call.
    const bool again = waits && (purges || absl::IsAborted(answer.status()));
    if (!again) {
      return Show(settings, answer, [&](const v1::DeleteTopicResponse& shown) {
        return DeletedTopicText(request, shown);
      });
    }
    if (!purges) continue;
    v1::GetOperationRequest get;
    get.set_name(answer->operation());
    absl::StatusOr<v1::Operation> purge = client->GetOperation(get);
    if (purge.ok()) purge = WaitForEnd(settings, client, *std::move(purge));
    if (!purge.ok()) return Fail(settings, purge.status());
    if (purge->state() == v1::Operation::STATE_DONE) continue;
    PrintError(absl::StrCat("topic ", request.name(),
                            " is not deleted, because its purge is not done; see duetime bulk get ",
                            purge->name(), "\n"));
    return kNotAsWished;
  }
  PrintError(absl::StrCat("topic ", request.name(),
                          " still gets messages; stop its producers, then repeat the command\n"));
  return kNotAsWished;
}

Action UpdateTopic() { return Update(&AdminClient::UpdateTopic, "topic", TopicRows()); }

Command RateCommand() {
  return {"topic rate",
          "Limit how fast a topic delivers to each subscription",
          "",
          {"orders 500 --burst 50", "orders none"},
          OptionsBelow("topic", {TopicNameRow(),
                                 Row("settings.rate.messages_per_second", "RATE",
                                     "Messages per second; or none",
                                     {Required(), Range(1), Reset("none"), Mask("settings.rate")}),
                                 BurstRow("RATE")}),
          UpdateTopic()};
}

}  // namespace

Commands TopicCommands() {
  const Rows name = {TopicNameRow()};
  const Rows settings = OptionsBelow("topic", TopicRows());
  const Action create = Call<AdminClient, v1::CreateTopicRequest>(
      [](AdminClient* client, const auto& request) { return client->CreateTopic(request.topic()); },
      TopicRows());
  return {
      {"topic",
       "Manage topics and their settings",
       "Each command has its own help: duetime topic create --help",
       {"list", "get orders"}},
      {"topic create",
       "Create a topic with settings",
       "Often not needed: the first message or subscriber that names a topic creates it.",
       {"orders --max-pending 1000000 --tombstone-retention 7d"},
       settings,
       create.After(CheckMinuteLimit<v1::CreateTopicRequest>)},
      {"topic get",
       "Show the settings and counts of a topic",
       "",
       {"orders"},
       name,
       Call(&AdminClient::GetTopic, TopicRows())},
      {"topic list",
       "List topics by name",
       "",
       {"shop/ --all"},
       Join(
           {{Row("name_prefix", "PREFIX", "Only topics whose names begin with this")}, PageRows()}),
       Pages(&AdminClient::ListTopics, TopicRows())},
      {"topic update",
       "Change the settings given, keep the others",
       "",
       {"orders --max-pending 0 --default-ttl none",
        "orders --minute-limit 10000 --minute-policy spread --spread-max 1h",
        "orders --dead-letter-topic failures"},
       settings,
       UpdateTopic().After(CheckMinuteLimit<v1::UpdateTopicRequest>)},
      {"topic delete",
       "Delete a topic and its settings",
       "",
       {"drafts", "drafts --force --wait"},
       {TopicNameRow(),
        Row("force", "--force", "If it holds messages: end them all instead, also those in flight"),
        Row("", "--wait", "Wait until they have ended, then delete the topic",
            {Type(Row::Type::kFlag), Needs({"--force"})})},
       Do<AdminClient, v1::DeleteTopicRequest>(DeleteTopic)},
      {"topic pause",
       "Deliver nothing for now; the topic accepts messages, and they wait",
       "",
       {"orders"},
       OptionsBelow("topic", name),
       SetPaused(&AdminClient::UpdateTopic, "topic", TopicRows(), true)},
      {"topic resume",
       "Deliver again after a pause",
       "",
       {"orders"},
       OptionsBelow("topic", name),
       SetPaused(&AdminClient::UpdateTopic, "topic", TopicRows(), false)},
      {"topic drain",
       "Make all messages of a topic due now",
       "For some of them only: duetime bulk release.",
       {"orders --dry-run", "orders --wait"},
       {Row("topic", "TOPIC", "The topic", {Required()}), DryRunRow(), WaitRow()},
       StartBulk(v1::BULK_ACTION_RELEASE)},
      RateCommand(),
  };
}

}  // namespace duetime::cli
