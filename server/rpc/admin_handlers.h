// SPDX-License-Identifier: Apache-2.0
//
// AdminHandlers: what operators ask for.
#pragma once

#include "server/rpc/operation_handlers.h"
#include "server/rpc/subscription_changes.h"
#include "server/rpc/subscription_handlers.h"
#include "server/rpc/topic_handlers.h"

namespace duetime::rpc {

// Topics, subscriptions and bulk operations, which need each other. Thread safety: confined to the
// worker's thread.
struct AdminHandlers {
  explicit AdminHandlers(const HandlerEnv& env)
      : changes(env),
        operations(env),
        topics(env, &operations, &changes),
        subscriptions(env, &changes) {}
  AdminHandlers(const AdminHandlers&) = delete;
  AdminHandlers& operator=(const AdminHandlers&) = delete;

  SubscriptionChanges changes;
  OperationHandlers operations;
  TopicHandlers topics;
  SubscriptionHandlers subscriptions;
};

}  // namespace duetime::rpc
