// SPDX-License-Identifier: Apache-2.0
//
// duetime: the command line tool.
#include <variant>

#include "absl/synchronization/mutex.h"

#include "client/cli/command.h"

int main(int argc, char** argv) {
  // gRPC uses absl::Mutex. Debian's build of it looks for lock cycles under a process-wide lock,
  // and aborts when it believes to have found one.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const auto parsed = duetime::cli::ParseArguments(argc, argv);
  if (const auto* exit_code = std::get_if<duetime::cli::ExitCode>(&parsed)) return *exit_code;
  return std::get<duetime::cli::Invocation>(parsed).Run();
}
