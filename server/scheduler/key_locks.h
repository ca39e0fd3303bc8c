// SPDX-License-Identifier: Apache-2.0
//
// KeyLocks: one change at a time for each message and each name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
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
// A waiter that locks the name again lets those run that stand directly behind it and may join its
// change. So a hot key makes one change per sync, of all that waited for it, and not one change for
// each.
//
// Guarantees: (1) waiters run in order of arrival, but those that join pass those that read; (2)
// each runs exactly once. Cost: O(1). Thread safety: confined to the shard's engine thread.
class KeyLocks {
 public:
  // Runs when the lock is free, or with `ok` false when the shard has failed.
  using Waiter = absl::AnyInvocable<void(base::Now now, bool ok)>;

  // What a waiter may do while another change of the name is under way. kJoin: it may join that
  // change. kRead: it changes nothing, so changes may pass it.
  enum class Kind : uint8_t { kChange, kJoin, kRead };

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

  bool Locked(const Name& name) const { return !locked_.empty() && locked_.contains(name); }
  bool Locked(const storage::MessageId& id) const { return Locked(Name(id)); }

  // REQUIRES: not locked.
  void Acquire(const Name& name) { DT_CHECK(locked_.try_emplace(name).second); }

  // Runs `waiter` when the lock is free, or as its kind says. REQUIRES: locked.
  void Wait(const Name& name, Waiter waiter, Kind kind = Kind::kChange) {
    const auto it = locked_.find(name);
    DT_CHECK(it != locked_.end());
    it->second.push_back({.run = std::move(waiter), .kind = kind});
    ++waiting_;
  }
  // True if something waits for the name.
  bool AnyWaits(const Name& name) const {
    const auto it = locked_.find(name);
    return it != locked_.end() && !it->second.empty();
  }

  // Frees the lock and runs the waiters until one of them acquires it again, and then those that
  // join while `may_join` says that they may. With `ok` false the shard has failed, and all of them
  // run. REQUIRES: locked.
  void Release(base::Now now, const Name& name, bool ok,
               absl::FunctionRef<bool()> may_join = &Never) {
    const auto it = locked_.find(name);
    DT_CHECK(it != locked_.end());
    Queue waiters = std::move(it->second);
    locked_.erase(it);
    Queue passed;
    while (!waiters.empty()) {
      Waiter waiter = std::move(waiters.front().run);
      waiters.pop_front();
      --waiting_;
      waiter(now, ok);
      const auto again = locked_.find(name);
      if (again == locked_.end()) continue;
      if (again->second.empty() && may_join()) {
        Pass(&waiters, &passed);
        if (!waiters.empty() && waiters.front().kind == Kind::kJoin) continue;
      }
      waiters.splice(waiters.begin(), passed);
      // Waiters that wait already come before waiters that came while this one ran.
      waiters.splice(waiters.end(), again->second);
      again->second = std::move(waiters);
      return;
    }
    DT_CHECK(passed.empty());
  }

  size_t locked() const { return locked_.size(); }
  size_t waiting() const { return waiting_; }

 private:
  struct Waiting {
    Waiter run;
    Kind kind{};
  };
  // A list, because most locks have no waiter, and an empty list allocates nothing.
  using Queue = std::list<Waiting>;

  static bool Never() { return false; }
  // Moves the waiters that read from the front of the queue to `passed`.
  static void Pass(Queue* waiters, Queue* passed) {
    while (!waiters->empty() && waiters->front().kind == Kind::kRead) {
      passed->splice(passed->end(), *waiters, waiters->begin());
    }
  }

  absl::flat_hash_map<Name, Queue> locked_;
  size_t waiting_ = 0;
};

}  // namespace duetime::scheduler
