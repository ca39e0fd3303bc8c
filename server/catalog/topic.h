// SPDX-License-Identifier: Apache-2.0
//
// Topics and subscriptions in a snapshot of the catalog.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

#include "server/protocol/settings.h"
#include "server/protocol/subscription_state.h"
#include "server/protocol/topic_pace.h"
#include "server/protocol/topic_quota.h"
#include "server/protocol/topic_use.h"
#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::catalog {

// The default name of a dead-letter topic is the topic's name with this suffix.
inline constexpr absl::string_view kDeadLetterSuffix = ".dlq";
inline constexpr size_t kTopicBytesMax = 255;

using protocol::TopicSettings;
using protocol::TopicUse;

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
  // Not null since a deletion began. The shards have it until they hear that the topic is live.
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
