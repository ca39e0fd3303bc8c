// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_log.h"

#include <grpc/support/log.h>
#include <optional>
#include <spdlog/spdlog.h>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/rpc/log_throttle.h"

namespace duetime::rpc {
namespace {

struct Throttle {
  base::Mutex mutex;
  LogThrottle lines ABSL_GUARDED_BY(mutex);
};

// The dropped lines of this kind, or nothing if this line must be dropped, too.
std::optional<uint64_t> Pass(const gpr_log_func_args& args) {
  // gRPC's threads may log until the process has ended.
  static Throttle* const throttle = new Throttle;
  const uint64_t now_ms = base::ReadMicros() / 1'000;
  const base::MutexLock lock(&throttle->mutex);
  return throttle->lines.Pass(args.file, args.line, now_ms);
}

void Forward(gpr_log_func_args* args) {
  const bool error = args->severity == GPR_LOG_SEVERITY_ERROR;
  const auto level = error ? spdlog::level::warn : spdlog::level::debug;
  if (!spdlog::should_log(level)) return;
  const std::optional<uint64_t> dropped = Pass(*args);
  if (!dropped.has_value()) return;
  if (*dropped == 0) {
    spdlog::log(level, "grpc: {}", args->message);
  } else {
    spdlog::log(level, "grpc: {} ({} more from {}:{} were left out)", args->message, *dropped,
                args->file, args->line);
  }
}

}  // namespace

void ForwardGrpcLogs() { gpr_set_log_function(Forward); }

}  // namespace duetime::rpc
