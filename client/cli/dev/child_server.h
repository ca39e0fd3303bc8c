// SPDX-License-Identifier: Apache-2.0
//
// ChildServer: a duetimed that runs as a child of this program and ends with it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/cli/row.h"
#include "client/cli/terminal/signals.h"

namespace duetime::cli {

// The path of the program `name`: beside this program, at its place in a build, or in PATH. Empty
// if it is in none of them.
std::string FindProgram(const std::string& name);

// The kernel ends the child with this program, in whatever way it ends. Used by one thread: the one
// that made it, because the child also ends with that thread.
class ChildServer {
 public:
  // Starts `program` with `flags`. UNAVAILABLE if the system has no room for a process.
  static absl::StatusOr<std::unique_ptr<ChildServer>> Start(const std::string& program,
                                                            const Names& flags);
  // Kills the child if it still runs.
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  // Reads the log. Returns the exit code once the child has ended: 128 and the number of the signal
  // if a signal ended it, as with shells.
  std::optional<int> Look();
  // Waits until the child serves. Returns its exit code if it ends before, or if a signal comes.
  std::optional<int> WaitUntilReady(Signals* signals);
  // Asks the child to end, and waits for it. A signal meanwhile kills it. Returns the exit code.
  int Stop(Signals* signals);

  // The value of NAME=VALUE in the line of the log that says that the child serves.
  std::string ReadyValue(absl::string_view name) const;
  // The end of the log, with an indent.
  std::string LastLines() const;

 private:
  ChildServer(pid_t pid, int log) : pid_(pid), log_(log) {}

  const pid_t pid_;
  const int log_;
  std::optional<int> exit_code_;
  std::string line_;
  std::deque<std::string> lines_;
  std::string ready_;
};

}  // namespace duetime::cli
