// SPDX-License-Identifier: Apache-2.0
//
// TimingWheel: holds many timers and hands out the due ones, in order. README.md in this folder has
// the picture.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "server/base/check.h"
#include "server/wheel/item_list.h"
#include "server/wheel/slab_memory.h"
#include "server/wheel/slot_bitmap.h"
#include "server/wheel/tick.h"

namespace duetime::wheel {

// A hierarchical timing wheel (Varghese and Lauck's scheme 7) that holds entries until they are
// due.
//
// Model: entries lie, by value and in order of arrival, in slots. Level 0 has a slot for each tick,
// a cell; a slot of level 1 spans 2^11 ticks, one of level 2 spans 2^22, and so on; eight levels
// cover every 64-bit time, so there is no range to exceed. A window of a level is the span of one
// slot of the level above. Each level is a ring of two windows: the one that time is in, and the
// next. While time runs through the first, Advance moves the entries of the next window down from
// their slot above, some at each call (the cascade). The window is filed when its slot above is
// empty, before time enters it. Only then does Add put entries for that window into the level
// directly. Before that, Add puts them into the slot above, behind the entries that still have to
// move. That keeps the order without any bookkeeping.
//
//   level 1   [ window filed ][ being moved down ][      ][      ] ...     a slot spans 2^11 ticks
//                 |  |  |            |
//   level 0   [ t t t t t t t ][ t t . . . . . ]                            a cell is one tick
//                     ^ position
//
// The caller passes the time. The wheel stands at position(): the tick that is being handed out, or
// the last tick that was. An entry that is added at or before the position is late, and counts as
// due at the position.
//
// Not included: clock, thread, lock, I/O, callback, periodic timers, cancelling (see
// CancellableWheel).
//
// Guarantees (each has a test that names it):
//   G1 Exactly once. An entry is handed out once, and never lost, whatever the jumps and budgets in
//      between. A late entry is handed out by the next Advance (as far as the budget goes).
//   G2 Never early. Advance(now) hands out nothing that is due after `now`.
//   G3 Order. Entries come in (due, insertion) order, where a late entry counts as due at
//      the position of its Add: it comes after all older entries that are due at or before that
//      tick, and before all entries that are due later.
//   G4 Bounded work. One Advance touches at most `budget` entries: to touch is to hand out, or to
//      move down a level. An entry is touched at most 8 times in its life; twice if it is due
//      within 70 minutes (2^22 ms).
//   G6 now() is true. Every entry added so far and due at or before now() has been handed out.
//   G7 NextDue() is never later than the earliest entry. It is exact if that entry is filed in
//      level 0, or if at most kExactScan entries share its slot.
//   G8 Empty time is free. The cost of Advance does not depend on how far `now` moves.
//
// Cost: Add O(1): one store next to the last entry of the same slot. Advance O(budget); with
// nothing to do, a compare and a store. NextDue O(levels + kExactScan). Memory: 600 KiB, and each
// entry with its due time; a slot in use has one chunk of 1,024 bytes that is partly filled.
//
// Invariants (CheckInvariants() checks them):
//   I1 A slot's bit is set exactly if the slot is not empty.
//   I2 filed_[l], the last window filed in level l, is the position's window or the next one.
//   I3 An entry that is not late lies in the lowest level in which its window is filed. While a
//      cascade empties a slot, the entries that it has moved lie one level lower, in the window
//      after the last filed one. Hence the filed entries of a level are earlier than all entries
//      in the levels above.
//   I4 Every slot is in order of insertion.
//   I5 size() is the number of entries, and the slots hold every chunk of the pool.
//   I6 first_tick_ is the first tick with an entry in a cell of a window that is filed.
//   I7 Before quiet_until_ Advance only has to move the position.
//
// Thread safety: the caller locks (in duetime: confined to the engine thread).
template <typename Entry>
class TimingWheel {
  static_assert(std::is_trivially_copyable_v<Entry>, "entries are copied as bytes");
  static_assert(sizeof(Entry) <= 32, "an entry names something, it does not carry it");

 public:
  // The number of entries of one slot that NextDue() reads to find the exact time.
  static constexpr uint32_t kExactScan = 8;
  // The least number of entries of a level that a busy Advance moves down ahead of time.
  static constexpr size_t kQuantum = 64;
  // The entries to move down ahead of time per tick when a crowd is expected (see NextDue).
  static constexpr size_t kAheadPerTick = 1024;

  // An entry that Advance hands out.
  struct Expired {
    // As given to Add, also for a late entry.
    Tick due = 0;
    Entry entry;
  };

