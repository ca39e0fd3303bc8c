// SPDX-License-Identifier: Apache-2.0
//
// OrderingKeyLocks: for each ordering key, the entry that holds it and the entries that wait behind
// it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"

#include "server/base/check.h"
#include "server/delivery/entry_index.h"

namespace duetime::delivery {

// Locks the ordering keys of one subscription. An entry asks for its key when it is about to be
// handed out. The first entry of a key holds the key; later ones wait in order of arrival. Keys are
// hashes: the entries of two keys with the same hash wait for each other, which is rare and
// harmless.
//
// Does not know the states of entries. The holder may be in flight or wait for its retry, and holds
// the key until Release. Entries without an ordering key need no lock.
//
// Guarantees: (1) a key has at most one holder; (2) a key is passed on in order of arrival. Cost:
// O(1) each; about 50 bytes for each key that is held and 60 for each entry that waits. Thread
// safety: confined to the engine thread.
class OrderingKeyLocks {
 public:
  // True if the entry holds the key now. False if another entry holds it; then `entry` waits, at
  // the place of its first call.
  bool Acquire(uint64_t key, EntryIndex entry) {
    DT_CHECK_NE(entry, kNoEntry);
    const auto [it, first] = keys_.try_emplace(key, Key{.holder = entry});
    Key& held = it->second;
    if (held.holder == entry) return true;
    const auto [link, added] = waiting_.try_emplace(entry, Link{.key = key, .previous = held.tail});
    DT_CHECK_EQ(link->second.key, key);
    if (!added) return false;
    NextOf(&held, held.tail) = entry;
    held.tail = entry;
    return false;
  }

  // The holder has ended or moved to disk. Returns the entry that holds the key from now on, or
  // kNoEntry if none waited. REQUIRES: the entry holds the key.
  EntryIndex Release(uint64_t key, EntryIndex entry) {
    const auto it = keys_.find(key);
    DT_CHECK(it != keys_.end());
    DT_CHECK_EQ(it->second.holder, entry);
    const EntryIndex next = it->second.head;
    if (next == kNoEntry) {
      DT_CHECK_EQ(it->second.tail, kNoEntry);
      keys_.erase(it);
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
    NextOf(&held, previous) = next;
    (next == kNoEntry ? held.tail : waiting_.find(next)->second.previous) = previous;
  }

  bool Holds(uint64_t key, EntryIndex entry) const {
    const auto it = keys_.find(key);
    return it != keys_.end() && it->second.holder == entry;
  }
  // Entries that wait.
  size_t waiting() const { return waiting_.size(); }
  // Keys that are held.
  size_t held() const { return keys_.size(); }

 private:
  struct Key {
    EntryIndex holder = kNoEntry;
    // The first and the last waiting entry.
    EntryIndex head = kNoEntry;
    EntryIndex tail = kNoEntry;
  };
  struct Link {
    uint64_t key = 0;
    EntryIndex previous = kNoEntry;
    EntryIndex next = kNoEntry;
  };

  // The link to the entry that waits behind `entry`; kNoEntry: the link to the first waiting entry.
  EntryIndex& NextOf(Key* held, EntryIndex entry) {
    if (entry == kNoEntry) return held->head;
    const auto link = waiting_.find(entry);
    DT_CHECK(link != waiting_.end());
    return link->second.next;
  }

  absl::flat_hash_map<uint64_t, Key> keys_;
  absl::flat_hash_map<EntryIndex, Link> waiting_;
};

}  // namespace duetime::delivery
