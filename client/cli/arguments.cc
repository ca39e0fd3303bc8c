// SPDX-License-Identifier: Apache-2.0
#include "client/cli/arguments.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "client/cli/time_text.h"

namespace duetime::cli {
namespace {

// The command line as text, before it is understood.
struct RawArguments {
  Settings settings;
  std::string deadline = "10s";
  std::string topic;
  std::string id;
  std::optional<std::string> payload;
  std::string file;
  std::string in;
  std::string at;
  std::string zone;
  std::vector<std::string> attributes;
  int64_t count = 1;
  bool stop_redelivery = false;
  bool full = false;
  bool ack = false;
  bool no_ack = false;
  std::string nack;
  int64_t messages_max = 0;
  std::string time_max;
  int credit = 0;
  std::string lease;
  bool quiet = false;
};

constexpr char kFooter[] = R"(
The first steps, with a server on this machine:
  duetime schedule greetings "hello in five seconds" --in 5s
  duetime subscribe greetings

Exit codes:
  0  done
  1  the server refused the request, or failed; the reason is on stderr
  2  the command line is wrong
  3  cancel: the message was not cancelled; get: there is no such message;
     subscribe: --for ran out before --max messages came
  4  no server, or no answer in time: what was asked for may have happened

With --json, each result is one JSON object on one line of stdout, and an
error is one on stderr.)";

void AddGlobal(CLI::App* app, RawArguments* raw) {
  app->add_option("--server", raw->settings.server.target,
                  "The server: host:port, or unix:/path/to.sock")
      ->envname("DUETIME_SERVER")
      ->capture_default_str();
  app->add_option("--tls-ca", raw->settings.server.tls_ca_file,
                  "Use TLS, and trust the servers these certificates (PEM) vouch for");
  app->add_option("--tls-cert", raw->settings.server.tls_cert_file,
                  "Use TLS, and show this certificate (PEM)");
  app->add_option("--tls-key", raw->settings.server.tls_key_file, "The key of --tls-cert (PEM)");
  app->add_option("--timeout", raw->deadline, "Wait this long for an answer")
      ->capture_default_str();
  app->add_flag("--json", raw->settings.json, "Print JSON, for scripts");
}

void AddSchedule(CLI::App* app, RawArguments* raw) {
  CLI::App* command = app->add_subcommand("schedule", "Schedule a message for a time");
  command->add_option("TOPIC", raw->topic, "Where subscribers find it")->required();
  CLI::Option* payload = command->add_option(
      "PAYLOAD", raw->payload, "What to deliver; - reads it from standard input; default empty");
  command->add_option("--file", raw->file, "Deliver what is in this file")->excludes(payload);
  CLI::Option_group* when = command->add_option_group("Time (one of the two)");
  when->add_option("--in", raw->in, "Deliver this long from now: 90s, 1h30m, 2d, 1w, 500ms");
  CLI::Option* at = when->add_option(
      "--at", raw->at, "Deliver at this time: \"2026-12-24 18:00\" or 2026-12-24T18:00:00+08:00");
  when->require_option(1);
  command
      ->add_option("--tz", raw->zone,
                   "The time zone of --at, such as Asia/Shanghai; default this machine's")
      ->needs(at);
  command->add_option("--attr", raw->attributes, "An attribute, KEY=VALUE; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--count", raw->count, "Schedule the same message this often (to try out load)")
      ->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}))
      ->capture_default_str();
  command->footer(
      "\nPrints the id by which the message can be cancelled. A time in the past is due at once."
      "\n\nExamples:"
      "\n  duetime schedule orders '{\"order\": 17}' --in 30m --attr kind=reminder"
      "\n  duetime schedule greetings \"good evening\" --at \"2026-12-24 18:00\" --tz Asia/Shanghai"
      "\n  duetime schedule reports --file report.pdf --at 2026-12-24T18:00:00Z");
}