  // Makes an empty wheel that stands at `now`. REQUIRES: now < kNever, and `memory` outlives the
  // wheel.
  explicit TimingWheel(Tick now, SlabMemory* memory = HeapSlabs::Shared())
      : cells_(std::make_unique<Cell[]>(kCells)),
        slots_(std::make_unique<Slot[]>(kSlots)),
        pool_(memory) {
    DT_CHECK_LT(now, kNever);
    JumpTo(now);
  }
  TimingWheel(const TimingWheel&) = delete;
  TimingWheel& operator=(const TimingWheel&) = delete;

  // Adds an entry due at any time `due`. REQUIRES: due < kNever.
  __attribute__((always_inline)) void Add(Tick due, const Entry& entry) {
    DT_CHECK_LT(due, kNever);
    ++size_;
    if (Window(0, due) > filed_[0] && Window(1, due) <= filed_[1]) {
      Write(AppendToSlot(1, due), due, entry);
    } else {
      AddElsewhere(due, entry);
    }
  }

  // Moves time forward to `now` and appends the entries due at or before it to `out`, touching at
  // most `budget` entries (G4). Returns true when it has handed out every such entry. Returns false
  // when the budget ended first, in the middle of a tick or of a cascade; in a cascade it may have
  // appended nothing, or nothing due may be left. Call again then, with the same `now` or a later
  // one; each call makes progress. Time does not go back: a `now` before the position counts as the
  // position. REQUIRES: now < kNever, budget > 0.
  bool Advance(Tick now, size_t budget, std::vector<Expired>* out) {
    DT_CHECK_GT(budget, size_t{0});
    if (now < quiet_until_) {
      position_ = std::max(position_, now);
      return true;
    }
    DT_CHECK_LT(now, kNever);
    return AdvanceBusy(std::max(now, position_), budget, out);
  }

  // The position: the tick that is being handed out, or the last tick that was. Never decreases.
  Tick position() const { return position_; }

  // Every entry due at or before this has been handed out (G6): the position, or the tick before it
  // while the position is being handed out. While a late entry waits, now() steps back to the tick
  // before that entry's due time (at least 0).
  Tick now() const {
    if (late_.head != kNone) return late_due_min_ == 0 ? 0 : late_due_min_ - 1;
    return TickIsOpen() ? position_ - 1 : position_;
  }

  // The time of the next call of Advance: at or before the earliest entry (G7), kNever if there is
  // none. A caller that always sleeps until then wakes up once for a lone entry, however far it is,
  // and at most 8 times for any entry. Before a crowd of more than kAheadPerTick entries in a slot
  // it wakes up once for each kAheadPerTick of them, so that they are in their cells when they are
  // due.
  Tick NextDue() const {
    if (size_ == 0) return kNever;
    if (late_.head != kNone) return late_due_min_;
    if (first_tick_ != kNever) return first_tick_;
    const auto [level, slot] = FirstSlot();
    const Tick start = slot << kShift[level];
    const Slot& list = slots_[IndexOf(level, slot)];
    // If some entries have moved down already, the rest of the slot does not show the earliest one.
    if (levels_[level - 1].empty()) {
      Tick earliest = kNever;
      const bool all = pool_.Visit(
          list, kExactScan, [&](const Item& item) { earliest = std::min(earliest, item.due); });
      if (all) return earliest;
    }
    const Tick lead =
        std::min(uint64_t{list.chunks} * Pool::kItems / kAheadPerTick, Tick{1} << kShift[level]);
    return std::max(start - std::min(start, lead), position_ + 1);
  }

  // Entries that wait.
  size_t size() const { return size_; }
  // Memory held, in bytes.
  size_t bytes() const {
    return sizeof(*this) + kCells * sizeof(Cell) + kSlots * sizeof(Slot) + pool_.bytes();
  }

  // Drops all entries; the position stays.
  void Clear();

  // Removes entries that are not alive(entry): one chunk of some 40 entries, or one cell, per call,
  // in turn. Returns true at the end of each round over all entries that were there at its
  // beginning. All functions stay correct, but NextDue() and now() may give a time that is earlier
  // than necessary.
  template <typename Alive>
  bool SweepStep(Alive alive);

  // Walks everything and dies if an invariant is broken. For tests: O(entries).
  void CheckInvariants() const;

