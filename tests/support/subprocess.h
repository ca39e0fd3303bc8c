// SPDX-License-Identifier: Apache-2.0
//
// Runs a test's programs: starts them by path, waits by pid, and never leaves one behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace duetime::test {

using Millis = std::chrono::milliseconds;

// How a program ended.
struct ExitStatus {
  // The exit code, or -1 if a signal ended it.
  int code = -1;
  // The signal, or 0.
  int signal = 0;
};

// One run of a program, with its output in a file. The destructor kills the program. The kernel
// kills it if the thread that started it dies.
class Subprocess {
 public:
  // Runs `argv[0]` with these arguments and the environment of the test plus `environment`; stdout
  // and stderr are appended to `output_path`. Standard input is empty.
  Subprocess(const std::vector<std::string>& argv, const std::string& output_path,
             const std::vector<std::pair<std::string, std::string>>& environment = {});
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  bool running() { return !Wait(Millis(0)).has_value(); }

  // Sends the signal to this process only. Does nothing if the process has ended.
  void Signal(int signal);

  // Waits at most `timeout` for the end. Returns nullopt on a timeout.
  std::optional<ExitStatus> Wait(Millis timeout);

 private:
  pid_t pid_ = -1;
  int pidfd_ = -1;
  std::optional<ExitStatus> ended_;
};

// The resident memory of a process, in bytes; 0 if it has ended.
uint64_t ResidentBytes(pid_t pid);
// The most resident memory that the process has had so far.
uint64_t PeakResidentBytes(pid_t pid);

// The result of a program that ran to its end.
struct RunResult {
  ExitStatus exit;
  std::string out;
  std::string err;
};

// Runs a program with `input` on its standard input until it ends; kills it after `timeout` (then
// exit.signal is 9).
RunResult RunProgram(const std::vector<std::string>& argv, const std::string& input = "",
                     Millis timeout = Millis(30'000),
                     const std::vector<std::pair<std::string, std::string>>& environment = {});

// Reads a whole file. Returns "" if it cannot be read.
std::string ReadWholeFile(const std::string& path);

}  // namespace duetime::test
