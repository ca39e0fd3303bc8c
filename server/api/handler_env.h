// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "server/api/reply_table.h"
#include "server/api/serving_context.h"

namespace duetime::api {

// The parts of an ApiWorker that SubscriptionChanges uses.
struct HandlerEnv {
  ServingContext* context = nullptr;
  ReplyTable* replies = nullptr;
  // Runs a task on the worker's thread, soon. May be called by any thread; the task is dropped once
  // the worker has ended.
  std::function<void(std::function<void()>)> run_here;
};

}  // namespace duetime::api
