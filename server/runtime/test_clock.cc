// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/test_clock.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "server/base/check.h"

namespace duetime::runtime {
namespace {

// Of the file with the time: digits and a line break.
constexpr size_t kTimeDigits = 15;

}  // namespace

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
  constexpr uint64_t kLoadWindowMs = uint64_t{250} * 365 * kDayMs;
  options->test_clock = true;
  scheduler::SchedulerLimits& limits = options->limits.scheduler;
  limits.load_window_ms = kLoadWindowMs;
  // The records with which a run tells the next one how far it came. After a kill, the next run
  // looks at all messages again, and those that were due within a day come as perhaps delivered
  // before.
  limits.low_watermark_period_ms = kLoadWindowMs;
  limits.claim_ahead_ms = kDayMs;
  limits.claim_renew_ms = kDayMs / 2;
  options->limits.test_clock = true;
  // A restart hands out at once what waits.
  options->startup_rate = 0;
}

TestClock::TestClock(uint64_t start_ms, ClockPace pace)
    : pace_(pace), start_ms_(start_ms), from_ms_(start_ms) {
  DT_CHECK(pace.speed >= 1 && pace.speed <= kSpeedMax);
  from_machine_ms_ = machine_.Read().mono_ms;
}

TestClock::~TestClock() {
  if (file_ >= 0) close(file_);
}

base::Now TestClock::Read() {
  base::MutexLock lock(&mutex_);
  const uint64_t now_ms = ReadLocked();
  // As if the machine had been up for a while.
  constexpr uint64_t kUpMs = 1'000'000;
  return {.wall_ms = now_ms, .mono_ms = kUpMs + now_ms - start_ms_};
}

std::chrono::microseconds TestClock::RealTime(uint64_t ms) {
  base::MutexLock lock(&mutex_);
  if (pace_.frozen || held_) return std::chrono::hours(1);
  constexpr uint64_t kMicros = 1'000;
  return std::chrono::microseconds(ms * kMicros / pace_.speed);
}

uint64_t TestClock::limit_ms() const {
  base::MutexLock lock(&mutex_);
  return start_ms_ + kAheadMaxMs;
}

absl::Status TestClock::KeepIn(const std::string& path) {
  base::MutexLock lock(&mutex_);
  DT_CHECK_LT(file_, 0);
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file_ < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  char text[kTimeDigits] = {};
  const ssize_t read = pread(file_, text, sizeof(text), 0);
  uint64_t kept_ms = 0;
  if (read > 0 && !absl::SimpleAtoi(absl::string_view(text, static_cast<size_t>(read)), &kept_ms)) {
    return absl::DataLossError(absl::StrCat(path, " holds no time"));
  }
  Anchor();
  start_ms_ = from_ms_ = std::max(from_ms_, kept_ms);
  return SaveLocked();
}

absl::Status TestClock::Save() {
  base::MutexLock lock(&mutex_);
  return SaveLocked();
}

absl::Status TestClock::SaveLocked() {
  if (file_ < 0) return absl::OkStatus();
  const std::string text =
      absl::StrFormat("%0*d\n", static_cast<int>(kTimeDigits - 1), ReadLocked());
  if (pwrite(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, "cannot keep the time of the test clock");
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
  from_ms_ = std::max(from_ms_, std::min(wall_ms, start_ms_ + kAheadMaxMs));
  // The housekeeping saves it, too, and tells if that fails.
  SaveLocked().IgnoreError();
}

uint64_t TestClock::ReadLocked() {
  if (held_ || pace_.frozen) return from_ms_;
  return std::min(from_ms_ + (machine_.Read().mono_ms - from_machine_ms_) * pace_.speed,
                  start_ms_ + kAheadMaxMs);
}

void TestClock::Anchor() {
  from_ms_ = ReadLocked();
  from_machine_ms_ = machine_.Read().mono_ms;
}

}  // namespace duetime::runtime
