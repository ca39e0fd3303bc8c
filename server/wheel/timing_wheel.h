// SPDX-License-Identifier: Apache-2.0
//
// TimingWheel: keeps many timers and hands out those that are due, in order. README.md beside this
// file has the picture.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "server/base/check.h"
#include "server/wheel/node_slab.h"

namespace duetime::wheel {

// A point in time. The unit is the caller's (milliseconds in duetime), and so is the zero.
using Tick = uint64_t;

// Later than every time. Not a time itself.
inline constexpr Tick kNever = std::numeric_limits<Tick>::max();

// Names one entry from Add until it is handed out or cancelled; harmless after that.
struct TimerHandle {
  static constexpr uint32_t kNone = 0xffff'ffff;

  uint32_t index = kNone;
  uint32_t generation = 0;

  // True for a default handle, which names nothing.
  bool none() const { return index == kNone; }

  friend constexpr bool operator==(const TimerHandle&, const TimerHandle&) = default;
};

// A hierarchical timing wheel (Varghese and Lauck's scheme 7) that holds entries until they are
// due.
//
// Model: entries wait in slots. Level 0 has a slot for each of 256 ticks, level 1 a slot for each
// of 256 times 256 ticks, and so on; eight levels cover every 64-bit time, so there is no range to
// exceed. An entry lies in the lowest level whose current turn reaches its due time. When time
// enters a slot of a higher level, its entries move down (cascade). An entry leaves level 0 when
// time reaches its tick, which is its due time itself: there is no rounding.
//
// Time is what the caller says. The wheel stands at position(): the tick that is being handed out,
// or the last one that was. An entry that is added at or before the position is late, and counts as
// due at the position.
//
// What it does not do: no clock, no thread, no lock, no I/O, no callback, no periodic timers, no
// moving of an entry to another time (cancel and add).
//
// Guarantees (each has a test that names it):
//   G1 Exactly once. An entry is handed out once, or cancelled, and never lost, whatever the jumps,
//      budgets and cancels in between. A late entry is handed out by the next Advance (as far as
//      the budget goes).
//   G2 Never early. Advance(now) hands out nothing that is due after `now`.
//   G3 Order. Entries come in (due, insertion) order, where a late one counts as due at the
//      position of the moment when it was added: it comes after everything older that is due at
//      or before that tick, and before everything later.
//   G4 Bounded work. One Advance touches at most `budget` entries: to touch is to hand out, or to
//      move down a level. An entry is touched at most 8 times in its life.
//   G5 Exact cancel. Cancel returns true exactly if the entry was still to be handed out; then it
//      will not be.
//   G6 now() is true. Whatever was added so far and is due at or before now() has been handed out
//      or cancelled.
//   G7 NextDue() is never later than the earliest entry. When the last Advance returned true, it is
//      exact if that entry is due within the position's block of 256 ticks, or if at most
//      kExactScan entries share its slot.
//   G8 Empty time is free. The cost of Advance does not depend on how far `now` moves.
//   G9 Memory follows the number of entries. What was handed out or cancelled makes room at once;
//      a chunk of nodes without an entry is given back (all but one). Growth copies no entries.
//
// Cost: Add and Cancel O(1). Advance O(budget). NextDue O(levels + kExactScan). Memory: 17 KB, and
// 24 bytes plus the entry (rounded up to 8) for each, in chunks of 4096.
//
// Invariants (CheckInvariants() checks them):
//   I1 A slot's bit is set exactly if its list is not empty, and a level's bit exactly if one of
//      its slots is in use.
//   I2 An entry due at t (a late one: at position_) lies in the level of the highest base-256 digit
//      in which t and position_ differ, or in level 0 if none does, in the slot of t's digit.
//      Hence every slot in use lies at or ahead of the position, and everything in a level is
//      earlier than everything in the levels above.
//   I3 While a cascade is under way (cascade_level_ != 0) the slot of that level where position_
//      lies holds what is left of it. What is added for its time goes behind that, not into the
//      lower levels. At any other time that slot is empty, for every level but 0.
//   I4 Every list is in order of insertion.
//   I5 The lists hold each node in use exactly once, and size() of them.
//
// Thread safety: the caller locks (in duetime: confined to the engine thread).
template <typename Entry>
class TimingWheel {
  static_assert(std::is_trivially_copyable_v<Entry>, "entries are copied as bytes");
  static_assert(sizeof(Entry) <= 32, "an entry names something, it does not carry it");

 public:
  // How many entries of one slot NextDue() looks at to tell the exact time.
  static constexpr uint32_t kExactScan = 8;

