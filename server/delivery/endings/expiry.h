// SPDX-License-Identifier: Apache-2.0
//
// Expiry: ends messages whose lifetime is over.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_record.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// HandOut ends an expired message when its turn has come. Where no subscriber takes messages, no
// turn comes, and expired messages would fill max_pending for ever. So while a topic with a limit
// has no room, Expiry walks over its due messages, first those in memory, then those on disk, and
// ends the expired ones. A walk that finds nothing to end goes on a search period later, and the
// next walk of the topic begins kWalkPeriodMs after the last one. The messages of a topic paused by
// a restore stay: after a restore, an operator decides first.
//
// Cost: one look at each of up to 100 limited topics in each search period; while one of them is
// full, one page of reads. Thread safety: confined to the engine thread.
class Expiry {
 public:
  static constexpr uint64_t kWalkPeriodMs = 10'000;

  Expiry(const Core& core, MessageEnds* ends, DeadLetters* dead_letters,
         BacklogReader* backlog_reader);

  static bool Expired(base::Now now, const storage::MessageRecord& head);

  // Ends the expired message for the entry's subscription as the policy says. False if it is to be
  // delivered late, or no topic for its dead letter is known; then nothing has changed. REQUIRES:
  // the entry's record was learned.
  bool End(base::Now now, EntryIndex index, storage::LatePolicy policy);

  // The topic has a limit, or has had one.
  void AddLimited(storage::TopicId topic);
  bool any_limited() const { return !limited_.empty(); }

  // Walks for a page over the due messages of a full topic. True if there is more to do now.
  bool Step(base::Now now);

 private:
  struct Walk {
    storage::TopicId topic{};
    // The next entry in memory.
    EntryIndex entry = 0;
    // The subscriptions whose listed messages come next, the last one first, and the place there.
    std::vector<storage::SubscriptionId> subscriptions;
    storage::MessageKey place;
  };

  void BeginWalk(base::Now now);
  // These return true if something was ended.
  bool WalkMemory(base::Now now);
  bool WalkDisk(base::Now now);

  // Reads the message. Returns the policy if it is expired and to end.
  std::optional<storage::LatePolicy> PolicyOf(base::Now now, const storage::MessageKey& key,
                                              std::string* bytes);
  bool Locked(const storage::MessageId& id) const;

  const Core& core_;
  MessageEnds* const ends_;
  DeadLetters* const dead_letters_;
  BacklogReader* const backlog_reader_;

  // In turn, and the time before which none of their walks begins.
  std::deque<storage::TopicId> limited_;
  absl::flat_hash_map<storage::TopicId, uint64_t> next_walk_mono_ms_;
  std::optional<Walk> walk_;
};

}  // namespace duetime::delivery