void AddCancel(CLI::App* app, RawArguments* raw) {
  CLI::App* command = app->add_subcommand("cancel", "Cancel a message, and say what became of it");
  command->add_option("ID", raw->id, "The id that schedule printed")->required();
  command->add_flag("--stop-redelivery", raw->stop_redelivery,
                    "If it was delivered already and not settled: end it all the same");
  command->footer(
      "\nExit code 0 means: it was never delivered and never will be. Anything else that was found "
      "is printed,\nwith exit code 3."
      "\n\nExample:\n  duetime cancel 0g1yay0000000000g9r8cwx3v4");
}

void AddGet(CLI::App* app, RawArguments* raw) {
  CLI::App* command = app->add_subcommand("get", "Show a message that has not ended");
  command->add_option("ID", raw->id, "The id that schedule printed")->required();
  command->add_flag("--full", raw->full, "Show payload and attributes too");
  command->footer("\nExample:\n  duetime get 0g1yay0000000000g9r8cwx3v4 --full");
}

void AddSubscribe(CLI::App* app, RawArguments* raw) {
  CLI::App* command =
      app->add_subcommand("subscribe", "Receive messages as they become due, and print them");
  command->add_option("TOPIC", raw->topic, "What schedule named")->required();
  CLI::App* settle = command->add_option_group("What to answer (at most one)");
  settle->add_flag("--ack", raw->ack, "Acknowledge each once it is printed (the default)");
  settle->add_flag("--no-ack", raw->no_ack, "Answer nothing: each comes again when its lease ends");
  settle->add_option("--nack", raw->nack, "Give each back, to come again after this long: 10s");
  settle->require_option(0, 1);
  command->add_option("--max", raw->messages_max, "Stop after this many messages")
      ->check(CLI::Range(int64_t{1}, INT64_MAX));
  command->add_option("--for", raw->time_max, "Stop after this long: 90s, 1h");
  command
      ->add_option("--credit", raw->credit,
                   "Hold at most this many unanswered messages (default: the server's, 1000)")
      ->check(CLI::Range(1, INT32_MAX));
  command->add_option("--lease", raw->lease,
                      "How long an unanswered message is kept from others (default: the server's, "
                      "30s)");
  command->add_flag("--quiet", raw->quiet, "Print only the totals at the end");
  command->footer(
      "\nEach line shows when the message came, its id, the attempt, how late the server handed it "
      "over, and\nthe payload. Ends with Ctrl-C; reconnects by itself. Totals are on stderr."
      "\n\nExamples:"
      "\n  duetime subscribe orders"
      "\n  duetime subscribe orders --max 10 --for 1m --json"
      "\n  duetime subscribe orders --no-ack --lease 5s");
}

void AddInfo(CLI::App* app) {
  CLI::App* command =
      app->add_subcommand("info", "Show the server's version, state, counts and limits");
  command->footer("\nExample:\n  duetime info --server 10.0.0.7:7788 --tls-ca ca.pem");
}

absl::StatusOr<std::string> ReadPayload(const RawArguments& raw) {
  std::ostringstream bytes;
  if (!raw.file.empty()) {
    std::ifstream in(raw.file, std::ios::binary);
    // peek() finds what can be opened but not read, such as a directory. Nothing to read is no
    // error.
    in.peek();
    if (in.good()) bytes << in.rdbuf();
    if (!in.is_open() || in.bad() || bytes.bad())
      return absl::InvalidArgumentError("cannot read the file " + raw.file);
    return bytes.str();
  }
  if (raw.payload.value_or("") != "-") return raw.payload.value_or("");
  bytes << std::cin.rdbuf();
  if (bytes.bad()) return absl::InvalidArgumentError("cannot read standard input");
  return bytes.str();
}

