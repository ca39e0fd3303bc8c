// SPDX-License-Identifier: Apache-2.0
//
// PendingDeliveries: the due messages that a shard holds in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "server/base/mix.h"
#include "server/delivery/entry_index.h"
#include "server/protocol/tags.h"
#include "server/wheel/cancellable_wheel.h"
#include "storage/message_id.h"

namespace duetime::delivery {

struct Subscription;

// The states of an entry. A move goes through kTaken: it leaves the list, timer or lease of the old
// state first (MayFollow).
enum class EntryState : uint8_t {
  // A free place of the table.
  kFree,
  // On the move between two states: in no list, without timer and lease.
  kTaken,
  // Waits in its subscription's ready list for credit.
  kReady,
  // Leased to a stream, in that stream's list.
  kInFlight,
  // An attempt failed; a timer makes it ready for the next one.
  kDelayed,
  // Waits behind another message of its ordering key.
  kBlocked,
  // The subscription settled the message, or a client cancelled it. The batch that says so is not
  // committed yet.
  kEnding,
  // Its backlog record is in a batch that is not committed yet. At the commit it leaves the table.
  kForgetting,
};
inline constexpr size_t kEntryStates = 8;

constexpr bool MayFollow(EntryState from, EntryState to) {
  switch (from) {
    case EntryState::kFree:
    case EntryState::kReady:
    case EntryState::kInFlight:
    case EntryState::kDelayed:
      return to == EntryState::kTaken;
    case EntryState::kBlocked:
      // The holder of its ordering key has released the key.
      return to == EntryState::kTaken || to == EntryState::kReady;
    case EntryState::kTaken:
      return to != EntryState::kTaken;
    case EntryState::kEnding:
      return to == EntryState::kFree;
    case EntryState::kForgetting:
      // The message may end before its backlog record is committed.
      return to == EntryState::kFree || to == EntryState::kTaken;
  }
  return false;
}

// Entries by state, and in all.
struct EntryCounts {
  std::array<size_t, kEntryStates> by_state{};
  size_t total = 0;

  size_t of(EntryState state) const { return by_state[static_cast<size_t>(state)]; }
};

// A due message for one of its subscriptions.
struct PendingDelivery {
  storage::MessageId id;
  Subscription* subscription = nullptr;
  // kNoLease while not in flight.
  protocol::LeaseToken lease{};
  protocol::StreamId stream{};
  // The due time of its key, which differs from the id's if the message was moved.
  uint64_t due_ms = 0;
  // The times at which it became due here, was first handed out and last handed out. 0: not in this
  // run.
  uint64_t fire_ms = 0;
  uint64_t dispatch_ms = 0;
  uint64_t last_dispatch_ms = 0;
  // When its lease or its delay ends (steady clock).
  uint64_t wait_end_mono_ms = 0;
  // The due time of its place in the backlog, if it is listed.
  uint64_t listed_ms = 0;
  // Hash of its ordering key while it holds the key or waits for it; 0: neither.
  uint64_t order = 0;
  // Set from its record by Learn.
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  uint32_t record_bytes = 0;
  uint32_t payload_bytes = 0;
  // The timer of its lease or its delay.
  wheel::TimerStamp timer;
  // The size of the record when it was offered. Deliveries use this much credit.
  uint32_t bytes = 0;
  // Deliveries begun.
  uint32_t attempts = 0;
  // Those that failed, in half attempts (HalfFailuresOf).
  uint32_t half_failures = 0;
  EntryIndex next = kNoEntry;
  EntryIndex previous = kNoEntry;
  // The next entry of the same message, and the one before.
  EntryIndex sibling = kNoEntry;
  EntryIndex sibling_before = kNoEntry;
  EntryState state = EntryState::kFree;
  // A backlog record exists, or is in a batch that is not committed yet.
  bool spilled = false;
  // That record says "maybe delivered" only because the entry stayed in memory (Backlog::List).
  bool listed_as_delivered = false;
  // An earlier run of the server may have delivered it.
  bool maybe_delivered = false;
  // Holds the low watermark back.
  bool pinned = false;
  // Its record has been read, so the message existed after it became due. Until then the entry may
  // be a stale offer of a message that has ended: it was offered twice, or read back while its end
  // was not committed.
  bool seen = false;
  // The store may have a progress record of it.
  bool progress = false;
  // The subscriber has reported the delivery in flight as begun.
  bool begun = false;
  // An earlier delivery may have ended its subscriber's process. The next one is alone on its
  // stream.
  bool suspect = false;
  // Its end is the end of the message for all subscriptions.
  bool ends_message = false;

