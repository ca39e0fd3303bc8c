// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "client/cli/options.h"
#include "client/cli/time_text.h"

namespace duetime::cli {
namespace {

constexpr char kFooter[] = R"(
The first steps, with a server on this machine:
  duetime schedule greetings "hello in five seconds" --in 5s
  duetime subscribe greetings
Look ahead, look at one message, and look at dead letters:
  duetime list greetings
  duetime forecast greetings --bucket minute
  duetime explain ID
  duetime dlq list greetings

Each command has its own help, with examples: duetime schedule --help

Exit codes:
  0  done
  1  the server refused the request, or failed; the reason is on stderr
  2  the command line is wrong
  3  the resource does not exist; cancel, reschedule: a message was not
     cancelled or moved, and why; subscribe: --for ran out before --max
     messages came; pull: nothing came; settle: the server refused some;
     commands with --wait: the operation failed or was stopped
  4  no server, or no answer in time: the server may have done the work

With --json, each result is the server's answer in proto3 JSON, as one line
of stdout, and an error is one line of stderr. Fields are named as in the
protos; payloads are base64, 64-bit numbers are strings.)";

void AddGlobal(CLI::App* app, Settings* settings, std::string* deadline) {
  app->add_option("--server", settings->server.target,
                  "The server: host:port, or unix:/path/to.sock")
      ->envname("DUETIME_SERVER")
      ->capture_default_str();
  app->add_option("--tls-ca", settings->server.tls_ca_file,
                  "Use TLS, and trust the servers that these certificates (PEM) vouch for");
  app->add_option("--tls-cert", settings->server.tls_cert_file,
                  "Use TLS, and show this certificate (PEM)");
  app->add_option("--tls-key", settings->server.tls_key_file, "The key of --tls-cert (PEM)");
  app->add_option("--timeout", *deadline, "Wait this long for an answer")->capture_default_str();
  app->add_flag("--json", settings->json, "Print JSON, for scripts");
}

// All commands, in the order of --help. Each group stands before its commands.
const Commands& AllCommands() {
  static const auto& commands = *new Commands([] {
    Commands all;
    for (const Commands& some :
         {MessageCommands(), ReceiveCommands(), ServerCommands(), OperationCommands(),
          RecurrenceCommands(), TopicCommands(), SubscriptionCommands()}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }());
  return commands;
}

// A command that can be run, with its declaration in the parser.
struct Leaf {
  Leaf(const Command& row, CLI::App* declared)
      : command(row), app(declared), options(row, declared) {}

  const Command& command;
  CLI::App* app;
  Options options;
};

// The text below the options of a command.
std::string Footer(const Command& command) {
  std::string text = command.note.empty() ? "" : absl::StrCat("\n", command.note, "\n");
  absl::StrAppend(&text, command.examples.size() == 1 ? "\nExample:" : "\nExamples:");
  for (const std::string& example : command.examples) {
    absl::StrAppend(&text, "\n  duetime ", command.words, example.empty() ? "" : " ", example);
  }
  return text;
}

void AddCommands(CLI::App* app, std::list<Leaf>* leaves) {
  std::map<std::string, CLI::App*> groups = {{"", app}};
  for (const Command& command : AllCommands()) {
    const size_t blank = command.words.rfind(' ');
    const bool nested = blank != std::string::npos;
    CLI::App* parent = groups.at(nested ? command.words.substr(0, blank) : "");
    CLI::App* added = parent->add_subcommand(
        nested ? command.words.substr(blank + 1) : command.words, command.help);
    added->footer(Footer(command));
    if (command.action.run) {
      leaves->emplace_back(command, added);
    } else {
      added->require_subcommand(1);
      groups[command.words] = added;
    }
  }
}

absl::StatusOr<Invocation> Read(const std::list<Leaf>& leaves, const Settings& settings,
                                const std::string& deadline_text) {
  Invocation invocation{.settings = settings};
  invocation.settings.zone = absl::LocalTimeZone();
  const absl::StatusOr<absl::Duration> deadline = ParseDurationText(deadline_text);
  if (!deadline.ok()) return deadline.status();
  invocation.settings.deadline = *deadline;
  for (const Leaf& leaf : leaves) {
    if (!leaf.app->parsed()) continue;
    const Action& action = leaf.command.action;
    invocation.command = &leaf.command;
    Input& input = invocation.input;
    if (action.request != nullptr) input.request.reset(action.request->New());
    absl::Status status = leaf.options.Read(&input);
    if (status.ok() && action.complete) status = action.complete(settings, &input);
    if (!status.ok()) return status;
  }
  return invocation;
}

}  // namespace

std::variant<Invocation, ExitCode> ParseArguments(int argc, const char* const* argv) {
  Settings settings;
  std::string deadline = "10s";
  std::list<Leaf> leaves;
  CLI::App app("duetime: messages that are delivered at their time", "duetime");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", DUETIME_VERSION);
  app.footer(kFooter);
  AddGlobal(&app, &settings, &deadline);
  AddCommands(&app, &leaves);
  // CLI11 reports help and errors by an exception, which is caught here.
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "duetime: %s (see duetime --help)\n", error.what());
    return kBadUsage;
  }
  absl::StatusOr<Invocation> invocation = Read(leaves, settings, deadline);
  if (!invocation.ok()) {
    std::fprintf(stderr, "duetime: %s\n", std::string(invocation.status().message()).c_str());
    return kBadUsage;
  }
  return *std::move(invocation);
}

}  // namespace duetime::cli
