// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "client/cli/colour.h"
#include "client/cli/command.h"
#include "client/cli/commands.h"
#include "client/cli/console/console.h"
#include "client/cli/options.h"
#include "client/cli/text.h"
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
     import: some lines were refused; commands with --wait: the operation
     failed or was stopped; doctor: something is bad
  4  no server, or no answer in time: the server may have done the work
  130  ended by Ctrl-C during a long work; the last line says how far it is

With --json, each result is the server's answer in proto3 JSON, as one line
of stdout, and an error is one line of stderr. Fields are named as in the
protos; payloads are base64, 64-bit numbers are strings.)";

void AddGlobal(CLI::App* app, Settings* settings, std::string* deadline) {
  app->add_option("--server", settings->server.target,
                  "The server: host:port, or unix:/path/to.sock; the usual port is 7788")
      ->envname("DUETIME_SERVER")
      ->capture_default_str();
  app->add_option("--tls-ca", settings->server.tls_ca_file,
                  "Use TLS, and trust the servers that these certificates (PEM) vouch for");
  app->add_option("--tls-cert", settings->server.tls_cert_file,
                  "Use TLS, and show this certificate (PEM)");
  app->add_option("--tls-key", settings->server.tls_key_file, "The key of --tls-cert (PEM)");
  app->add_option("--timeout", *deadline, "Wait this long for an answer")->capture_default_str();
  app->add_flag("--json", settings->json, "Print JSON, for scripts");
  app->add_flag("--no-color,--no-colour", settings->no_colours,
                "Print no colours; so does NO_COLOR=1");
}

// All commands, in the order of --help. Each group stands before its commands.
const Commands& AllCommands() {
  static const auto& commands = *new Commands([] {
    Commands all;
    for (const Commands& some :
         {MessageCommands(), Commands{ImportCommand(), ExportCommand()}, ReceiveCommands(),
          ServerCommands(), Commands{DoctorCommand(), TopCommand()}, OperationCommands(),
          RecurrenceCommands(), TopicCommands(), SubscriptionCommands(),
          Commands{ConsoleCommand()}}) {
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

// The number of letters to change, add or leave out so that one word becomes the other, or two
// neighbours to exchange (optimal string alignment).
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min(
          {d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

// The word that no command of `app` has, if there is one, and the command that it resembles most.
std::string MistypedText(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  const CLI::App* group = &app;
  while (!group->get_subcommands().empty()) group = group->get_subcommands().front();
  const std::vector<const CLI::App*> commands =
      group->get_subcommands([](const CLI::App*) { return true; });
  if (rest.empty() || commands.empty()) return "";
  std::string text = absl::StrCat("there is no command \"", Printable(rest.front(), 100), "\"");
  constexpr size_t kDistanceMax = 2;
  const auto distance = [&rest](const CLI::App* one) {
    return Distance(one->get_name(), rest.front());
  };
  const CLI::App* const closest = *std::min_element(
      commands.begin(), commands.end(),
      [&](const CLI::App* a, const CLI::App* b) { return distance(a) < distance(b); });
  if (distance(closest) > kDistanceMax) return text;
  return absl::StrCat(text, "; did you mean \"", closest->get_name(), "\"?");
}

// Completes the address of a server as people write it: "localhost" means its usual port.
absl::Status CompleteTarget(std::string* target) {
  // ":7788"
  const std::string usual = client::ServerAddress().target;
  const std::string port = usual.substr(usual.rfind(':'));
  if (absl::StartsWith(*target, "https://")) {
    return absl::InvalidArgumentError(
        "--server is host:port; for TLS give --tls-ca, and leave https:// out");
  }
  absl::string_view host = *target;
  if (absl::ConsumePrefix(&host, "http://")) absl::ConsumeSuffix(&host, "/");
  // unix:/path, dns:///name and others are addresses of gRPC.
  if (absl::StrContains(host, '/')) {
    if (host.size() == target->size()) return absl::OkStatus();
    return absl::InvalidArgumentError("--server is host:port, without a path");
  }
  const auto colons = std::count(host.begin(), host.end(), ':');
  const bool ipv6 =
      colons > 1 && host.find_first_not_of("0123456789abcdefABCDEF:.") == absl::string_view::npos;
  if (ipv6) {
    *target = absl::StrCat("[", host, "]", port);
  } else if (!host.empty() && (colons == 0 || absl::EndsWith(host, "]"))) {
    *target = absl::StrCat(host, port);
  } else {
    *target = std::string(host);
  }
  return absl::OkStatus();
}

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
    const std::string mistyped = MistypedText(app);
    std::fprintf(stderr, "duetime: %s (see duetime --help)\n",
                 mistyped.empty() ? error.what() : mistyped.c_str());
    return kBadUsage;
  }
  if (const absl::Status status = CompleteTarget(&settings.server.target); !status.ok()) {
    std::fprintf(stderr, "duetime: %s\n", std::string(status.message()).c_str());
    return kBadUsage;
  }
  absl::StatusOr<Invocation> invocation = Read(leaves, settings, deadline);
  if (!invocation.ok()) {
    std::fprintf(stderr, "duetime: %s\n", std::string(invocation.status().message()).c_str());
    return kBadUsage;
  }
  if (!settings.no_colours) UseColours();
  return *std::move(invocation);
}

}  // namespace duetime::cli