  storage::MessageKey key() const { return {.due_ms = due_ms, .id = id}; }
  // Its place in the backlog, if it is listed.
  storage::MessageKey place() const { return {.due_ms = listed_ms, .id = id}; }
  // False if it has a neighbour in a list.
  bool Unlinked() const { return next == kNoEntry && previous == kNoEntry; }
};

// A doubly linked list through the entries. An entry is in at most one list.
struct EntryList {
  EntryIndex head = kNoEntry;
  EntryIndex tail = kNoEntry;
  size_t count = 0;
};

// Parts of a record that few messages have, kept for the tombstone.
struct EntryDetails {
  std::string key;
  uint64_t revision = 0;
};

// Slab of entries with an index by message id. A message has one entry for each subscription that
// has it in memory, chained by `sibling`.
//
// The table changes a state only by SetState, which CHECKs MayFollow and counts. Timers, leases and
// streams are the work of DeliveryStates. Cost: O(1) for each call without a cost of its own; about
// 240 bytes per entry with its index, and 38 to 75 more if more than kChainMax subscriptions have
// had the message in memory. Entries never move. Thread safety: confined to the engine thread.
class PendingDeliveries {
 public:
  // Adds an entry in state kTaken. REQUIRES: the message has no entry for this subscription.
  EntryIndex Insert(const storage::MessageKey& key, Subscription* subscription);

  // REQUIRES: MayFollow; the entry is in no list of its old state any more.
  void SetState(EntryIndex index, EntryState state);

  // The first entry of a message, or kNoEntry; the others follow by `sibling`.
  EntryIndex Find(const storage::MessageId& id) const {
    const Part& part = index_[PlaceOf(id)];
    const auto it = part.find(id);
    return it == part.end() ? kNoEntry : it->second.head;
  }

  // The entry of a message for a subscription, or kNoEntry.
  EntryIndex Find(const storage::MessageId& id, const Subscription* subscription) const {
    const Part& part = index_[PlaceOf(id)];
    const auto it = part.find(id);
    return it == part.end() ? kNoEntry : FindIn(it->second, id, subscription);
  }

  // The entry of the message at this key, or kNoEntry. Cost: O(subscriptions).
  EntryIndex FindAt(const storage::MessageKey& key) const {
    EntryIndex index = Find(key.id);
    while (index != kNoEntry && (*this)[index].due_ms != key.due_ms) index = (*this)[index].sibling;
    return index;
  }
  EntryIndex FindAt(const storage::MessageKey& key, const Subscription* subscription) const {
    const EntryIndex index = Find(key.id, subscription);
    return index != kNoEntry && (*this)[index].due_ms == key.due_ms ? index : kNoEntry;
  }

  // Frees the place. REQUIRES: the entry is in no list.
  void Remove(EntryIndex index);

  // Takes the fields for a tombstone from the entry's record, and marks the entry seen.
  void Learn(EntryIndex index, absl::string_view record);
  // The key and revision from Learn; nullptr for most messages, which have neither.
  const EntryDetails* DetailsOf(EntryIndex index) const {
    const auto it = details_.find(index);
    return it == details_.end() ? nullptr : &it->second;
  }

  PendingDelivery& operator[](EntryIndex index) { return chunks_[index / kChunk][index % kChunk]; }
  const PendingDelivery& operator[](EntryIndex index) const {
    return chunks_[index / kChunk][index % kChunk];
  }

