// SPDX-License-Identifier: Apache-2.0
//
// LeaseEnds: ends leases by settlements, by time, and with their streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/subscriptions/subscription.h"
#include "server/protocol/commands.h"

namespace duetime::delivery {

// Carries out clients' settlements, in order for each stream. A call beyond the step's share waits
// for the next steps, and streams take turns. Then gives back the leases of ended streams, and ends
// leases and delays whose time has come.
//
// While settlements wait, a lease that one of them may name is prolonged by up to a second.
// Otherwise an ack that came in time would be refused. Cost: O(leases settled). Thread safety:
// confined to the engine thread.
class LeaseEnds {
 public:
  // Leases that one step settles. A call that settles a hundred thousand must not stop the shard.
  static constexpr size_t kSettlesPerStep = 2000;

  LeaseEnds(const Core& core, Pacing* pacing, MessageEnds* ends, DeadLetters* dead_letters,
            Retries* retries);

  // Settles as much as the step's share allows. The rest waits for the next steps.
  void Settle(base::Now now, protocol::SettleCommand command);

  // Renews the step's share, carries out waiting settlements, and ends leases and delays. True if
  // there is more to do now. Call once in each step, first.
  bool Step(base::Now now);

  // The server stops: from now on, leases that end with their stream are taken back.
  void Stop() { stopped_ = true; }

  // The number of streams that have waiting settlements.
  size_t waiting() const { return waiting_.size(); }

 private:
  // The results of a settle command so far.
  struct Batch;
  // A command, and how much of it is carried out.
  struct Waiting {
    protocol::SettleCommand command;
    size_t begun = 0;
    size_t settled = 0;
  };

  // ---- Settlements
  void SettleWaiting(base::Now now);
  // Carries out what the step's share allows. True if nothing is left of the command.
  bool SettleSome(base::Now now, Waiting* waiting);
  // Finds the leased entry and counts it in the step's share. If there is no such lease, adds a
  // refusal to `batch` and returns kNoEntry.
  EntryIndex FindLease(protocol::LeaseToken token, Batch* batch);
  void Begin(base::Now now, protocol::LeaseToken token, Batch* batch);
  void Settle(base::Now now, const protocol::Settlement& settlement, Batch* batch);
  void Reject(base::Now now, EntryIndex index, const protocol::Settlement& settlement,
              Batch* batch);
  void Answer(Batch batch);
  void FinishAcks(const std::vector<EntryIndex>& acked);

  // ---- Streams and time
  bool GiveBackClosing(base::Now now);
  void GiveBack(base::Now now, const Stream& stream, EntryIndex index);
  void ExpireTimer(base::Now now, const DeliveryTimers::Timer& timer);
  void ExpireLease(base::Now now, EntryIndex index);
  bool MaySettle(const PendingDelivery& entry) const;

  const Core& core_;
  Pacing* const pacing_;
  MessageEnds* const ends_;
  DeadLetters* const dead_letters_;
  Retries* const retries_;
  // Leases that this step may still settle.
  size_t left_ = 0;
  // Settlements that wait for the next steps, by stream and in order; and their streams, in turn.
  absl::flat_hash_map<protocol::StreamId, std::deque<Waiting>> waiting_;
  std::deque<protocol::StreamId> stream_turns_;
  // True while a settlement from an unknown stream (a unary Settle) waits. It may name any lease.
  bool unknown_stream_waits_ = false;
  bool stopped_ = false;
};

}  // namespace duetime::delivery
