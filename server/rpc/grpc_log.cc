// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_log.h"

#include <grpc/support/log.h>
#include <spdlog/spdlog.h>

namespace duetime::rpc {
namespace {

void Forward(gpr_log_func_args* args) {
  const bool error = args->severity == GPR_LOG_SEVERITY_ERROR;
  spdlog::log(error ? spdlog::level::warn : spdlog::level::debug, "grpc: {}", args->message);
}

}  // namespace

void ForwardGrpcLogs() { gpr_set_log_function(Forward); }

}  // namespace duetime::rpc