  // What Advance hands out.
  struct Expired {
    // As given to Add, also for a late entry.
    Tick due = 0;
    Entry entry;
  };

  // An empty wheel that stands at `now`, with everything due at or before it handed out. REQUIRES:
  // now < kNever.
  explicit TimingWheel(Tick now) : position_(now), open_due_min_(now) { DT_CHECK_LT(now, kNever); }
  TimingWheel(const TimingWheel&) = delete;
  TimingWheel& operator=(const TimingWheel&) = delete;

  // Adds an entry that is due at `due`, however near, far or past. REQUIRES: due < kNever.
  // The handle's generation counts all adds in 32 bits: a handle that is kept while 2^32 further
  // entries are added may name a stranger.
  TimerHandle Add(Tick due, const Entry& entry) {
    DT_CHECK_LT(due, kNever);
    if (due <= position_) open_due_min_ = TickIsOpen() ? std::min(open_due_min_, due) : due;
    const uint32_t index = slab_.Allocate();
    if (++generation_ == 0) generation_ = 1;
    Node& node = slab_[index];
    node.due = due;
    node.generation = generation_;
    node.entry = entry;
    const Tick tick = std::max(due, position_);
    Append(IsBeingCascaded(tick) ? CascadeList() : ListFor(tick), index);
    return TimerHandle{.index = index, .generation = generation_};
  }

  // Takes an entry out. Returns false if it has been handed out or cancelled before, or if the
  // handle is none.
  bool Cancel(TimerHandle handle) {
    if (handle.generation == 0 || !slab_.Contains(handle.index)) return false;
    if (slab_[handle.index].generation != handle.generation) return false;
    Unlink(handle.index);
    Release(handle.index);
    return true;
  }

  // Moves time forward to `now` and appends what is due at or before it to `out`, touching at most
  // `budget` entries (G4). Returns true when everything due at or before `now` has been handed out.
  // Returns false when the budget ended first: in the middle of a tick, or of a cascade, in which
  // case nothing may have been appended, or nothing that is due may be left. Call again then, with
  // the same `now` or a later one; each call makes progress.
  // Time does not go back: a `now` before the position is taken for the position.
  // REQUIRES: now < kNever, budget > 0.
  bool Advance(Tick now, size_t budget, std::vector<Expired>* out) {
    DT_CHECK_LT(now, kNever);
    DT_CHECK_GT(budget, size_t{0});
    const Tick target = std::max(now, position_);
    while (size() != 0) {
      if (cascade_level_ == 0) {
        // Nothing lies between the position and the start of the first slot in use (I2), so time
        // can jump to it.
        const uint32_t level = LowestLevel();
        const Tick start = SlotStart(level, FirstSlot(level));
        if (start > target) break;
        if (budget == 0) return false;
        MoveTo(start);
        if (level == 0) {
          budget -= HandOut(budget, out);
          continue;
        }
        cascade_level_ = level;
      }
      if (budget == 0) return false;
      budget -= Cascade(budget);
    }
    MoveTo(target);
    return true;
  }

  // Where the wheel stands: the tick that is being handed out, or the last one that was. Never
  // decreases.
  Tick position() const { return position_; }

  // Everything due at or before this has been handed out or cancelled (G6). The position, or the
  // tick before it while that is being handed out; steps back while a late entry waits, to the tick
  // before its due time (0 at least).
  Tick now() const {
    if (!TickIsOpen()) return position_;
    return open_due_min_ == 0 ? 0 : open_due_min_ - 1;
  }

  // When to call Advance next: a time at or before the earliest entry (G7), kNever if there is
  // none. Sleeping until then, over and over, costs a lone entry one wake-up however far it is, and
  // any entry at most 8.
  Tick NextDue() const {
    if (size() == 0) return kNever;
    if (TickIsOpen()) return open_due_min_;
    const uint32_t level = LowestLevel();
    const uint32_t slot = FirstSlot(level);
    const Tick start = SlotStart(level, slot);
    if (level == 0) return start;
    Tick earliest = kNever;
    uint32_t index = lists_[ListOf(level, slot)].head;
    for (uint32_t seen = 0; index != kNone; ++seen) {
      if (seen == kExactScan) return start;
      earliest = std::min(earliest, slab_[index].due);
      index = slab_[index].next;
    }
    return earliest;
  }

  // Entries that wait.
  size_t size() const { return slab_.live(); }

  // Memory held, in bytes, the wheel itself included.
  size_t bytes() const { return sizeof(*this) + slab_.bytes(); }

