// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionHandlers: subscriptions as resources.
#pragma once

#include <utility>

#include "server/delivery/commands.h"
#include "server/rpc/handler_env.h"
#include "server/rpc/subscription_changes.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// CreateSubscription, GetSubscription, ListSubscriptions, UpdateSubscription, DeleteSubscription.
// Thread safety: confined to the worker's thread.
class SubscriptionHandlers {
 public:
  // REQUIRES: `changes` outlives it.
  SubscriptionHandlers(HandlerEnv env, SubscriptionChanges* changes)
      : env_(std::move(env)), changes_(changes) {}
  SubscriptionHandlers(const SubscriptionHandlers&) = delete;
  SubscriptionHandlers& operator=(const SubscriptionHandlers&) = delete;

  void Create(UnaryCall* call);
  void Get(UnaryCall* call);
  void List(UnaryCall* call);
  void Update(UnaryCall* call);
  void Delete(UnaryCall* call);

  void OnInspectReply(UnaryCall* call, const delivery::InspectSubscriptionReply& reply);

 private:
  // Answers a change with what the registry says of the subscription then.
  template <typename Response>
  SubscriptionChanges::Done AnswerWith(UnaryCall* call, const TopicRegistry::Topic& topic,
                                       const std::string& name);

  const HandlerEnv env_;
  SubscriptionChanges* const changes_;
};

}  // namespace duetime::rpc
