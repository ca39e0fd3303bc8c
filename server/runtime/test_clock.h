// SPDX-License-Identifier: Apache-2.0
//
// TestClock: server time for tests of clients, which moves forward when a client says so.
#pragma once

#include <chrono>
#include <cstdint>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/runtime/runtime_options.h"
#include "server/runtime/system_clock.h"

namespace duetime::runtime {

// Sets what a node with a test clock does otherwise: the clock need not stop for work that happens
// to no message.
void FitTestClock(NodeOptions* options);

// How a test clock moves by itself.
struct ClockPace {
  bool frozen = false;
  // Seconds of server time for each second of the machine, if it is not frozen.
  uint32_t speed = 1;
};

// Both of its times are the same number, so a delay and a deadline agree however the clock moves.
//
// Guarantee: time never goes back. Thread-safe.
class TestClock final : public base::Clock {
 public:
  static constexpr uint32_t kSpeedMax = 100'000;
  // It goes no further than the end of 2239. A message may be due, and a shard load, some centuries
  // later still (MessageId::kDueMax).
  static constexpr uint64_t kMsMax = 8'520'000'000'000;

  TestClock(uint64_t start_ms, ClockPace pace);

  base::Now Read() override;
  base::ClockState state() override { return base::ClockState::kTest; }
  base::Clock* machine() override { return &machine_; }
  std::chrono::microseconds RealTime(uint64_t ms) override;

  ClockPace pace() const;
  // REQUIRES: 1 <= pace.speed <= kSpeedMax.
  void SetPace(ClockPace pace);
  // Stops the clock until Release, whatever its pace.
  void Hold();
  void Release();
  // Moves the time forward. No effect if it is there or beyond.
  void MoveTo(uint64_t wall_ms);

 private:
  uint64_t ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the present time be the one from which the clock goes on.
  void Anchor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SystemClock machine_;
  mutable base::Mutex mutex_;
  ClockPace pace_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  // Server time, and the machine's steady time then.
  uint64_t from_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t from_machine_ms_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::runtime
