// SPDX-License-Identifier: Apache-2.0
#include "client/cli/arguments.h"

#include <cstdio>
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
What is to come, the story of one message, and what failed too often:
  duetime list greetings
  duetime forecast greetings --bucket minute
  duetime explain ID
  duetime dlq list greetings

Each command has its own help, with examples: duetime schedule --help

Exit codes:
  0  done
  1  the server refused the request, or failed; the reason is on stderr
  2  the command line is wrong
  3  what was named is not there; cancel, reschedule: a message was not
     cancelled or moved, and why; subscribe: --for ran out before --max
     messages came; pull: nothing came; settle: some were refused; bulk
     --wait and its like: the operation failed or was stopped
  4  no server, or no answer in time: what was asked for may have happened

With --json, each result is one JSON object on one line of stdout, and an
error is one on stderr. Times are in UTC; names that end in _ms are
milliseconds.)";

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
  AddReceiveCommands(&app, &leaves);
  AddForecastCommand(&app, &leaves);
  AddBulkCommands(&app, &leaves);
  AddRecurrenceCommands(&app, &leaves);
  AddTopicCommands(&app, &leaves);
  AddSubscriptionCommands(&app, &leaves);
  AddDeadLetterCommands(&app, &leaves);
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
