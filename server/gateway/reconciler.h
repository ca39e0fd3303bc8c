// SPDX-License-Identifier: Apache-2.0
//
// Reconciler: gives all cells the same topics and subscriptions.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "duetime/v1/subscription.pb.h"
#include "duetime/v1/topic.pb.h"
#include "server/gateway/ask.h"

namespace duetime::gateway {

// A coroutine that nobody waits for. Its owner may destroy it while it waits.
struct Background {
  class promise_type {
   public:
    Background get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  std::coroutine_handle<promise_type> handle;
};

// Compares the cells from time to time. What some have and others lack is created there, and
// settings that differ become those of the first cell of the map that answers. A difference counts
// if two passes in a row have seen it, so that a change that is under way is left alone. Nothing is
// deleted. The gateways of a map do this each for itself: each step is safe to repeat. Thread
// safety: confined to a worker's thread.
class Reconciler {
 public:
  explicit Reconciler(GatewayWorker* worker) : worker_(worker) {}
  ~Reconciler();
  Reconciler(const Reconciler&) = delete;
  Reconciler& operator=(const Reconciler&) = delete;

  // Begins a pass if it is time.
  void OnSweep();

 private:
  static constexpr uint64_t kEveryMs = 5'000;
  // Until each cell that answers is complete.
  static constexpr uint64_t kFirstEveryMs = 500;
  // Of the time, passes take a sixth at most.
  static constexpr uint64_t kPauseFactor = 5;
  // So long after the start, no cell is complete before all have been seen.
  static constexpr uint64_t kWaitForAllMs = 30'000;

  using SubscriptionName = std::pair<std::string, std::string>;
  // What a cell, or all cells together, have.
  struct Seen {
    bool answers = false;
    std::map<std::string, v1::Topic> topics;
    std::map<SubscriptionName, v1::Subscription> subscriptions;
  };

  Background Pass();
  Co<absl::Status> Look(size_t cell, Seen* seen);
  Co<absl::Status> LookAtSubscriptions(size_t cell, std::string topic, Seen* seen);
  // Gives the cell what it lacks. Sets `differs` if it lacked anything.
  Co<absl::Status> Mend(size_t cell, const Seen& wanted, const Seen& has, bool* differs);
  Co<absl::Status> MendTopic(size_t cell, const v1::Topic& wanted, const v1::Topic* has);
  Co<absl::Status> MendSubscription(size_t cell, const v1::Subscription& wanted,
                                    const v1::Subscription* has);
  // True if the pass before has seen the same difference. Remembers it for the next one.
  bool SeenBefore(const std::string& difference);
  // Logs an error of a cell once.
  void Tell(size_t cell, const absl::Status& status);

  GatewayWorker* const worker_;
  std::coroutine_handle<> pass_;
  uint64_t next_mono_ms_ = 0;
  std::set<std::string> before_;
  std::set<std::string> now_;
  // By cell: the last error that was logged.
  std::map<size_t, std::string> told_;
};

}  // namespace duetime::gateway
