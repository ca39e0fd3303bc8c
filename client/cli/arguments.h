// SPDX-License-Identifier: Apache-2.0
//
// The command line, understood.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"

#include "client/channel.h"
#include "client/subscriber.h"

namespace duetime::cli {

// How the program ends. Listed in --help.
enum ExitCode : int {
  kDone = 0,
  // The server refused the request, or failed.
  kRefused = 1,
  kBadUsage = 2,
  // cancel: not cancelled; get: no such message; subscribe: --for ran out before --max came.
  kNotAsWished = 3,
  // No server, or no answer in time: what was asked for may have happened.
  kNoAnswer = 4,
};

// What every command takes.
struct Settings {
  client::ServerAddress server;
  bool json = false;
  absl::Duration deadline = absl::Seconds(10);
  // In which people read times.
  absl::TimeZone zone;
};

struct ScheduleArguments {
  std::string topic;
  std::string payload;
  std::map<std::string, std::string> attributes;
  std::variant<absl::Duration, absl::Time> when;
  int64_t count = 1;
};

struct CancelArguments {
  std::string id;
  bool stop_redelivery = false;
};

struct GetArguments {
  std::string id;
  bool full = false;
};

struct SubscribeArguments {
  std::string topic;
  client::Settlement settlement;
  // Absent: without end.
  std::optional<int64_t> messages_max;
  std::optional<absl::Duration> time_max;
  // Zero: the server's default.
  int credit = 0;
  absl::Duration lease;
  bool quiet = false;
};

struct InfoArguments {};

struct Arguments {
  Settings settings;
  std::variant<ScheduleArguments, CancelArguments, GetArguments, SubscribeArguments, InfoArguments>
      command;
};

// Reads the command line and DUETIME_SERVER; for `schedule`, the payload's file or standard input
// too. If there is nothing to run, help or one line of complaint is printed and the exit code
// returned instead.
std::variant<Arguments, ExitCode> ParseArguments(int argc, const char* const* argv);

}  // namespace duetime::cli
