// SPDX-License-Identifier: Apache-2.0
//
// Leases: leases entries to streams, each under a token.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"

#include "server/base/clock.h"
#include "server/base/sip_hash.h"
#include "server/delivery/core.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/streams.h"

namespace duetime::delivery {

// Begins, finds, extends and ends leases. A lease consists of a token, a timer and a place in its
// stream's list. An entry has one exactly while it is in state kInFlight.
//
// Guarantees: (1) an entry has one lease at a time; (2) only the client that was given a token
// knows it, and an ended lease's token finds nothing (LeaseToken); (3) no lease begins before the
// message is due (P2). Other parts decide what follows a lease.
// Cost: O(1). Thread safety: confined to the engine thread.
class Leases {
 public:
  explicit Leases(const Core& core);

  // Leases the entry to the stream, and returns the token. REQUIRES: the entry is taken.
  protocol::LeaseToken Begin(base::Now now, Stream* stream, EntryIndex index);
  // The entry is taken afterwards. It keeps its `stream`, because the credit is returned later. The
  // stream itself may be destroyed. REQUIRES: the entry is in flight.
  void End(EntryIndex index);
  // The lease ends `duration_ms` from now. REQUIRES: the entry is in flight.
  void Extend(base::Now now, EntryIndex index, uint64_t duration_ms);

  // The entry that is leased under this token, or kNoEntry. Does not find leases of deleted
  // subscriptions, which are over for their clients.
  EntryIndex Find(protocol::LeaseToken token) const;

  size_t size() const { return leases_.size(); }
  // When the first lease ends, on the steady clock; UINT64_MAX without a lease. Cost: O(leases).
  uint64_t FirstEnd() const;
  void CheckInvariants() const;

 private:
  // A token that no lease has.
  protocol::LeaseToken NewToken();

  const Core& core_;
  const base::SipKey key_;
  absl::flat_hash_map<protocol::LeaseToken, EntryIndex> leases_;
  uint64_t tokens_made_ = 0;
};

}  // namespace duetime::delivery
