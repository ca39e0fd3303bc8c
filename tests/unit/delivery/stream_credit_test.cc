// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/stream_credit.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "server/base/clock.h"

namespace duetime::delivery {
namespace {

TEST(StreamCreditTest, HoldsBothLimits) {
  protocol::StreamCredit credit(3, 100);
  EXPECT_TRUE(credit.Take(0, 60));
  EXPECT_FALSE(credit.Take(0, 41));
  EXPECT_TRUE(credit.Take(0, 40));
  EXPECT_TRUE(credit.Take(0, 0));
  EXPECT_FALSE(credit.Take(0, 0));
  EXPECT_EQ(credit.messages(), 3);
  EXPECT_EQ(credit.bytes(), 100);
  credit.Return(3, 100);
  EXPECT_EQ(credit.messages(), 0);
  EXPECT_EQ(credit.bytes(), 0);
}

TEST(StreamCreditTest, OneMessageIsAlwaysAllowed) {
  protocol::StreamCredit credit(10, 100);
  EXPECT_TRUE(credit.Take(0, 1'000'000));
  EXPECT_FALSE(credit.Take(0, 1));
  credit.Return(1, 1'000'000);
  EXPECT_TRUE(credit.Take(0, 1));
}

TEST(StreamCreditTest, ReturnReportsWhoFoundNone) {
  protocol::StreamCredit credit(1, 100);
  EXPECT_TRUE(credit.Take(0, 1));
  EXPECT_FALSE(credit.awaited());
  EXPECT_FALSE(credit.Take(3, 1));
  EXPECT_TRUE(credit.awaited());
  EXPECT_FALSE(credit.Take(5, 1));
  EXPECT_EQ(credit.Return(1, 1), (uint64_t{1} << 3) | (uint64_t{1} << 5));
  EXPECT_FALSE(credit.awaited());
  EXPECT_TRUE(credit.Take(3, 1));
  EXPECT_EQ(credit.Return(1, 1), 0u);
}

TEST(StreamCreditTest, DeliveriesInAllHaveALimitOfTheirOwn) {
  protocol::StreamCredit credit(2, 100, protocol::StreamCredit::kNoLimit, 3);
  EXPECT_TRUE(credit.Take(0, 60));
  EXPECT_TRUE(credit.Take(0, 40));
  EXPECT_FALSE(credit.Take(3, 0)) << "two at once";
  EXPECT_EQ(credit.Untake(1, 40), uint64_t{1} << 3) << "not delivered: it does not count";
  EXPECT_TRUE(credit.Take(3, 40));
  credit.Return(2, 100);
  EXPECT_TRUE(credit.Take(0, 1'000)) << "the third, and nothing else has bytes";
  credit.Return(1, 1'000);
  EXPECT_FALSE(credit.Take(5, 0)) << "three in all";
  EXPECT_EQ(credit.Refill(2), uint64_t{1} << 5) << "two never reached the client";
  EXPECT_TRUE(credit.Take(5, 0));
  EXPECT_TRUE(credit.Take(5, 0));
  EXPECT_FALSE(credit.Take(5, 0));
  EXPECT_EQ(credit.Refill(1), uint64_t{1} << 5);
  EXPECT_FALSE(credit.Take(5, 0)) << "its credit is still out";
  EXPECT_EQ(credit.Return(2, 0), uint64_t{1} << 5);
  EXPECT_TRUE(credit.Take(5, 0));
  EXPECT_FALSE(credit.Take(5, 0));
  protocol::StreamCredit few(9, 100, protocol::StreamCredit::kNoLimit, 1);
  EXPECT_TRUE(few.Take(0, 1));
  EXPECT_FALSE(few.Take(0, 1)) << "fewer in all than at once";
}

TEST(StreamCreditTest, UnsentBytesHaveALimitOfTheirOwn) {
  protocol::StreamCredit credit(10, 1'000, 100);
  credit.AddUnsent(99);
  EXPECT_TRUE(credit.HasRoom(0)) << "one frame may exceed the limit";
  credit.AddUnsent(50);
  EXPECT_FALSE(credit.HasRoom(3));
  EXPECT_FALSE(credit.HasRoom(5));
  EXPECT_TRUE(credit.Take(0, 1)) << "the credit is another limit";
  EXPECT_EQ(credit.Sent(50), (uint64_t{1} << 3) | (uint64_t{1} << 5));
  EXPECT_TRUE(credit.HasRoom(3));
  EXPECT_EQ(credit.Sent(99), 0u);
}

TEST(StreamCreditTest, AMessageAloneHasTheStreamForItself) {
  protocol::StreamCredit credit(10, 1'000);
  ASSERT_TRUE(credit.Take(0, 5));
  EXPECT_FALSE(credit.TakeAlone(1, 7));
  EXPECT_TRUE(credit.awaited());
  EXPECT_FALSE(credit.Take(2, 1)) << "shard 1 has reserved the stream";
  EXPECT_EQ(credit.Return(1, 5), (uint64_t{1} << 1) | (uint64_t{1} << 2));
  ASSERT_TRUE(credit.TakeAlone(1, 0));
  EXPECT_EQ(credit.messages(), 1);
  EXPECT_FALSE(credit.Take(2, 1));
  EXPECT_FALSE(credit.TakeAlone(3, 1));
  EXPECT_EQ(credit.Return(1, 0), (uint64_t{1} << 2) | (uint64_t{1} << 3));
  EXPECT_TRUE(credit.Take(2, 1));
  EXPECT_TRUE(credit.Take(3, 1));
  protocol::StreamCredit counted(10, 1'000, protocol::StreamCredit::kNoLimit, 20);
  ASSERT_TRUE(counted.Take(0, 1));
  EXPECT_TRUE(counted.TakeAlone(0, 1)) << "its credit never comes back whole";
}

// Shards that take, return, and wait to be woken when they find none: with a limit of one they are
// in each other's way all the time. A wake-up that gets lost leaves all of them waiting with
// nothing outstanding.
TEST(StreamCreditTest, LosesNoWakeUpUnderThreads) {
  constexpr uint16_t kShards = 2;
  constexpr uint64_t kLengthMicros = 4'000'000;
  constexpr uint64_t kStuckMicros = 20'000'000;
  protocol::StreamCredit credit(1, 1000);
  std::array<std::atomic<uint64_t>, kShards> wakes{};
  std::array<std::atomic<uint64_t>, kShards> takes{};
  std::array<std::atomic<uint64_t>, kShards> spins{};
  std::atomic<bool> stop{false};
  const auto run = [&](uint16_t shard) {
    const auto wake = [&](uint64_t mask) {
      for (uint16_t other = 0; other < kShards; ++other) {
        if ((mask >> other & 1) != 0) wakes[other].fetch_add(1);
      }
    };
    uint64_t seen = 0;
    while (!stop.load()) {
      // Now and then alone, so that reservations meet as well.
      const bool alone = (takes[shard].load() & 3) == 3;
      if (alone ? credit.TakeAlone(shard, 1) : credit.Take(shard, 1)) {
        // Held for a moment that varies, so that the two meet at every step of each other.
        const uint64_t turn = takes[shard].fetch_add(1);
        for (uint64_t i = (turn * 2654435761u >> 16) & 31; i > 0; --i) spins[shard].fetch_add(1);
        wake(credit.Return(1, 1));
        continue;
      }
      // Parked: only a wake-up lets it look again.
      while (wakes[shard].load() == seen && !stop.load()) spins[shard].fetch_add(1);
      seen = wakes[shard].load();
    }
  };
  std::vector<std::thread> threads;
  for (uint16_t shard = 0; shard < kShards; ++shard) threads.emplace_back(run, shard);
  const auto total = [&] {
    uint64_t sum = 0;
    for (const auto& count : takes) sum += count.load();
    return sum;
  };
  // Long enough to meet, and then as long as it takes to see that it still moves.
  const uint64_t begin = base::ReadMicros();
  while (base::ReadMicros() < begin + kLengthMicros) std::this_thread::yield();
  const uint64_t last = total();
  const uint64_t check = base::ReadMicros();
  while (total() == last && base::ReadMicros() < check + kStuckMicros) std::this_thread::yield();
  const bool stuck = total() == last;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(stuck) << "nothing taken for a long time, after " << last << " takes";
  EXPECT_EQ(credit.messages(), 0);
  EXPECT_GT(last, 1000u);
}

}  // namespace
}  // namespace duetime::delivery
