// SPDX-License-Identifier: Apache-2.0
//
// Topics and subscriptions in a snapshot of the catalog.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

#include "server/protocol/settings.h"
#include "server/protocol/subscription_state.h"
#include "server/protocol/topic_pace.h"
#include "server/protocol/topic_quota.h"
#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::catalog {

// The default name of a dead-letter topic is the topic's name with this suffix.
inline constexpr absl::string_view kDeadLetterSuffix = ".dlq";
inline constexpr size_t kTopicBytesMax = 255;

using protocol::TopicSettings;

// Whether a deleted topic is in use again, or its name has ended. All versions of a topic since its
// deletion began share one object. Thread-safe. Guarantee: at most one of Use and End ever returns
// true.
class TopicUse {
 public:
  // A shard accepts a message of the topic. False: the name has ended, and the number belongs to
  // another topic.
  bool Use() { return Become(State::kUsed); }
  // Ends the name. False: the topic is in use again.
  bool End() { return Become(State::kEnded); }
  bool used() const { return state_.load() == State::kUsed; }

 private:
  enum class State : uint8_t { kUnused, kUsed, kEnded };

  bool Become(State wanted) {
    State now = State::kUnused;
    return state_.compare_exchange_strong(now, wanted) || now == wanted;
  }

  std::atomic<State> state_{State::kUnused};
};

// One version of a topic. Immutable; a change publishes a new version. The shards share the objects
// behind `quota`, `pace` and `touched`, which do change.
struct Topic {
  storage::TopicId id{};
  // All versions of a topic share the name. A view of the name is valid as long as one of them: the
  // number can get another name.
  std::shared_ptr<const std::string> name_text;
  TopicSettings settings;
  // The topic was deleted. Tombstones refer to its number. A new message makes the topic visible
  // again before this flag changes, so readers must call exists().
  bool deleted = false;
  // A message, a recurrence or an operator named the topic, not only a subscriber.
  bool used = false;
  // Another topic had the number before: the ids of this one's messages are at least this. Else 0.
  storage::MessageId first_id{};
  // The number of the dead-letter topic. 0: LiveTopics::LinkDeadLetters has not linked one yet.
  storage::TopicId dead_letters{};
  // Null if the topic never had a limit of pending messages.
  std::shared_ptr<protocol::TopicQuota> quota;
  // Null if the topic never had a rate.
  std::shared_ptr<protocol::TopicPace> pace;
  // Not null since a deletion began, while shards watch the number. When a shard accepts a message
  // of the topic, the shard's thread calls Use() before the client gets its answer, so that a topic
  // with a message is never hidden.
  std::shared_ptr<TopicUse> touched;

  absl::string_view name() const { return *name_text; }
  bool exists() const { return !deleted || (touched != nullptr && touched->used()); }
};
using TopicPtr = std::shared_ptr<const Topic>;

// Returns the name of the dead-letter topic of `topic`; empty if it would be too long.
std::string DeadLettersName(const Topic& topic);
// The same for a topic with default settings.
std::string DefaultDeadLettersName(absl::string_view topic);

// One version of a subscription. Immutable.
struct Subscription {
  storage::SubscriptionId id{};
  storage::TopicId topic{};
  std::string name;
  protocol::SubscriptionSettings settings = protocol::DefaultSubscriptionSettings();
  uint64_t create_ms = 0;
  // Distinguishes, within one run, this subscription from earlier and later subscriptions with the
  // same name and number.
  uint64_t incarnation = 0;
};
using SubscriptionPtr = std::shared_ptr<const Subscription>;

}  // namespace duetime::catalog
