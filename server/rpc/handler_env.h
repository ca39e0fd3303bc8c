// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "server/rpc/serving_context.h"

namespace duetime::rpc {

// What handlers need of the worker that they work for.
struct HandlerEnv {
  ServingContext* context = nullptr;
  // Runs a task on the worker's thread, soon. May be called by any thread; the task is dropped once
  // the worker has ended.
  std::function<void(std::function<void()>)> run_here;
};

}  // namespace duetime::rpc
