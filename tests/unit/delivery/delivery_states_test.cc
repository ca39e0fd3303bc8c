// SPDX-License-Identifier: Apache-2.0
//
// DeliveryStates, Leases, Streams and DeliveryTimers: an entry's states and what belongs to them.
#include "server/delivery/delivery_states.h"

#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/leases.h"
#include "server/delivery/streams.h"
#include "server/protocol/lease_token.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

constexpr uint64_t kOrder = 1;

class DeliveryStatesTest : public DeliveryWorld {
 protected:
  Stream* Attach(protocol::StreamId id, int64_t messages) {
    core_.streams.Attach({.stream = id,
                          .topic = kTopic,
                          .subscription = one_->state.id,
                          .lease_ms = 1'000,
                          .credit = std::make_shared<protocol::StreamCredit>(messages, 1'000'000)},
                         one_);
    Stream* const stream = core_.streams.Get(id);
    core_.streams.MakeAvailable(stream);
    return stream;
  }
  // The entries whose timers fire until now.
  std::vector<EntryIndex> Fired() {
    std::vector<EntryIndex> fired;
    core_.timers.Advance(now_.mono_ms, 100,
                         [&](const DeliveryTimers::Timer& timer) { fired.push_back(timer.index); });
    return fired;
  }
};

using StreamsTest = DeliveryStatesTest;
using LeasesTest = DeliveryStatesTest;

TEST_F(DeliveryStatesTest, ReadyEntriesLeaveInTheirOrder) {
  const EntryIndex first = Ready(one_, Put());
  const EntryIndex second = Ready(one_, Put());
  EXPECT_EQ(core_.states.TakeReady(one_), first);
  core_.states.MakeReady(first);
  EXPECT_EQ(core_.states.TakeReady(one_), second);
  core_.states.MakeReady(second);
}

TEST_F(DeliveryStatesTest, ADelayEndsOnTime) {
  const EntryIndex index = Take();
  core_.states.MakeDelayed(now_, index, 50);
  Pass(49);
  EXPECT_TRUE(Fired().empty());
  Pass(1);
  EXPECT_EQ(Fired(), std::vector<EntryIndex>{index});
  core_.states.TakeDelayed(index);
  core_.states.MakeReady(index);
}

TEST_F(DeliveryStatesTest, ADelayIsNotShortByAPartOfAMillisecond) {
  const EntryIndex index = Take();
  now_.begun_ms = 1;
  core_.states.MakeDelayed(now_, index, 50);
  Pass(50);
  EXPECT_TRUE(Fired().empty())
      << "50 ms after the beginning of the millisecond, not after the nack";
  Pass(1);
  EXPECT_EQ(Fired(), std::vector<EntryIndex>{index});
  core_.states.TakeDelayed(index);
  core_.states.MakeReady(index);
}

TEST_F(DeliveryStatesTest, TakeOutLeavesEveryState) {
  Stream* const stream = Attach(kStream, 10);
  const EntryIndex ready = Ready(one_, Put());
  const EntryIndex delayed = Take();
  core_.states.MakeDelayed(now_, delayed, 50);
  const EntryIndex leased = Take();
  core_.leases.Begin(now_, stream, leased);
  const EntryIndex holder = Take();
  ASSERT_EQ(core_.states.LockOrder(holder, kOrder), OrderingKeyLocks::Turn::kHolds);
  const EntryIndex blocked = Take();
  ASSERT_EQ(core_.states.LockOrder(blocked, kOrder), OrderingKeyLocks::Turn::kWaits);
  for (const EntryIndex index : {ready, delayed, leased, blocked, holder}) {
    core_.states.TakeOut(index);
    EXPECT_EQ(At(index).state, EntryState::kTaken);
    core_.states.Remove(index);
  }
  EXPECT_EQ(core_.table.size(), 0u);
  EXPECT_EQ(core_.timers.size(), 0u);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 0u);
}