 private:
  using Item = Expired;
  using Pool = ItemPool<Item>;
  static constexpr uint32_t kNone = Pool::kNone;
  static constexpr uint32_t kLevels = 8;
  // A slot of level l is 2^kShift[l] ticks wide. A window of level l is a slot of the level above,
  // 2^kShift[l + 1] ticks wide.
  static constexpr std::array<uint32_t, kLevels + 1> kShift{0, 11, 22, 29, 36, 43, 50, 57, 64};
  static constexpr uint32_t kTop = kLevels - 1;
  static constexpr uint32_t RingSize(uint32_t level) {
    return 2u << (kShift[level + 1] - kShift[level]);
  }
  static constexpr uint32_t kCells = RingSize(0);
  static constexpr uint32_t kSlots = RingSize(1) + (kLevels - 2) * RingSize(2);
  static_assert(RingSize(0) <= SlotBitmap::kBits && RingSize(1) <= SlotBitmap::kBits);

  struct Slot {
    Item* write = nullptr;
    uint32_t head = kNone;
    uint32_t chunks = 0;
  };
  static_assert(sizeof(Slot) == 16);

  // The items that a cell holds without a chunk, so that a cell fills two cache lines.
  static constexpr uint32_t kInline = 112 / sizeof(Item);
  struct alignas(128) Cell {
    Item* write = nullptr;
    uint32_t head = kNone;
    uint16_t begin = 0;
    uint16_t end = 0;
    Item items[kInline];
  };
  static_assert(sizeof(Cell) == 128);

  struct Place {
    uint32_t level;
    // Counted from time 0: a tick without its last kShift[level] bits.
    uint64_t slot;
  };

  static void Write(Item* item, Tick due, const Entry& entry) {
    item->due = due;
    item->entry = entry;
  }

  static constexpr uint64_t Window(uint32_t level, Tick tick) {
    return level == kTop ? 0 : tick >> kShift[level + 1];
  }

  static constexpr uint32_t BaseOf(uint32_t level) {
    return level == 1 ? 0 : RingSize(1) + (level - 2) * RingSize(2);
  }
  static constexpr uint32_t IndexOf(uint32_t level, uint64_t slot) {
    return BaseOf(level) + (static_cast<uint32_t>(slot) & (RingSize(level) - 1));
  }

  bool TickIsOpen() const {
    return late_.head != kNone || levels_[0].Test(position_ & (kCells - 1));
  }

  // The first tick from the position on that has an entry in a cell and whose window is filed, or
  // kNever.
  Tick FirstTick() const {
    const uint32_t here = position_ & (kCells - 1);
    const uint32_t cell = levels_[0].FindAround(here);
    if (cell == SlotBitmap::kNone) return kNever;
    const Tick tick = position_ + ((cell - here) & (kCells - 1));
    return Window(0, tick) <= filed_[0] ? tick : kNever;
  }

  // The first slot in use above level 0. REQUIRES: no entry in a filed window of level 0, and the
  // wheel is not empty.
  Place FirstSlot() const {
    for (uint32_t level = 1; level < kLevels; ++level) {
      if (levels_[level].empty()) continue;
      const uint64_t here = position_ >> kShift[level];
      const uint32_t mask = RingSize(level) - 1;
      const uint32_t found = levels_[level].FindAround(static_cast<uint32_t>(here) & mask);
      const uint64_t slot = here + ((found - here) & mask);
      // Otherwise the entries have moved down from the slot above, and that slot is the first.
      if (Window(level, slot << kShift[level]) <= filed_[level]) return {level, slot};
    }
    DT_CHECK(false);
    return {};
  }

  // Adds an entry that does not belong in level 1.
  void AddElsewhere(Tick due, const Entry& entry) {
    if (due <= position_) {
      late_due_min_ = late_.head == kNone ? due : std::min(late_due_min_, due);
      Write(pool_.Append(&late_, [] {}), due, entry);
      quiet_until_ = 0;
    } else if (Window(0, due) <= filed_[0]) {
      Write(AppendToCell(due), due, entry);
      first_tick_ = std::min(first_tick_, due);
      quiet_until_ = std::min(quiet_until_, due);
    } else {
      uint32_t level = 2;
      while (Window(level, due) > filed_[level]) ++level;
      Write(AppendToSlot(level, due), due, entry);
    }
  }

  __attribute__((always_inline)) Item* AppendToCell(Tick due) {
    const uint32_t number = due & (kCells - 1);
    Cell& cell = cells_[number];
    if (cell.end == kInline) return pool_.Append(&cell, [] {});
    levels_[0].Set(number);
    return &cell.items[cell.end++];
  }

  __attribute__((always_inline)) Item* AppendToSlot(uint32_t level, Tick due) {
    const uint64_t slot = due >> kShift[level];
    const uint32_t index = IndexOf(level, slot);
    return pool_.Append(&slots_[index], [=, this] { OnSlotGrew(level, slot); });
  }

