// SPDX-License-Identifier: Apache-2.0
//
// Subscriptions: their settings as rows, and their commands.
#include <string>

#include "absl/strings/str_cat.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/time_text.h"
#include "client/cpp/admin_client.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using client::FromProto;

std::string RetryText(const v1::Subscription& subscription, const absl::TimeZone&) {
  const v1::RetryPolicy& retry = subscription.settings().retry();
  if (FromProto(retry.min_backoff()) == absl::ZeroDuration()) return "at once";
  std::string text =
      absl::StrCat("after ", FormatDurationText(FromProto(retry.min_backoff())), ", then times ",
                   retry.multiplier() == 0 ? 2.0 : retry.multiplier());
  if (retry.has_max_backoff()) {
    absl::StrAppend(&text, " up to ", FormatDurationText(FromProto(retry.max_backoff())));
  }
  if (retry.jitter() > 0) {
    absl::StrAppend(&text, ", longer by up to ", retry.jitter() * 100, "% at random");
  }
  return text;
}

// The retention as a length and a number, or "".
std::string RetentionLimits(const v1::SubscriptionSettings& settings, const std::string& between,
                            const std::string& before_number, const std::string& unit) {
  const absl::Duration retention = FromProto(settings.retention());
  std::string text = retention > absl::ZeroDuration() ? FormatDurationText(retention) : "";
  if (settings.retention_max_messages() > 0) {
    absl::StrAppend(&text, text.empty() ? "" : between, before_number,
                    settings.retention_max_messages(), unit);
  }
  return text;
}

std::string ShortRetentionText(const v1::Subscription& subscription, const absl::TimeZone&) {
  return RetentionLimits(subscription.settings(), ", ", "", "");
}

std::string RetentionText(const v1::Subscription& subscription, const absl::TimeZone&) {
  const std::string limits =
      RetentionLimits(subscription.settings(), " and ", "up to ", " messages");
  if (limits.empty()) return "";
  const bool keeps = subscription.settings().retention_policy() == v1::RETENTION_POLICY_DEAD_LETTER;
  return limits + (keeps ? ", then made dead letters" : ", then dropped");
}

std::string ReadyText(const v1::Subscription& subscription, const absl::TimeZone&) {
  if (!subscription.has_counts()) return "";
  return absl::StrCat(subscription.counts().ready(),
                      subscription.counts().behind() ? ", and more on disk" : "");
}

// The first rows name the subscription; the others are its settings. To add a setting, add a row
// here.
Rows OptionRows() {
  return {
      Row("topic", "TOPIC", "The topic of the subscription", {Required(), Key(), Line("topic")}),
      Row("name", "SUBSCRIPTION", "Its name (default: \"default\")",
          {Key(), Line("subscription"), Column("NAME")}),
      Row("settings.paused", {Warns(), Line("paused")}),
      Row("settings.paused", {WordForTrue("paused"), Column("STATE", "active")}),
      Row("create_time", {Line("created")}),
      Row("settings.lease_duration", "--lease",
          "The lease of subscribers that ask for none: 1m; or default, 30s",
          {Reset("default"), Line("lease", "30s"), Column("LEASE", "-")}),
      Row("settings.retry.min_backoff", "--min-backoff",
          "The delay after the first failed attempt: 5s; 0s, at once; or default, 1s",
          {Reset("default"), As(RetryText), Line("retries")}),
      Row("settings.retry.max_backoff", "--max-backoff",
          "The longest delay between two attempts: 1h; or default, 10m", {Reset("default")}),
      Row("settings.retry.multiplier", "--multiplier",
          "Each delay is this many times the one before: 1.5 (default: 2)", {Range(1, 100)}),
      Row("settings.retry.jitter", "--jitter",
          "Make each delay longer by up to this part of it, at random: 0.5 (default: 0.2)",
          {Range(0, 1)}),
      Row("settings.retry.max_attempts", "--max-attempts",
          "Failed attempts before a message becomes a dead letter; 0: never (the default)",
          {Range(0, 1'000'000), HidesZero(), Line("max attempts", "no end"),
           Column("MAX ATTEMPTS", "no end")}),
      Row("settings.dead_letter_topic", "--dead-letter-topic",
          "Where its dead letters go; \"\": where the topic says (the default)",
          {Line("dead letters", "where the topic says"), Column("DEAD LETTERS", "-")}),
      Row("settings.retention", "--retention",
          "Deliver no message that is later than this: 2d; or none, no limit (the default)",
          {Reset("none"), As(RetentionText), Line("keeps", "for ever")}),
      Row("settings.retention_max_messages", "--retention-max",
          "Let at most this many messages wait, and give up the oldest; 0: no limit (the default)",
          {Range(0), As(ShortRetentionText), Column("KEEPS", "-")}),
      Row("settings.retention_policy", "--retention-policy",
          "What happens to messages beyond the retention: drop (the default) or make them dead "
          "letters"),
      Row("settings.retry", {As(RetryText), Column("RETRIES")}),
      Row("backlog.messages", {Line("backlog"), Column("BACKLOG", "0")}),
      Row("backlog.oldest_due_time", {Line("oldest due"), Column("OLDEST DUE", "-")}),
  };
}

Rows KeyRows() { return {OptionRows()[0], OptionRows()[1]}; }

