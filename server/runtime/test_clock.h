// SPDX-License-Identifier: Apache-2.0
//
// TestClock: server time for tests of clients, which moves forward when a client says so.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

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

// Its two times differ by a constant, so a delay and a deadline agree however the clock moves.
//
// Guarantee: time never goes back, also not between two processes with the same file (KeepIn).
// Thread-safe.
class TestClock final : public base::Clock {
 public:
  static constexpr uint32_t kSpeedMax = 100'000;
  // How far the clock may go from its start: as far as a steady clock is expected to
  // (protocol::PaceClock).
  static constexpr uint64_t kAheadMaxMs = uint64_t{8} * 365 * 24 * 3'600'000;

  TestClock(uint64_t start_ms, ClockPace pace);
  ~TestClock() override;
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;

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
  // Moves the time forward, at most to limit_ms(). No effect if it is there or beyond.
  void MoveTo(uint64_t wall_ms);
  uint64_t limit_ms() const;

  // Begins again, at the time in this file if that is later, and from now on keeps the time there.
  // The file survives the process, not the machine. REQUIRES: nothing else uses the clock yet.
  absl::Status KeepIn(const std::string& path);
  // Writes the time to the file. MoveTo does it, too.
  absl::Status Save();

 private:
  uint64_t ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Lets the present time be the one from which the clock goes on.
  void Anchor() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Status SaveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  SystemClock machine_;
  mutable base::Mutex mutex_;
  ClockPace pace_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  // -1: none.
  int file_ ABSL_GUARDED_BY(mutex_) = -1;
  uint64_t start_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  // Server time, and the machine's steady time then.
  uint64_t from_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t from_machine_ms_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::runtime