  // ---- Lists
  void PushBack(EntryList* list, EntryIndex index) {
    PendingDelivery& entry = (*this)[index];
    DT_CHECK(entry.Unlinked());
    DT_CHECK_EQ(list->tail == kNoEntry, list->count == 0);
    entry.next = kNoEntry;
    entry.previous = list->tail;
    (list->tail == kNoEntry ? list->head : (*this)[list->tail].next) = index;
    list->tail = index;
    ++list->count;
  }

  void PushFront(EntryList* list, EntryIndex index) {
    PendingDelivery& entry = (*this)[index];
    DT_CHECK(entry.Unlinked());
    DT_CHECK_EQ(list->head == kNoEntry, list->count == 0);
    entry.next = list->head;
    entry.previous = kNoEntry;
    (list->head == kNoEntry ? list->tail : (*this)[list->head].previous) = index;
    list->head = index;
    ++list->count;
  }

  void Unlink(EntryList* list, EntryIndex index) {
    PendingDelivery& entry = (*this)[index];
    DT_CHECK_GT(list->count, 0u);
    DT_CHECK(entry.previous != kNoEntry || list->head == index);
    DT_CHECK(entry.next != kNoEntry || list->tail == index);
    (entry.previous == kNoEntry ? list->head : (*this)[entry.previous].next) = entry.next;
    (entry.next == kNoEntry ? list->tail : (*this)[entry.next].previous) = entry.previous;
    entry.next = entry.previous = kNoEntry;
    --list->count;
  }

  size_t size() const { return counts_.total; }
  size_t count(EntryState state) const { return counts_.of(state); }
  // All indices are below this, including those of free places.
  EntryIndex capacity() const { return static_cast<EntryIndex>(chunks_.size() * kChunk); }

  // Calls visit(index, entry) for every entry. For tests.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Part& part : index_) {
      for (const auto& [id, chain] : part) {
        for (EntryIndex i = chain.head; i != kNoEntry; i = (*this)[i].sibling) visit(i, (*this)[i]);
      }
    }
  }

  // Walks everything: O(entries).
  void CheckInvariants() const;

 private:
  // The entries of one message.
  struct Chain {
    EntryIndex head = kNoEntry;
    // True if the chain has had more than kChainMax entries. Then `wide_` has all of them.
    bool wide = false;
  };
  using Part = absl::flat_hash_map<storage::MessageId, Chain>;
  // The longest chain that is searched entry by entry.
  static constexpr size_t kChainMax = 8;
  // These bound the cost of one growth to one chunk, or to one part of the index that doubles. A
  // single map of a million entries would stop the shard for tens of milliseconds.
  static constexpr size_t kChunk = 256;
  static constexpr int kPartBits = 6;

  static size_t PlaceOf(const storage::MessageId& id) {
    return base::Mix(id.high ^ id.low) >> (64 - kPartBits);
  }
  Part& PartOf(const storage::MessageId& id) { return index_[PlaceOf(id)]; }
  using WidePart =
      absl::flat_hash_map<std::pair<storage::MessageId, const Subscription*>, EntryIndex>;
  static size_t WidePlaceOf(const storage::MessageId& id, const Subscription& subscription);

  EntryIndex FindIn(const Chain& chain, const storage::MessageId& id,
                    const Subscription* subscription) const;
  // Adds the chain's entries to `wide_` if there are more than kChainMax.
  void Widen(Chain* chain);
  void Grow();

  std::vector<std::unique_ptr<PendingDelivery[]>> chunks_;
  EntryIndex free_ = kNoEntry;
  EntryCounts counts_;
  std::array<Part, size_t{1} << kPartBits> index_;
  std::array<WidePart, size_t{1} << kPartBits> wide_;
  absl::flat_hash_map<EntryIndex, EntryDetails> details_;
};

}  // namespace duetime::delivery
