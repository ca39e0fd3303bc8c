// SPDX-License-Identifier: Apache-2.0
//
// Streams: the subscribers' streams of one shard, and their credit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/container/flat_hash_map.h"

#include "server/delivery/core.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/protocol/commands.h"

namespace duetime::delivery {

// A stream lives from Attach until it is detached and its last lease has ended. It is in its
// subscription's list of available streams until its credit is found exhausted, or too much of what
// it got waits to be sent.
//
// Invariants: (1) a stream is available only while it is attached; (2) a stream that is detached
// has leases. Cost: O(1), Detach O(available streams of the subscription). Thread safety: confined
// to the engine thread; the credit is shared with other shards (StreamCredit).
class Streams {
 public:
  explicit Streams(const Core& core);

  // REQUIRES: the stream is not attached.
  void Attach(const protocol::AttachCommand& command, Subscription* subscription);
  // Ends the stream. Unless `keep_leases`, its leases will be given back (see closing). A stream
  // may be ended once with `keep_leases` and then once without.
  void Detach(const protocol::DetachCommand& command);
  // Dismisses all streams of a deleted subscription. If `give_back`, their leases will be given
  // back.
  void DismissAll(Subscription* subscription, bool give_back);

  // nullptr if there is none.
  Stream* Find(protocol::StreamId id) const;
  // REQUIRES: there is one.
  Stream* Get(protocol::StreamId id) const;

  // The stream may have credit, so it is tried again.
  void MakeAvailable(Stream* stream);
  // The same for a stream that may be gone.
  void TryAgain(protocol::StreamId id);
  // Takes the credit for one message; `alone`: for a message that needs the stream for itself.
  // Without credit returns false, and the stream is not available any more.
  bool TakeCredit(Stream* stream, uint32_t bytes, bool alone);
  // True if there is room in memory for a frame of this stream. Otherwise the stream is not
  // available any more, and a Pull is refused with an empty frame.
  bool HasRoom(Stream* stream);
  // Returns credit, and wakes the shards that found it exhausted. Nothing happens if the stream is
  // gone.
  void ReturnCredit(protocol::StreamId id, int64_t messages, int64_t bytes);
  // As ReturnCredit, for messages that were not delivered after all.
  void UntakeCredit(Stream* stream, int64_t messages, int64_t bytes);

  // Destroys the stream if it is detached and has no lease.
  void DropIfOver(Stream* stream);

  // Ended streams whose leases must be given back, in turn.
  std::deque<protocol::StreamId>& closing() { return closing_; }

  size_t size() const { return streams_.size(); }
  void CheckInvariants() const;

 private:
  void MakeUnavailable(Stream* stream);
  // Tries the stream again on these shards.
  void Wake(Stream* stream, uint64_t shards);

  const Core& core_;
  absl::flat_hash_map<protocol::StreamId, std::unique_ptr<Stream>> streams_;
  std::deque<protocol::StreamId> closing_;
};

}  // namespace duetime::delivery
