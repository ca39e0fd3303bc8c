// SPDX-License-Identifier: Apache-2.0
//
// OrderingKeyLocks: for each ordering key, the entry that holds it and the messages that wait
// behind it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "server/delivery/entry_index.h"
#include "storage/message_id.h"

namespace duetime::delivery {

// Locks the ordering keys of one subscription. An entry asks for its key when it is about to be
// handed out. The first entry of a key holds the key; later ones wait in order of arrival. Keys are
// hashes: the entries of two keys with the same hash wait for each other, which is rare and
// harmless.
//
// A key may have more messages than may wait in memory. The rest of them stays on disk, from the
// first message for which there was no room, so that a held key never fills the memory. When the
// last waiting entry of the key has ended, the backlog is read again from the first place of the
// rest. Until then all later messages of the key join the rest, so that none overtakes it.
//
// Does not know the states of entries. The holder may be in flight or wait for its retry, and holds
// the key until Release. Entries without an ordering key need no lock.
//
// Guarantees: (1) a key has at most one holder; (2) a key is passed on in order of arrival; (3) a
// rest is of a key that is held, or will be read (wants_read), or is being read. Cost: O(1) each,
// but O(keys) for BeginRead, EndRead and Longest; about 50 bytes for each key that is held, 60 for
// each entry that waits and 70 for each rest. Thread safety: confined to the engine thread.
class OrderingKeyLocks {
 public:
  // The hash of an ordering key. Never zero, which means no ordering key.
  static uint64_t HashOf(absl::string_view ordering_key) { return absl::HashOf(ordering_key) | 1; }

  enum class Turn : uint8_t {
    kHolds,
    // Another entry holds the key. This one waits in memory, at the place of its first call.
    kWaits,
    // The message must wait on disk. The caller calls AddToRest.
    kNoRoom,
  };
  // `room`: how many entries of one key may wait in memory.
  Turn Acquire(uint64_t key, EntryIndex entry, size_t room) {
    DT_CHECK_NE(entry, kNoEntry);
    const auto it = keys_.find(key);
    if (it != keys_.end() && it->second.holder == entry) return Turn::kHolds;
    if (waiting_.contains(entry)) {
      DT_CHECK_EQ(waiting_.find(entry)->second.key, key);
      return Turn::kWaits;
    }
    if (const auto rest = rests_.find(key); rest != rests_.end() && !rest->second.reading) {
      return Turn::kNoRoom;
    }
    if (it == keys_.end()) {
      keys_[key] = Key{.holder = entry};
      return Turn::kHolds;
    }
    Key& held = it->second;
    if (held.waiting >= room) return Turn::kNoRoom;
    waiting_[entry] = Link{.key = key, .previous = held.tail};
    NextOf(&held, held.tail) = entry;
    held.tail = entry;
    ++held.waiting;
    return Turn::kWaits;
  }

  // A message of the key stays on disk at `place`, and with it all later messages of the key.
  void AddToRest(uint64_t key, const storage::MessageKey& place) {
    Rest& rest = rests_.try_emplace(key, Rest{.place = place}).first->second;
    // A rest that is being read begins anew here: what lies before `place` is in memory.
    rest.place = rest.reading ? place : std::min(rest.place, place);
    rest.reading = false;
    if (!keys_.contains(key)) WantRead(rest.place);
  }

  // The holder has ended or moved to disk. Returns the entry that holds the key from now on, or
  // kNoEntry if none waits in memory. REQUIRES: the entry holds the key.
  EntryIndex Release(uint64_t key, EntryIndex entry) {
    const auto it = keys_.find(key);
    DT_CHECK(it != keys_.end());
    DT_CHECK_EQ(it->second.holder, entry);
    const EntryIndex next = it->second.head;
    if (next == kNoEntry) {
      DT_CHECK_EQ(it->second.tail, kNoEntry);
      keys_.erase(it);
      const auto rest = rests_.find(key);
      if (rest != rests_.end() && !rest->second.reading) WantRead(rest->second.place);
      return kNoEntry;
    }
    RemoveWaiting(key, next);
    it->second.holder = next;
    return next;
  }

  // Removes a waiting entry that ends before its turn. REQUIRES: it waits for this key.
  void RemoveWaiting(uint64_t key, EntryIndex entry) {
    const auto link = waiting_.find(entry);
    DT_CHECK(link != waiting_.end());
    const auto [its_key, previous, next] = link->second;
    DT_CHECK_EQ(its_key, key);
    waiting_.erase(link);
    const auto it = keys_.find(key);
    DT_CHECK(it != keys_.end());
    Key& held = it->second;
    DT_CHECK_GT(held.waiting, 0u);
    --held.waiting;
    NextOf(&held, previous) = next;
    (next == kNoEntry ? held.tail : waiting_.find(next)->second.previous) = previous;
  }

