// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <list>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "client/cli/command.h"
#include "client/cli/commands/commands.h"
#include "client/cli/connection/connection.h"
#include "client/cli/console/console.h"
#include "client/cli/dev/dev.h"
#include "client/cli/help/guide.h"
#include "client/cli/help/suggest.h"
#include "client/cli/options.h"
#include "client/cli/show.h"
#include "client/cli/terminal/colour.h"

namespace duetime::cli {
namespace {

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

// The heading of --help under which a command stands. The parser prints the groups in the order in
// which it first meets them.
absl::string_view GroupOf(absl::string_view words) {
  static const auto& groups = *new std::map<absl::string_view, absl::string_view>([] {
    std::map<absl::string_view, absl::string_view> all;
    for (const CommandGroup& group : kCommandGroups) {
      for (absl::string_view word : absl::StrSplit(group.words, ' ')) all[word] = group.title;
    }
    return all;
  }());
  const auto found = groups.find(words);
  GOOGLE_CHECK(found != groups.end())
      << "no group of help/guide.h has the command " << std::string(words);
  return found->second;
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
    if (!nested) added->group(std::string(GroupOf(command.words)));
    groups[command.words] = added;
    if (command.action.run) {
      leaves->emplace_back(command, added);
    } else {
      added->require_subcommand(1);
    }
  }
}

absl::StatusOr<Invocation> Read(const Options& global_options, const std::list<Leaf>& leaves) {
  // The last one, because a group that is a command itself stands before its commands.
  const auto leaf = std::find_if(leaves.rbegin(), leaves.rend(),
                                 [](const Leaf& one) { return one.app->parsed(); });
  const Command& command = leaf->command;
  Input global;
  global.request.reset(GlobalOptions().action.request->New());
  absl::Status status = global_options.Read(absl::UTCTimeZone(), &global);
  if (!status.ok()) return status;
  const absl::StatusOr<Settings> settings = MakeSettings(global, command.needs_server);
  if (!settings.ok()) return settings.status();
  Invocation invocation{.settings = *settings, .command = &command};
  Input& input = invocation.input;
  const Action& action = command.action;
  if (action.request != nullptr) input.request.reset(action.request->New());
  status = leaf->options.Read(settings->local(), &input);
  if (status.ok() && action.complete) status = action.complete(*settings, &input);
  if (!status.ok()) return status;
  return invocation;
}

}  // namespace

const Commands& AllCommands() {
  static const auto& commands = *new Commands([] {
    Commands all;
    for (const Commands& some :
         {MessageCommands(), Commands{ImportCommand(), ExportCommand()}, ReceiveCommands(),
          OperationCommands(), RecurrenceCommands(), TopicCommands(), SubscriptionCommands(),
          StreamCommands(), ServerCommands(),
          Commands{DoctorCommand(), TopCommand(), BenchCommand()}, Commands{BackupCommand()},
          RestoreCommands(), CellCommands(), ClockCommands(), AccessCommands(), ContextCommands(),
          Commands{ConsoleCommand(), DevCommand()}, CompletionCommands(), Commands{ManCommand()}}) {
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }());
  return commands;
}

namespace {

// True if the command line names a context.
bool NamesContext(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view word = argv[i];
    if (!absl::ConsumePrefix(&word, "--context")) continue;
    if (word.empty() && i + 1 < argc) return absl::string_view(argv[i + 1]) != kNoContext;
    if (absl::ConsumePrefix(&word, "=")) return word != kNoContext;
  }
  return false;
}

ExitCode BadUsage(bool json, absl::string_view text) {
  PrintError(json ? ErrorJson(absl::InvalidArgumentError(text))
                  : absl::StrCat("duetime: ", text, "\n"));
  return kBadUsage;
}

}  // namespace

std::variant<Invocation, ExitCode> ParseArguments(int argc, const char* const* argv) {
  std::list<Leaf> leaves;
  CLI::App app(absl::StrCat("duetime: ", kPurpose), "duetime");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", DUETIME_VERSION);
  app.footer(absl::StrCat("\n", kFirstSteps,
                          "\nEach command has its own help, with examples: duetime help schedule\n",
                          "\nExit codes:\n", kExitCodes, "\n", kTimes, "\n", kJson));
  // The environment belongs to another server than a context that the command line names.
  const Options global_options(GlobalOptions(), &app, /*environment=*/!NamesContext(argc, argv));
  AddCommands(&app, &leaves);
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  // "help topic create" means "topic create --help".
  if (!words.empty() && words[0] == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  if (words == std::vector<std::string>{"version"}) words = {"--version"};
  // The line may be one that the parser refuses.
  const bool json = std::find(words.begin(), words.end(), "--json") != words.end();
  // CLI11 takes the words from the last one to the first.
  std::reverse(words.begin(), words.end());
  // CLI11 reports help and errors by an exception, which is caught here.
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& help) {
    std::ostringstream out;
    app.exit(help, out);
    Print(out.str());
    return kDone;
  } catch (const CLI::ParseError& error) {
    return BadUsage(json, UsageErrorText(app, error.what()));
  }
  absl::StatusOr<Invocation> invocation = Read(global_options, leaves);
  if (!invocation.ok()) {
    return BadUsage(json, invocation.status().message());
  }
  if (!invocation->settings.no_colours) UseColours();
  return *std::move(invocation);
}

}  // namespace duetime::cli