Rows SubscriptionRows() {
  return Join(
      {OptionRows(),
       {Row("counts.streams", {Line("subscribers")}),
        Row("counts.ready", {As(ReadyText), Line("ready")}),
        Row("counts.slowed", {WordForTrue("its attempts fail too fast"), Warns(), Line("slowed")}),
        Row("counts.in_flight", {Line("in flight")}),
        Row("counts.delayed", {Line("to be retried")}),
        Row("counts.blocked", {Line("held in order")}),
        Row("counts.longest_key.ordering_key", {Line("behind key")}),
        Row("counts.longest_key.message_id", {Line("held by")}),
        Row("counts.delivered", {Line("delivered")}), Row("counts.acked", {Line("acked")}),
        Row("counts.dead_lettered", {Line("dead letters")}),
        Row("counts.dead_letter_hops_refused", {HidesZero(), Line("out of hops")}),
        Row("counts.dropped", {Line("dropped")})}});
}

std::string DeletedSubscriptionText(const v1::DeleteSubscriptionRequest& request,
                                    const v1::DeleteSubscriptionResponse&, const absl::TimeZone&) {
  return absl::StrCat("subscription ", request.name().empty() ? "default" : request.name(),
                      " of topic ", request.topic(), " is deleted\n");
}

Rows StreamRows() {
  return {
      Row("id", {Column("ID")}),
      Row("topic", {Column("TOPIC")}),
      Row("subscription", {Column("SUBSCRIPTION")}),
      Row("client_id", {Column("CLIENT", "-")}),
      Row("peer", {Column("PEER")}),
      Row("principal", {Column("PRINCIPAL", "-")}),
      Row("in_flight", {Column("IN FLIGHT")}),
      Row("max_outstanding_messages", {Column("CREDIT")}),
      Row("start_time", {Column("SINCE")}),
      Row("last_settle_time", {Column("SETTLED", "never")}),
  };
}

std::string EndedStreamText(const v1::EndStreamRequest& request, const v1::EndStreamResponse&,
                            const absl::TimeZone&) {
  return absl::StrCat("stream ", request.id(), " is ended; its client may open a new one\n");
}

}  // namespace

Commands StreamCommands() {
  return {
      {"streams",
       "List the open streams of subscribers, the oldest first",
       "Through a gateway, the streams of the gateway's own clients.",
       {"", "orders", "orders --json"},
       Join({{Row("topic", "TOPIC", "The topic (default: all topics)")}, PageRows()}),
       Pages(&AdminClient::ListStreams, StreamRows())},
      {"end-stream",
       "End a stream; its messages come again after the delay of a retry, and its client opens a "
       "new one",
       "",
       {"19ad0c5f2a100000007"},
       {Row("id", "ID", "The id, as duetime streams lists it", {Required()})},
       Call(&AdminClient::EndStream, EndedStreamText)},
  };
}

Commands SubscriptionCommands() {
  const Rows settings = OptionsBelow("subscription", OptionRows());
  const Rows key = OptionsBelow("subscription", KeyRows());
  const auto set_paused = [](bool paused) {
    return SetPaused(&AdminClient::UpdateSubscription, "subscription", SubscriptionRows(), paused);
  };
  return {
      {"subscription",
       "Manage the subscriptions of a topic",
       "Each subscription of a topic gets every message, at its own pace and with its own "
       "retries.\nEach command has its own help: duetime subscription create --help",
       {"list orders", "get orders billing"}},
      {"subscription create",
       "Create a subscription with settings",
       "Often not needed: the first subscriber that names a subscription creates it.",
       {"orders billing --min-backoff 5s --max-backoff 10m --max-attempts 8",
        "orders audit --start all --retention 2d"},
       Join({settings,
             {Row("start", "--start",
                  "Which messages it gets: those accepted from now on (the default), or also all "
                  "pending ones. The first subscription of a topic gets all")}}),
       Call(&AdminClient::CreateSubscription, SubscriptionRows())},
      {"subscription get",
       "Show the settings and counts of a subscription",
       "",
       {"orders billing"},
       KeyRows(),
       Call(&AdminClient::GetSubscription, SubscriptionRows())},
      {"subscription list",
       "List the subscriptions of a topic by name",
       "",
       {"orders"},
       Join({{Row("topic", "TOPIC", "The topic", {Required()})}, PageRows()}),
       Pages(&AdminClient::ListSubscriptions, SubscriptionRows())},
      {"subscription update",
       "Change the settings given, keep the others",
       "",
       {"orders billing --max-attempts 0", "orders billing --min-backoff 5s --jitter 0.2",
        "orders audit --retention-max 1000000"},
       settings,
       Update(&AdminClient::UpdateSubscription, "subscription", SubscriptionRows())},
      {"subscription delete",
       "Delete a subscription; messages that only it had to deliver end as dropped, unless it is "
       "the last one of its topic",
       "",
       {"orders billing"},
       KeyRows(),
       Call(&AdminClient::DeleteSubscription, DeletedSubscriptionText)},
      {"subscription pause",
       "Deliver nothing to a subscription for now; its messages wait",
       "",
       {"orders billing"},
       key,
       set_paused(true)},
      {"subscription resume",
       "Deliver again after a pause",
       "",
       {"orders billing"},
       key,
       set_paused(false)},
  };
}

}  // namespace duetime::cli
