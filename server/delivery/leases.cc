// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/leases.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/protocol/lease_token.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

Leases::Leases(const Core& core) : core_(core), key_(core.limits.lease_key) {
  DT_CHECK_LT(core_.shard, protocol::kShardCountMax);
}

protocol::LeaseToken Leases::NewToken() {
  for (;;) {
    const auto token =
        protocol::MakeToken(key_, core_.shard, core_.scheduler.epoch(), ++tokens_made_);
    if (token != protocol::kNoLease && !leases_.contains(token)) return token;
  }
}

protocol::LeaseToken Leases::Begin(base::Now now, Stream* stream, EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kTaken);
  DT_CHECK_LE(entry.due_ms, now.wall_ms);  // P2: never early
  DT_CHECK(entry.seen);
  DT_CHECK(stream->attached);
  DT_CHECK(stream->subscription == entry.subscription);
  DT_CHECK(!entry.subscription->state.deleting);
  core_.table.SetState(index, EntryState::kInFlight);
  if (entry.dispatch_ms == 0) entry.dispatch_ms = now.wall_ms;
  entry.last_dispatch_ms = now.wall_ms;
  ++entry.attempts;
  entry.begun = false;
  entry.lease = NewToken();
  entry.stream = stream->id;
  core_.timers.Start(index, now.mono_ms + stream->lease_ms);
  core_.table.PushBack(&stream->in_flight, index);
  ++stream->handed_out;
  DT_CHECK(leases_.emplace(entry.lease, index).second);
  return entry.lease;
}

void Leases::End(EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kInFlight);
  DT_CHECK(entry.lease != protocol::kNoLease);
  core_.timers.Cancel(index);
  DT_CHECK_EQ(leases_.erase(entry.lease), 1u);
  entry.lease = protocol::kNoLease;
  Stream* const stream = core_.streams.Get(entry.stream);
  core_.table.Unlink(&stream->in_flight, index);
  core_.table.SetState(index, EntryState::kTaken);
  core_.streams.DropIfOver(stream);
}

void Leases::Extend(base::Now now, EntryIndex index, uint64_t duration_ms) {
  DT_CHECK(core_.table[index].state == EntryState::kInFlight);
  core_.timers.Cancel(index);
  core_.timers.Start(index, now.mono_ms + duration_ms);
}

EntryIndex Leases::Find(protocol::LeaseToken token) const {
  const auto it = leases_.find(token);
  if (it == leases_.end()) return kNoEntry;
  const PendingDelivery& entry = core_.table[it->second];
  DT_CHECK(entry.state == EntryState::kInFlight);
  DT_CHECK(entry.lease == token);
  return entry.subscription->state.deleting ? kNoEntry : it->second;
}

uint64_t Leases::FirstEnd() const {
  uint64_t first_ms = UINT64_MAX;
  for (const auto& [token, index] : leases_) {
    first_ms = std::min(first_ms, core_.table[index].wait_end_mono_ms);
  }
  return first_ms;
}

void Leases::CheckInvariants() const {
  DT_CHECK_EQ(leases_.size(), core_.table.count(EntryState::kInFlight));
  for (const auto& [token, index] : leases_) {
    const PendingDelivery& entry = core_.table[index];
    DT_CHECK(entry.state == EntryState::kInFlight);
    DT_CHECK(entry.lease == token);
    DT_CHECK_GT(entry.attempts, 0u);
    DT_CHECK(core_.streams.Find(entry.stream) != nullptr);
    DT_CHECK(!entry.timer.none());
  }
}

}  // namespace duetime::delivery