  // Drops every entry, as if each was cancelled. The position stays.
  void Clear() {
    slab_.Clear();
    lists_.fill(List{});
    occupied_ = {};
    levels_in_use_ = 0;
    cascade_level_ = 0;
  }

  // Walks everything and dies if an invariant is broken. For tests: O(entries).
  void CheckInvariants() const;

 private:
  static constexpr uint32_t kNone = TimerHandle::kNone;
  static constexpr uint32_t kSlotBits = 8;
  static constexpr uint32_t kSlots = 1u << kSlotBits;
  static constexpr uint32_t kLevels = 8;
  static constexpr uint32_t kWords = kSlots / 64;
  static_assert(kSlotBits * kLevels == std::numeric_limits<Tick>::digits,
                "the levels cover every time, so that none needs clamping");

  struct Node {
    Tick due;
    // Neighbours in the slot's list, older and newer ones.
    uint32_t next;
    uint32_t prev;
    // That of the entry's handle; 0 while the node is free.
    uint32_t generation;
    // Where the entry lies: level * kSlots + slot.
    uint32_t list;
    Entry entry;
  };

  // First in, first out.
  struct List {
    uint32_t head = kNone;
    uint32_t tail = kNone;
  };

  static constexpr uint32_t ListOf(uint32_t level, uint32_t slot) {
    return (level << kSlotBits) | slot;
  }
  static constexpr uint32_t Digit(Tick tick, uint32_t level) {
    return static_cast<uint32_t>(tick >> (level * kSlotBits)) & (kSlots - 1);
  }

  // Where an entry due at `tick` belongs (I2). REQUIRES: tick >= position_.
  uint32_t ListFor(Tick tick) const {
    const auto highest_bit = static_cast<uint32_t>(std::bit_width((tick ^ position_) | 1)) - 1;
    const uint32_t level = highest_bit / kSlotBits;
    return ListOf(level, Digit(tick, level));
  }

  // The first tick of a slot. REQUIRES: the slot is in use.
  Tick SlotStart(uint32_t level, uint32_t slot) const {
    const uint32_t shift = level * kSlotBits;
    return (((position_ >> shift) & ~Tick{kSlots - 1}) | slot) << shift;
  }

  // REQUIRES: not empty.
  uint32_t LowestLevel() const { return static_cast<uint32_t>(std::countr_zero(levels_in_use_)); }

  // REQUIRES: the level is in use.
  uint32_t FirstSlot(uint32_t level) const {
    uint32_t word = 0;
    while (occupied_[level][word] == 0) ++word;
    return word * 64 + static_cast<uint32_t>(std::countr_zero(occupied_[level][word]));
  }

  bool IsOccupied(uint32_t level, uint32_t slot) const {
    return ((occupied_[level][slot / 64] >> (slot % 64)) & 1) != 0;
  }

  // True while there is, or may be, something left to hand out at position_.
  bool TickIsOpen() const { return cascade_level_ != 0 || IsOccupied(0, Digit(position_, 0)); }

  // The slot that is being moved down. REQUIRES: cascade_level_ != 0.
  uint32_t CascadeList() const { return ListOf(cascade_level_, Digit(position_, cascade_level_)); }

  bool IsBeingCascaded(Tick tick) const {
    return cascade_level_ != 0 && ((tick ^ position_) >> (cascade_level_ * kSlotBits)) == 0;
  }

  void MoveTo(Tick tick) {
    if (tick == position_) return;
    DT_CHECK_GT(tick, position_);
    DT_CHECK(!TickIsOpen());
    position_ = tick;
    open_due_min_ = tick;
  }

  void Append(uint32_t list, uint32_t index) {
    Node& node = slab_[index];
    node.list = list;
    node.next = kNone;
    node.prev = lists_[list].tail;
    if (node.prev == kNone) {
      lists_[list].head = index;
      const uint32_t level = list >> kSlotBits;
      const uint32_t slot = list & (kSlots - 1);
      occupied_[level][slot / 64] |= uint64_t{1} << (slot % 64);
      levels_in_use_ |= 1u << level;
    } else {
      slab_[node.prev].next = index;
    }
    lists_[list].tail = index;
  }

  void Unlink(uint32_t index) {
    const Node& node = slab_[index];
    List& list = lists_[node.list];
    if (node.prev == kNone) {
      DT_CHECK_EQ(list.head, index);
      list.head = node.next;
    } else {
      slab_[node.prev].next = node.next;
    }
    if (node.next == kNone) {
      DT_CHECK_EQ(list.tail, index);
      list.tail = node.prev;
    } else {
      slab_[node.next].prev = node.prev;
    }
    if (list.head == kNone) OnSlotEmpty(node.list >> kSlotBits, node.list & (kSlots - 1));
  }

