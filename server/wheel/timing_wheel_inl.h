// SPDX-License-Identifier: Apache-2.0
//
// The rarely used parts of TimingWheel: sweeping, clearing, checking.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "server/base/check.h"
#include "server/wheel/slot_bitmap.h"
#include "server/wheel/tick.h"
#include "server/wheel/timing_wheel.h"

namespace duetime::wheel {

template <typename Entry>
template <typename Alive>
bool TimingWheel<Entry>::SweepCell(uint32_t number, Alive alive, size_t* removed) {
  Cell& cell = cells_[number];
  if (!sweep_chain_) {
    const bool chain = cell.head != kNone;
    // If a chain follows, the inline part stays full to its end, because the next entry would go
    // there otherwise.
    std::array<Item, kInline> kept;
    uint16_t count = 0;
    for (uint32_t i = cell.begin; i < cell.end; ++i) {
      if (alive(cell.items[i].entry)) kept[count++] = cell.items[i];
    }
    *removed += size_t{cell.end} - cell.begin - count;
    if (chain) {
      cell.begin = static_cast<uint16_t>(cell.end - count);
    } else {
      cell.end = static_cast<uint16_t>(cell.begin + count);
    }
    std::copy_n(kept.begin(), count, cell.items + cell.begin);
    sweep_chain_ = chain;
  } else {
    sweep_chain_ = !pool_.SweepChunk(
        &cell, [&](const Item& item) { return alive(item.entry); }, [] {}, removed);
  }
  if (cell.begin == cell.end && cell.head == kNone) {
    cell.begin = cell.end = 0;
    levels_[0].Clear(number);
    first_tick_ = FirstTick();
  }
  return !sweep_chain_;
}

template <typename Entry>
template <typename Alive>
bool TimingWheel<Entry>::SweepSlot(uint32_t level, uint32_t bit, Alive alive, size_t* removed) {
  Slot& slot = slots_[BaseOf(level) + bit];
  const bool last = pool_.SweepChunk(
      &slot, [&](const Item& item) { return alive(item.entry); }, [&] { --slot.chunks; }, removed);
  if (slot.head != kNone) return last;
  levels_[level].Clear(bit);
  // A cascade is over when moving or sweeping has emptied its slot.
  const Place source = Source(level - 1);
  if (IndexOf(level, source.slot) == BaseOf(level) + bit && MayFile(level - 1)) {
    filed_[level - 1] = source.slot;
    first_tick_ = FirstTick();
  }
  return last;
}

template <typename Entry>
void TimingWheel<Entry>::Clear() {
  for (uint32_t level = 0; level < kLevels; ++level) {
    for (uint32_t bit = levels_[level].FindFrom(0); bit != SlotBitmap::kNone;
         bit = levels_[level].FindFrom(bit)) {
      levels_[level].Clear(bit);
      if (level == 0) {
        cells_[bit] = Cell();
      } else {
        slots_[BaseOf(level) + bit] = Slot();
      }
    }
  }
  late_ = Slot();
  pool_.Clear();
  size_ = 0;
  ahead_ = 0;
  quiet_until_ = 0;
  first_tick_ = kNever;
  sweep_level_ = sweep_bit_ = 0;
  sweep_chain_ = false;
}

template <typename Entry>
template <typename Alive>
bool TimingWheel<Entry>::SweepStep(Alive alive) {
  size_t removed = 0;
  bool round = false;
  if (sweep_level_ == kLevels) {
    round = pool_.SweepChunk(
        &late_, [&](const Item& item) { return alive(item.entry); }, [] {}, &removed);
    if (round) sweep_level_ = sweep_bit_ = 0;
  } else {
    const uint32_t bit = sweep_bit_ == SlotBitmap::kBits
                             ? SlotBitmap::kNone
                             : levels_[sweep_level_].FindFrom(sweep_bit_);
    if (bit != sweep_bit_) {
      // The list that was swept last is gone.
      sweep_chain_ = false;
      pool_.EndSweep();
    }
    sweep_bit_ = bit;
    if (bit == SlotBitmap::kNone) {
      ++sweep_level_;
      sweep_bit_ = 0;
    } else if (sweep_level_ == 0 ? SweepCell(bit, alive, &removed)
                                 : SweepSlot(sweep_level_, bit, alive, &removed)) {
      ++sweep_bit_;
    }
  }
  size_ -= removed;
  return round;
}

template <typename Entry>
void TimingWheel<Entry>::CheckInvariants() const {
  DT_CHECK_EQ(first_tick_, FirstTick());
  size_t count = 0;
  uint32_t chunks = pool_.CheckList(late_);
  const auto visit = [&](uint32_t level, uint32_t bit, const Item& item) {
    ++count;
    const Tick due = item.due;
    const Tick earliest = level == 0 ? due : due >> kShift[level] << kShift[level];
    DT_CHECK_EQ(static_cast<uint32_t>(due >> kShift[level]) & (RingSize(level) - 1), bit);
    if (level == 0) {
      DT_CHECK_GE(due, position_);
      if (due > position_) DT_CHECK_LE(quiet_until_, due);
    } else {
      DT_CHECK_GT(earliest, position_);
      DT_CHECK_GT(Window(level - 1, due), filed_[level - 1]);
    }
    if (Window(level, due) > filed_[level]) {
      // The entry has moved down from the slot above already.
      DT_CHECK_EQ(Window(level, due), filed_[level] + 1);
      DT_CHECK(MayFile(level));
      DT_CHECK_NE(slots_[IndexOf(level + 1, Source(level).slot)].head, kNone);
    }
  };
  for (uint32_t level = 0; level < kLevels; ++level) {
    DT_CHECK_GE(filed_[level], Window(level, position_));
    DT_CHECK_LE(filed_[level], Window(level, position_) + 1);
    // What lies in a slot without its mark is missing in the sums below.
    for (uint32_t bit = levels_[level].FindFrom(0); bit != SlotBitmap::kNone;
         bit = levels_[level].FindAfter(bit)) {
      DT_CHECK_LT(bit, RingSize(level));
      const auto visit_item = [&](const Item& item) { visit(level, bit, item); };
      if (level == 0) {
        const Cell& cell = cells_[bit];
        chunks += pool_.CheckList(cell);
        DT_CHECK(cell.begin != cell.end || cell.head != kNone);
        DT_CHECK(cell.begin <= cell.end && cell.end <= kInline);
        if (cell.head != kNone) DT_CHECK_EQ(uint32_t{cell.end}, kInline);
        for (uint32_t i = cell.begin; i < cell.end; ++i) visit_item(cell.items[i]);
        pool_.Visit(cell, size_, visit_item);
      } else {
        const Slot& slot = slots_[BaseOf(level) + bit];
        DT_CHECK_EQ(slot.chunks, pool_.CheckList(slot));
        DT_CHECK_NE(slot.chunks, 0u);
        chunks += slot.chunks;
        pool_.Visit(slot, size_, visit_item);
      }
    }
  }
  pool_.Visit(late_, size_, [&](const Item& item) {
    ++count;
    DT_CHECK_LE(item.due, position_);
    DT_CHECK_GE(item.due, late_due_min_);
    DT_CHECK_LE(quiet_until_, position_);
  });
  DT_CHECK_EQ(count, size_);
  DT_CHECK_EQ(size_t{chunks}, pool_.chunks());
}

}  // namespace duetime::wheel
