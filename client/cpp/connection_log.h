// SPDX-License-Identifier: Apache-2.0
//
// ConnectionLog: what a subscriber logs about its connection. Internal to the client library.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "absl/base/log_severity.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "server/base/mutex.h"

namespace duetime::client {

// Decides what to log. Each change is logged once: connected, cannot reach, lost, back, refused.
// While nothing changes, or the same changes come again and again, lines come ever more rarely.
//
// It writes nothing and has no clock: the caller passes the time and writes the lines. Thread-safe.
class ConnectionLog {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  struct Line {
    absl::LogSeverity severity;
    std::string text;
  };

  // A line that would say the same is logged after the first pause, then after twice as long, and
  // so on. A stream that lived for kPause makes the next trouble a new one.
  static constexpr std::chrono::seconds kPause{60};
  static constexpr std::chrono::seconds kPauseMax{3'600};

  ConnectionLog(const std::string& topic, const std::string& server);

  // The server has opened a stream.
  std::optional<Line> OnOpened(SteadyTime now);
  // The stream has ended, or did not open, and will be opened again.
  std::optional<Line> OnEnded(SteadyTime now, const absl::Status& status);
  // The stream has neither opened nor ended for `wait`.
  std::optional<Line> OnOverdue(SteadyTime now, absl::Duration wait);
  // The server has refused the subscriber for good.
  Line OnRefused(const absl::Status& status) const;

 private:
  struct Quiet {
    SteadyTime until;
    std::chrono::seconds pause;
  };

  std::optional<Line> Fail(SteadyTime now, const char* verb, const std::string& kind,
                           const std::string& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string subscriber_;
  const std::string server_;

  base::Mutex mutex_;
  // When the open stream opened, and when the trouble began.
  std::optional<SteadyTime> opened_ ABSL_GUARDED_BY(mutex_);
  std::optional<SteadyTime> down_ ABSL_GUARDED_BY(mutex_);
  // A line about the trouble was logged.
  bool told_ ABSL_GUARDED_BY(mutex_) = false;
  // By kind of trouble.
  std::map<std::string, Quiet> quiet_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::client
