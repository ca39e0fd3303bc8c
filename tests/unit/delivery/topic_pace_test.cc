// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/topic_pace.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::delivery {
namespace {

constexpr storage::SubscriptionId kReader{7};
constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kSecond = 1'000'000;

TEST(TopicPaceTest, GrantsAllWithoutARate) {
  protocol::TopicPace pace;
  const auto clock = pace.ClockOf(kReader);
  EXPECT_EQ(clock->Take(0, kNoLimit), kNoLimit);
  EXPECT_EQ(clock->Take(0, 1), 1u);
  EXPECT_EQ(clock->NextUs(5), 5u);
  pace.Set(10, 1);
  EXPECT_EQ(clock->Take(0, kNoLimit), 1u);
  pace.Set(0, 1);
  EXPECT_EQ(clock->Take(0, kNoLimit), kNoLimit);
}

TEST(TopicPaceTest, ABurstAndThenTheRate) {
  protocol::TopicPace pace;
  pace.Set(1'000, 5);
  const auto clock = pace.ClockOf(kReader);
  EXPECT_EQ(clock->Take(kSecond, 3), 3u);
  EXPECT_EQ(clock->Take(kSecond, kNoLimit), 2u);
  EXPECT_EQ(clock->Take(kSecond, 1), 0u);
  EXPECT_EQ(clock->Take(kSecond + 999, 1), 0u);
  EXPECT_EQ(clock->Take(kSecond + 1'000, 5), 1u);
  EXPECT_EQ(clock->Take(kSecond + 3'500, 5), 2u);
  EXPECT_EQ(clock->Take(kSecond + 4'000, 5), 1u) << "halves are not lost";
  EXPECT_EQ(clock->Take(100 * kSecond, kNoLimit), 5u) << "a long pause saves up one burst";
}

TEST(TopicPaceTest, SaysWhenItIsWorthComing) {
  protocol::TopicPace pace;
  const auto clock = pace.ClockOf(kReader);
  pace.Set(10, 5);
  EXPECT_EQ(clock->NextUs(kSecond), kSecond) << "nothing taken yet";
  EXPECT_EQ(clock->Take(kSecond, kNoLimit), 5u);
  EXPECT_EQ(clock->NextUs(kSecond), kSecond + 100'000) << "one message";
  pace.Set(100'000, 2'000);
  EXPECT_EQ(clock->Take(2 * kSecond, kNoLimit), 2'000u);
  EXPECT_EQ(clock->NextUs(2 * kSecond), 2 * kSecond + 10'000) << "10 ms worth";
  pace.Set(100'000, 20);
  EXPECT_EQ(clock->Take(3 * kSecond, kNoLimit), 20u);
  EXPECT_EQ(clock->NextUs(3 * kSecond), 3 * kSecond + 200) << "a burst is less";
}

TEST(TopicPaceTest, EachSubscriptionHasItsClock) {
  protocol::TopicPace pace;
  pace.Set(10, 2);
  const auto one = pace.ClockOf(storage::SubscriptionId{1});
  const auto other = pace.ClockOf(storage::SubscriptionId{0x80000000});
  EXPECT_NE(one, other);
  EXPECT_EQ(one->Take(kSecond, kNoLimit), 2u);
  EXPECT_EQ(other->Take(kSecond, kNoLimit), 2u);
  for (uint32_t id = 0; id < 1000; ++id) pace.ClockOf(storage::SubscriptionId{id});
  EXPECT_EQ(pace.ClockOf(storage::SubscriptionId{1}), one) << "it stays where it is";
}

TEST(TopicPaceTest, NobodyWaitsForWhatWasGrantedUnderOldSettings) {
  protocol::TopicPace pace;
  const auto clock = pace.ClockOf(kReader);
  pace.Set(1, 1'000);
  EXPECT_EQ(clock->Take(kSecond, kNoLimit), 1'000u);  // a thousand seconds ahead
  pace.Set(1'000, 10);
  EXPECT_EQ(clock->NextUs(kSecond), kSecond + 10'000);
  EXPECT_EQ(clock->Take(kSecond, kNoLimit), 0u) << "as after a burst";
  EXPECT_EQ(clock->Take(kSecond + 1'000, kNoLimit), 1u) << "and that first look counted";
  pace.Set(1'000, 10);
  EXPECT_EQ(clock->Take(kSecond + 1'000, kNoLimit), 0u) << "no change";
  pace.Set(100, 10);
  EXPECT_LE(clock->Take(kSecond + 1'000, kNoLimit), 10u) << "at most a burst anew";
  EXPECT_EQ(clock->Take(kSecond + 2'000, kNoLimit), 0u);
}

TEST(TopicPaceTest, ManyChangesLeaveItInOrder) {
  protocol::TopicPace pace;
  const auto clock = pace.ClockOf(kReader);
  for (uint64_t i = 1; i <= 200; ++i) {
    pace.Set(1 + i % 2, 1'000 + i);
    EXPECT_EQ(pace.rate_per_s(), 1 + i % 2);
    EXPECT_EQ(pace.burst(), 1'000 + i);
    clock->Take(kSecond, kNoLimit);
    EXPECT_EQ(clock->Take(kSecond, kNoLimit), 0u);
  }
  pace.Set(1'000, 1);
  EXPECT_EQ(clock->NextUs(kSecond), kSecond + 1'000);
}

TEST(TopicPaceTest, LimitsAreCutOff) {
  protocol::TopicPace pace;
  pace.Set(kNoLimit, 0);
  EXPECT_EQ(pace.rate_per_s(), protocol::TopicPace::kRateMax);
  EXPECT_EQ(pace.burst(), 1u);
  pace.Set(1, kNoLimit);
  EXPECT_EQ(pace.burst(), protocol::TopicPace::kBurstMax);
  const auto clock = pace.ClockOf(kReader);
  const uint64_t late = protocol::PaceClock::kNowMaxMicros;
  EXPECT_EQ(clock->Take(late, kNoLimit), protocol::TopicPace::kBurstMax)
      << "the largest numbers fit";
  EXPECT_EQ(clock->Take(late, kNoLimit), 0u);
  EXPECT_EQ(clock->NextUs(late), late + kSecond);
}

TEST(TopicPaceDeathTest, TimeHasAnEnd) {
  protocol::TopicPace pace;
  EXPECT_DEATH(pace.ClockOf(kReader)->Take(protocol::PaceClock::kNowMaxMicros + 1, 1),
               "check failed");
}

struct Grant {
  uint64_t at_us = 0;
  uint64_t count = 0;
};

// Over any interval no more than burst + rate * t. Looks at all pairs by the one number that
// matters: how far what was granted is ahead of the rate, against the least it was before.
void ExpectWithin(uint64_t rate, uint64_t burst, std::vector<Grant> grants) {
  std::stable_sort(grants.begin(), grants.end(),
                   [](const Grant& a, const Grant& b) { return a.at_us < b.at_us; });
  // In millionths of a message.
  int64_t sum = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const Grant& grant : grants) {
    const auto due = static_cast<int64_t>(rate * (grant.at_us - grants.front().at_us));
    least = std::min(least, sum - due);
    sum += static_cast<int64_t>(grant.count * kSecond);
    ASSERT_LE(sum - due - least, static_cast<int64_t>(burst * kSecond))
        << "rate " << rate << ", burst " << burst << ", at " << grant.at_us;
  }
}

// One thread, any settings, any times (also some that go back a little), any numbers.
TEST(TopicPaceTest, NeverMoreThanTheBurstAndTheRate) {
  std::mt19937_64 random(test::TestSeed());
  for (int64_t run = test::Scaled(300); run > 0; --run) {
    const uint64_t rate = 1 + (random() >> (45 + random() % 18));
    const uint64_t burst = 1 + (random() >> (50 + random() % 14));
    protocol::TopicPace pace;
    pace.Set(rate, burst);
    const auto clock = pace.ClockOf(kReader);
    uint64_t now_us = 1 + random() % kSecond;
    std::vector<Grant> grants;
    uint64_t taken = 0;
    for (int i = 0; i < 300; ++i) {
      const uint64_t back_us = random() % 4 == 0 ? random() % std::min<uint64_t>(now_us, 500) : 0;
      const uint64_t wanted = random() % 2 == 0 ? kNoLimit : random() % (2 * burst);
      const Grant grant{now_us - back_us, clock->Take(now_us - back_us, wanted)};
      ASSERT_LE(grant.count, wanted);
      taken += grant.count;
      grants.push_back(grant);
      const uint64_t next_us = clock->NextUs(now_us);
      ASSERT_GE(next_us, now_us);
      if (random() % 2 == 0) {
        now_us += random() % (4 * kSecond / rate + 2);
        continue;
      }
      // As it said, and not a microsecond before.
      const uint64_t worth = std::clamp<uint64_t>(rate / 101, 1, burst);
      if (next_us > now_us) {
        const uint64_t early = clock->Take(next_us - 1, kNoLimit);
        ASSERT_LE(early, std::clamp<uint64_t>(rate / 99, 1, burst));
        grants.push_back({next_us - 1, early});
        taken += early;
        now_us = next_us;
        continue;
      }
      const uint64_t granted = clock->Take(next_us, kNoLimit);
      ASSERT_GE(granted, worth);
      grants.push_back({next_us, granted});
      taken += granted;
    }
    ExpectWithin(rate, burst, std::move(grants));
    ASSERT_GT(taken, 0u);
  }
}

// Four threads that each read the clock, dawdle, and take: their readings are out of order. They
// have to get the whole rate together and nothing beyond it.
TEST(TopicPaceTest, HoldsAmongThreads) {
  constexpr uint64_t kRate = 100'000;
  constexpr uint64_t kBurst = 50;
  constexpr uint64_t kLengthMicros = 2 * kSecond;
  protocol::TopicPace pace;
  pace.Set(kRate, kBurst);
  std::atomic<uint64_t> time_us{1};
  std::array<std::vector<Grant>, 4> grants;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < grants.size(); ++i) {
    threads.emplace_back([&pace, &time_us, mine = &grants[i], i] {
      const auto clock = pace.ClockOf(kReader);
      for (uint64_t turn = i;; ++turn) {
        const uint64_t now_us = time_us.fetch_add(1 + turn % 3);
        if (now_us > kLengthMicros) return;
        if (turn % 7 == 0) std::this_thread::yield();
        const uint64_t granted = clock->Take(now_us, 1 + turn % 4);
        if (granted > 0) mine->push_back({now_us, granted});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Grant> all;
  uint64_t taken = 0;
  for (const auto& mine : grants) {
    all.insert(all.end(), mine.begin(), mine.end());
    for (const Grant& grant : mine) taken += grant.count;
  }
  ExpectWithin(kRate, kBurst, std::move(all));
  EXPECT_GE(taken, kRate * kLengthMicros / kSecond * 9 / 10);
}

// Four threads take one by one what one burst has, all at the same time: that and no more.
TEST(TopicPaceTest, NothingIsGrantedTwice) {
  protocol::TopicPace pace;
  pace.Set(1, protocol::TopicPace::kBurstMax);
  std::atomic<uint64_t> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pace, &taken] {
      const auto clock = pace.ClockOf(kReader);
      uint64_t mine = 0;
      while (clock->Take(kSecond, 1) == 1) ++mine;
      taken.fetch_add(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.load(), protocol::TopicPace::kBurstMax);
}

// Four threads take while the settings change. Afterwards the clock follows the last settings,
// whatever it granted before.
TEST(TopicPaceTest, ChangesAmongThreads) {
  protocol::TopicPace pace;
  pace.Set(1, 1'000);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pace, &stop] {
      const auto clock = pace.ClockOf(kReader);
      while (!stop.load()) clock->Take(kSecond, 3);
    });
  }
  for (uint64_t i = 0; i < 20'000; ++i) pace.Set(1 + i % 5, 1 + i % 1'000);
  pace.Set(1'000, 1);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const auto clock = pace.ClockOf(kReader);
  EXPECT_LE(clock->NextUs(kSecond), kSecond + 1'000);
  clock->Take(kSecond, kNoLimit);
  EXPECT_EQ(clock->Take(kSecond, kNoLimit), 0u);
  EXPECT_EQ(clock->Take(kSecond + 1'000, kNoLimit), 1u);
}

}  // namespace
}  // namespace duetime::delivery
