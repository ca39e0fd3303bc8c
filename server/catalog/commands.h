// SPDX-License-Identifier: Apache-2.0
//
// The inputs and outputs of the catalog: commands and effects. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "server/catalog/snapshot.h"
#include "server/catalog/topic.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "storage/types.h"

namespace duetime::catalog {

// Identifies the request that a reply answers. 0: no request waits.
enum class RequestTag : uint64_t {};

// ---- Commands of clients

// Returns the topic of this name. Creates a missing topic and revives a deleted one. NOT_FOUND
// TOPIC_NOT_FOUND if the server does not create topics by use; RESOURCE_EXHAUSTED TOPIC_LIMIT.
struct EnsureTopic {
  RequestTag tag{};
  std::string name;
  // Also sends the topic's dead-letter topic to the shards. FAILED_PRECONDITION
  // NO_DEAD_LETTER_TOPIC.
  bool dead_letters = false;
};

// ALREADY_EXISTS TOPIC_EXISTS if the topic has other settings.
struct CreateTopic {
  RequestTag tag{};
  std::string name;
  TopicSettings settings = {};
};

// NOT_FOUND TOPIC_NOT_FOUND, and any error of `edit`, which changes the current settings.
struct UpdateTopic {
  RequestTag tag{};
  std::string name;
  std::function<absl::Status(TopicSettings*)> edit;
};

// FAILED_PRECONDITION TOPIC_NOT_EMPTY if the topic has messages (Reply::messages) or recurrences
// that are not completed, ABORTED TOPIC_USED if a client used the topic before its record DELETING
// was committed. Later use creates the topic anew, and the deletion succeeds.
struct DeleteTopic {
  RequestTag tag{};
  std::string name;
};

// ALREADY_EXISTS SUBSCRIPTION_EXISTS, RESOURCE_EXHAUSTED SUBSCRIPTION_LIMIT, and the errors of
// EnsureTopic.
struct CreateSubscription {
  RequestTag tag{};
  std::string topic;
  std::string name;
  protocol::SubscriptionSettings settings = protocol::DefaultSubscriptionSettings();
  // The subscription gets only messages that are accepted from now on. No effect on the first
  // subscription of a topic.
  bool from_now = true;
  // A subscriber uses the name: an existing subscription with any settings is the answer. NOT_FOUND
  // SUBSCRIPTION_NOT_FOUND if there is none and the server does not create subscriptions by use.
  bool by_use = false;
};

// NOT_FOUND SUBSCRIPTION_NOT_FOUND, and any error of `edit`.
struct UpdateSubscription {
  RequestTag tag{};
  std::string topic;
  std::string name;
  std::function<absl::Status(protocol::SubscriptionSettings*)> edit;
};

// NOT_FOUND SUBSCRIPTION_NOT_FOUND.
struct DeleteSubscription {
  RequestTag tag{};
  std::string topic;
  std::string name;
};

// Waits for the end of recovery: the shards have applied the catalog's records, and resumed changes
// have ended.
struct AwaitRecovery {
  RequestTag tag{};
};

// ---- From the shards

// A shard accepted a message of a topic that is deleted or being deleted.
struct TopicUsed {
  storage::TopicId topic{};
};

// ---- From the catalog itself

// Continues a change of the previous run: of this subscription, or, without a name, the deletion of
// the topic.
struct Resume {
  storage::TopicId topic{};
  std::string subscription;
};

using Command = std::variant<EnsureTopic, CreateTopic, UpdateTopic, DeleteTopic, CreateSubscription,
                             UpdateSubscription, DeleteSubscription, AwaitRecovery, TopicUsed,
                             protocol::TopicReply, protocol::SubscriptionReply, Resume>;

// ---- Effects

struct Reply {
  RequestTag tag{};
  absl::Status status = {};
  // The topic after the command. Null with an error and after a deletion of the topic.
  TopicPtr topic = nullptr;
  SubscriptionPtr subscription = nullptr;
  // With TOPIC_NOT_EMPTY: the number of messages; 0 if recurrences are the reason.
  uint64_t messages = 0;
};

// A command for one shard. Commands for a shard take effect in this order.
struct ShardCommand {
  uint16_t shard = 0;
  std::variant<protocol::TopicCommand, protocol::SubscriptionCommand> command;
};

// The runtime carries out the effects in the order of the fields. Commands precede the snapshot, so
// that a message from a reader of the new version follows its commands.
struct Effects {
  std::vector<ShardCommand> commands;
  std::shared_ptr<const Snapshot> snapshot;
  std::vector<Reply> replies;
  // The journal failed. The replies answer every open request with STORAGE_FAILED.
  bool failed = false;

  bool empty() const {
    return commands.empty() && snapshot == nullptr && replies.empty() && !failed;
  }
};

}  // namespace duetime::catalog
