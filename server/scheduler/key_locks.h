// SPDX-License-Identifier: Apache-2.0
//
// KeyLocks: one change at a time for each message and each name.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::scheduler {

// Locks a message, or a name under which messages are found, from the decision to change it until
// the change is in the store. A command for a locked message waits, and is then decided from the
// store, so that no decision depends on an uncommitted change.
//
// A name is locked by its hash. Two names with the same hash wait for each other, which is rare and
// harmless.
//
// Guarantees: (1) waiters run in order of arrival; (2) each runs exactly once. Cost: O(1). Thread
// safety: confined to the shard's engine thread.
class KeyLocks {
 public:
  // Runs when the lock is free, or with `ok` false when the shard has failed.
  using Waiter = absl::AnyInvocable<void(base::Now now, bool ok)>;

  // 128 bits that stand for a message or a name.
  struct Name {
    uint64_t high = 0;
    uint64_t low = 0;

    explicit Name(const storage::MessageId& id) : high(id.high), low(id.low) {}
    // The name `text` in a topic. `kind` separates names of different uses.
    Name(uint8_t kind, storage::TopicId topic, absl::string_view text)
        : high(absl::HashOf(kind, topic, text)), low(absl::HashOf(text, topic, kind, kSecond)) {}

    friend constexpr bool operator==(const Name&, const Name&) = default;

    static constexpr int kSecond = 2;
    template <typename H>
    friend H AbslHashValue(H hash, const Name& name) {
      return H::combine(std::move(hash), name.high, name.low);
    }
  };

  bool Held(const Name& name) const { return !held_.empty() && held_.contains(name); }
  bool Held(const storage::MessageId& id) const { return Held(Name(id)); }

  // REQUIRES: not held.
  void Acquire(const Name& name) { DT_CHECK(held_.try_emplace(name).second); }

  // Runs `waiter` when the lock is free. REQUIRES: held.
  void Wait(const Name& name, Waiter waiter) {
    const auto it = held_.find(name);
    DT_CHECK(it != held_.end());
    it->second.push_back(std::move(waiter));
    ++waiting_;
  }

  // Frees the lock and runs the waiters until one of them acquires it again. With `ok` false the
  // shard has failed, and all of them run. REQUIRES: held.
  void Release(base::Now now, const Name& name, bool ok) {
    const auto it = held_.find(name);
    DT_CHECK(it != held_.end());
    std::deque<Waiter> waiters = std::move(it->second);
    held_.erase(it);
    while (!waiters.empty()) {
      Waiter waiter = std::move(waiters.front());
      waiters.pop_front();
      --waiting_;
      waiter(now, ok);
      if (waiters.empty()) return;
      if (const auto again = held_.find(name); again != held_.end()) {
        // Waiters that wait already come before waiters that came while this one ran.
        for (Waiter& late : again->second) waiters.push_back(std::move(late));
        again->second = std::move(waiters);
        return;
      }
    }
  }

  size_t held() const { return held_.size(); }
  size_t waiting() const { return waiting_; }

 private:
  absl::flat_hash_map<Name, std::deque<Waiter>> held_;
  size_t waiting_ = 0;
};

}  // namespace duetime::scheduler
