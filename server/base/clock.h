// SPDX-License-Identifier: Apache-2.0
//
// The daemon's two kinds of time, and the rule that derives them from the machine's clocks.
#pragma once

#include <chrono>
#include <cstdint>

namespace duetime::base {

// One reading of the server's time. Rooms below runtime take it as an argument and read no clock.
struct Now {
  // Milliseconds since the Unix epoch, UTC. Decides when messages are due. Decreases if the
  // machine's clock is set back.
  uint64_t wall_ms = 0;
  // Milliseconds of a steady clock that includes suspend time, for leases, retries and pacing.
  // Never decreases. Its zero is arbitrary and differs between processes.
  uint64_t mono_ms = 0;
  // 1 if both times were rounded down, so that their millisecond has begun. A delay that starts now
  // counts from the next one, or it would be too short by a part of a millisecond.
  uint64_t begun_ms = 0;

  // The times rounded up, from which a delay counts.
  uint64_t wall_up_ms() const { return wall_ms + begun_ms; }
  uint64_t mono_up_ms() const { return mono_ms + begun_ms; }
};

// A raw reading of the machine's clocks.
struct RawTime {
  int64_t wall_ms = 0;
  uint64_t boot_ms = 0;
  // True if a clock was rounded down.
  bool begun = false;
};

// Reads CLOCK_REALTIME and CLOCK_BOOTTIME, rounded down to milliseconds. The only place that reads
// a clock. Thread-safe.
RawTime ReadMachineClocks();

// Microseconds of CLOCK_MONOTONIC, only for measuring elapsed time. Thread-safe.
uint64_t ReadMicros();

enum class ClockState : uint8_t {
  kNormal,   // the wall clock agrees with the steady clock
  kSetBack,  // the wall clock was set back, and has not caught up with its latest time yet
  kAhead,    // the wall clock jumped ahead too far: server time does not follow
  kTest,     // a test clock: server time moves when a client says so
};

// Turns raw readings into server time.
//
// Server time follows the wall clock, also back: the time that is corrected counts, and a message
// that is accepted or handed out afterwards is compared with it. A forward step of more than
// `forward_step_max_ms`, measured against the steady clock, is not followed: server time continues
// at the steady clock's pace, because messages released by a wrong clock cannot be called back.
// Both clocks are rounded down, so it may then be a millisecond off. Server time follows again once
// the wall clock is back within the threshold, or after Release(). A clock that was set back may
// return to where it would be now: that is no forward step.
//
// Guarantees: (1) mono_ms never decreases; (2) wall_ms never exceeds the wall clock. Thread safety:
// confined (the runtime's clock guards it).
class ServerTime {
 public:
  explicit ServerTime(uint64_t forward_step_max_ms) : forward_step_max_ms_(forward_step_max_ms) {}

  // Records a reading and returns the server's time.
  Now Update(RawTime raw);

  // Accepts a jump that was not accepted: the next Update follows the wall clock.
  void Release() { release_ = true; }

  ClockState state() const { return state_; }
  // How often the wall clock was set back since the first reading.
  uint64_t steps_back() const { return steps_back_; }

 private:
  const uint64_t forward_step_max_ms_;
  bool started_ = false;
  bool release_ = false;
  ClockState state_ = ClockState::kNormal;
  Now last_;
  // The latest time so far.
  uint64_t latest_ms_ = 0;
  // The time that the wall clock would show if it had never been set back.
  uint64_t unbroken_ms_ = 0;
  uint64_t steps_back_ = 0;
};

// A source of the server's time. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Now Read() = 0;
  virtual ClockState state() = 0;
  // How often the wall clock was set back.
  virtual uint64_t steps_back() { return 0; }
  // The clock of what a test clock does not move: connections, calls, rights, backups, the drain.
  virtual Clock* machine() { return this; }
  // How long `ms` of this clock take.
  virtual std::chrono::microseconds RealTime(uint64_t ms) { return std::chrono::milliseconds(ms); }
};

}  // namespace duetime::base