TEST_F(DeliveryStatesTest, TheOrderingKeyPassesOnInOrder) {
  const EntryIndex holder = Take();
  EXPECT_EQ(core_.states.LockOrder(holder, kOrder), OrderingKeyLocks::Turn::kHolds);
  const EntryIndex first = Take();
  EXPECT_EQ(core_.states.LockOrder(first, kOrder), OrderingKeyLocks::Turn::kWaits);
  const EntryIndex second = Take();
  EXPECT_EQ(core_.states.LockOrder(second, kOrder), OrderingKeyLocks::Turn::kWaits);
  const EntryIndex later = Ready(one_, Put());
  core_.states.Remove(holder);
  EXPECT_EQ(At(first).state, EntryState::kReady);
  EXPECT_EQ(one_->ready.head, first) << "it is older than the ready ones";
  EXPECT_EQ(one_->ready.tail, later);
  EXPECT_EQ(core_.states.TakeReady(one_), first);
  EXPECT_EQ(core_.states.LockOrder(first, kOrder), OrderingKeyLocks::Turn::kHolds)
      << "it holds the key already";
  core_.states.Remove(first);
  EXPECT_EQ(At(second).state, EntryState::kReady);
}

TEST_F(DeliveryStatesTest, AnEntryHoldsTheLowWatermarkUntilItIsRemoved) {
  const EntryIndex index = Take();
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 1u);
  EXPECT_DEATH(core_.states.Pin(index), "check failed");
  core_.states.Remove(index);
  EXPECT_EQ(scheduler_.low_watermark()->pinned(), 0u);
}

TEST_F(LeasesTest, ATokenFindsItsEntryUntilTheLeaseEnds) {
  Stream* const stream = Attach(kStream, 10);
  const EntryIndex index = Take();
  const protocol::LeaseToken token = core_.leases.Begin(now_, stream, index);
  EXPECT_EQ(core_.leases.Find(token), index);
  EXPECT_EQ(At(index).attempts, 1u);
  EXPECT_EQ(core_.leases.Find(protocol::LeaseToken{static_cast<uint64_t>(token) + 1}), kNoEntry);
  one_->state.deleting = true;
  EXPECT_EQ(core_.leases.Find(token), kNoEntry) << "leases of a deleted subscription are over";
  one_->state.deleting = false;
  core_.leases.End(index);
  EXPECT_EQ(core_.leases.Find(token), kNoEntry);
  EXPECT_NE(core_.leases.Begin(now_, stream, index), token);
}

TEST_F(LeasesTest, ATokenCannotBeDerivedFromAnother) {
  Stream* const stream = Attach(kStream, 100);
  std::vector<uint64_t> tokens;
  for (int i = 0; i < 50; ++i) {
    tokens.push_back(static_cast<uint64_t>(core_.leases.Begin(now_, stream, Take())));
  }
  for (const uint64_t token : tokens) {
    for (uint64_t near = 1; near <= 1'000; ++near) {
      EXPECT_EQ(core_.leases.Find(protocol::LeaseToken{token + near}), kNoEntry);
      EXPECT_EQ(core_.leases.Find(protocol::LeaseToken{token - near}), kNoEntry);
    }
  }
}

TEST(LeaseTokenTest, DependsOnEveryPartAndNamesItsShard) {
  const base::SipKey key{.low = 1, .high = 2};
  const protocol::LeaseToken token = protocol::MakeToken(key, 5, 7, 11);
  EXPECT_EQ(protocol::ShardOfLease(token), 5);
  EXPECT_EQ(protocol::ShardOfLease(protocol::MakeToken(key, 63, 7, 11)), 63);
  const std::set<protocol::LeaseToken> others = {
      protocol::MakeToken({.low = 3, .high = 2}, 5, 7, 11),
      protocol::MakeToken({.low = 1, .high = 3}, 5, 7, 11), protocol::MakeToken(key, 6, 7, 11),
      protocol::MakeToken(key, 5, 8, 11), protocol::MakeToken(key, 5, 7, 12)};
  EXPECT_EQ(others.size(), 5u);
  EXPECT_FALSE(others.contains(token));
}

