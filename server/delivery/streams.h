// SPDX-License-Identifier: Apache-2.0
//
// Streams: the subscribers' streams of one shard, and their credit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/container/flat_hash_map.h"

#include "server/delivery/delivery_parts.h"
#include "server/delivery/subscription.h"
#include "server/delivery/turns.h"
#include "server/protocol/commands.h"

namespace duetime::delivery {

// A stream lives from Attach until it is detached and its last lease has ended. While its credit
// was not found exhausted it is in its subscription's list of available streams.
//
// Invariants: (1) a stream is available only while it is attached; (2) a stream that is detached
// has leases. Cost: O(1), Detach O(available streams of the subscription). Thread safety: confined
// to the engine thread; the credit is shared with other shards (StreamCredit).
class Streams {
 public:
  explicit Streams(const DeliveryParts& parts);

  // REQUIRES: the stream is not attached.
  void Attach(const protocol::AttachCommand& command, Subscription* subscription);
  // The stream ended. Unless `keep_leases`, its leases are to be given back (see closing).
  void Detach(protocol::StreamId id, bool keep_leases);
  // The subscription was deleted: dismisses all its streams. Their leases are to be given back if
  // `give_back`.
  void DismissAll(Subscription* subscription, bool give_back);

  // nullptr if there is none.
  Stream* Find(protocol::StreamId id) const;
  // REQUIRES: there is one.
  Stream* Get(protocol::StreamId id) const;

  // The stream may have credit: it is tried again.
  void MakeAvailable(Stream* stream);
  // Takes the credit for one message. If there is none, the stream is not available any more.
  bool TakeCredit(Stream* stream, uint32_t bytes);
  // Wakes the shards that found the credit exhausted. Nothing happens if the stream is gone.
  void ReturnCredit(protocol::StreamId id, int64_t messages, int64_t bytes);

  // Forgets the stream if it has neither its subscriber nor a lease.
  void DropIfOver(Stream* stream);

  // Ended streams whose leases are to be given back, in turn.
  std::deque<protocol::StreamId>& closing() { return closing_; }

  size_t size() const { return streams_.size(); }
  void CheckInvariants() const;

 private:
  void MakeUnavailable(Stream* stream);

  const uint16_t shard_;
  protocol::Effects* const effects_;
  Turns* const turns_;
  absl::flat_hash_map<protocol::StreamId, std::unique_ptr<Stream>> streams_;
  std::deque<protocol::StreamId> closing_;
};

}  // namespace duetime::delivery
