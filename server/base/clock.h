// SPDX-License-Identifier: Apache-2.0
//
// Time, in the two kinds the daemon needs, and the rule that turns a machine's clocks into the
// server's.
#pragma once

#include <cstdint>

namespace duetime::base {

// One reading of the server's time. Every room below runtime takes it as an argument and reads no
// clock.
struct Now {
  // Milliseconds since the Unix epoch, UTC: decides what is due. Never decreases within a process.
  uint64_t wall_ms = 0;
  // Milliseconds of a steady clock that counts time asleep: leases, retries, pacing. Never
  // decreases; its zero is arbitrary and differs between processes.
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

// Microseconds of CLOCK_MONOTONIC, for measuring how long something took and for nothing else.
// Thread-safe.
uint64_t ReadMicros();

enum class ClockState : uint8_t {
  kNormal,   // wall and steady clock agree
  kWaiting,  // the wall clock went back: server time stands still until it catches up
  kHeld,     // the wall clock jumped ahead by more than the threshold: the jump is not followed
};

// Turns raw readings into server time.
//
// Server time follows the wall clock but never goes back: after a step back it stands still until
// the wall clock has caught up, so that nothing is early or happens twice. A step forward of more
// than `forward_step_max_ms` between two readings, measured against the steady clock, is not
// followed: time goes on at the steady clock's pace from where it was, since messages released by a
// wrong clock can't be called back. It is followed once the wall clock comes back to within the
// threshold, or after Release().
//
// Guarantees: (1) wall_ms and mono_ms never decrease; (2) wall_ms is never ahead of every wall
// reading so far, except by steady time passed since a reading. Thread safety: confined (the
// runtime's clock guards it).
class ServerTime {
 public:
  explicit ServerTime(uint64_t forward_step_max_ms) : forward_step_max_ms_(forward_step_max_ms) {}

  // Takes a reading and returns the server's time.
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

// What the runtime asks for the time. Implementations are thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Now Read() = 0;
  virtual ClockState state() = 0;
};

}  // namespace duetime::base
