// SPDX-License-Identifier: Apache-2.0
//
// FakeLog: a shared log in memory, with the faults of a real one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/cell/log.h"

namespace duetime::test {

// Draws from one seeded source whether something happens.
class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  bool OneIn(uint64_t chances) { return Below(chances) == 0; }
  uint64_t Below(uint64_t bound) { return random_() % bound; }

 private:
  std::mt19937_64 random_;
};

// All members of a test use one object, on one thread. An append may fail with the entry written,
// lost, or late, so that it arrives during any later call; it may be written twice, or damaged; a
// read or End may fail; offsets have gaps. What a reader has seen is never lost. `meanwhile` runs
// within each call: what other members do while this one waits.
class FakeLog final : public cell::Log {
 public:
  explicit FakeLog(Dice* dice) : dice_(dice) {}

  std::function<void()> meanwhile = [] {};
  // From now on nothing fails.
  void Heal() {
    healed_ = true;
    for (std::string& bytes : std::exchange(late_, {})) Write(std::move(bytes));
  }
  // The time of the entries that follow.
  uint64_t time_ms = 0;
  // From now on everything fails with this.
  void Fail(absl::Status error) { error_ = std::move(error); }
  // Loses the entries from `offset` on, as no log may.
  void Lose(uint64_t offset) { entries_.erase(entries_.lower_bound(offset), entries_.end()); }
  // Has an entry there, for a log that is like another one.
  void Put(uint64_t offset, std::string bytes) {
    entries_[offset] = {.offset = offset, .time_ms = time_ms, .bytes = std::move(bytes)};
  }
  uint64_t unknown() const { return unknown_; }
  uint64_t end() const { return entries_.empty() ? begin_ : entries_.rbegin()->first + 1; }

  absl::StatusOr<uint64_t> Append(absl::string_view bytes) override {
    Wait();
    if (!error_.ok()) return error_;
    if (Fails()) {
      ++unknown_;
      if (dice_->OneIn(3)) {
        Write(std::string(bytes));
      } else if (dice_->OneIn(2)) {
        late_.emplace_back(bytes);
      }
      Wait();
      return absl::DeadlineExceededError("no report");
    }
    std::string written(bytes);
    if (!healed_ && dice_->OneIn(30)) written[dice_->Below(written.size())] ^= 1;
    const uint64_t offset = Write(std::move(written));
    if (!healed_ && dice_->OneIn(20)) Write(std::string(bytes));
    Wait();
    return offset;
  }

  absl::StatusOr<std::optional<cell::LogEntry>> Read(uint64_t offset) override {
    Wait();
    if (Fails()) return Error();
    const auto entry = entries_.lower_bound(offset);
    if (offset < begin_) return absl::OutOfRangeError("trimmed");
    if (entry == entries_.end() || (!healed_ && dice_->OneIn(20))) return std::nullopt;
    return entry->second;
  }

  void Post(absl::string_view bytes) override {
    Wait();
    if (!Fails()) Write(std::string(bytes));
  }

  absl::Status Trim(uint64_t offset) override {
    if (Fails()) return Error();
    begin_ = std::max(begin_, offset);
    entries_.erase(entries_.begin(), entries_.lower_bound(offset));
    return absl::OkStatus();
  }

  absl::StatusOr<uint64_t> End() override {
    Wait();
    if (Fails()) return Error();
    return end();
  }

 private:
  bool Fails() { return !error_.ok() || (!healed_ && dice_->OneIn(6)); }
  absl::Status Error() { return error_.ok() ? absl::UnavailableError("no leader") : error_; }
  void Wait() {
    if (!late_.empty() && dice_->OneIn(8)) {
      std::swap(late_[dice_->Below(late_.size())], late_.back());
      Write(std::move(late_.back()));
      late_.pop_back();
    }
    meanwhile();
  }
  uint64_t Write(std::string bytes) {
    const uint64_t offset = next_offset_ + (dice_->OneIn(4) ? dice_->Below(3) : 0);
    next_offset_ = offset + 1;
    entries_.emplace(
        offset, cell::LogEntry{.offset = offset, .time_ms = time_ms, .bytes = std::move(bytes)});
    return offset;
  }

  Dice* const dice_;
  std::map<uint64_t, cell::LogEntry> entries_;
  uint64_t next_offset_ = 0;
  uint64_t begin_ = 0;
  std::vector<std::string> late_;
  bool healed_ = false;
  absl::Status error_;
  uint64_t unknown_ = 0;
};

}  // namespace duetime::test
