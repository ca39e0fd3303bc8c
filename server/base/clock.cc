// SPDX-License-Identifier: Apache-2.0
#include "server/base/clock.h"

#include <algorithm>
#include <ctime>

namespace duetime::base {
namespace {

int64_t ReadMillis(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<int64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

}  // namespace

RawTime ReadMachineClocks() {
  return RawTime{.wall_ms = ReadMillis(CLOCK_REALTIME),
                 .boot_ms = static_cast<uint64_t>(ReadMillis(CLOCK_BOOTTIME))};
}

uint64_t ReadMicros() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1'000'000 +
         static_cast<uint64_t>(time.tv_nsec) / 1'000;
}

Now ServerTime::Update(RawTime raw) {
  const uint64_t wall = raw.wall_ms > 0 ? static_cast<uint64_t>(raw.wall_ms) : 0;
  if (!started_) {
    started_ = true;
    last_ = Now{.wall_ms = wall, .mono_ms = raw.boot_ms};
    return last_;
  }
  const uint64_t mono = std::max(last_.mono_ms, raw.boot_ms);
  const uint64_t expected = last_.wall_ms + (mono - last_.mono_ms);
  if (wall < last_.wall_ms) {
    state_ = ClockState::kWaiting;
    last_.mono_ms = mono;
  } else if (wall > expected + forward_step_max_ms_ && !release_) {
    state_ = ClockState::kHeld;
    last_ = Now{.wall_ms = expected, .mono_ms = mono};
  } else {
    state_ = ClockState::kNormal;
    release_ = false;
    last_ = Now{.wall_ms = wall, .mono_ms = mono};
  }
  return last_;
}

}  // namespace duetime::base
