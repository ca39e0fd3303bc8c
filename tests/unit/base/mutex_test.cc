// SPDX-License-Identifier: Apache-2.0
#include "server/base/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"

namespace duetime::base {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, OneAtATime) {
  constexpr int kThreads = 4;
  constexpr int kTimes = 20'000;
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&counter] {
      for (int time = 0; time < kTimes; ++time) {
        MutexLock lock(&counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.value, kThreads * kTimes);
}

TEST(CondVarTest, WaitReleasesTheMutexAndHoldsItAfter) {
  Counter counter;
  // Two threads count in turn: each waits for the other.
  const auto count = [&counter](int parity) {
    for (int i = 0; i < 500; ++i) {
      MutexLock lock(&counter.mutex);
      while (counter.value % 2 != parity) counter.changed.Wait(&counter.mutex);
      ++counter.value;
      counter.changed.NotifyOne();
    }
  };
  std::thread even([&count] { count(0); });
  std::thread odd([&count] { count(1); });
  even.join();
  odd.join();
  MutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.value, 1'000);
}

TEST(CondVarTest, NotifyAllWakesEveryWaiter) {
  constexpr int kWaiters = 4;
  Counter counter;
  Counter gone;
  std::vector<std::thread> threads;
  for (int i = 0; i < kWaiters; ++i) {
    threads.emplace_back([&counter, &gone] {
      {
        MutexLock lock(&counter.mutex);
        while (counter.value == 0) counter.changed.Wait(&counter.mutex);
      }
      MutexLock lock(&gone.mutex);
      ++gone.value;
    });
  }
  {
    MutexLock lock(&counter.mutex);
    counter.value = 1;
    counter.changed.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(&gone.mutex);
  EXPECT_EQ(gone.value, kWaiters);
}

TEST(CondVarTest, WaitForRunsOutAndStillHoldsTheMutex) {
  Counter counter;
  {
    MutexLock lock(&counter.mutex);
    // Spurious wake-ups are allowed, so wait until the time has run out once.
    while (counter.changed.WaitFor(&counter.mutex, std::chrono::milliseconds(1))) continue;
    ++counter.value;
  }
  MutexLock lock(&counter.mutex);
  EXPECT_EQ(counter.value, 1);
}

TEST(CondVarTest, WaitForEndsWithANotification) {
  Counter counter;
  std::thread thread([&counter] {
    MutexLock lock(&counter.mutex);
    counter.value = 1;
    counter.changed.NotifyOne();
  });
  {
    MutexLock lock(&counter.mutex);
    while (counter.value == 0) {
      // A notification must end the wait. After a whole hour the test would have hit its timeout.
      counter.changed.WaitFor(&counter.mutex, std::chrono::hours(1));
    }
  }
  thread.join();
}

}  // namespace
}  // namespace duetime::base