  // ---- The rests on disk
  //
  // True if the rest of a key that nobody holds must be read. Until BeginRead no message may pass
  // the backlog.
  bool wants_read() const { return wanted_.has_value(); }
  // The first place that must be read. REQUIRES: wants_read().
  const storage::MessageKey& wanted() const {
    DT_CHECK(wanted_.has_value());
    return *wanted_;
  }
  // The caller reads the backlog from `from` on. REQUIRES: wants_read(), `from` is not after
  // wanted(), and no message that has not asked for its key is in memory.
  void BeginRead(const storage::MessageKey& from) {
    DT_CHECK(from <= wanted());
    wanted_.reset();
    for (auto& [key, rest] : rests_) rest.reading = rest.reading || from <= rest.place;
  }
  // The caller has read the backlog to its end.
  void EndRead() {
    absl::erase_if(rests_, [](const auto& item) { return item.second.reading; });
  }
  // No message of the subscription is on disk only.
  void ClearRests() {
    rests_.clear();
    wanted_.reset();
  }
  // Keys with a rest on disk.
  size_t rests() const { return rests_.size(); }
  bool HasRest(uint64_t key) const { return rests_.contains(key); }

  // ---- Holders
  //
  // The entries that wait for the key in memory.
  size_t WaitingFor(uint64_t key) const {
    const auto it = keys_.find(key);
    return it == keys_.end() ? 0 : it->second.waiting;
  }
  // The entry that holds the key, or kNoEntry.
  EntryIndex HolderOf(uint64_t key) const {
    const auto it = keys_.find(key);
    return it == keys_.end() ? kNoEntry : it->second.holder;
  }
  bool Holds(uint64_t key, EntryIndex entry) const { return HolderOf(key) == entry; }
  // The holder of the key behind which most entries wait, or kNoEntry if none waits. A key with a
  // rest on disk comes first.
  EntryIndex Longest() const {
    EntryIndex longest = kNoEntry;
    std::pair<bool, uint32_t> most;
    for (const auto& [key, held] : keys_) {
      const std::pair<bool, uint32_t> length = {rests_.contains(key), held.waiting};
      // The order of the map must not decide between keys of the same length.
      if (length < most || (length == most && held.holder >= longest)) continue;
      if (length == std::pair<bool, uint32_t>{}) continue;
      most = length;
      longest = held.holder;
    }
    return longest;
  }
  // Entries that wait in memory.
  size_t waiting() const { return waiting_.size(); }
  // Keys that are held.
  size_t held() const { return keys_.size(); }

  // `behind`: the backlog is being read.
  void CheckInvariants(bool behind) const {
    for (const auto& [key, rest] : rests_) {
      DT_CHECK(keys_.contains(key) || (rest.reading && behind) ||
               (wanted_.has_value() && *wanted_ <= rest.place));
    }
  }

 private:
  struct Key {
    EntryIndex holder = kNoEntry;
    // The first and the last waiting entry, and their number.
    EntryIndex head = kNoEntry;
    EntryIndex tail = kNoEntry;
    uint32_t waiting = 0;
  };
  struct Link {
    uint64_t key = 0;
    EntryIndex previous = kNoEntry;
    EntryIndex next = kNoEntry;
  };
  // The messages of a key that wait on disk only.
  struct Rest {
    // No message of the rest lies before this place.
    storage::MessageKey place;
    // BeginRead was called: messages of the key come from the backlog, in their order.
    bool reading = false;
  };

  void WantRead(const storage::MessageKey& place) {
    wanted_ = std::min(wanted_.value_or(place), place);
  }

  // The link to the entry that waits behind `entry`; kNoEntry: the link to the first waiting entry.
  EntryIndex& NextOf(Key* held, EntryIndex entry) {
    if (entry == kNoEntry) return held->head;
    const auto link = waiting_.find(entry);
    DT_CHECK(link != waiting_.end());
    return link->second.next;
  }

  absl::flat_hash_map<uint64_t, Key> keys_;
  absl::flat_hash_map<EntryIndex, Link> waiting_;
  absl::flat_hash_map<uint64_t, Rest> rests_;
  std::optional<storage::MessageKey> wanted_;
};

}  // namespace duetime::delivery
