// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <memory>

#include "absl/strings/str_cat.h"

#include "client/cli/options.h"
#include "client/convert.h"

namespace duetime::cli {
namespace {

constexpr char kSubscriptionHelp[] =
    "Which of the topic's subscriptions to read (default: \"default\"); it is made if it is not "
    "there";
constexpr char kLeaseHelp[] =
    "How long an unanswered message is kept from others (default: what the subscription says, 30s)";
constexpr char kNackHelp[] =
    "Give each back, to come again after this long: 10s; or, with the word policy, when the "
    "subscription's retry policy says";

// Reads what follows --nack.
absl::Status ReadNack(const std::string& text, std::optional<absl::Duration>* delay) {
  return text == "policy" ? absl::OkStatus() : ReadOptional(text, delay);
}

// The words after `subscribe`, before they are understood.
struct SubscribeOptions {
  SubscribeArguments arguments{};
  bool ack = false;
  bool no_ack = false;
  bool dead_letter = false;
  std::string nack{};
  std::string reason{};
  int64_t messages_max = 0;
  std::string time_max{};
  std::string lease{};
  std::string extend_max{};
};

absl::StatusOr<Command> ReadSubscribe(const SubscribeOptions& options) {
  SubscribeArguments arguments = options.arguments;
  if (options.messages_max > 0) arguments.messages_max = options.messages_max;
  std::optional<absl::Duration> nack;
  std::optional<absl::Duration> lease;
  std::optional<absl::Duration> extend_max;
  const absl::Status status = FirstError(
      {ReadOptional(options.time_max, &arguments.time_max), ReadNack(options.nack, &nack),
       ReadOptional(options.lease, &lease), ReadOptional(options.extend_max, &extend_max)});
  if (!status.ok()) return status;
  client::Settlement& settlement = arguments.settlement;
  if (!options.nack.empty()) settlement = client::Settlement::Nack(options.reason);
  settlement.delay = nack;
  if (options.dead_letter) settlement = client::Settlement::DeadLetter(options.reason);
  if (options.no_ack) settlement = client::Settlement::Leave();
  if (!options.reason.empty() && settlement.reason.empty()) {
    return absl::InvalidArgumentError("--reason goes with --nack or --dead-letter");
  }
  arguments.lease = lease.value_or(absl::ZeroDuration());
  arguments.extend_max = extend_max.value_or(arguments.extend_max);
  return arguments;
}

void AddSubscribe(CLI::App* app, Leaves* leaves) {
  const auto options = std::make_shared<SubscribeOptions>();
  SubscribeArguments* arguments = &options->arguments;
  CLI::App* command =
      app->add_subcommand("subscribe", "Receive messages as they become due, and print them");
  command->add_option("TOPIC", arguments->topic, "What schedule named")->required();
  command->add_option("-s,--subscription", arguments->subscription, kSubscriptionHelp);
  CLI::App* settle = command->add_option_group("What to answer (at most one)");
  settle->add_flag("--ack", options->ack, "Acknowledge each once it is printed (the default)");
  settle->add_flag("--no-ack", options->no_ack,
                   "Answer nothing: each comes again when its lease ends");
  settle->add_option("--nack", options->nack, kNackHelp)->check(NotEmpty());
  settle->add_flag("--dead-letter", options->dead_letter,
                   "Give each up: it goes to the dead-letter topic");
  settle->require_option(0, 1);
  command->add_option("--reason", options->reason,
                      "Why, with --nack or --dead-letter; kept with the dead letter");
  command->add_option("--max", options->messages_max, "Stop after this many messages")
      ->check(CLI::Range(int64_t{1}, INT64_MAX));
  command->add_option("--for", options->time_max, "Stop after this long: 90s, 1h");
  command->add_option("--workers", arguments->workers, "Print and answer this many at once")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  command
      ->add_option("--credit", arguments->credit,
                   "Hold at most this many unanswered messages (default: the server's, 1000)")
      ->check(CLI::Range(1, INT32_MAX));
  command->add_option("--lease", options->lease, kLeaseHelp);
  command->add_option("--extend-max", options->extend_max,
                      "Prolong the leases of messages that wait to be printed for this long "
                      "(default: 1h); 0s: never");
  command->add_flag("--quiet", arguments->quiet, "Print only the totals at the end");
  command->footer(
      "\nEach line shows when the message came, its id, the attempt, how late the server handed it "
      "over, and\nthe payload. Ends with Ctrl-C; reconnects by itself. Totals are on stderr.\n"
      "\nEach subscription of a topic gets every message; subscribers of the same subscription "
      "share them.\n"
      "\nExamples:"
      "\n  duetime subscribe orders"
      "\n  duetime subscribe orders --subscription billing --workers 8"
      "\n  duetime subscribe orders --max 10 --for 1m --json"
      "\n  duetime subscribe orders --no-ack --lease 5s"
      "\n  duetime subscribe orders --nack policy --reason \"trying out retries\"");
  leaves->push_back({command, [options] { return ReadSubscribe(*options); }});
}

void AddPull(CLI::App* app, Leaves* leaves) {
  struct Options {
    PullArguments arguments{};
    std::string topic{};
    std::string subscription{};
    int messages_max = 1;
    std::string wait{};
    std::string lease{};
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("pull", "Receive what is due now with one call, and print it");
  command->add_option("TOPIC", options->topic, "What schedule named")->required();
  command->add_option("-s,--subscription", options->subscription, kSubscriptionHelp);
  command->add_option("--max", options->messages_max, "At most this many messages")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  command->add_option("--wait", options->wait,
                      "If nothing is due, wait this long for something: up to 60s");
  command->add_option("--lease", options->lease, kLeaseHelp);
  command->add_flag("--ack", options->arguments.ack, "Acknowledge what was printed");
  command->footer(
      "\nEach line begins with the token of the message's lease. Say what became of the message "
      "with\nduetime settle TOKEN before the lease ends; else it comes again. Exit code 3: nothing "
      "came.\n"
      "\nExamples:"
      "\n  duetime pull orders --wait 30s"
      "\n  duetime pull orders --subscription billing --max 100 --ack --json");
  leaves->push_back(
      {command, [options]() -> absl::StatusOr<Command> {
         PullArguments arguments = options->arguments;
         v1::PullRequest& request = arguments.request;
         request.set_topic(options->topic);
         request.set_subscription(options->subscription);
         request.set_max_messages(options->messages_max);
         request.set_client_id("duetime pull");
         const absl::Status status = FirstError(
             {ReadOptional(options->wait, [&] { return request.mutable_wait(); }),
              ReadOptional(options->lease, [&] { return request.mutable_lease_duration(); })});
         if (!status.ok()) return status;
         return arguments;
       }});
}

// The words after `settle`, before they are understood.
struct SettleOptions {
  std::vector<std::string> tokens{};
  bool ack = false;
  bool dead_letter = false;
  std::string nack{};
  std::string extend{};
  std::string reason{};
  std::string topic{};
};

absl::StatusOr<uint64_t> ReadToken(const std::string& text) {
  uint64_t token = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, token, 16);
  if (error != std::errc() || rest != end) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a token that pull or subscribe printed"));
  }
  return token;
}

absl::StatusOr<Command> ReadSettle(const SettleOptions& options) {
  std::optional<absl::Duration> nack;
  std::optional<absl::Duration> extend;
  const absl::Status status =
      FirstError({ReadNack(options.nack, &nack), ReadOptional(options.extend, &extend)});
  if (!status.ok()) return status;
  if (!options.reason.empty() && options.nack.empty() && !options.dead_letter) {
    return absl::InvalidArgumentError("--reason goes with --nack or --dead-letter");
  }
  SettleArguments arguments;
  v1::SettleRequest& request = arguments.request;
  for (const std::string& text : options.tokens) {
    const absl::StatusOr<uint64_t> token = ReadToken(text);
    if (!token.ok()) return token.status();
    arguments.tokens.push_back(*token);
    if (options.ack) {
      request.add_ack(*token);
    } else if (options.dead_letter) {
      request.set_topic(options.topic);
      v1::DeadLetterLease* item = request.add_dead_letter();
      item->set_lease_token(*token);
      item->set_reason(options.reason);
    } else if (extend.has_value()) {
      v1::ExtendLease* item = request.add_extend();
      item->set_lease_token(*token);
      *item->mutable_duration() = client::ToProto(*extend);
    } else {
      v1::Nack* item = request.add_nack();
      item->set_lease_token(*token);
      if (nack.has_value()) *item->mutable_delay() = client::ToProto(*nack);
      item->set_reason(options.reason);
    }
  }
  return arguments;
}

void AddSettle(CLI::App* app, Leaves* leaves) {
  const auto options = std::make_shared<SettleOptions>();
  CLI::App* command = app->add_subcommand("settle", "Say what became of messages that pull gave");
  command->add_option("TOKEN", options->tokens, "The tokens that pull printed")->required();
  CLI::App* what = command->add_option_group("What to say (one of the four)");
  what->add_flag("--ack", options->ack, "They are done: never again");
  what->add_option("--nack", options->nack, kNackHelp)->check(NotEmpty());
  what->add_option("--extend", options->extend, "Keep them for this long from now")
      ->check(NotEmpty());
  CLI::Option* dead_letter = what->add_flag("--dead-letter", options->dead_letter,
                                            "Give them up: they go to the dead-letter topic");
  what->require_option(1);
  CLI::Option* topic = command->add_option("--topic", options->topic,
                                           "With --dead-letter: the topic they came from");
  topic->needs(dead_letter);
  dead_letter->needs(topic);
  command->add_option("--reason", options->reason,
                      "Why, with --nack or --dead-letter; kept with the dead letter");
  command->footer(
      "\nPrints what became of each. Exit code 3: some were refused, as a rule because the lease "
      "had ended.\n"
      "\nExamples:"
      "\n  duetime settle 00a1000000000007 --ack"
      "\n  duetime settle 00a1000000000007 00a1000000000008 --nack 10s --reason busy"
      "\n  duetime settle 00a1000000000007 --extend 5m"
      "\n  duetime settle 00a1000000000007 --dead-letter --topic orders --reason \"no such "
      "customer\"");
  leaves->push_back({command, [options] { return ReadSettle(*options); }});
}

}  // namespace

void AddReceiveCommands(CLI::App* app, Leaves* leaves) {
  AddSubscribe(app, leaves);
  AddPull(app, leaves);
  AddSettle(app, leaves);
}

}  // namespace duetime::cli
