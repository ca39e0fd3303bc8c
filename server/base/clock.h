// SPDX-License-Identifier: Apache-2.0
//
// The daemon's two kinds of time, and the rule that derives them from the machine's clocks.
#pragma once

#include <cstdint>

namespace duetime::base {

// One reading of the server's time. Rooms below runtime take it as an argument and read no clock.
struct Now {
  // Milliseconds since the Unix epoch, UTC. Decides when messages are due. Never decreases within a
  // process.
  uint64_t wall_ms = 0;
  // Milliseconds of a steady clock that includes suspend time, for leases, retries and pacing.
  // Never decreases. Its zero is arbitrary and differs between processes.
  uint64_t mono_ms = 0;
};

// A raw reading of the machine's clocks.
struct RawTime {
  int64_t wall_ms = 0;
  uint64_t boot_ms = 0;
};

// Reads CLOCK_REALTIME and CLOCK_BOOTTIME, rounded down to milliseconds. The only place that reads
// a clock. Thread-safe.
RawTime ReadMachineClocks();

// Microseconds of CLOCK_MONOTONIC, only for measuring elapsed time. Thread-safe.
uint64_t ReadMicros();

enum class ClockState : uint8_t {
  kNormal,   // the wall clock agrees with the steady clock
  kWaiting,  // the wall clock was set back: server time waits for it
  kHeld,     // the wall clock jumped ahead too far: server time does not follow
};

// Turns raw readings into server time.
//
// Server time follows the wall clock but never goes back. After a step back it stands still until
// the wall clock has caught up, so that no message is early or repeated. A forward step of more
// than `forward_step_max_ms` between two readings, measured against the steady clock, is not
// followed: server time continues at the steady clock's pace, because messages released by a wrong
// clock cannot be called back. Server time follows again once the wall clock is back within the
// threshold, or after Release().
//
// Guarantees: (1) wall_ms and mono_ms never decrease; (2) wall_ms exceeds the greatest wall reading
// so far by at most the steady time since a reading. Thread safety: confined (the runtime's clock
// guards it).
class ServerTime {
 public:
  explicit ServerTime(uint64_t forward_step_max_ms) : forward_step_max_ms_(forward_step_max_ms) {}

  // Records a reading and returns the server's time.
  Now Update(RawTime raw);

  // Accepts a held jump: the next Update follows the wall clock.
  void Release() { release_ = true; }

  ClockState state() const { return state_; }

 private:
  const uint64_t forward_step_max_ms_;
  bool started_ = false;
  bool release_ = false;
  ClockState state_ = ClockState::kNormal;
  Now last_;
};

// A source of the server's time. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Now Read() = 0;
  virtual ClockState state() = 0;
};

}  // namespace duetime::base
