// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/test_clock.h"

#include <algorithm>

#include "absl/time/time.h"

#include "server/base/check.h"

namespace duetime::runtime {

std::optional<uint64_t> TestClockStart(const ClockOptions& options) {
  constexpr int64_t kMsMax = 7'258'118'400'000;  // 2200-01-01
  if (options.test_clock == "now") return SystemClock().Read().wall_ms;
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, options.test_clock, &time, nullptr)) return std::nullopt;
  const int64_t ms = absl::ToUnixMillis(time);
  if (ms < 0 || ms >= kMsMax) return std::nullopt;
  return static_cast<uint64_t>(ms);
}

void FitTestClock(NodeOptions* options) {
  // Every message is loaded at once, so the loader has no times of its own. More than a clock
  // moves.
  constexpr uint64_t kDayMs = uint64_t{24} * 3'600'000;
  constexpr uint64_t kLoadWindowMs = 250 * 365 * kDayMs;
  options->test_clock = true;
  scheduler::SchedulerLimits& limits = options->limits.scheduler;
  limits.load_window_ms = kLoadWindowMs;
  // The records with which a run tells the next one how far it came. After a kill, messages that
  // were due within a day come as perhaps delivered before.
  limits.low_watermark_period_ms = kDayMs;
  limits.claim_ahead_ms = kDayMs;
  limits.claim_renew_ms = kDayMs / 2;
  options->limits.confirms_due = true;
  // A restart hands out at once what waits.
  options->startup_rate = 0;
}

TestClock::TestClock(uint64_t start_ms, ClockPace pace) : pace_(pace), from_ms_(start_ms) {
  DT_CHECK(pace.speed >= 1 && pace.speed <= kSpeedMax);
  from_machine_ms_ = machine_.Read().mono_ms;
}

base::Now TestClock::Read() {
  base::MutexLock lock(&mutex_);
  const uint64_t now_ms = ReadLocked();
  return {.wall_ms = now_ms, .mono_ms = now_ms};
}

std::chrono::microseconds TestClock::RealTime(uint64_t ms) {
  base::MutexLock lock(&mutex_);
  constexpr uint64_t kMicros = 1'000;
  const uint64_t speed = pace_.frozen || held_ ? 1 : pace_.speed;
  return std::chrono::microseconds(ms * kMicros / speed);
}

ClockPace TestClock::pace() const {
  base::MutexLock lock(&mutex_);
  return pace_;
}

void TestClock::SetPace(ClockPace pace) {
  DT_CHECK(pace.speed >= 1 && pace.speed <= kSpeedMax);
  base::MutexLock lock(&mutex_);
  Anchor();
  pace_ = pace;
}

void TestClock::Hold() {
  base::MutexLock lock(&mutex_);
  Anchor();
  held_ = true;
}

void TestClock::Release() {
  base::MutexLock lock(&mutex_);
  Anchor();
  held_ = false;
}

void TestClock::MoveTo(uint64_t wall_ms) {
  base::MutexLock lock(&mutex_);
  Anchor();
  from_ms_ = std::max(from_ms_, std::min(wall_ms, kMsMax));
}

uint64_t TestClock::ReadLocked() {
  if (held_ || pace_.frozen) return from_ms_;
  return std::min(from_ms_ + (machine_.Read().mono_ms - from_machine_ms_) * pace_.speed, kMsMax);
}

void TestClock::Anchor() {
  from_ms_ = ReadLocked();
  from_machine_ms_ = machine_.Read().mono_ms;
}

}  // namespace duetime::runtime
