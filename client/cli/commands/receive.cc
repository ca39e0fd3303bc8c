// SPDX-License-Identifier: Apache-2.0
//
// The commands that receive and settle: subscribe, pull, settle.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/help/suggest.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"
#include "client/cpp/error.h"

namespace duetime::cli {
namespace {

using client::Client;
using client::Settlement;

constexpr char kSubscriptionHelp[] =
    "The subscription to read (default: \"default\"); it is created if it does not exist";
constexpr char kLeaseHelp[] =
    "How long the server keeps an unsettled message from others (default: the setting of the "
    "subscription, 30s)";
constexpr char kNackHelp[] =
    "Count a failed attempt, and deliver again after this long: 10s; or policy: after the backoff "
    "of the subscription";

// The server refuses a settlement beyond these. By then the message is received, and subscribe
// would get it again and again.
constexpr absl::Duration kLeaseMax = absl::Hours(12);
constexpr size_t kReasonBytesMax = 255;

// The options that describe a Settlement.
Rows SettlementRows(const Trait& group, const std::string& which) {
  return {
      Row("", "--ack", absl::StrCat("Acknowledge ", which, " (subscribe: the default)"),
          {Type(Row::Type::kFlag), group}),
      Row("", "--nack", kNackHelp, {NotEmpty(), group}),
      Row("", "--dead-letter",
          absl::StrCat("Give up ", which, ": move it to the dead-letter topic"),
          {Type(Row::Type::kFlag), group}),
      Row("", "--reason", "Why, with --nack or --dead-letter; kept with the dead letter"),
  };
}

Rows SubscribeRows() {
  const Trait group = Group("What to answer (at most one)");
  return Join(
      {{Row("", "TOPIC", "The topic to receive from", {Required()}),
        Row("", "-s,--subscription", kSubscriptionHelp)},
       SettlementRows(group, "each message once it is printed"),
       {
           Row("", "--no-ack", "Answer nothing: each message comes again when its lease ends",
               {Type(Row::Type::kFlag), group}),
           Row("", "--max", "Stop after this many messages", {Type(Row::Type::kNumber), Range(1)}),
           Row("", "--for", "Stop after this long: 90s, 1h", {Type(Row::Type::kDuration)}),
           Row("", "--workers", "Print and answer this many at once",
               {Type(Row::Type::kNumber), Range(1, 1'000), Default("1")}),
           Row("", "--credit",
               "Hold at most this many unsettled messages (default: the server's, 1000)",
               {Type(Row::Type::kNumber), Range(1, INT32_MAX)}),
           Row("", "--lease", kLeaseHelp, {Type(Row::Type::kDuration)}),
           Row("", "--extend-max",
               "Extend the leases of messages that wait to be printed for this long (default: 1h); "
               "0s: never",
               {Type(Row::Type::kDuration)}),
           Row("", "--quiet", "Print only the totals at the end", {Type(Row::Type::kFlag)}),
           NoCreateRow(),
       }});
}

// ---- settle

bool Holds(const google::protobuf::RepeatedPtrField<std::string>& tokens,
           const std::string& lease_token) {
  return std::find(tokens.begin(), tokens.end(), lease_token) != tokens.end();
}

std::string RefusalText(v1::SettleRefusal::Reason reason, bool tried_before) {
  switch (reason) {
    case v1::SettleRefusal::REASON_LEASE_LOST:
      return tried_before ? "refused: there is no such lease: mistyped, or over (perhaps by this "
                            "call: its first try went unanswered)"
                          : "refused: there is no such lease: mistyped, or over, and the message "
                            "may come again";
    case v1::SettleRefusal::REASON_OUT_OF_RANGE:
      return "refused: no lease or delay may be that long or that short; the lease goes on";
    case v1::SettleRefusal::REASON_NO_DEAD_LETTER_TOPIC:
      return "refused: there is no dead-letter topic and none can be made; the lease goes on";
    case v1::SettleRefusal::REASON_DEAD_LETTER_HOPS:
      return "refused: it has been in 16 dead-letter topics and stays in this one; the lease goes "
             "on";
    case v1::SettleRefusal::REASON_UNKNOWN_ACTION:
      return "refused: the server is older than this program, and does not know the answer; the "
             "lease goes on";
    default:
      return absl::StrCat("refused for reason ", reason, ", which this version does not know");
  }
}

// The reason in a few words.
std::string ShortRefusalText(v1::SettleRefusal::Reason reason) {
  switch (reason) {
    case v1::SettleRefusal::REASON_LEASE_LOST:
      return "lease lost";
    case v1::SettleRefusal::REASON_OUT_OF_RANGE:
      return "delay out of range";
    case v1::SettleRefusal::REASON_NO_DEAD_LETTER_TOPIC:
      return "no dead-letter topic, and no room for one";
    case v1::SettleRefusal::REASON_DEAD_LETTER_HOPS:
      return "already in 16 dead-letter topics";
    default:
      return absl::StrCat("reason ", reason);
  }
}

// Sends the settlements and prints the answer: for --json as a whole, else a line for each token.
// `refused_only` leaves out the tokens that were settled, and prints to stderr.
ExitCode Settle(const Settings& settings, const v1::SettleRequest& request,
                const std::vector<std::string>& tokens, bool refused_only, Client* client) {
  const absl::StatusOr<client::SettleResult> result = client->Settle(request);
  if (!result.ok()) return Fail(settings, result.status());
  std::string text;
  bool refused = false;
  for (const std::string& token : tokens) {
    refused |= WasRefused(token, *result);
    if (!refused_only || WasRefused(token, *result)) text += SettledText(token, *result);
  }
  if (settings.json) text = refused_only && !refused ? "" : JsonLine(result->answer);
  if (refused_only) {
    PrintError(text);
  } else {
    Print(text);
  }
  return refused ? kNotAsWished : kDone;
}

absl::Status CompleteSettle(const Settings&, Input* input) {
  auto* request = input->Mutable<v1::SettleRequest>();
  const absl::StatusOr<Settlement> settlement = ReadSettlement(*input);
  if (!settlement.ok()) return settlement.status();
  const std::optional<absl::Duration> extend = input->Duration("--extend");
  if (extend.has_value() && (*extend < absl::Seconds(1) || *extend > kLeaseMax)) {
    return absl::InvalidArgumentError("--extend is 1s to 12h");
  }
  for (const std::string& token : input->List("TOKEN")) {
    v1::Settlement* const item = request->add_settlements();
    *item = client::ToProto(*settlement, token);
    if (extend.has_value()) *item->mutable_extend()->mutable_duration() = client::ToProto(*extend);
  }
  return absl::OkStatus();
}

ExitCode RunSettle(const Settings& settings, const Input& input, const v1::SettleRequest& request,
                   Client* client) {
  return Settle(settings, request, input.List("TOKEN"), /*refused_only=*/false, client);
}

Rows SettleRows() {
  const Trait group = Group("What to answer (one of the five)");
  return Join(
      {{Row("", "TOKEN", "The tokens that pull printed", {Required(), Type(Row::Type::kList)})},
       SettlementRows(group, "the messages"),
       {Row("", "--release",
            "Give them back, not begun: others get them, and no attempt has failed",
            {Type(Row::Type::kFlag), group}),
        Row("", "--extend", "Keep the messages for this long from now",
            {Type(Row::Type::kDuration), NotEmpty(), group})}});
}

// ---- pull

ExitCode RunPull(const Settings& settings, const Input& input, const v1::PullRequest& request,
                 Client* client) {
  v1::GetSubscriptionRequest read;
  read.set_topic(request.topic());
  read.set_name(request.subscription());
  const absl::StatusOr<std::string> note = LookAtSubscription(settings, input, read);
  if (!note.ok()) return Fail(settings, note.status());
  const absl::StatusOr<v1::PullResponse> answer = client->Pull(request);
  if (!answer.ok()) return Fail(settings, answer.status());
  if (!note->empty() && !settings.json) PrintError(absl::StrCat(*note, "\n"));
  if (answer->deliveries().empty()) {
    if (!settings.json) PrintError("nothing\n");
    return kNotAsWished;
  }
  const absl::Time received = absl::Now();
  v1::SettleRequest settle;
  std::vector<std::string> tokens;
  for (const v1::Delivery& delivery : answer->deliveries()) {
    const std::string text = DeliveryText(client::Delivery(delivery), received, settings.zone);
    const std::string& token = delivery.lease_token();
    const bool printed =
        Print(settings.json ? JsonLine(delivery) : absl::StrCat(token, "  ", text));
    if (printed && !input.Has("--ack")) continue;
    // Another subscriber gets a message that was not written.
    *settle.add_settlements() =
        client::ToProto(printed ? Settlement::Ack() : Settlement::Release(), token);
    tokens.push_back(token);
  }
  return tokens.empty() ? kDone : Settle(settings, settle, tokens, /*refused_only=*/true, client);
}

// The call creates the topic, so a user who mistyped the name must see that before.
void WarnOfSimilarTopic(const std::string& name, client::AdminClient* client) {
  // Short names resemble each other by chance.
  constexpr size_t kNameBytesMin = 4;
  if (name.size() < kNameBytesMin) return;
  v1::ListTopicsRequest request;
  request.set_page_size(1'000);
  const auto page = client->ListTopics(request);
  if (!page.ok()) return;
  std::vector<std::string> names;
  for (const v1::Topic& topic : page->topics()) names.push_back(topic.name());
  const std::string closest = Closest(name, names);
  if (closest.empty()) return;
  PrintError(absl::StrCat("there is no topic ", name, "; did you mean ", closest, "?\n"));
}

}  // namespace

std::string DeliveryText(const client::Delivery& delivery, absl::Time received,
                         const absl::TimeZone& zone) {
  std::string was;
  if (const v1::DeadLetter* letter = delivery.dead_letter()) {
    was = absl::StrCat("dead letter, was ", letter->message_id(), " of ", letter->topic(), "  ");
  }
  return absl::StrCat(FormatTimeText(received, zone), "  ", delivery.message_id(), "  attempt ",
                      delivery.attempt(), delivery.maybe_redelivered() ? " (repeat?)" : "",
                      "  late ", FormatAgeText(delivery.lateness()), "  ", was,
                      Printable(delivery.payload(), kShownBytesMax), "\n");
}

std::string CountsText(const client::SubscriberCounts& counts) {
  std::string text = absl::StrCat("received ", counts.delivered, ", acked ", counts.acked);
  const auto add = [&text](absl::string_view word, int64_t count) {
    if (count > 0) absl::StrAppend(&text, ", ", word, " ", count);
  };
  add("nacked", counts.nacked);
  add("made dead letters", counts.dead_lettered);
  add("left", counts.left);
  for (const auto& [reason, count] : counts.refusals) {
    add(absl::StrCat("refused (", ShortRefusalText(reason), ")"), count);
  }
  add("unconfirmed", counts.lost);
  return text + "\n";
}

bool WasRefused(const std::string& lease_token, const client::SettleResult& result) {
  return !Holds(result.answer.settled(), lease_token) &&
         !Holds(result.answer.extended(), lease_token);
}

std::string SettledText(const std::string& lease_token, const client::SettleResult& result) {
  std::string text = "the server did not answer for it";
  if (Holds(result.answer.settled(), lease_token)) text = "settled";
  if (Holds(result.answer.extended(), lease_token)) text = "extended";
  for (const v1::SettleRefusal& refusal : result.answer.refused()) {
    if (refusal.lease_token() != lease_token) continue;
    text = RefusalText(refusal.reason(), result.tried_before);
  }
  return absl::StrCat(lease_token, "  ", text, "\n");
}

absl::StatusOr<Settlement> ReadSettlement(const Input& input) {
  const std::string nack = input.Text("--nack");
  const std::string reason = input.Text("--reason");
  if (!reason.empty() && nack.empty() && !input.Has("--dead-letter")) {
    return absl::InvalidArgumentError("--reason goes with --nack or --dead-letter");
  }
  if (reason.size() > kReasonBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("--reason has at most ", kReasonBytesMax, " bytes"));
  }
  if (input.Has("--no-ack")) return Settlement::Leave();
  if (input.Has("--release")) return Settlement::Release();
  if (input.Has("--dead-letter")) return Settlement::DeadLetter(reason);
  if (nack.empty()) return Settlement::Ack();
  if (nack == "policy") return Settlement::Nack(reason);
  const absl::StatusOr<absl::Duration> delay = ParseDurationText(nack);
  if (!delay.ok()) return delay.status();
  if (*delay > kLeaseMax) return absl::InvalidArgumentError("--nack is at most 12h");
  return Settlement::NackAfter(*delay, reason);
}

Row NoCreateRow() {
  return Row("", "--no-create", "Fail if the topic or the subscription does not exist",
             {Type(Row::Type::kFlag)});
}

absl::StatusOr<std::string> LookAtSubscription(const Settings& settings, const Input& input,
                                               const v1::GetSubscriptionRequest& request) {
  client::ClientOptions options;
  options.server = settings.server;
  // Short, because a subscriber tries for ever to connect, and Ctrl-C waits for this.
  options.deadline = std::min(settings.deadline, absl::Seconds(2));
  options.attempts_max = 1;
  const auto client = client::AdminClient::Create(options);
  if (!client.ok()) return client.status();
  const auto subscription = (*client)->GetSubscription(request);
  std::string fresh;
  if (!subscription.ok()) {
    if (input.Has("--no-create")) return subscription.status();
    const std::string reason = client::GetErrorInfo(subscription.status()).reason;
    if (reason == "TOPIC_NOT_FOUND") {
      if (!settings.json) WarnOfSimilarTopic(request.topic(), client->get());
      return "the topic and its subscription are new";
    }
    if (reason != "SUBSCRIPTION_NOT_FOUND") return "";  // the call itself tells what is wrong
    fresh = "the subscription is new";
  }
  v1::GetTopicRequest of;
  of.set_name(request.topic());
  const auto topic = (*client)->GetTopic(of);
  if (topic.ok() && topic->settings().paused()) {
    return absl::StrCat(fresh, fresh.empty() ? "" : "; ",
                        "the topic is paused: it delivers nothing before duetime topic resume");
  }
  if (!subscription.ok() || !subscription->settings().paused()) return fresh;
  return "the subscription is paused: it delivers nothing before duetime subscription resume";
}

Commands ReceiveCommands() {
  Action settle = Do<Client, v1::SettleRequest>(RunSettle);
  settle.complete = CompleteSettle;
  return {
      {"subscribe",
       "Receive messages as they become due, and print them",
       "Each line shows when the message came, its id, the attempt, how late the server delivered "
       "it, and the\npayload. Ends with Ctrl-C; reconnects by itself. Totals are on "
       "stderr.\n\nEach "
       "subscription of a topic gets every message; subscribers of the same subscription share "
       "them.",
       {"orders", "orders --subscription billing --workers 8", "orders --max 10 --for 1m --json",
        "orders --no-ack --lease 5s", "orders --nack policy --reason \"trying out retries\""},
       SubscribeRows(),
       Action{.run = RunSubscribe}.After(
           [](Input* input) { return ReadSettlement(*input).status(); })},
      {"pull",
       "Receive the messages that are due now with one call, and print them",
       "Each line begins with the token of the message's lease. Settle the message with duetime "
       "settle TOKEN\nbefore the lease ends; else it comes again. Exit code 3: no message came.",
       {"orders --wait 30s", "orders --subscription billing --max 100 --ack --json"},
       {Row("topic", "TOPIC", "The topic to receive from", {Required()}),
        Row("subscription", "-s,--subscription", kSubscriptionHelp),
        Row("max_messages", "--max", "At most this many messages", {Range(1, 1'000), Default("1")}),
        Row("wait", "--wait", "If no message is due, wait this long for one: up to 60s"),
        Row("lease_duration", "--lease", kLeaseHelp),
        Row("", "--ack", "Acknowledge the printed messages", {Type(Row::Type::kFlag)}),
        NoCreateRow()},
       Do<Client, v1::PullRequest>(RunPull).After(
           [](Input* input) { input->Mutable<v1::PullRequest>()->set_client_id("duetime pull"); })},
      {"settle",
       "Settle messages that pull printed",
       "Prints the result for each message. Exit code 3: the server refused some, as a rule "
       "because the lease had ended.",
       {"0a5w3k9dz7m2q --ack", "0a5w3k9dz7m2q 0a5w3k9e1c8rt --nack 10s --reason busy",
        "0a5w3k9dz7m2q --extend 5m", "0a5w3k9dz7m2q --release",
        "0a5w3k9dz7m2q --dead-letter --reason \"no such customer\""},
       SettleRows(),
       settle},
  };
}

}  // namespace duetime::cli
