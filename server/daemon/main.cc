// SPDX-License-Identifier: Apache-2.0
//
// duetimed.
#include <cstdio>
#include <optional>
#include <string>
#include <sys/stat.h>

#include "absl/synchronization/mutex.h"

#include "server/base/standard_output.h"
#include "server/config/load.h"
#include "server/daemon/gateway.h"
#include "server/daemon/into_cell.h"
#include "server/daemon/options.h"
#include "server/daemon/serve.h"
#include "server/rpc/grpc_log.h"
#include "server/runtime/logging.h"
#include "server/runtime/signals.h"

int main(int argc, char** argv) {
  duetime::base::PrepareOutput();
  // In Debian's debug build of abseil, a mutex would look for deadlocks under a process-wide lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  duetime::config::Loaded loaded = duetime::config::Load(argc, argv);
  duetime::DoOffline(&loaded);
  if (!loaded.run) {
    const bool failed = loaded.exit_code != duetime::config::ExitCode::kStopped;
    if (failed) {
      std::fputs(loaded.output.c_str(), stderr);
    } else {
      duetime::base::WriteOutput(loaded.output);
    }
    const absl::Status written = duetime::base::CloseOutput();
    if (written.ok()) return static_cast<int>(loaded.exit_code);
    std::fprintf(stderr, "duetimed: %s\n", std::string(written.message()).c_str());
    return static_cast<int>(duetime::config::ExitCode::kDiskError);
  }
  umask(0077);
  // A move into a cell may be stopped at any time.
  if (!loaded.into_cell) duetime::runtime::BlockSignals();
  const duetime::runtime::Log log(loaded.config.log);
  if (loaded.into_cell) return static_cast<int>(duetime::IntoCell(loaded.config));
  duetime::rpc::ForwardGrpcLogs();
  std::optional<duetime::config::ExitCode> exit_code;
  const duetime::Invocation invocation{.argc = argc, .argv = argv};
  if (!loaded.config.gateway.gateway_cells.empty()) {
    return static_cast<int>(duetime::ServeGateway(loaded, invocation));
  }
  while (!exit_code.has_value()) exit_code = duetime::Serve(loaded, invocation);
  return static_cast<int>(*exit_code);
}
