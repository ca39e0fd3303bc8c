// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/connection_log.h"

#include <functional>
#include <gmock/gmock.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace duetime::client {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Matcher;
using Event =
    std::function<std::optional<ConnectionLog::Line>(ConnectionLog*, std::chrono::seconds)>;
using Events = std::vector<std::pair<int, Event>>;
using Lines = std::vector<Matcher<std::string>>;

Event Ended(const absl::Status& status) {
  return [status](ConnectionLog* log, auto second) {
    return log->OnEnded(ConnectionLog::SteadyTime() + second, status);
  };
}

std::optional<ConnectionLog::Line> Opened(ConnectionLog* log, std::chrono::seconds second) {
  return log->OnOpened(ConnectionLog::SteadyTime() + second);
}

std::optional<ConnectionLog::Line> Overdue(ConnectionLog* log, std::chrono::seconds second) {
  return log->OnOverdue(ConnectionLog::SteadyTime() + second, absl::Seconds(5));
}

std::optional<ConnectionLog::Line> Refused(ConnectionLog* log, std::chrono::seconds) {
  return log->OnRefused(absl::NotFoundError("deleted"));
}

std::string Back(int seconds) {
  return absl::StrCat("INFO the subscriber of \"t\" is back: connected to s after ", seconds, " s");
}

TEST(ConnectionLogTest, EachChangeIsLoggedOnceAndThenEverMoreRarely) {
  const Event unreachable = Ended(absl::UnavailableError("connection refused"));
  const Event reset = Ended(absl::UnavailableError("connection reset"));
  const Event full = Ended(absl::ResourceExhaustedError("too many streams"));
  const std::string connected = "INFO the subscriber of \"t\" is connected to s";
  const std::string cannot =
      "WARNING the subscriber of \"t\" cannot reach s, and tries again: UNAVAILABLE: connection "
      "refused";
  const std::string lost =
      "WARNING the subscriber of \"t\" has lost s, and tries again: UNAVAILABLE: connection reset";
  Events always;
  for (int second = 0; second < 500; ++second) always.emplace_back(second, unreachable);
  Events hours;
  for (int minute = 0; minute < 600; ++minute) hours.emplace_back(60 * minute, unreachable);
  Events flapping;
  for (int second = 0; second < 50; ++second) {
    flapping.insert(flapping.end(), {{second, Opened}, {second, reset}});
  }
  Events each_minute;
  for (const int second : {0, 120}) {
    each_minute.insert(each_minute.end(), {{second, Opened}, {second + 60, reset}});
  }
  const struct {
    const char* name;
    Events events;
    Lines lines;
  } cases[] = {
      {"a server that is well", {{0, Opened}}, {connected}},
      {"a server that was away",
       {{0, unreachable}, {1, unreachable}, {2, unreachable}, {3, Opened}},
       {cannot, Back(3)}},
      {"a restart",
       {{0, Opened}, {90, reset}, {91, unreachable}, {92, unreachable}, {95, Opened}},
       {connected, lost, cannot, Back(5)}},
      {"after 1, 3 and 7 minutes", always, Lines(4, cannot)},
      {"at most once an hour", hours, Lines(15, cannot)},
      {"the same changes again and again", flapping, {connected, lost, Back(1)}},
      {"a stream that lived for a minute", each_minute, {connected, lost, Back(60), lost}},
      {"another cause",
       {{0, unreachable}, {1, full}, {2, unreachable}, {3, full}},
       {cannot, HasSubstr("cannot reach s, and tries again: RESOURCE_EXHAUSTED: too many")}},
      {"neither stream nor error",
       {{5, Overdue}, {10, Overdue}, {70, Overdue}},
       Lines(2, HasSubstr("cannot reach s, and tries again: no server has answered for 5s"))},
      {"an open stream is not overdue", {{0, Opened}, {5, Overdue}}, {connected}},
      {"the end without an error",
       {{0, Opened}, {90, Ended(absl::OkStatus())}},
       {connected, HasSubstr("has lost s, and tries again: the server ended the stream")}},
      {"refused",
       {{0, Refused}},
       {"ERROR the subscriber of \"t\" ends, because s refused it: NOT_FOUND: deleted"}},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    ConnectionLog log("t", "s");
    std::vector<std::string> lines;
    for (const auto& [second, event] : test.events) {
      const auto line = event(&log, std::chrono::seconds(second));
      if (!line.has_value()) continue;
      lines.push_back(absl::StrCat(absl::LogSeverityName(line->severity), " ", line->text));
    }
    EXPECT_THAT(lines, ElementsAreArray(test.lines));
  }
}

}  // namespace
}  // namespace duetime::client
