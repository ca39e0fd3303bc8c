// SPDX-License-Identifier: Apache-2.0
//
// duetime: the command line tool.
#include <variant>

#include "absl/synchronization/mutex.h"

#include "client/cli/command.h"
#include "client/cli/show.h"
#include "server/base/standard_output.h"

int main(int argc, char** argv) {
  duetime::base::PrepareOutput();
  // gRPC uses absl::Mutex. Debian's build of it looks for lock cycles under a process-wide lock,
  // and aborts when it believes to have found one.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  const auto parsed = duetime::cli::ParseArguments(argc, argv);
  const auto* invocation = std::get_if<duetime::cli::Invocation>(&parsed);
  const duetime::cli::ExitCode code =
      invocation != nullptr ? invocation->Run() : std::get<duetime::cli::ExitCode>(parsed);
  return duetime::cli::EndOutput(invocation != nullptr && invocation->settings.json, code);
}
