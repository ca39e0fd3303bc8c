// SPDX-License-Identifier: Apache-2.0
//
// TopicHandlers: topics as resources.
#pragma once

#include <utility>

#include "server/delivery/commands.h"
#include "server/rpc/handler_env.h"
#include "server/rpc/operation_handlers.h"
#include "server/rpc/subscription_changes.h"
#include "server/rpc/topic_settings.h"
#include "server/rpc/unary_call.h"

namespace duetime::rpc {

// CreateTopic, GetTopic, ListTopics, UpdateTopic, DeleteTopic. What is stored of a topic is an
// object of shard 0; the registry knows it, too, from the moment when it is on disk. A change is
// answered when every shard knows it, so that it holds for whatever is asked after the answer. One
// change of a topic is under way at a time.
//
// A topic that has a message is never hidden: a topic that is to be deleted is watched by every
// shard from the moment when it says that it has nothing of it, and a message that comes until the
// deletion is on disk makes it void; one that comes later brings the topic back. Thread safety:
// confined to the worker's thread.
class TopicHandlers {
 public:
  // REQUIRES: `operations` and `changes` outlive it.
  TopicHandlers(HandlerEnv env, OperationHandlers* operations, SubscriptionChanges* changes)
      : env_(std::move(env)), operations_(operations), changes_(changes) {}
  TopicHandlers(const TopicHandlers&) = delete;
  TopicHandlers& operator=(const TopicHandlers&) = delete;

  void Create(UnaryCall* call);
  void Get(UnaryCall* call);
  void List(UnaryCall* call);
  void Update(UnaryCall* call);
  void Delete(UnaryCall* call);
  // PauseTopic and ResumeTopic.
  void SetPaused(UnaryCall* call);

  void OnObjectReply(UnaryCall* call, const delivery::ObjectReply& reply);
  void OnTopicReply(UnaryCall* call, const delivery::TopicReply& reply);

 private:
  struct ChangeState;

  // Begins a change; null if the call was answered. REQUIRES: the name is known.
  ChangeState* Begin(UnaryCall* call, const std::string& name);
  // Writes the object, and then tells the shards.
  void Write(UnaryCall* call);
  void OnDeleteCounted(UnaryCall* call);
  // Its subscriptions go with a topic that is gone.
  void DeleteSubscriptions(UnaryCall* call);
  void Answer(UnaryCall* call);

  const HandlerEnv env_;
  OperationHandlers* const operations_;
  SubscriptionChanges* const changes_;
};

}  // namespace duetime::rpc
