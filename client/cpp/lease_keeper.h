// SPDX-License-Identifier: Apache-2.0
//
// LeaseKeeper: decides when to extend the leases of unsettled deliveries. Internal to the client
// library.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/time/time.h"

#include "duetime/v1/messages.pb.h"

namespace duetime::client {

// One response of the server, and its unsettled deliveries.
struct Frame {
  v1::SubscribeResponse response;

  // The keeper owns the fields below. `held[i]`: response.deliveries(i) is unsettled.
  std::vector<bool> held;
  int held_count = 0;
  std::chrono::steady_clock::time_point received;
  std::chrono::steady_clock::time_point extend_at;
  // The deliveries before this one are already in a request for this extension.
  int extend_from = 0;
  // True while the frame is in the keeper's list, at `place`.
  bool listed = false;
  std::list<Frame*>::iterator place;
};

// Lists the frames with unsettled deliveries by the time of their next extension. A lease is
// extended whenever a third of it has passed, so that a lost request or a slow server does not end
// it. This stops when the delivery is settled, its lease is lost, or `keep_max` has passed since it
// arrived.
//
// It has no clock, no thread and no lock: the caller passes the time. Cost: a bit per delivery and
// a list entry per frame; only extended leases are looked up by token. Thread safety: none. A
// listed frame must not move.
class LeaseKeeper {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  // `keep_max` <= 0: no lease is extended.
  explicit LeaseKeeper(absl::Duration keep_max);

  // The server opened a stream with leases of this length.
  void Start(absl::Duration lease);
  // The stream and its leases have ended.
  void Clear();

  // Adds the deliveries of a frame as unsettled.
  void Add(Frame* frame, SteadyTime now);
  // A delivery is settled or will not be handled: its lease is no longer extended. Idempotent.
  void Release(Frame* frame, int index);

  // Adds the leases to extend at `now` to `request`, together with those that are due soon after.
  // Adds at most `room` leases. The others stay due.
  void Collect(SteadyTime now, int room, v1::SubscribeRequest* request);
  // When to call Collect next, as of `now`. No frame that is added later is due before this time.
  // Absent: no lease of this stream is extended.
  std::optional<SteadyTime> NextCollect(SteadyTime now) const;

  // The server extended the lease.
  void OnExtended(const std::string& lease_token);
  // The server refused a request for this lease. Returns true if it refused an extension, which is
  // then not requested again.
  bool OnRefused(const std::string& lease_token);

 private:
  void Append(Frame* frame, SteadyTime extend_at);

  const std::chrono::nanoseconds keep_max_;
  // 0: no lease of this stream is extended.
  std::chrono::nanoseconds interval_{0};
  absl::Duration lease_;
  // Ordered by extend_at, because every frame is appended with the same distance from now.
  std::list<Frame*> frames_;
  // Leases whose extension is requested and not answered.
  std::unordered_set<std::string> asked_;
  // Unsettled deliveries whose extension was refused.
  std::unordered_set<std::string> lost_;
};

}  // namespace duetime::client