absl::StatusOr<ScheduleArguments> ReadSchedule(const RawArguments& raw) {
  ScheduleArguments arguments;
  arguments.topic = raw.topic;
  arguments.count = raw.count;
  absl::StatusOr<std::string> payload = ReadPayload(raw);
  if (!payload.ok()) return payload.status();
  arguments.payload = *std::move(payload);
  for (const std::string& attribute : raw.attributes) {
    const size_t equals = attribute.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", attribute, "\" is no attribute: write --attr KEY=VALUE"));
    }
    if (!arguments.attributes.emplace(attribute.substr(0, equals), attribute.substr(equals + 1))
             .second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the attribute ", attribute.substr(0, equals), " is given twice"));
    }
  }
  if (raw.at.empty()) {
    const absl::StatusOr<absl::Duration> delay = ParseDurationText(raw.in);
    if (!delay.ok()) return delay.status();
    arguments.when = *delay;
    return arguments;
  }
  std::optional<absl::TimeZone> zone;
  if (!raw.zone.empty()) {
    const absl::StatusOr<absl::TimeZone> named = ParseTimeZone(raw.zone);
    if (!named.ok()) return named.status();
    zone = *named;
  }
  const absl::StatusOr<absl::Time> time = ParseTimeText(raw.at, zone, absl::LocalTimeZone());
  if (!time.ok()) return time.status();
  arguments.when = *time;
  return arguments;
}

// Reads `text` into `duration` unless it is empty.
absl::Status ReadOptional(const std::string& text, std::optional<absl::Duration>* duration) {
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<absl::Duration> read = ParseDurationText(text);
  if (read.ok()) *duration = *read;
  return read.status();
}

absl::StatusOr<SubscribeArguments> ReadSubscribe(const RawArguments& raw) {
  SubscribeArguments arguments;
  arguments.topic = raw.topic;
  arguments.credit = raw.credit;
  arguments.quiet = raw.quiet;
  if (raw.messages_max > 0) arguments.messages_max = raw.messages_max;
  std::optional<absl::Duration> nack;
  std::optional<absl::Duration> lease;
  for (const absl::Status& status :
       {ReadOptional(raw.time_max, &arguments.time_max), ReadOptional(raw.nack, &nack),
        ReadOptional(raw.lease, &lease)}) {
    if (!status.ok()) return status;
  }
  if (nack.has_value()) arguments.settlement = client::Settlement::Nack(*nack);
  if (raw.no_ack) arguments.settlement = client::Settlement::Leave();
  arguments.lease = lease.value_or(absl::ZeroDuration());
  return arguments;
}

absl::StatusOr<Arguments> Read(const std::string& command, const RawArguments& raw) {
  Arguments arguments{.settings = raw.settings, .command = InfoArguments{}};
  arguments.settings.zone = absl::LocalTimeZone();
  const absl::StatusOr<absl::Duration> deadline = ParseDurationText(raw.deadline);
  if (!deadline.ok()) return deadline.status();
  arguments.settings.deadline = *deadline;
  if (command == "schedule") {
    auto schedule = ReadSchedule(raw);
    if (!schedule.ok()) return schedule.status();
    arguments.command = *std::move(schedule);
  } else if (command == "cancel") {
    arguments.command = CancelArguments{.id = raw.id, .stop_redelivery = raw.stop_redelivery};
  } else if (command == "get") {
    arguments.command = GetArguments{.id = raw.id, .full = raw.full};
  } else if (command == "subscribe") {
    auto subscribe = ReadSubscribe(raw);
    if (!subscribe.ok()) return subscribe.status();
    arguments.command = *std::move(subscribe);
  }
  return arguments;
}

}  // namespace

std::variant<Arguments, ExitCode> ParseArguments(int argc, const char* const* argv) {
  RawArguments raw;
  CLI::App app("duetime: messages that are delivered at their time", "duetime");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", DUETIME_VERSION);
  app.footer(kFooter);
  AddGlobal(&app, &raw);
  AddSchedule(&app, &raw);
  AddCancel(&app, &raw);
  AddGet(&app, &raw);
  AddSubscribe(&app, &raw);
  AddInfo(&app);
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
  absl::StatusOr<Arguments> arguments = Read(app.get_subcommands().front()->get_name(), raw);
  if (!arguments.ok()) {
    std::fprintf(stderr, "duetime: %s\n", std::string(arguments.status().message()).c_str());
    return kBadUsage;
  }
  return *std::move(arguments);
}

}  // namespace duetime::cli
