// SPDX-License-Identifier: Apache-2.0
//
// The daemon's log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unistd.h>

#include "server/runtime/log_writer.h"
#include "server/runtime/runtime_options.h"

namespace duetime::runtime {

// While one exists, the default logger writes lines on stderr, in UTC, through a LogWriter. A
// failed check writes out the log before it aborts. At most one exists at a time. Make it before
// threads, and after BlockSignals.
class Log {
 public:
  explicit Log(const LogOptions& options) : Log(options, STDERR_FILENO) {}
  // For tests: with another descriptor.
  Log(const LogOptions& options, int fd);
  // Writes the lines that wait. If the reader stalls, it gives up after a second. Later lines are
  // dropped.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

 private:
  // The default logger shares it, because threads of libraries may log after the end.
  const std::shared_ptr<LogWriter> writer_;
};

// The lines that were lost because the log's reader was too slow or has gone. Thread-safe.
uint64_t LogLinesLost();

// Changes the least severe level to write. Any thread may call it.
void SetLogLevel(const std::string& level);

// One log line as JSON, without a newline: {"time","level","thread","message"}. Replaces bytes that
// are not UTF-8.
std::string JsonLogLine(const std::string& time, const std::string& level, uint64_t thread,
                        const std::string& message);

}  // namespace duetime::runtime
