// SPDX-License-Identifier: Apache-2.0
//
// DueTable: the due messages that a shard holds in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/base/check.h"
#include "server/delivery/commands.h"
#include "server/delivery/entry_index.h"
#include "server/wheel/cancellable_wheel.h"
#include "storage/message_id.h"

namespace duetime::delivery {

struct Topic;

enum class EntryState : uint8_t {
  kFree,
  // Waits in its topic's ready list for credit.
  kReady,
  // Leased to a stream, in that stream's list.
  kInFlight,
  // Given back with a delay; a timer makes it ready.
  kDelayed,
  // Its end (settled or cancelled) is on its way to the journal. Nothing else can happen to it.
  kEnding,
  // Its backlog record is on its way to the journal, then it is forgotten here.
  kForgetting,
};

struct DueEntry {
  storage::MessageId id;
  Topic* topic = nullptr;
  // Counter part of the lease token; 0 while not in flight.
  uint64_t lease = 0;
  StreamId stream{};
  // The due time of its key, which is not its id's if it was moved.
  uint64_t due_ms = 0;
  // When it became due here, was handed out first, and when its lease ends (steady clock). 0: not
  // in this run.
  uint64_t fire_ms = 0;
  uint64_t dispatch_ms = 0;
  uint64_t lease_end_mono_ms = 0;
  // From its record, once that was seen.
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  uint32_t record_bytes = 0;
  uint32_t payload_bytes = 0;
  // Lease end or delay.
  wheel::TimerHandle timer;
  // Size of the record when it was offered; what it costs in credit.
  uint32_t bytes = 0;
  // Deliveries begun.
  uint32_t attempts = 0;
  EntryIndex next = kNoEntry;
  EntryIndex previous = kNoEntry;
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

  storage::MessageKey key() const { return {.due_ms = due_ms, .id = id}; }
};

// A doubly linked list of entries, linked through the entries: an entry is in one list at most.
struct EntryList {
  EntryIndex head = kNoEntry;
  EntryIndex tail = kNoEntry;
  size_t count = 0;
};

// Slab of entries with an index by message id.
//
// Cost: O(1) each; about 190 bytes per entry with its index. Entries never move. Thread safety:
// confined to the engine thread.
class DueTable {
 public:
  // REQUIRES: the message is not in the table.
  EntryIndex Insert(const storage::MessageKey& key) {
    if (free_ == kNoEntry) Grow();
    const EntryIndex index = free_;
    DueEntry& entry = (*this)[index];
    free_ = entry.next;
    entry = DueEntry{};
    entry.id = key.id;
    entry.due_ms = key.due_ms;
    DT_CHECK(index_.emplace(key.id, index).second);
    return index;
  }

  // The entry of a message, or kNoEntry.
  EntryIndex Find(const storage::MessageId& id) const {
    const auto it = index_.find(id);
    return it == index_.end() ? kNoEntry : it->second;
  }

  // REQUIRES: the entry is in no list.
  void Remove(EntryIndex index) {
    DueEntry& entry = (*this)[index];
    DT_CHECK(entry.state != EntryState::kFree);
    DT_CHECK_EQ(index_.erase(entry.id), 1u);
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

  void Unlink(EntryList* list, EntryIndex index) {
    DueEntry& entry = (*this)[index];
    DT_CHECK_GT(list->count, 0u);
    (entry.previous == kNoEntry ? list->head : (*this)[entry.previous].next) = entry.next;
    (entry.next == kNoEntry ? list->tail : (*this)[entry.next].previous) = entry.previous;
    entry.next = entry.previous = kNoEntry;
    --list->count;
  }

  size_t size() const { return index_.size(); }

  // Calls visit(index, entry) for every entry. For tests.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [id, index] : index_) visit(index, (*this)[index]);
  }

 private:
  static constexpr size_t kChunk = 4096;

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
  absl::flat_hash_map<storage::MessageId, EntryIndex> index_;
};

}  // namespace duetime::delivery
