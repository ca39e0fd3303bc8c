// SPDX-License-Identifier: Apache-2.0
//
// CancellableWheel: a TimingWheel with Cancel.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/base/check.h"
#include "server/wheel/timing_wheel.h"

namespace duetime::wheel {

// The owner's handle of a timer, stored beside the object of the timer. The stamp is set from Add
// until the entry is handed out or cancelled. The stamp may be moved and copied with the object.
struct TimerStamp {
  uint32_t number = 0;

  // True if no timer is set.
  bool none() const { return number == 0; }
};

// A timing wheel with Cancel.
//
// Model: the owner has a table of objects that may have one timer each, and keeps a stamp with each
// object; an entry names an object. Add writes a new number into both the stamp and the entry.
// Cancel clears the stamp and leaves the entry where it lies, at any place in any level, so nothing
// has to be found or unlinked. An entry is live while the stamp of its object has the entry's
// number. A dead entry is dropped when its time comes, or swept before: while dead entries
// outnumber live ones, each Cancel sweeps a little.
//
// Not included: as in TimingWheel, on which this wheel is built. The wheel has no table of its own,
// because the owner reads its own table anyway, and a second one would cost a cache miss per timer.
//
// Guarantees: those of TimingWheel for entries that are not cancelled, and
//   G5 Exact cancel. Cancel returns true exactly if the entry was still to be handed out; then it
//      never will be.
//   G9 Memory follows the number of live entries at every moment, also when one entry is moved a
//      million times: there are at most about twice as many dead entries, plus kDeadMin.
// A dead entry counts toward the budget when its time comes. Because of a dead entry NextDue() and
// now() may be earlier than necessary. With dead entries only, NextDue() is kNever.
//
// Cost: as TimingWheel, and one read of the stamp for each entry handed out. Cancel: O(1), with up
// to two steps of SweepStep. Memory: 4 bytes per entry, and the owner's stamp.
//
// Thread safety: the caller locks (in duetime: confined to the engine thread).
//
// FindStamp: TimerStamp* operator()(const Entry&) returns the stamp of the entry's object, or null
// if the object is gone. REQUIRES: an object whose stamp is not none is cancelled before it goes.
template <typename Entry, typename FindStamp>
requires std::invocable<const FindStamp&, const Entry&>
class CancellableWheel {
 public:
  using Expired = typename TimingWheel<Entry>::Expired;

  // The number of dead entries below which a sweep is not worth it.
  static constexpr size_t kDeadMin = 1024;

  // As TimingWheel's constructor.
  CancellableWheel(Tick now, FindStamp find, SlabMemory* memory = HeapSlabs::Shared())
      : find_(find), wheel_(now, memory) {}

  // Adds an entry due at any time `due`, and writes its object's `stamp`. REQUIRES: due < kNever,
  // stamp->none(). Numbers repeat after 2^32 adds: a dead entry that stays that long may be taken
  // for a live one of the same object.
  void Add(Tick due, const Entry& entry, TimerStamp* stamp) {
    DT_CHECK(stamp->none());
    if (++number_ == 0) number_ = 1;
    stamp->number = number_;
    ++live_;
    wheel_.Add(due, Armed{.entry = entry, .number = number_});
  }

  // Cancels an entry. Returns false if the stamp is none, that is, if the entry was handed out or
  // cancelled before or never existed.
  bool Cancel(TimerStamp* stamp) {
    if (stamp->none()) return false;
    *stamp = TimerStamp();
    --live_;
    if (live_ == 0 && dead() >= kDeadMin / 4) {
      wheel_.Clear();
      sweeping_ = false;
    }
    if (!sweeping_) sweeping_ = dead() > live_ + kDeadMin;
    for (int step = 0; sweeping_ && step < kSweepSteps; ++step) {
      sweeping_ = !wheel_.SweepStep(
          [this](const Armed& armed) { return IsAlive(find_(armed.entry), armed); });
    }
    return true;
  }

  // As TimingWheel::Advance. Clears the stamps of the entries that it hands out.
  bool Advance(Tick now, size_t budget, std::vector<Expired>* out) {
    const bool done = wheel_.Advance(now, budget, &expired_);
    if (!expired_.empty()) HandOut(out);
    return done;
  }

  Tick position() const { return wheel_.position(); }
  Tick now() const { return wheel_.now(); }
  Tick NextDue() const { return live_ == 0 ? kNever : wheel_.NextDue(); }

  // Entries that wait to be handed out.
  size_t size() const { return live_; }
  // Cancelled entries that still take room.
  size_t dead() const { return wheel_.size() - live_; }
  // The memory, in bytes.
  size_t bytes() const {
    return sizeof(*this) - sizeof(wheel_) + wheel_.bytes() +
           expired_.capacity() * sizeof(expired_[0]);
  }

  // Walks everything and dies if an invariant is broken. For tests: O(entries).
  void CheckInvariants() const {
    wheel_.CheckInvariants();
    DT_CHECK_GE(wheel_.size(), live_);
  }

 private:
  static constexpr int kSweepSteps = 2;

  struct Armed {
    Entry entry;
    // The number of its stamp.
    uint32_t number = 0;
  };

  static bool IsAlive(const TimerStamp* stamp, const Armed& armed) {
    return stamp != nullptr && stamp->number == armed.number;
  }

  // Moves the live entries of expired_ to `out`, and clears expired_.
  void HandOut(std::vector<Expired>* out) {
    for (const auto& [due, armed] : expired_) {
      TimerStamp* const stamp = find_(armed.entry);
      if (!IsAlive(stamp, armed)) continue;
      *stamp = TimerStamp();
      --live_;
      out->push_back(Expired{.due = due, .entry = armed.entry});
    }
    expired_.clear();
  }

  const FindStamp find_;
  TimingWheel<Armed> wheel_;
  size_t live_ = 0;
  // The number of the last entry added.
  uint32_t number_ = 0;
  bool sweeping_ = false;
  // Scratch, reused.
  std::vector<typename TimingWheel<Armed>::Expired> expired_;
};

}  // namespace duetime::wheel
