// SPDX-License-Identifier: Apache-2.0
//
// CancellableWheel: a TimingWheel whose entries can be taken back.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/base/check.h"
#include "server/wheel/timing_wheel.h"

namespace duetime::wheel {

// What the owner of a timer keeps of it, beside the thing that the timer is about. Not none from
// Add until the entry is handed out or cancelled. Moves and copies with the thing.
struct TimerStamp {
  uint32_t number = 0;

  // True if no timer is set.
  bool none() const { return number == 0; }
};

// A timing wheel with Cancel.
//
// Model: the owner has a table of things that may have a timer each, and keeps a stamp with each
// thing; an entry names a thing. Add writes a number that no other entry has into the stamp and
// into the entry, Cancel clears the stamp and leaves the entry where it lies, which may be any
// place in any level: nothing has to be found or unlinked. An entry is alive while the stamp of its
// thing has its number. What lies there dead is dropped when its time comes, or swept before that:
// while the dead outnumber the living, each Cancel sweeps a little.
//
// What it does not do: as TimingWheel, which is what it consists of. It keeps no table of its own:
// the owner's is looked at anyway, before and after, and a second one would be a cache miss more
// for each timer.
//
// Guarantees: those of TimingWheel for what is not cancelled, and
//   G5 Exact cancel. Cancel returns true exactly if the entry was still to be handed out; then it
//      will not be.
//   G9 Memory follows the number of entries that wait, at every moment, also when one entry is
//      moved a million times: the dead are at most about twice the living and kDeadMin.
// A dead entry counts toward the budget when its time comes, and NextDue() and now() may be those
// of a dead one, earlier than they need be. With nothing but dead ones NextDue() is kNever.
//
// Cost: as TimingWheel, and a look at the stamp for each entry handed out. Cancel: O(1), with up to
// two steps of SweepStep. Memory: 4 bytes for each entry on top, and the owner's stamp.
//
// Thread safety: the caller locks (in duetime: confined to the engine thread).
//
// FindStamp: TimerStamp* operator()(const Entry&) says where the owner keeps the stamp of what the
// entry is about; null if that is gone. REQUIRES: a thing whose stamp is not none does not go
// without Cancel.
template <typename Entry, typename FindStamp>
requires std::invocable<const FindStamp&, const Entry&>
class CancellableWheel {
 public:
  using Expired = typename TimingWheel<Entry>::Expired;

  // So many dead entries are not worth a sweep.
  static constexpr size_t kDeadMin = 1024;

  // As TimingWheel's.
  CancellableWheel(Tick now, FindStamp find, SlabMemory* memory = HeapSlabs::Shared())
      : find_(find), wheel_(now, memory) {}

  // Adds an entry that is due at `due`, however near, far or past, and writes `stamp`, which is the
  // one of what the entry is about. REQUIRES: due < kNever, stamp->none().
  // Numbers come again after 2^32 adds: a dead entry that lies here as long as that may be taken
  // for a living one of the same thing.
  void Add(Tick due, const Entry& entry, TimerStamp* stamp) {
    DT_CHECK(stamp->none());
    if (++number_ == 0) number_ = 1;
    stamp->number = number_;
    ++live_;
    wheel_.Add(due, Held{.entry = entry, .number = number_});
  }

  // Takes an entry back. Returns false if the stamp is none: it was handed out or cancelled before,
  // or there was none.
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
      sweeping_ =
          !wheel_.SweepStep([this](const Held& held) { return IsAlive(find_(held.entry), held); });
    }
    return true;
  }

  // As TimingWheel's. Clears the stamps of what it hands out.
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
  // Cancelled ones that still take room.
  size_t dead() const { return wheel_.size() - live_; }
  // Memory held, in bytes.
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

  struct Held {
    Entry entry;
    // That of its stamp.
    uint32_t number;
  };

  static bool IsAlive(const TimerStamp* stamp, const Held& held) {
    return stamp != nullptr && stamp->number == held.number;
  }

  // Hands out what is alive of expired_, and empties it.
  void HandOut(std::vector<Expired>* out) {
    for (const auto& [due, held] : expired_) {
      TimerStamp* const stamp = find_(held.entry);
      if (!IsAlive(stamp, held)) continue;
      *stamp = TimerStamp();
      --live_;
      out->push_back(Expired{.due = due, .entry = held.entry});
    }
    expired_.clear();
  }

  const FindStamp find_;
  TimingWheel<Held> wheel_;
  size_t live_ = 0;
  // The number of the last entry added.
  uint32_t number_ = 0;
  bool sweeping_ = false;
  // Scratch, reused.
  std::vector<typename TimingWheel<Held>::Expired> expired_;
};

}  // namespace duetime::wheel
