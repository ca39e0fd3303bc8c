// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionStarts: the subscriptions that get no message older than themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::storage {

// The value of an object of kind kSubscriptionStart: the subscription gets the messages of `topic`
// from `first` on. The name of the object is the subscription's number in eight hexadecimal digits.
struct SubscriptionStart {
  TopicId topic{};
  MessageId first;

  friend constexpr bool operator==(const SubscriptionStart&, const SubscriptionStart&) = default;
};
std::string EncodeSubscriptionStart(const SubscriptionStart& start);
std::optional<SubscriptionStart> DecodeSubscriptionStart(absl::string_view bytes);
std::optional<SubscriptionId> SubscriptionOfName(absl::string_view name);

// Says for which subscriptions a message is too old, so that the message counts as done for them as
// long as it exists.
//
// Cost: O(1) for a message of a topic without such subscriptions, else O(their number), which is
// bounded because every end of a message pays for it. Thread safety: confined to one thread.
class SubscriptionStarts {
 public:
  // The most subscriptions of a topic. For further ones, older messages are not done.
  static constexpr size_t kTopicMax = 16;

  bool empty() const { return starts_.empty(); }

  // False if the topic has too many, or the subscription is known.
  bool Add(uint16_t shard, SubscriptionId subscription, const SubscriptionStart& start);
  void Remove(uint16_t shard, SubscriptionId subscription);

  // Calls visit(SubscriptionId) for each subscription that began after the message.
  template <typename Visit>
  void ForEachAfter(uint16_t shard, TopicId topic, const MessageId& id, Visit visit) const {
    const auto found = starts_.find({shard, topic});
    if (found == starts_.end()) return;
    for (const Start& start : found->second) {
      if (id < start.first) visit(start.subscription);
    }
  }

 private:
  struct Start {
    SubscriptionId subscription{};
    MessageId first;
  };

  absl::flat_hash_map<std::pair<uint16_t, TopicId>, std::vector<Start>> starts_;
};

}  // namespace duetime::storage
