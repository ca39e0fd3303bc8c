// SPDX-License-Identifier: Apache-2.0
//
// LogWriter: writes log lines from a thread of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"

namespace duetime::runtime {

// Writes lines to a file descriptor in the order of Add, so that a reader that stalls stops no
// other thread. Keeps at most `bytes_max` bytes that wait, and as many that are being written.
// Drops and counts further lines. Once there is room again, it writes a line that says how many
// were lost.
//
// Thread safety: the owner calls Close; any thread may call the other functions.
class LogWriter {
 public:
  using Notice = std::function<std::string(uint64_t lost)>;

  struct Options {
    int fd = -1;
    size_t bytes_max = 0;
    // How long Close waits for a reader that stalls.
    std::chrono::milliseconds close_timeout{1'000};
  };

  // `notice` makes the line about lost lines, with its newline. The writer's thread calls it.
  LogWriter(const Options& options, Notice notice);
  ~LogWriter() { Close(); }
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // Adds a line with its newline. Never waits for the reader.
  void Add(absl::string_view line);

  // Waits until every line is written. Returns false on a timeout.
  bool Flush(std::chrono::milliseconds timeout);

  // Writes what waits, and drops lines that come later. After the timeout, drops what still waits
  // and leaves the thread behind, because no call ends a blocked write. The thread then uses
  // nothing but the descriptor. Idempotent, but for one thread.
  void Close();

  // The lines that were dropped or could not be written.
  uint64_t lost() const;

 private:
  struct State;

  const std::shared_ptr<State> state_;
  const std::chrono::milliseconds close_timeout_;
  std::thread thread_;
};

}  // namespace duetime::runtime
