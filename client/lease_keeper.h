// SPDX-License-Identifier: Apache-2.0
//
// LeaseKeeper: which deliveries are still being worked on, and when their leases are to be
// prolonged. Internal to the client library.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_set>
#include <vector>

#include "absl/time/time.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// One response of the server, and which of its deliveries nobody has settled yet.
struct Frame {
  v1::SubscribeResponse response;

  // The rest is the keeper's. `held[i]` is about response.deliveries(i).
  std::vector<bool> held;
  int held_count = 0;
  std::chrono::steady_clock::time_point received;
  std::chrono::steady_clock::time_point extend_at;
  // In the keeper's list while held_count > 0 and `listed`.
  bool listed = false;
  std::list<Frame*>::iterator place;
};

// Knows the frames that hold unsettled deliveries, in the order in which their leases need to be
// prolonged: when a third of a lease has passed, so that a lost request or a slow server costs
// nothing, and again after each further third, until the delivery is settled, its lease is lost, or
// `keep_max` has passed since it came.
//
// What it does not do: no clock, no thread, no lock; it is told the time. Cost: a bit per delivery
// and a list entry per frame; nothing is looked up by token except leases that were prolonged.
// Thread safety: none. A frame that is listed must stay where it is.
class LeaseKeeper {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // `keep_max` <= 0: no lease is ever prolonged.
  explicit LeaseKeeper(absl::Duration keep_max);

  // The server opened a stream with leases of this length.
  void Start(absl::Duration lease);
  // The stream is over, and its leases with it.
  void Clear();

  // All deliveries of the frame are unsettled from now on.
  void Add(Frame* frame, SteadyTime now);
  // One of them is settled, or will not be worked on: its lease is left to end. Idempotent.
  void Release(Frame* frame, int index);

  // Adds to `request` what is to be prolonged at `now`, together with what would be soon after.
  void Collect(SteadyTime now, v1::SubscribeRequest* request);
  // When to collect next, as of `now`; no later than that can anything become due that is added
  // after this call. Nothing: nothing is ever due on this stream.
  std::optional<SteadyTime> NextCollect(SteadyTime now) const;

  // The server prolonged it.
  void OnExtended(uint64_t lease_token);
  // The server refused something about it: true if that was the request to prolong it, which is
  // then not asked for again.
  bool OnRefused(uint64_t lease_token);

 private:
  void Append(Frame* frame, SteadyTime extend_at);

  const std::chrono::nanoseconds keep_max_;
  // 0: no lease is prolonged on this stream.
  std::chrono::nanoseconds interval_{0};
  absl::Duration lease_;
  // By extend_at: each frame is appended with the same distance from now.
  std::list<Frame*> frames_;
  // Prolonging was asked for, and not answered yet.
  std::unordered_set<uint64_t> asked_;
  // Prolonging was refused, and the delivery not settled yet.
  std::unordered_set<uint64_t> lost_;
};

}  // namespace duetime::client
