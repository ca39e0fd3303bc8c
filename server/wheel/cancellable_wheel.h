// SPDX-License-Identifier: Apache-2.0
//
// CancellableWheel: a TimingWheel whose entries can be taken back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "server/base/check.h"
#include "server/wheel/node_slab.h"
#include "server/wheel/timing_wheel.h"

namespace duetime::wheel {

// Names one entry from Add until it is handed out or cancelled; harmless after that.
struct TimerHandle {
  static constexpr uint32_t kNone = 0xffff'ffff;

  uint32_t index = kNone;
  uint32_t generation = 0;

  // True for a default handle, which names nothing.
  bool none() const { return index == kNone; }

  friend constexpr bool operator==(const TimerHandle&, const TimerHandle&) = default;
};

// A timing wheel with Cancel.
//
// Model: each entry has a ticket, a place in a table, for as long as it waits. Cancel ends the
// ticket and leaves the entry where it lies, which may be any place in any level: nothing has to be
// found or unlinked. What lies there dead is dropped when its time comes, or swept before that:
// while the dead outnumber the living, each Cancel sweeps a little.
//
// What it does not do: as TimingWheel, which is what it consists of.
//
// Guarantees: those of TimingWheel for what is not cancelled, and
//   G5 Exact cancel. Cancel returns true exactly if the entry was still to be handed out; then it
//      will not be.
//   G9 Memory follows the number of entries that wait, at every moment, also when one entry is
//      moved a million times: the dead are at most about twice the living and kDeadMin.
// A dead entry counts toward the budget when its time comes, and NextDue() and now() may be those
// of a dead one, earlier than they need be. With nothing but dead ones NextDue() is kNever.
//
// Cost: as TimingWheel, and a look at the ticket, 8 bytes, for Add, Cancel and each entry handed
// out. Cancel: O(1), with up to two steps of SweepStep. Memory: 16 bytes for each entry on top.
//
// Thread safety: the caller locks (in duetime: confined to the engine thread).
template <typename Entry>
class CancellableWheel {
 public:
  using Expired = typename TimingWheel<Entry>::Expired;

  // So many dead entries are not worth a sweep.
  static constexpr size_t kDeadMin = 1024;

  // As TimingWheel's.
  explicit CancellableWheel(Tick now, SlabMemory* memory = HeapSlabs::Shared())
      : wheel_(now, memory), tickets_(memory) {}

  // Adds an entry that is due at `due`, however near, far or past. REQUIRES: due < kNever.
  // The handle's generation counts all adds in 32 bits: a handle that is kept while 2^32 further
  // entries are added may name a stranger.
  TimerHandle Add(Tick due, const Entry& entry) {
    if (++generation_ == 0) generation_ = 1;
    const uint32_t index = tickets_.Allocate();
    tickets_[index].generation = generation_;
    wheel_.Add(due, Held{.entry = entry, .ticket = index, .generation = generation_});
    return {.index = index, .generation = generation_};
  }

  // Takes an entry back. Returns false if it has been handed out or cancelled before, or if the
  // handle is none.
  bool Cancel(TimerHandle handle) {
    if (handle.generation == 0 || !IsAlive(handle.index, handle.generation)) return false;
    EndTicket(handle.index);
    if (size() == 0 && dead() >= kDeadMin / 4) Clear();
    if (!sweeping_) sweeping_ = dead() > size() + kDeadMin;
    for (int step = 0; sweeping_ && step < kSweepSteps; ++step) {
      sweeping_ = !wheel_.SweepStep(
          [this](const Held& held) { return IsAlive(held.ticket, held.generation); });
    }
    return true;
  }

  // As TimingWheel's.
  bool Advance(Tick now, size_t budget, std::vector<Expired>* out) {
    expired_.clear();
    const bool done = wheel_.Advance(now, budget, &expired_);
    for (const auto& [due, held] : expired_) {
      if (!IsAlive(held.ticket, held.generation)) continue;
      EndTicket(held.ticket);
      out->push_back(Expired{.due = due, .entry = held.entry});
    }
    return done;
  }

  Tick position() const { return wheel_.position(); }
  Tick now() const { return wheel_.now(); }
  Tick NextDue() const { return size() == 0 ? kNever : wheel_.NextDue(); }

  // Entries that wait to be handed out.
  size_t size() const { return tickets_.live(); }
  // Cancelled ones that still take room.
  size_t dead() const { return wheel_.size() - tickets_.live(); }
  // Memory held, in bytes.
  size_t bytes() const {
    return sizeof(*this) - sizeof(wheel_) + wheel_.bytes() + tickets_.bytes() +
           expired_.capacity() * sizeof(expired_[0]);
  }

  // Drops all entries; the position stays, and handles of before name nothing.
  void Clear() {
    wheel_.Clear();
    tickets_.Clear();
    sweeping_ = false;
  }

  // Walks everything and dies if an invariant is broken. For tests: O(entries).
  void CheckInvariants() const {
    wheel_.CheckInvariants();
    DT_CHECK_GE(wheel_.size(), tickets_.live());
  }

 private:
  static constexpr int kSweepSteps = 2;

  struct Held {
    Entry entry;
    uint32_t ticket;
    uint32_t generation;
  };

  struct Ticket {
    // That of the handle; 0 while the ticket is free.
    uint32_t generation;
    // The slab's.
    uint32_t next;
  };

  bool IsAlive(uint32_t ticket, uint32_t generation) const {
    return tickets_.Contains(ticket) && tickets_[ticket].generation == generation;
  }

  void EndTicket(uint32_t ticket) {
    tickets_[ticket].generation = 0;
    tickets_.Free(ticket);
  }

  TimingWheel<Held> wheel_;
  NodeSlab<Ticket> tickets_;
  // The generation of the last entry added.
  uint32_t generation_ = 0;
  bool sweeping_ = false;
  // Scratch, reused.
  std::vector<typename TimingWheel<Held>::Expired> expired_;
};

}  // namespace duetime::wheel
