// SPDX-License-Identifier: Apache-2.0
//
// The loading protocol of horizon.h: its order of steps loses no message, and each wrong order
// does. The first part runs every interleaving of a few steps, the second part real threads.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "server/base/mutex.h"
#include "server/scheduler/horizon.h"
#include "storage/message_id.h"
#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"

namespace duetime::scheduler {
namespace {

using storage::MessageId;
using storage::MessageKey;

MessageKey KeyOf(uint64_t due_ms, uint64_t sequence) {
  return MessageKey{due_ms, MessageId::Make(/*epoch=*/1, sequence, /*slot=*/0, due_ms)};
}

// A thread-safe set of keys with a consistent copy of a range. It stands for the store, and for the
// wheel, which inserts if absent.
class KeySet {
 public:
  // Returns false if the key was there.
  bool Insert(const MessageKey& key) {
    base::MutexLock lock(&mutex_);
    return keys_.insert(key).second;
  }

  // The keys with from <= key < until.
  std::vector<MessageKey> Snapshot(const MessageKey& from, const MessageKey& until) const {
    base::MutexLock lock(&mutex_);
    std::vector<MessageKey> keys;
    for (auto it = keys_.lower_bound(from); it != keys_.end() && *it < until; ++it) {
      keys.push_back(*it);
    }
    return keys;
  }

  void EraseFrom(const MessageKey& from) {
    base::MutexLock lock(&mutex_);
    keys_.erase(keys_.lower_bound(from), keys_.end());
  }

  bool Contains(const MessageKey& key) const {
    base::MutexLock lock(&mutex_);
    return keys_.contains(key);
  }

 private:
  mutable base::Mutex mutex_;
  std::set<MessageKey> keys_ ABSL_GUARDED_BY(mutex_);
};

// The order of steps of the loader and the writer.
enum class Order {
  kRight,
  // The loader opens its iterator and then publishes.
  kLoaderIteratesFirst,
  // The writer asks the horizon and then commits.
  kWriterAsksFirst,
};

// One shard's store, horizon and wheel, and the protocol's steps on them.
struct Rig {
  KeySet store;
  Horizon horizon;
  KeySet wheel;

