// SPDX-License-Identifier: Apache-2.0
//
// CheckedWheel: compares a wheel with a sorted map.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/wheel/cancellable_wheel.h"
#include "server/wheel/timing_wheel.h"

namespace duetime::test {

// Owns the stamps of a CancellableWheel's entries. Each entry belongs to a thing. A thing whose
// timer is gone is soon reused for another entry.
class Things {
 public:
  // Gives a thing to the next entry. Entries come in the order of their numbers.
  wheel::TimerStamp* Next() {
    if (free_.empty()) {
      free_.push_back(stamps_.size());
      stamps_.emplace_back();
    }
    thing_of_.push_back(free_.back());
    free_.pop_back();
    return &stamps_[thing_of_.back()];
  }
  // REQUIRES: Of(number)->none().
  void Leave(uint64_t number) { free_.push_back(thing_of_[number]); }
  wheel::TimerStamp* Of(uint64_t number) { return &stamps_[thing_of_[number]]; }

 private:
  std::vector<size_t> thing_of_;
  std::vector<wheel::TimerStamp> stamps_;
  std::vector<size_t> free_;
};

struct FindStamp {
  Things* things;
  wheel::TimerStamp* operator()(uint64_t number) const { return things->Of(number); }
};
using CancellableWheel = wheel::CancellableWheel<uint64_t, FindStamp>;

// Runs every operation on a wheel and on a map ordered by (due, insertion). Dies at the first
// difference. Entries are numbered in the order of insertion.
//
// WheelType is a TimingWheel or a CancellableWheel. A TimingWheel cannot cancel; its sweeps drop
// the entries that Cancel was called for.
//
// Thread safety: confined.
template <typename WheelType>
class CheckedWheel {
 public:
  using Wheel = WheelType;
  static constexpr bool kCancels = requires(Wheel wheel) { wheel.Cancel(nullptr); };

  explicit CheckedWheel(wheel::Tick now) : wheel_(Make(now, &things_)), target_(now) {}

  // Adds an entry and returns its number.
  uint64_t Add(wheel::Tick due) {
    const uint64_t number = added_++;
    const Key key{std::max(due, wheel_.position()), number};
    if constexpr (kCancels) {
      wheel::TimerStamp* const stamp = things_.Next();
      wheel_.Add(due, number, stamp);
      DT_CHECK(!stamp->none());
    } else {
      wheel_.Add(due, number);
    }
    waiting_.emplace(key, due);
    keys_.emplace(number, key);
    dues_.insert(due);
    CheckViews();
    return number;
  }

  // Cancels any entry that was ever added: at once if the wheel can cancel, else at the next sweep.
  // REQUIRES: number < added().
  void Cancel(uint64_t number) {
    const bool waits = keys_.contains(number);
    if constexpr (kCancels) {
      if (waits) {
        DT_CHECK(wheel_.Cancel(things_.Of(number)));
        DT_CHECK(!wheel_.Cancel(things_.Of(number)));
        Forget(number);
      }
    } else if (waits) {
      unwanted_.insert(number);
    }
    CheckViews();
  }

  // Makes one step of a sweep. Returns true if that step ended a round.
  bool SweepStep() {
    bool round = false;
    if constexpr (!kCancels) {
      round = wheel_.SweepStep([this](uint64_t number) {
        DT_CHECK(keys_.contains(number));
        if (!unwanted_.contains(number)) return true;
        Forget(number);
        return false;
      });
    }
    CheckViews();
    return round;
  }

  // Calls Advance once and returns its result.
  bool Advance(wheel::Tick now, size_t budget) {
    std::vector<typename Wheel::Expired> out;
    const wheel::Tick position = wheel_.position();
    const bool done = wheel_.Advance(now, budget, &out);
    const wheel::Tick target = std::max(now, position);
    target_ = std::max(target_, target);
    DT_CHECK_LE(out.size(), budget);
    for (const typename Wheel::Expired& expired : out) {
      DT_CHECK(!waiting_.empty());
      const auto& [key, due] = *waiting_.begin();
      DT_CHECK_EQ(expired.entry, key.second);
      DT_CHECK_EQ(expired.due, due);
      DT_CHECK_LE(key.first, target);
      Forget(key.second);
    }
    const bool due_left = !waiting_.empty() && waiting_.begin()->first.first <= target;
    // False is allowed without a due entry, because a cascade may be under way. Drain bounds the
    // cascade.
    DT_CHECK(!(done && due_left));
    DT_CHECK_GE(wheel_.position(), position);
    DT_CHECK_LE(wheel_.position(), target_);
    if (done) DT_CHECK_EQ(wheel_.now(), target);
    CheckViews();
    return done;
  }

  // Advances until all due entries are handed out, and checks G4: the calls are few enough.
  void Drain(wheel::Tick now, size_t budget) {
    size_t touches_max = wheel_.size() * 8;
    if constexpr (kCancels) touches_max += wheel_.dead() * 8;
    size_t calls_max = 1 + touches_max / budget + 1;
    while (!Advance(now, budget)) {
      DT_CHECK_GT(calls_max, size_t{0});
      --calls_max;
    }
  }

  void Clear() {
    if constexpr (kCancels) {
      while (!keys_.empty()) Cancel(keys_.begin()->first);
    } else {
      wheel_.Clear();
      waiting_.clear();
      keys_.clear();
      dues_.clear();
      unwanted_.clear();
    }
    CheckViews();
  }

  const Wheel& wheel() const { return wheel_; }
  uint64_t added() const { return added_; }
  size_t waiting() const { return waiting_.size(); }
  // The latest `now` of all Advance calls.
  wheel::Tick target() const { return target_; }

 private:
  // The time at which the entry counts as due, and its number.
  using Key = std::pair<wheel::Tick, uint64_t>;

  static Wheel Make(wheel::Tick now, Things* things) {
    if constexpr (kCancels) {
      return Wheel(now, FindStamp{things});
    } else {
      return Wheel(now);
    }
  }

  void Forget(uint64_t number) {
    if constexpr (kCancels) {
      DT_CHECK(things_.Of(number)->none());
      things_.Leave(number);
    }
    const auto key = keys_.find(number);
    const auto entry = waiting_.find(key->second);
    dues_.erase(dues_.find(entry->second));
    waiting_.erase(entry);
    keys_.erase(key);
    unwanted_.erase(number);
  }

  // Checks that the wheel's own figures agree with the map.
  void CheckViews() const {
    DT_CHECK_EQ(wheel_.size(), waiting_.size());
    DT_CHECK_LE(wheel_.now(), wheel_.position());
    if (waiting_.empty()) {
      DT_CHECK_EQ(wheel_.NextDue(), wheel::kNever);
      return;
    }
    const wheel::Tick earliest = *dues_.begin();
    DT_CHECK_LE(wheel_.NextDue(), earliest);
    DT_CHECK(wheel_.now() == 0 || wheel_.now() < earliest);
    DT_CHECK(wheel_.now() == 0 || wheel_.now() < wheel_.NextDue());
  }

  // Used with a wheel that can cancel.
  Things things_;
  Wheel wheel_;
  wheel::Tick target_;
  uint64_t added_ = 0;
  // Entries to be swept, with a wheel that cannot cancel.
  std::set<uint64_t> unwanted_;
  // The waiting entries in the order in which they must come, with the due times as given.
  std::map<Key, wheel::Tick> waiting_;
  std::map<uint64_t, Key> keys_;
  std::multiset<wheel::Tick> dues_;
};

}  // namespace duetime::test
