// SPDX-License-Identifier: Apache-2.0
#include "client/cli/arguments.h"

#include <cstdint>
#include <cstdio>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"

#include "client/cli/options.h"
#include "client/cli/time_text.h"

namespace duetime::cli {
namespace {

constexpr char kFooter[] = R"(
The first steps, with a server on this machine:
  duetime schedule greetings "hello in five seconds" --in 5s
  duetime subscribe greetings
What is to come, and the story of one message:
  duetime list greetings
  duetime forecast greetings --bucket minute
  duetime explain ID

Each command has its own help, with examples: duetime schedule --help

Exit codes:
  0  done
  1  the server refused the request, or failed; the reason is on stderr
  2  the command line is wrong
  3  what was named is not there; cancel, reschedule: a message was not
     cancelled or moved, and why; subscribe: --for ran out before --max
     messages came; bulk --wait: the operation failed or was stopped
  4  no server, or no answer in time: what was asked for may have happened

With --json, each result is one JSON object on one line of stdout, and an
error is one on stderr. Times are in UTC; names that end in _ms are
milliseconds.)";

// The words after `subscribe`, before they are understood.
struct SubscribeOptions {
  std::string topic{};
  bool ack = false;
  bool no_ack = false;
  std::string nack{};
  int64_t messages_max = 0;
  std::string time_max{};
  int credit = 0;
  std::string lease{};
  bool quiet = false;
};

void AddGlobal(CLI::App* app, Settings* settings, std::string* deadline) {
  app->add_option("--server", settings->server.target,
                  "The server: host:port, or unix:/path/to.sock")
      ->envname("DUETIME_SERVER")
      ->capture_default_str();
  app->add_option("--tls-ca", settings->server.tls_ca_file,
                  "Use TLS, and trust the servers these certificates (PEM) vouch for");
  app->add_option("--tls-cert", settings->server.tls_cert_file,
                  "Use TLS, and show this certificate (PEM)");
  app->add_option("--tls-key", settings->server.tls_key_file, "The key of --tls-cert (PEM)");
  app->add_option("--timeout", *deadline, "Wait this long for an answer")->capture_default_str();
  app->add_flag("--json", settings->json, "Print JSON, for scripts");
}

absl::StatusOr<Command> ReadSubscribe(const SubscribeOptions& options) {
  SubscribeArguments arguments;
  arguments.topic = options.topic;
  arguments.credit = options.credit;
  arguments.quiet = options.quiet;
  if (options.messages_max > 0) arguments.messages_max = options.messages_max;
  std::optional<absl::Duration> nack;
  std::optional<absl::Duration> lease;
  const absl::Status status =
      FirstError({ReadOptional(options.time_max, &arguments.time_max),
                  ReadOptional(options.nack, &nack), ReadOptional(options.lease, &lease)});
  if (!status.ok()) return status;
  if (nack.has_value()) arguments.settlement = client::Settlement::Nack(*nack);
  if (options.no_ack) arguments.settlement = client::Settlement::Leave();
  arguments.lease = lease.value_or(absl::ZeroDuration());
  return arguments;
}

void AddSubscribe(CLI::App* app, Leaves* leaves) {
  const auto options = std::make_shared<SubscribeOptions>();
  CLI::App* command =
      app->add_subcommand("subscribe", "Receive messages as they become due, and print them");
  command->add_option("TOPIC", options->topic, "What schedule named")->required();
  CLI::App* settle = command->add_option_group("What to answer (at most one)");
  settle->add_flag("--ack", options->ack, "Acknowledge each once it is printed (the default)");
  settle->add_flag("--no-ack", options->no_ack,
                   "Answer nothing: each comes again when its lease ends");
  settle->add_option("--nack", options->nack, "Give each back, to come again after this long: 10s");
  settle->require_option(0, 1);
  command->add_option("--max", options->messages_max, "Stop after this many messages")
      ->check(CLI::Range(int64_t{1}, INT64_MAX));
  command->add_option("--for", options->time_max, "Stop after this long: 90s, 1h");
  command
      ->add_option("--credit", options->credit,
                   "Hold at most this many unanswered messages (default: the server's, 1000)")
      ->check(CLI::Range(1, INT32_MAX));
  command->add_option("--lease", options->lease,
                      "How long an unanswered message is kept from others (default: the server's, "
                      "30s)");
  command->add_flag("--quiet", options->quiet, "Print only the totals at the end");
  command->footer(
      "\nEach line shows when the message came, its id, the attempt, how late the server handed it "
      "over, and\nthe payload. Ends with Ctrl-C; reconnects by itself. Totals are on stderr."
      "\n\nExamples:"
      "\n  duetime subscribe orders"
      "\n  duetime subscribe orders --max 10 --for 1m --json"
      "\n  duetime subscribe orders --no-ack --lease 5s");
  leaves->push_back({command, [options] { return ReadSubscribe(*options); }});
}

void AddInfo(CLI::App* app, Leaves* leaves) {
  CLI::App* command =
      app->add_subcommand("info", "Show the server's version, state, counts and limits");
  command->footer("\nExample:\n  duetime info --server 10.0.0.7:7788 --tls-ca ca.pem");
  leaves->push_back({command, []() -> absl::StatusOr<Command> { return InfoArguments(); }});
}

absl::StatusOr<Arguments> Read(const Leaves& leaves, const Settings& settings,
                               const std::string& deadline_text) {
  Arguments arguments{.settings = settings, .command = InfoArguments()};
  arguments.settings.zone = absl::LocalTimeZone();
  const absl::StatusOr<absl::Duration> deadline = ParseDurationText(deadline_text);
  if (!deadline.ok()) return deadline.status();
  arguments.settings.deadline = *deadline;
  for (const Leaf& leaf : leaves) {
    if (!leaf.app->parsed()) continue;
    absl::StatusOr<Command> command = leaf.read();
    if (!command.ok()) return command.status();
    arguments.command = *std::move(command);
  }
  return arguments;
}

}  // namespace

std::variant<Arguments, ExitCode> ParseArguments(int argc, const char* const* argv) {
  Settings settings;
  std::string deadline = "10s";
  Leaves leaves;
  CLI::App app("duetime: messages that are delivered at their time", "duetime");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", DUETIME_VERSION);
  app.footer(kFooter);
  AddGlobal(&app, &settings, &deadline);
  AddScheduleCommands(&app, &leaves);
  AddMessageCommands(&app, &leaves);
  AddSubscribe(&app, &leaves);
  AddForecastCommand(&app, &leaves);
  AddBulkCommands(&app, &leaves);
  AddRecurrenceCommands(&app, &leaves);
  AddTopicCommands(&app, &leaves);
  AddInfo(&app, &leaves);
  // The library reports by exception; it ends here.
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "duetime: %s (see duetime --help)\n", error.what());
    return kBadUsage;
  }
  absl::StatusOr<Arguments> arguments = Read(leaves, settings, deadline);
  if (!arguments.ok()) {
    std::fprintf(stderr, "duetime: %s\n", std::string(arguments.status().message()).c_str());
    return kBadUsage;
  }
  return *std::move(arguments);
}

}  // namespace duetime::cli
