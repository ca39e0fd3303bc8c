// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/cli/colour.h"
#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "client/cli/connection.h"
#include "client/cli/console/console.h"
#include "client/cli/options.h"
#include "client/cli/suggest.h"

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
     import: some lines were refused; commands with --wait: the operation
     failed or was stopped; doctor: something is bad; bench: it was not
     completed
  4  no server, or no answer in time: the server may have done the work
  130  ended by Ctrl-C during a long work; the last line says how far it is

Options that take a TIME understand now, +30m and -1h (from now), "today 18:00",
"tomorrow 9:00", "2026-12-24 18:00" and 2026-12-24T18:00:00+08:00. A DURATION
is 90s, 1h30m, 2d, 1w or 500ms.

With --json, each result is the server's answer in proto3 JSON, as one line
of stdout, and an error is one line of stderr. Fields are named as in the
protos; payloads are base64, 64-bit numbers are strings.)";

// All commands, in the order of --help. Each group stands before its commands.
const Commands& AllCommands() {
  static const auto& commands = *new Commands([] {
    Commands all;
    for (const Commands& some :
         {MessageCommands(), Commands{ImportCommand(), ExportCommand()}, ReceiveCommands(),
          ServerCommands(), Commands{DoctorCommand(), TopCommand(), BenchCommand()},
          OperationCommands(), RecurrenceCommands(), TopicCommands(), SubscriptionCommands(),
          ContextCommands(), Commands{ConsoleCommand()}}) {
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

absl::StatusOr<Invocation> Read(const Options& global_options, const std::list<Leaf>& leaves) {
  const auto leaf =
      std::find_if(leaves.begin(), leaves.end(), [](const Leaf& one) { return one.app->parsed(); });
  const Command& command = leaf->command;
  Input global;
  global.request.reset(GlobalOptions().action.request->New());
  absl::Status status = global_options.Read(absl::LocalTimeZone(), &global);
  if (!status.ok()) return status;
  const absl::StatusOr<Settings> settings = MakeSettings(global, command.needs_server);
  if (!settings.ok()) return settings.status();
  Invocation invocation{.settings = *settings, .command = &command};
  Input& input = invocation.input;
  const Action& action = command.action;
  if (action.request != nullptr) input.request.reset(action.request->New());
  status = leaf->options.Read(settings->zone, &input);
  if (status.ok() && action.complete) status = action.complete(*settings, &input);
  if (!status.ok()) return status;
  return invocation;
}

}  // namespace

std::variant<Invocation, ExitCode> ParseArguments(int argc, const char* const* argv) {
  std::list<Leaf> leaves;
  CLI::App app("duetime: messages that are delivered at their time", "duetime");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", DUETIME_VERSION);
  app.footer(kFooter);
  const Options global_options(GlobalOptions(), &app);
  AddCommands(&app, &leaves);
  // CLI11 reports help and errors by an exception, which is caught here.
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    app.exit(help);
    return kDone;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "duetime: %s\n", UsageErrorText(app, error.what()).c_str());
    return kBadUsage;
  }
  absl::StatusOr<Invocation> invocation = Read(global_options, leaves);
  if (!invocation.ok()) {
    std::fprintf(stderr, "duetime: %s\n", std::string(invocation.status().message()).c_str());
    return kBadUsage;
  }
  if (!invocation->settings.no_colours) UseColours();
  return *std::move(invocation);
}

}  // namespace duetime::cli