  void OnSlotGrew(uint32_t level, uint64_t slot) {
    const uint32_t index = IndexOf(level, slot);
    if (slots_[index].chunks++ == 0) levels_[level].Set(index - BaseOf(level));
    // The next window now has an entry to move down ahead of time.
    if (slot == filed_[level - 1] + 1) NoteAhead(level - 1);
  }

  void NoteAhead(uint32_t level) {
    ahead_ |= 1u << level;
    quiet_until_ = std::min(quiet_until_, position_ + 1);
  }

  // Moves up to `count` entries of a slot down by one level, and returns how many. When none is
  // left, that window of the level below is filed.
  size_t Cascade(Place place, size_t count) {
    const uint32_t index = IndexOf(place.level, place.slot);
    Slot& slot = slots_[index];
    size_t moved = 0;
    const auto chunk_freed = [&slot] { --slot.chunks; };
    if (place.level == 1) {
      moved = pool_.Consume(
          &slot, count,
          [this](const Item* items, size_t n) {
            for (size_t i = 0; i < n; ++i) *AppendToCell(items[i].due) = items[i];
          },
          chunk_freed);
    } else {
      moved = pool_.Consume(
          &slot, count,
          [this, level = place.level - 1](const Item* items, size_t n) {
            for (size_t i = 0; i < n; ++i) *AppendToSlot(level, items[i].due) = items[i];
          },
          chunk_freed);
    }
    if (slot.head == kNone) {
      levels_[place.level].Clear(index - BaseOf(place.level));
      filed_[place.level - 1] = place.slot;
    }
    return moved;
  }

  // Moves the position to `tick`. REQUIRES: no entry is due at or before `tick`.
  void JumpTo(Tick tick) {
    DT_CHECK_GE(tick, position_);
    position_ = tick;
    for (uint32_t level = 0; level < kLevels; ++level) {
      filed_[level] = std::max(filed_[level], Window(level, tick));
    }
  }

  // Hands out up to `budget` entries of the position's cell, and returns how many.
  size_t HandOutCell(size_t budget, std::vector<Expired>* out) {
    const uint32_t number = position_ & (kCells - 1);
    Cell& cell = cells_[number];
    size_t count = std::min<size_t>(budget, cell.end - cell.begin);
    HandOut(cell.items + cell.begin, count, out);
    cell.begin = static_cast<uint16_t>(cell.begin + count);
    if (cell.head != kNone) count += HandOutList(&cell, budget - count, out);
    if (cell.begin == cell.end && cell.head == kNone) {
      cell.begin = cell.end = 0;
      levels_[0].Clear(number);
    }
    return count;
  }

  template <typename List>
  size_t HandOutList(List* list, size_t budget, std::vector<Expired>* out) {
    return pool_.Consume(
        list, budget, [=, this](const Item* items, size_t n) { HandOut(items, n, out); }, [] {});
  }

  void HandOut(const Item* items, size_t count, std::vector<Expired>* out) {
    for (size_t i = 0; i < count; ++i) {
      // The place in the ring shows that the item is due. Its full due time must agree, so that no
      // entry is early.
      DT_CHECK_LE(items[i].due, position_);
      out->push_back(items[i]);
    }
    size_ -= count;
  }

  bool AdvanceBusy(Tick target, size_t budget, std::vector<Expired>* out) {
    const Tick begin = position_;
    for (;; first_tick_ = FirstTick()) {
      if (late_.head != kNone && first_tick_ != position_) {
        budget -= HandOutList(&late_, budget, out);
        if (late_.head != kNone) return Stop();
      }
      if (first_tick_ <= target) {
        if (budget == 0) return Stop();
        position_ = first_tick_;
        budget -= HandOutCell(budget, out);
        continue;
      }
      if (Window(0, target) <= filed_[0]) {
        position_ = target;
        break;
      }
      // No entry is left in a filed window of level 0.
      if (size_ == 0) {
        JumpTo(target);
        break;
      }
      const Place place = FirstSlot();
      const Tick start = place.slot << kShift[place.level];
      if (start > target) {
        JumpTo(target);
        break;
      }
      if (budget == 0) return Stop();
      if (start - 1 > position_) JumpTo(start - 1);
      budget -= Cascade(place, budget);
    }
    if (Window(0, target) != ahead_window_) LookAhead();
    if (ahead_ != 0) MoveAhead(target - begin, budget);
    SetQuiet();
    return true;
  }

