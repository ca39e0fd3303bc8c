// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionChanges: changes of subscriptions, made in all shards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/api/handler_env.h"
#include "server/api/subscriptions/subscription_registry.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"

namespace duetime::api {

// Sends a change to every shard and tells the registry when all of them have it on disk. Of one
// topic one change is under way at a time, in the whole server; others wait for their turn, each
// with the call or stream that asked for it.
//
// A change that fails in one shard is made in none that matters: it fails only when the journal has
// failed, or the server is about to end, and what some shards have of it is put in order at the
// next start (SubscriptionRegistry::Load). Thread safety: confined to the worker's thread.
class SubscriptionChanges final : public ReplySink {
 public:
  // Called on the worker's thread, once; not if the worker ends before.
  using Done = std::function<void(const absl::Status&)>;
  using Edit = std::function<absl::Status(protocol::SubscriptionSettings*)>;
  using Found = std::function<void(absl::StatusOr<SubscriptionRegistry::Subscription>)>;

  // What is to be made.
  struct Wish {
    TopicRegistry::Topic topic;
    std::string name;
    protocol::SubscriptionSettings settings;
    // Only what is accepted from now on, unless it is the first one of its topic.
    bool from_now = true;
    // One that is there will do, whatever its settings.
    bool by_use = false;
  };

  explicit SubscriptionChanges(HandlerEnv env) : env_(std::move(env)) {}
  SubscriptionChanges(const SubscriptionChanges&) = delete;
  SubscriptionChanges& operator=(const SubscriptionChanges&) = delete;

  // The subscription that a subscriber names, made if there is none and the server makes things by
  // use. `found` may be called before this returns. NOT_FOUND SUBSCRIPTION_NOT_FOUND, and as
  // Create.
  void Find(const TopicRegistry::Topic& topic, const std::string& name, Found found);

  // ALREADY_EXISTS SUBSCRIPTION_EXISTS, RESOURCE_EXHAUSTED SUBSCRIPTION_LIMIT, and what
  // ServingContext::DeadLettersOf says.
  void Create(Wish wish, Done done);
  // `edit` is called with the settings as they are when its turn has come. NOT_FOUND
  // SUBSCRIPTION_NOT_FOUND, and as above.
  void Update(const TopicRegistry::Topic& topic, const std::string& name, Edit edit, Done done);
  // NOT_FOUND SUBSCRIPTION_NOT_FOUND.
  void Delete(const TopicRegistry::Topic& topic, const std::string& name, Done done);

  // Calls `then` when no change of the topic's subscriptions is under way; others wait until
  // Release. For the deletion of a topic.
  void Reserve(storage::TopicId topic, std::function<void()> then) {
    WhenFree(topic, std::move(then));
  }
  void Release(storage::TopicId topic) { env_.context->subscriptions.End(topic); }
  // All of a topic; then it has a nameless one again. REQUIRES: it is reserved.
  void DeleteAll(storage::TopicId topic, Done done);

  void OnReply(uint16_t shard, protocol::Reply reply) override;

 private:
  // A command that not all shards have answered.
  struct Open {
    size_t shards = 0;
    absl::Status status;
    Done done;
  };

  // Calls `change` when the topic is free for it; `change` must see to Finish being called.
  void WhenFree(storage::TopicId topic, std::function<void()> change);
  void Finish(storage::TopicId topic, const absl::Status& status, const Done& done);
  void CreateNow(const Wish& wish, const Done& done);
  void UpdateNow(const TopicRegistry::Topic& topic, const std::string& name, const Edit& edit,
                 const Done& done);
  void DeleteNow(const TopicRegistry::Topic& topic, const std::string& name, const Done& done);
  // In all shards; the registry knows it then. The turn goes on.
  void DeleteEverywhere(const SubscriptionRegistry::Subscription& subscription, Done done);
  // Sees to the topics that dead letters go to, and to the names that must be on disk.
  absl::Status Complete(const TopicRegistry::Topic& topic, protocol::SubscriptionCommand* command);
  void PostToAll(const protocol::SubscriptionCommand& command, Done done);

  const HandlerEnv env_;
  absl::flat_hash_map<uint64_t, Open> open_;
};

}  // namespace duetime::api