  // Messages below the horizon that are not in the wheel. Exact only while no thread runs.
  int64_t CountLost() const {
    int64_t lost = 0;
    for (const MessageKey& key : store.Snapshot(MessageKey{}, horizon.until())) {
      if (!wheel.Contains(key)) ++lost;
    }
    return lost;
  }
};

// ---- Every interleaving, in one thread

using Steps = std::vector<std::function<void(Rig*)>>;

Steps WriterSteps(Order order, const MessageKey& key) {
  auto covered = std::make_shared<bool>(false);
  const auto commit = [key](Rig* rig) { rig->store.Insert(key); };
  const auto ask = [key, covered](Rig* rig) { *covered = rig->horizon.Covers(key); };
  const auto offer = [key, covered](Rig* rig) {
    if (*covered) rig->wheel.Insert(key);
  };
  if (order == Order::kWriterAsksFirst) return {ask, commit, offer};
  return {commit, ask, offer};
}

Steps LoaderSteps(Order order, const MessageKey& from, const MessageKey& until) {
  auto found = std::make_shared<std::vector<MessageKey>>();
  const auto publish = [until](Rig* rig) { rig->horizon.Publish(until); };
  const auto iterate = [from, until, found](Rig* rig) {
    *found = rig->store.Snapshot(from, until);
  };
  const auto offer = [found](Rig* rig) {
    for (const MessageKey& key : *found) rig->wheel.Insert(key);
  };
  if (order == Order::kLoaderIteratesFirst) return {iterate, publish, offer};
  return {publish, iterate, offer};
}

Steps RetreatSteps(const MessageKey& until) {
  return {[until](Rig* rig) { rig->horizon.Publish(until); },
          [until](Rig* rig) { rig->wheel.EraseFrom(until); }};
}

Steps Concat(std::vector<Steps> parts) {
  Steps all;
  for (Steps& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct Tally {
  int64_t interleavings = 0;
  int64_t lossy = 0;
};

// Runs every interleaving of the threads that `make` returns, each on a new rig.
Tally RunAllInterleavings(const std::function<std::vector<Steps>()>& make) {
  Tally tally;
  std::vector<size_t> schedule;
  const std::vector<Steps> shape = make();
  for (size_t thread = 0; thread < shape.size(); ++thread) {
    schedule.insert(schedule.end(), shape[thread].size(), thread);
  }
  do {
    Rig rig;
    const std::vector<Steps> threads = make();
    std::vector<size_t> next(threads.size());
    for (const size_t thread : schedule) threads[thread][next[thread]++](&rig);
    ++tally.interleavings;
    if (rig.CountLost() > 0) ++tally.lossy;
  } while (std::next_permutation(schedule.begin(), schedule.end()));
  return tally;
}

// First, two writers and a loader that moves forward over two windows. Then one writer and a loader
// that moves forward, back over the second window, and forward again.
Tally RunScenarios(Order order) {
  const MessageKey start{};
  const MessageKey middle = MessageKey::FirstAt(100);
  const MessageKey end = KeyOf(200, 7);  // inside a millisecond
  const Tally forward = RunAllInterleavings([&]() -> std::vector<Steps> {
    return {WriterSteps(order, KeyOf(99, 1)), WriterSteps(order, KeyOf(200, 2)),
            Concat({LoaderSteps(order, start, middle), LoaderSteps(order, middle, end)})};
  });
  const Tally back = RunAllInterleavings([&]() -> std::vector<Steps> {
    return {WriterSteps(order, KeyOf(150, 1)),
            Concat({LoaderSteps(order, start, middle), LoaderSteps(order, middle, end),
                    RetreatSteps(middle), LoaderSteps(order, middle, end)})};
  });
  // 12! / (6! 3! 3!) and 14! / (11! 3!): the test ran all of them.
  EXPECT_EQ(forward.interleavings, 18'480);
  EXPECT_EQ(back.interleavings, 364);
  return Tally{.interleavings = forward.interleavings + back.interleavings,
               .lossy = forward.lossy + back.lossy};
}

TEST(HorizonTest, NoInterleavingLosesAMessage) { EXPECT_EQ(RunScenarios(Order::kRight).lossy, 0); }

TEST(HorizonTest, ALoaderThatIteratesBeforeItPublishesLoses) {
  EXPECT_GT(RunScenarios(Order::kLoaderIteratesFirst).lossy, 0);
}

TEST(HorizonTest, AWriterThatAsksBeforeItCommitsLoses) {
  EXPECT_GT(RunScenarios(Order::kWriterAsksFirst).lossy, 0);
}

TEST(HorizonTest, CoversIsExactAtTheKey) {
  Horizon horizon;
  EXPECT_FALSE(horizon.Covers(MessageKey{}));
  const MessageKey until = KeyOf(500, 10);
  horizon.Publish(until);
  EXPECT_EQ(horizon.until(), until);
  EXPECT_TRUE(horizon.Covers(KeyOf(499, 99)));
  EXPECT_TRUE(horizon.Covers(KeyOf(500, 9)));
  EXPECT_FALSE(horizon.Covers(KeyOf(500, 10)));
  EXPECT_FALSE(horizon.Covers(KeyOf(500, 11)));
  EXPECT_FALSE(horizon.Covers(MessageKey::FirstAt(501)));
  horizon.Publish(KeyOf(500, 3));
  EXPECT_FALSE(horizon.Covers(KeyOf(500, 9)));
}

// ---- Real threads

// The point between two steps at which a thread is.
enum class Point { kWriterInTheMiddle, kWriterBeforeOffer, kLoaderInTheMiddle, kLoaderBeforeOffer };

// The pause points. Between its two steps a thread now and then waits until the other side has made
// both of its own, or for a bounded number of yields. So nearly every round hits the gap of a wrong
// order, on a busy and on an idle machine. Yields are rare, because each may cost milliseconds on a
// busy machine.
class Pauses {
 public:
  void operator()(Point point, std::mt19937_64* random) {
    const uint64_t dice = (*random)() % 128;
    if (point == Point::kWriterInTheMiddle && dice == 0) {
      WaitForTwo(loader_rounds_);
    } else if (point == Point::kLoaderInTheMiddle && dice < 32) {
      WaitForTwo(writer_rounds_);
    } else if (dice == 127) {
      std::this_thread::yield();
    } else {
      for (uint64_t spins = dice * 4; spins > 0; --spins) {
        static_cast<void>(loader_rounds_.load(std::memory_order_relaxed));
      }
    }
  }

  void WriterRoundIsOver() { writer_rounds_.fetch_add(1, std::memory_order_relaxed); }
  void LoaderRoundIsOver() { loader_rounds_.fetch_add(1, std::memory_order_relaxed); }

 private:
  // Waits for two rounds of the other side, because the first one may have begun before.
  static void WaitForTwo(const std::atomic<uint64_t>& rounds) {
    const uint64_t before = rounds.load(std::memory_order_relaxed);
    for (int spins = 0; spins < 200 && rounds.load(std::memory_order_relaxed) < before + 2;
         ++spins) {
      std::this_thread::yield();
    }
  }

  // Relaxed, because the pauses must not add an order that the protocol does not give.
  std::atomic<uint64_t> writer_rounds_{0};
  std::atomic<uint64_t> loader_rounds_{0};
};

// Counts of one round.
struct Outcome {
  int64_t written = 0;
  int64_t offered_twice = 0;
  int64_t lost = 0;
};

// One round: writers and a loader on a fresh rig. Calls `Pause` between every two steps.
template <typename Pause>
class Round {
 public:
  static constexpr int kWriters = 3;
  static constexpr int kKeysPerWriter = 400;
  static constexpr int kWindows = 60;
  static constexpr uint64_t kWindowMs = 10;

  Round(Order order, uint64_t seed) : order_(order), seed_(seed) {}

  Outcome Run() {
    std::vector<std::thread> threads;
    for (uint64_t writer = 0; writer < kWriters; ++writer) {
      threads.emplace_back([this, writer] { Write(writer); });
    }
    threads.emplace_back([this] { Load(); });
    for (std::thread& thread : threads) thread.join();
    return Outcome{.written = int64_t{kWriters} * kKeysPerWriter,
                   .offered_twice = offered_twice_,
                   .lost = rig_.CountLost()};
  }

 private:
  void Offer(const MessageKey& key) {
    if (!rig_.wheel.Insert(key)) offered_twice_.fetch_add(1, std::memory_order_relaxed);
  }

  // Commits messages that are due within three windows of the horizon, where the race is possible.
  void Write(uint64_t writer) {
    std::mt19937_64 random(seed_ * 16 + writer);
    for (uint64_t i = 0; i < kKeysPerWriter; ++i) {
      const uint64_t due = rig_.horizon.until().due_ms + random() % (3 * kWindowMs);
      const MessageKey key = KeyOf(due, writer * kKeysPerWriter + i);
      bool covered = false;
      if (order_ == Order::kWriterAsksFirst) {
        covered = rig_.horizon.Covers(key);
        pause_(Point::kWriterInTheMiddle, &random);
        rig_.store.Insert(key);
      } else {
        rig_.store.Insert(key);
        pause_(Point::kWriterInTheMiddle, &random);
        covered = rig_.horizon.Covers(key);
      }
      pause_(Point::kWriterBeforeOffer, &random);
      if (covered) Offer(key);
      pause_.WriterRoundIsOver();
    }
  }

  // Moves the horizon forward, and sometimes back.
  void Load() {
    std::mt19937_64 random(seed_ * 16 + kWriters);
    for (int window = 0; window < kWindows; ++window) {
      const MessageKey from = rig_.horizon.until();
      if (random() % 8 == 0 && from.due_ms > 2 * kWindowMs) {
        const MessageKey back = MessageKey::FirstAt(from.due_ms - random() % kWindowMs);
        rig_.horizon.Publish(back);
        pause_(Point::kLoaderBeforeOffer, &random);
        rig_.wheel.EraseFrom(back);
        continue;
      }
      // Half of the horizons are inside a millisecond.
      const MessageKey until = KeyOf(from.due_ms + kWindowMs, random() % 2 * kKeysPerWriter);
      LoadWindow(from, until, &random);
      pause_.LoaderRoundIsOver();
    }
  }

  void LoadWindow(const MessageKey& from, const MessageKey& until, std::mt19937_64* random) {
    std::vector<MessageKey> found;
    if (order_ == Order::kLoaderIteratesFirst) {
      found = rig_.store.Snapshot(from, until);
      pause_(Point::kLoaderInTheMiddle, random);
      rig_.horizon.Publish(until);
    } else {
      rig_.horizon.Publish(until);
      pause_(Point::kLoaderInTheMiddle, random);
      found = rig_.store.Snapshot(from, until);
    }
    pause_(Point::kLoaderBeforeOffer, random);
    for (const MessageKey& key : found) Offer(key);
  }

  const Order order_;
  const uint64_t seed_;
  Rig rig_;
  Pause pause_;
  std::atomic<int64_t> offered_twice_{0};
};

void Print(const Outcome& total, int64_t rounds) {
  std::printf("%lld rounds, %lld messages: %lld lost, %lld offered twice\n",
              static_cast<long long>(rounds), static_cast<long long>(total.written),
              static_cast<long long>(total.lost), static_cast<long long>(total.offered_twice));
}

// Runs rounds until one loses a message, at most `rounds_max`.
Outcome RunUntilLost(Order order, int64_t rounds_max) {
  const uint64_t seed = test::TestSeed();
  Outcome total;
  int64_t round = 0;
  for (; round < rounds_max && total.lost == 0; ++round) {
    const Outcome outcome = Round<Pauses>(order, seed + static_cast<uint64_t>(round)).Run();
    total.written += outcome.written;
    total.offered_twice += outcome.offered_twice;
    total.lost += outcome.lost;
  }
  Print(total, round);
  return total;
}

TEST(HorizonStressTest, TheRightOrderLosesNothing) {
  // On a busy machine the two sides may not meet in one round.
  const int64_t rounds = std::max<int64_t>(test::Scaled(25), 10);
  const Outcome total = RunUntilLost(Order::kRight, rounds);
  EXPECT_EQ(total.lost, 0);
  EXPECT_EQ(total.written, rounds * 3 * 400);
  // The two sides met. Otherwise the test would prove nothing.
  EXPECT_GT(total.offered_twice, 0);
}

TEST(HorizonStressTest, ALoaderThatIteratesBeforeItPublishesLoses) {
  EXPECT_GT(RunUntilLost(Order::kLoaderIteratesFirst, 1'000).lost, 0);
}

TEST(HorizonStressTest, AWriterThatAsksBeforeItCommitsLoses) {
  EXPECT_GT(RunUntilLost(Order::kWriterAsksFirst, 1'000).lost, 0);
}

}  // namespace
}  // namespace duetime::scheduler