  void OnSlotEmpty(uint32_t level, uint32_t slot) {
    occupied_[level][slot / 64] &= ~(uint64_t{1} << (slot % 64));
    uint64_t left = 0;
    for (const uint64_t word : occupied_[level]) left |= word;
    if (left == 0) levels_in_use_ &= ~(1u << level);
    // A cascade is over when its slot is empty, be it by moving or by cancelling.
    if (level == cascade_level_ && slot == Digit(position_, level)) cascade_level_ = 0;
  }

  // Forgets an entry that is in no list any more.
  void Release(uint32_t index) {
    slab_[index].generation = 0;
    slab_.Free(index);
  }

  // Hands out up to `budget` entries that are due at position_ and returns how many.
  size_t HandOut(size_t budget, std::vector<Expired>* out) {
    const uint32_t list = ListOf(0, Digit(position_, 0));
    size_t count = 0;
    while (count < budget && lists_[list].head != kNone) {
      const uint32_t index = lists_[list].head;
      const Node& node = slab_[index];
      // The slot says that it is due; the absolute time must say so too. Nothing is ever early.
      DT_CHECK_LE(node.due, position_);
      out->push_back(Expired{.due = node.due, .entry = node.entry});
      Unlink(index);
      Release(index);
      ++count;
    }
    return count;
  }

  // Moves up to `budget` entries of the slot under cascade down and returns how many. The levels
  // below held nothing of its time before (I3), so oldest first keeps every list in order of
  // insertion.
  size_t Cascade(size_t budget) {
    size_t count = 0;
    while (count < budget && cascade_level_ != 0) {
      const uint32_t index = lists_[CascadeList()].head;
      Unlink(index);
      Append(ListFor(std::max(slab_[index].due, position_)), index);
      ++count;
    }
    return count;
  }

  // The tick that is being handed out, or the last one that was.
  Tick position_;
  // While the tick at position_ is open: no entry is due before this. It is less than position_ if
  // one was added late.
  Tick open_due_min_;
  // The level that is being moved down from, 0 if none is (I3).
  uint32_t cascade_level_ = 0;
  // Bit l: level l has a slot in use.
  uint32_t levels_in_use_ = 0;
  // The generation of the last entry added.
  uint32_t generation_ = 0;
  NodeSlab<Node> slab_;
  // Bit s of a level: slot s is in use.
  std::array<std::array<uint64_t, kWords>, kLevels> occupied_{};
  std::array<List, size_t{kLevels} * kSlots> lists_{};
};

template <typename Entry>
void TimingWheel<Entry>::CheckInvariants() const {
  size_t count = 0;
  for (uint32_t level = 0; level < kLevels; ++level) {
    bool in_use = false;
    for (uint32_t slot = 0; slot < kSlots; ++slot) {
      const uint32_t list = ListOf(level, slot);
      DT_CHECK_EQ(IsOccupied(level, slot), lists_[list].head != kNone);
      DT_CHECK_EQ(lists_[list].head == kNone, lists_[list].tail == kNone);
      in_use = in_use || lists_[list].head != kNone;
      uint32_t prev = kNone;
      for (uint32_t index = lists_[list].head; index != kNone; index = slab_[index].next) {
        DT_CHECK(slab_.Contains(index));
        const Node& node = slab_[index];
        const Tick tick = std::max(node.due, position_);
        DT_CHECK_EQ(node.list, list);
        DT_CHECK_EQ(node.prev, prev);
        DT_CHECK_NE(node.generation, 0u);
        if (prev != kNone) {
          // Signed difference, as the count of adds may wrap.
          const uint32_t later = node.generation - slab_[prev].generation;
          DT_CHECK_GT(static_cast<int32_t>(later), 0);
        }
        if (cascade_level_ != 0 && list == CascadeList()) {
          DT_CHECK(IsBeingCascaded(tick));
        } else {
          DT_CHECK_EQ(ListFor(tick), list);
        }
        DT_CHECK(now() == 0 || node.due > now());
        prev = index;
        ++count;
        DT_CHECK_LE(count, size());
      }
      DT_CHECK_EQ(lists_[list].tail, prev);
    }
    DT_CHECK_EQ(((levels_in_use_ >> level) & 1) != 0, in_use);
  }
  DT_CHECK_EQ(count, size());
  DT_CHECK_LE(now(), position_);
  if (cascade_level_ != 0) DT_CHECK_NE(lists_[CascadeList()].head, kNone);
}

}  // namespace duetime::wheel
