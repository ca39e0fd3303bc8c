// SPDX-License-Identifier: Apache-2.0
//
// DueTurns: queues the messages that have left the wheel, by topic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/scheduler/timer.h"
#include "server/wheel/item_list.h"
#include "server/wheel/slab_memory.h"

namespace duetime::scheduler {

// A queue between the wheel, which has one order for all topics, and delivery, which takes some
// hundred nanoseconds for each message. Due messages queue up by topic, and topics take turns, so
// that a topic with a million messages in one millisecond delays the other topics by one turn only.
// Moving a message from the wheel to the queue takes about a tenth of the time of its delivery.
//
// Guarantees: the messages of one topic come in the order in which they were added; every topic
// with messages gets a turn of up to kTurn before any other topic gets a second turn. Cost: O(1)
// per message. Memory: 32 bytes per message, and a chunk for each topic with messages. Thread
// safety: confined to the shard's engine thread.
class DueTurns {
 public:
  // The messages of one turn.
  static constexpr size_t kTurn = 64;

  // REQUIRES: `memory` outlives it.
  explicit DueTurns(wheel::SlabMemory* memory = wheel::HeapSlabs::Shared()) : pool_(memory) {}

  void Add(const Wheel::Expired& due);

  // Takes the next `count` messages, or all if there are fewer.
  void Take(size_t count, std::vector<Wheel::Expired>* out);

  size_t size() const { return size_; }
  size_t bytes() const;

  // A time at or before the due time of every message that did not hold the low watermark when it
  // was added; at most `limit_ms`. O(topics with messages).
  uint64_t LowestDue(uint64_t limit_ms) const;

  void CheckInvariants() const;

 private:
  using Pool = wheel::ItemPool<Wheel::Expired>;
  struct List {
    Wheel::Expired* write = nullptr;
    uint32_t head = Pool::kNone;
    storage::TopicId topic{};
  };

  List& ListOf(storage::TopicId topic);

  Pool pool_;
  size_t size_ = 0;
  // The lists of topics with messages, in the order of their turns.
  std::list<List> turns_;
  absl::flat_hash_map<storage::TopicId, List*> lists_;
  // The list of the last Add, if it still exists. The messages of a burst are often of one topic.
  List* last_ = nullptr;
};

}  // namespace duetime::scheduler