TEST_F(LeasesTest, ALeaseEndsOnTimeAndCanBeExtended) {
  Stream* const stream = Attach(kStream, 10);
  const EntryIndex index = Take();
  core_.leases.Begin(now_, stream, index);
  Pass(900);
  core_.leases.Extend(now_, index, 500);
  Pass(499);
  EXPECT_TRUE(Fired().empty());
  Pass(1);
  EXPECT_EQ(Fired(), std::vector<EntryIndex>{index});
  core_.states.TakeOut(index);
  core_.states.MakeReady(index);
}

// P2.
TEST_F(LeasesTest, NoLeaseBeginsEarly) {
  Stream* const stream = Attach(kStream, 10);
  const EntryIndex index = Take(one_, Put({}, now_.wall_ms + 1));
  EXPECT_DEATH(core_.leases.Begin(now_, stream, index), "check failed");
  core_.states.Remove(index);
}

TEST_F(StreamsTest, AStreamWithoutCreditWaitsForItsReturn) {
  Stream* const stream = Attach(kStream, 1);
  EXPECT_TRUE(core_.streams.TakeCredit(stream, 10, /*alone=*/false));
  EXPECT_FALSE(core_.streams.TakeCredit(stream, 10, /*alone=*/false));
  EXPECT_TRUE(one_->available.empty());
  core_.streams.ReturnCredit(kStream, 1, 10);
  EXPECT_EQ(one_->available.size(), 1u);
  EXPECT_TRUE(effects_.wakes.empty()) << "no other shard found it exhausted";
}

TEST_F(StreamsTest, ReturnedCreditWakesOtherShards) {
  Stream* const stream = Attach(kStream, 1);
  EXPECT_TRUE(core_.streams.TakeCredit(stream, 10, /*alone=*/false));
  EXPECT_FALSE(stream->credit->Take(/*shard=*/5, 10));
  core_.streams.ReturnCredit(kStream, 1, 10);
  ASSERT_EQ(effects_.wakes.size(), 1u);
  effects_.wakes.clear();
}

TEST_F(StreamsTest, AnEndedStreamStaysUntilItsLastLeaseEnds) {
  Stream* const stream = Attach(kStream, 10);
  const EntryIndex index = Take();
  core_.leases.Begin(now_, stream, index);
  core_.streams.Detach({.stream = kStream});
  EXPECT_EQ(one_->streams, 0u);
  EXPECT_EQ(core_.streams.closing().size(), 1u);
  EXPECT_NE(core_.streams.Find(kStream), nullptr);
  core_.states.TakeOut(index);
  EXPECT_EQ(core_.streams.Find(kStream), nullptr);
  core_.states.MakeReady(index);
}

TEST_F(StreamsTest, ADetachMayKeepTheLeases) {
  Stream* const stream = Attach(kStream, 10);
  core_.leases.Begin(now_, stream, Take());
  core_.streams.Detach({.stream = kStream, .keep_leases = true});
  EXPECT_TRUE(core_.streams.closing().empty());
}

TEST_F(StreamsTest, DismissedStreamsAreGoneOrGiveBack) {
  constexpr protocol::StreamId kIdle{2};
  Stream* const stream = Attach(kStream, 10);
  Attach(kIdle, 10);
  core_.leases.Begin(now_, stream, Take());
  core_.streams.DismissAll(one_, /*give_back=*/true);
  EXPECT_EQ(core_.streams.size(), 1u);
  EXPECT_TRUE(stream->dismissed);
  EXPECT_EQ(core_.streams.closing().size(), 1u);
  EXPECT_TRUE(one_->available.empty());
}

}  // namespace
}  // namespace duetime::delivery
