// SPDX-License-Identifier: Apache-2.0
//
// DueTable: the due messages that a shard holds in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/base/check.h"
#include "server/base/mix.h"
#include "server/delivery/commands.h"
#include "server/delivery/entry_index.h"
#include "server/wheel/cancellable_wheel.h"
#include "storage/message_id.h"

namespace duetime::delivery {

struct Subscription;

enum class EntryState : uint8_t {
  kFree,
  // Waits in its subscription's ready list for credit.
  kReady,
  // Being handed out: in no list.
  kTaken,
  // Leased to a stream, in that stream's list.
  kInFlight,
  // An attempt failed; a timer makes it ready for the next one.
  kDelayed,
  // Waits behind another message of its ordering key.
  kBlocked,
  // Its end (settled for its subscription, or cancelled) is on its way to the journal. Nothing else
  // can happen to it.
  kEnding,
  // Its backlog record is on its way to the journal, then it is forgotten here.
  kForgetting,
};

// A due message as one of its subscriptions has it.
struct DueEntry {
  storage::MessageId id;
  Subscription* subscription = nullptr;
  // Counter part of the lease token; 0 while not in flight.
  uint64_t lease = 0;
  StreamId stream{};
  // The due time of its key, which is not its id's if it was moved.
  uint64_t due_ms = 0;
  // When it became due here, was handed out first and last. 0: not in this run.
  uint64_t fire_ms = 0;
  uint64_t dispatch_ms = 0;
  uint64_t last_dispatch_ms = 0;
  // When its lease or its delay ends (steady clock).
  uint64_t wait_end_mono_ms = 0;
  // The due time of its place in the backlog, if it is listed.
  uint64_t listed_ms = 0;
  // Hash of its ordering key, if it holds it or waits for it; 0: neither.
  uint64_t order = 0;
  // From its record, once that was seen.
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  uint32_t record_bytes = 0;
  uint32_t payload_bytes = 0;
  // Lease end or delay.
  wheel::TimerStamp timer;
  // Size of the record when it was offered; what it costs in credit.
  uint32_t bytes = 0;
  // Deliveries begun.
  uint32_t attempts = 0;
  EntryIndex next = kNoEntry;
  EntryIndex previous = kNoEntry;
  // The next one of the same message.
  EntryIndex sibling = kNoEntry;
  EntryState state = EntryState::kFree;
  // A backlog record exists or is on its way.
  bool spilled = false;
  // An earlier run of the server may have delivered it.
  bool maybe_delivered = false;
  // Holds W_safe back.
  bool held = false;
  // Its payload has been read, so it existed after it became due. Until then it may be the echo of
  // a message that has ended: offered twice, or read back while its end was on its way.
  bool seen = false;
  // The store may have a progress record of it.
  bool progress = false;
  // Its end is that of the message.
  bool whole = false;

  storage::MessageKey key() const { return {.due_ms = due_ms, .id = id}; }
  // Where it is listed in the backlog, if it is.
  storage::MessageKey place() const { return {.due_ms = listed_ms, .id = id}; }
};

// A doubly linked list of entries, linked through the entries: an entry is in one list at most.
struct EntryList {
  EntryIndex head = kNoEntry;
  EntryIndex tail = kNoEntry;
  size_t count = 0;
};

// Slab of entries with an index by message id. A message has one entry for each subscription that
// has it in memory; they are chained.
//
// Cost: O(1) each, and O(subscriptions of the topic) where it says so; about 240 bytes per entry
// with its index. Entries never move. Thread safety:
// confined to the engine thread.
class DueTable {
 public:
  // REQUIRES: the message has no entry for this subscription.
  EntryIndex Insert(const storage::MessageKey& key, Subscription* subscription) {
    if (free_ == kNoEntry) Grow();
    const EntryIndex index = free_;
    DueEntry& entry = (*this)[index];
    free_ = entry.next;
    entry = DueEntry{};
    entry.id = key.id;
    entry.due_ms = key.due_ms;
    entry.subscription = subscription;
    const auto [head, first] = PartOf(key.id).try_emplace(key.id, index);
    if (!first) entry.sibling = std::exchange(head->second, index);
    ++size_;
    return index;
  }