  // Makes the next Advance busy, because there is more to do at once.
  bool Stop() {
    quiet_until_ = 0;
    return false;
  }

  // The slot from which a level's next window is filed.
  Place Source(uint32_t level) const { return {level + 1, filed_[level] + 1}; }

  // True if the level's next window may be filed already: time is in the window before it, and the
  // source slot itself is complete.
  bool MayFile(uint32_t level) const {
    const Place source = Source(level);
    return filed_[level] == Window(level, position_) &&
           Window(source.level, source.slot << kShift[source.level]) <= filed_[source.level];
  }

  // Finds the levels that have entries to move down ahead of time.
  void LookAhead() {
    ahead_ = 0;
    ahead_window_ = Window(0, position_);
    for (uint32_t level = kTop; level-- > 0;) {
      if (filed_[level] != Window(level, position_)) continue;
      const Place source = Source(level);
      if (slots_[IndexOf(source.level, source.slot)].chunks != 0) {
        ahead_ |= 1u << level;
      } else if (MayFile(level)) {
        filed_[level] = source.slot;
      }
    }
  }

  // Moves down entries of the next windows, as many as `elapsed` ticks require.
  void MoveAhead(Tick elapsed, size_t budget) {
    for (uint32_t levels = ahead_; levels != 0; levels &= levels - 1) {
      const auto level = static_cast<uint32_t>(std::countr_zero(levels));
      const Place source = Source(level);
      const Slot& slot = slots_[IndexOf(source.level, source.slot)];
      if (filed_[level] != Window(level, position_) || slot.head == kNone) {
        ahead_ &= ~(1u << level);
        continue;
      }
      if (!MayFile(level)) continue;
      const Tick left = (source.slot << kShift[source.level]) - position_;
      const size_t even = (uint64_t{slot.chunks} * Pool::kItems / (left + elapsed) + 1) * elapsed;
      budget -= Cascade(source, std::min(budget, std::max(kQuantum, even)));
      if (filed_[level] == source.slot) ahead_ &= ~(1u << level);
    }
    first_tick_ = FirstTick();
  }

  // Finds the time until which Advance only has to move the position.
  void SetQuiet() {
    // Advance is busy at the end of each window of level 0, so that no other code has to watch for
    // it.
    const Tick end = (Window(0, position_) + 1) << kShift[1];
    quiet_until_ = std::min(first_tick_, end == 0 ? kNever : end);
    // The next busy call begins with this cell.
    __builtin_prefetch(&cells_[quiet_until_ & (kCells - 1)]);
    for (uint32_t levels = ahead_; levels != 0; levels &= levels - 1) {
      const auto level = static_cast<uint32_t>(std::countr_zero(levels));
      const Place source = Source(level);
      const uint64_t chunks = slots_[IndexOf(source.level, source.slot)].chunks;
      const Tick left = (source.slot << kShift[source.level]) - position_;
      const Tick need = chunks * Pool::kItems / kQuantum;
      quiet_until_ =
          std::min(quiet_until_, position_ + std::max<Tick>(1, left - std::min(left, need)));
    }
  }

  // Sweeps a part of a cell, or of a slot. Returns true if that was the last part.
  template <typename Alive>
  bool SweepCell(uint32_t number, Alive alive, size_t* removed);
  template <typename Alive>
  bool SweepSlot(uint32_t level, uint32_t bit, Alive alive, size_t* removed);

  // The tick that is being handed out, or the last tick that was.
  Tick position_ = 0;
  // Before this tick Advance only has to move the position.
  Tick quiet_until_ = 0;
  // The result of FirstTick().
  Tick first_tick_ = kNever;
  size_t size_ = 0;
  // The last window of each level that is filed.
  std::array<uint64_t, kLevels> filed_{};
  // Bit l: the next window of level l may have entries in its source.
  uint32_t ahead_ = 0;
  // The window of level 0 in which LookAhead last set ahead_.
  uint64_t ahead_window_ = kNever;
  // The late entries, and a time at or before the earliest of them.
  Slot late_;
  Tick late_due_min_ = 0;
  std::unique_ptr<Cell[]> cells_;
  std::unique_ptr<Slot[]> slots_;
  Pool pool_;
  std::array<SlotBitmap, kLevels> levels_;
  // The next part for SweepStep: this cell or slot or, in level kLevels, the late entries; and
  // whether the inline part of the cell is done.
  uint32_t sweep_level_ = 0;
  uint32_t sweep_bit_ = 0;
  bool sweep_chain_ = false;
};

}  // namespace duetime::wheel

#include "server/wheel/timing_wheel_inl.h"
