// SPDX-License-Identifier: Apache-2.0
//
// Tick: the wheel's unit of time, and the two rules that round finer times to ticks.
#pragma once

#include <cstdint>
#include <limits>

namespace duetime::wheel {

// A point in time. The caller chooses the unit (milliseconds in duetime) and the zero.
using Tick = uint64_t;

// Later than every time. Not a time itself.
inline constexpr Tick kNever = std::numeric_limits<Tick>::max();

// The two rules: a due time rounds UP to a tick, the clock rounds DOWN.
//
// Never early: the wheel hands out an entry only when DueTick(due) <= NowTick(now). With u units to
// the tick,
//     due <= u * ceil(due / u) = u * DueTick(due) <= u * NowTick(now) = u * floor(now / u) <= now,
// so every entry handed out is due. If either rule rounded the other way, an entry could be early
// by up to u - 1 units.
//
// Late by less than a tick: an entry is handed out as soon as NowTick(now) = DueTick(due), which
// is at now = u * ceil(due / u) < due + u.

// The tick of a due time. REQUIRES: units_per_tick > 0.
constexpr Tick DueTick(uint64_t due, uint64_t units_per_tick) {
  return due / units_per_tick + (due % units_per_tick == 0 ? 0 : 1);
}

// The tick that the clock has reached. REQUIRES: units_per_tick > 0.
constexpr Tick NowTick(uint64_t now, uint64_t units_per_tick) { return now / units_per_tick; }

}  // namespace duetime::wheel
