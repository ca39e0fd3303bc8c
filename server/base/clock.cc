// SPDX-License-Identifier: Apache-2.0
#include "server/base/clock.h"

#include <algorithm>
#include <ctime>

namespace duetime::base {
namespace {

constexpr int64_t kNanosPerMs = 1'000'000;

// Rounds down, and sets `begun` if that changed the time.
int64_t ReadMillis(clockid_t clock, bool* begun) {
  timespec time{};
  clock_gettime(clock, &time);
  if (time.tv_nsec % kNanosPerMs != 0) *begun = true;
  return static_cast<int64_t>(time.tv_sec) * 1000 + time.tv_nsec / kNanosPerMs;
}

}  // namespace

RawTime ReadMachineClocks() {
  RawTime raw;
  raw.wall_ms = ReadMillis(CLOCK_REALTIME, &raw.begun);
  raw.boot_ms = static_cast<uint64_t>(ReadMillis(CLOCK_BOOTTIME, &raw.begun));
  return raw;
}

uint64_t ReadMicros() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 +
         static_cast<uint64_t>(time.tv_nsec) / 1'000;
}

Now ServerTime::Update(RawTime raw) {
  const uint64_t wall = raw.wall_ms > 0 ? static_cast<uint64_t>(raw.wall_ms) : 0;
  last_.begun_ms = raw.begun ? 1 : 0;
  if (!started_) {
    started_ = true;
    last_.wall_ms = latest_ms_ = unbroken_ms_ = wall;
    last_.mono_ms = raw.boot_ms;
    return last_;
  }
  const uint64_t passed = std::max(last_.mono_ms, raw.boot_ms) - last_.mono_ms;
  last_.mono_ms += passed;
  unbroken_ms_ += passed;
  if (wall > unbroken_ms_ + forward_step_max_ms_ && !release_) {
    state_ = ClockState::kAhead;
    last_.wall_ms += passed;
    latest_ms_ = std::max(latest_ms_, last_.wall_ms);
    return last_;
  }
  release_ = false;
  // Leaving a jump that was not accepted is no step back, unless server time itself goes back.
  if (wall < last_.wall_ms) ++steps_back_;
  last_.wall_ms = wall;
  latest_ms_ = std::max(latest_ms_, wall);
  unbroken_ms_ = std::max(unbroken_ms_, wall);
  state_ = wall < latest_ms_ ? ClockState::kSetBack : ClockState::kNormal;
  return last_;
}

}  // namespace duetime::base
