// SPDX-License-Identifier: Apache-2.0
//
// Command: a command of the tool as a row of a table.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/message.h"

#include "client/cli/row.h"
#include "client/cli/time_text.h"
#include "client/cpp/channel.h"

namespace duetime::cli {

// The exit codes of the program. --help lists them.
enum ExitCode : int {
  kDone = 0,
  // The server refused the request, or failed.
  kRefused = 1,
  kBadUsage = 2,
  // The resource does not exist, or its state does not allow the command: see --help.
  kNotAsWished = 3,
  // There was no server, or no answer in time. The server may have executed the request.
  kNoAnswer = 4,
  // Standard output could not be written. The server may have executed the request.
  kNotWritten = 5,
  // SIGINT ended a command that was at work.
  kInterrupted = 130,

  // doctor --quiet, as health checks expect.
  kDoctorWarning = 1,
  kDoctorBad = 2,
};

// The most tries of a call. Few, so that a person soon sees that no server answers.
inline constexpr int kTriesMax = 4;

// The options that every command takes.
struct Settings {
  client::ServerAddress server;
  bool json = false;
  bool no_colours = false;
  absl::Duration deadline = absl::Seconds(10);
  // The zone of the times that the text output shows, and of those that options give without an
  // offset.
  absl::TimeZone zone;
  // As in LocalZone.
  std::string unknown_tz;

  LocalZone local() const { return {zone, unknown_tz}; }
};

// The parsed command line of a command.
struct Input {
  // Null if the command has no request.
  std::unique_ptr<Message> request;
  // The request fields that the command line sets, except the fields of key rows.
  google::protobuf::FieldMask given;
  // The values of options without a field, by the name of the option.
  std::map<std::string, Names> values;

  bool Has(const std::string& option) const { return values.count(option) > 0; }
  // The value of an option; empty, zero or absent if the command line does not give it.
  std::string Text(const std::string& option) const;
  Names List(const std::string& option) const;
  int64_t Number(const std::string& option) const;
  std::optional<absl::Duration> Duration(const std::string& option) const;

  template <typename Request>
  const Request& As() const {
    return static_cast<const Request&>(*request);
  }
  template <typename Request>
  Request* Mutable() {
    return static_cast<Request*>(request.get());
  }
};

// The work of a command.
struct Action {
  // The type of the request; null if there is none.
  const Message* request = nullptr;
  // Talks to the server, prints the result by Print and errors to stderr. What the result confirms,
  // such as a received message or a new token, counts only once it is written. Empty: the command
  // only groups others.
  std::function<ExitCode(const Settings&, const Input&)> run{};
  // Completes the input where rows do not suffice. INVALID_ARGUMENT with a text for people if the
  // options contradict each other.
  std::function<absl::Status(const Settings&, Input*)> complete{};

  // Adds a step to the completion: a function of the input, or of the settings and the input. It
  // may return nothing if it cannot fail.
  template <typename Step>
  Action After(Step step) const {
    Action action = *this;
    action.complete = [first = complete, step](const Settings& settings, Input* input) {
      absl::Status status = first ? first(settings, input) : absl::OkStatus();
      if (!status.ok()) return status;
      if constexpr (std::is_invocable_v<Step, const Settings&, Input*>) {
        return step(settings, input);
      } else if constexpr (std::is_void_v<std::invoke_result_t<Step, Input*>>) {
        step(input);
        return status;
      } else {
        return step(input);
      }
    };
    return action;
  }
};

struct Command {
  // The words of the command: "topic create".
  std::string words;
  std::string help;
  // Printed below the options: a note, and examples without "duetime" and the words.
  std::string note;
  Names examples;
  Rows rows{};
  Action action{};
  bool needs_server = true;
};
using Commands = std::vector<Command>;

// All commands, in the order of --help. Each group stands before its commands.
const Commands& AllCommands();

// A command line that can be run.
struct Invocation {
  Settings settings;
  const Command* command = nullptr;
  Input input{};

  ExitCode Run() const { return command->action.run(settings, input); }
};

// Reads the command line, the environment, the context, and the file or standard input of a
// payload. If there is nothing to run, prints help or a one-line error and returns the exit code
// instead.
std::variant<Invocation, ExitCode> ParseArguments(int argc, const char* const* argv);

}  // namespace duetime::cli