  // The first entry of a message, or kNoEntry; the others follow by `sibling`.
  EntryIndex Find(const storage::MessageId& id) const {
    const Part& part = index_[PlaceOf(id)];
    const auto it = part.find(id);
    return it == part.end() ? kNoEntry : it->second;
  }

  // The entry of a message for a subscription, or kNoEntry. Cost: O(subscriptions).
  EntryIndex Find(const storage::MessageId& id, const Subscription* subscription) const {
    EntryIndex index = Find(id);
    while (index != kNoEntry && (*this)[index].subscription != subscription) {
      index = (*this)[index].sibling;
    }
    return index;
  }

  // REQUIRES: the entry is in no list. Cost: O(subscriptions).
  void Remove(EntryIndex index) {
    DueEntry& entry = (*this)[index];
    DT_CHECK(entry.state != EntryState::kFree);
    Part& part = PartOf(entry.id);
    const auto head = part.find(entry.id);
    DT_CHECK(head != part.end());
    if (head->second != index) {
      EntryIndex before = head->second;
      while ((*this)[before].sibling != index) before = (*this)[before].sibling;
      (*this)[before].sibling = entry.sibling;
    } else if (entry.sibling != kNoEntry) {
      head->second = entry.sibling;
    } else {
      part.erase(head);
    }
    --size_;
    entry = DueEntry{};
    entry.next = free_;
    free_ = index;
  }

  DueEntry& operator[](EntryIndex index) { return chunks_[index / kChunk][index % kChunk]; }
  const DueEntry& operator[](EntryIndex index) const {
    return chunks_[index / kChunk][index % kChunk];
  }

  void PushBack(EntryList* list, EntryIndex index) {
    DueEntry& entry = (*this)[index];
    entry.next = kNoEntry;
    entry.previous = list->tail;
    (list->tail == kNoEntry ? list->head : (*this)[list->tail].next) = index;
    list->tail = index;
    ++list->count;
  }

  void PushFront(EntryList* list, EntryIndex index) {
    DueEntry& entry = (*this)[index];
    entry.next = list->head;
    entry.previous = kNoEntry;
    (list->head == kNoEntry ? list->tail : (*this)[list->head].previous) = index;
    list->head = index;
    ++list->count;
  }

  void Unlink(EntryList* list, EntryIndex index) {
    DueEntry& entry = (*this)[index];
    DT_CHECK_GT(list->count, 0u);
    (entry.previous == kNoEntry ? list->head : (*this)[entry.previous].next) = entry.next;
    (entry.next == kNoEntry ? list->tail : (*this)[entry.next].previous) = entry.previous;
    entry.next = entry.previous = kNoEntry;
    --list->count;
  }

  // Entries.
  size_t size() const { return size_; }
  // Indices are below this; those of free places are too.
  EntryIndex capacity() const { return static_cast<EntryIndex>(chunks_.size() * kChunk); }

  // Calls visit(index, entry) for every entry. For tests.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Part& part : index_) {
      for (const auto& [id, head] : part) {
        for (EntryIndex i = head; i != kNoEntry; i = (*this)[i].sibling) visit(i, (*this)[i]);
      }
    }
  }

 private:
  using Part = absl::flat_hash_map<storage::MessageId, EntryIndex>;
  // What growth may cost at once: a chunk's pages, and a part that doubles. One map of a million
  // would stop the shard for tens of milliseconds.
  static constexpr size_t kChunk = 256;
  static constexpr int kPartBits = 6;

  static size_t PlaceOf(const storage::MessageId& id) {
    return base::Mix(id.high ^ id.low) >> (64 - kPartBits);
  }
  Part& PartOf(const storage::MessageId& id) { return index_[PlaceOf(id)]; }

  void Grow() {
    const auto base = static_cast<EntryIndex>(chunks_.size() * kChunk);
    chunks_.push_back(std::make_unique<DueEntry[]>(kChunk));
    for (size_t i = kChunk; i-- > 0;) {
      chunks_.back()[i].next = free_;
      free_ = base + static_cast<EntryIndex>(i);
    }
  }

  std::vector<std::unique_ptr<DueEntry[]>> chunks_;
  EntryIndex free_ = kNoEntry;
  size_t size_ = 0;
  std::array<Part, size_t{1} << kPartBits> index_;
};

}  // namespace duetime::delivery
