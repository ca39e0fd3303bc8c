#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants faults in the wheel, one at a time, and shows that its tests see each of them.

  tests/unit/wheel/mutations.py [--jobs N] [--only TEXT] [--compiler g++]

Takes a few minutes: each fault is a build of the wheel's tests from a copy of the tree. The random tests run on a
fixed seed. Exits with 1 if a fault is survived, or if its text is no longer found in the source.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
WHEEL = "server/wheel/timing_wheel.h"
MORE = "server/wheel/timing_wheel_inl.h"
LIST = "server/wheel/item_list.h"
SLAB = "server/wheel/node_slab.h"
BITS = "server/wheel/slot_bitmap.h"
CANCEL = "server/wheel/cancellable_wheel.h"
TICK = "server/wheel/tick.h"

TESTS = ["timing_wheel_test", "timing_wheel_property_test", "cancellable_wheel_test", "timing_wheel_edges_test",
         "wheel_parts_test", "node_slab_test"]
# The test to begin with, as it is the likeliest to see the fault.
FIRST = {TICK: "wheel_parts_test", BITS: "wheel_parts_test", LIST: "wheel_parts_test", SLAB: "node_slab_test",
         MORE: "timing_wheel_property_test", CANCEL: "cancellable_wheel_test", WHEEL: "timing_wheel_test"}
# Compiled once for all.
COMMON = "#include <gmock/gmock.h>\n#include <gtest/gtest.h>\n#include <map>\n#include <random>\n#include <set>\n"

# (what is wrong, file, the text that is there, what stands there instead)
FAULTS = [
    ("a due time rounds down", TICK, "(due % units_per_tick == 0 ? 0 : 1)", "0"),
    ("the clock rounds up", TICK, "return now / units_per_tick;", "return now / units_per_tick + 1;"),
    ("a level's edge is one short: what is filed goes to the slot above", WHEEL,
     "Window(0, due) > filed_[0] && Window(1, due) <= filed_[1]",
     "Window(0, due) >= filed_[0] && Window(1, due) <= filed_[1]"),
    ("what is due in a window that is not filed goes to level 1", WHEEL,
     "if (Window(0, due) > filed_[0] && Window(1, due) <= filed_[1])",
     "if (Window(0, due) > filed_[0] && Window(1, due) <= filed_[1] + 1)"),
    ("a far entry lies one level too low", WHEEL,
     "while (Window(level, due) > filed_[level]) ++level;",
     "while (Window(level, due) > filed_[level] + 1) ++level;"),
    ("an entry for the next window overtakes those that are moving down", WHEEL,
     "} else if (Window(0, due) <= filed_[0]) {\n      Write(AppendToCell(due)",
     "} else if (Window(0, due) <= Window(0, position_) + 1) {\n      Write(AppendToCell(due)"),
    ("due at the position is not late", WHEEL, "if (due <= position_) {\n      late_due_min_",
     "if (due < position_) {\n      late_due_min_"),
    ("the earliest of the late ones is forgotten", WHEEL,
     "late_due_min_ = late_.head == kNone ? due : std::min(late_due_min_, due);", "late_due_min_ = due;"),
    ("late ones of before weigh on the next one", WHEEL,
     "late_due_min_ = late_.head == kNone ? due : std::min(late_due_min_, due);",
     "late_due_min_ = std::min(late_due_min_, due);"),
    ("late ones come before older ones of their tick", WHEEL,
     "if (late_.head != kNone && first_tick_ != position_) {", "if (late_.head != kNone) {"),
    ("late ones wait for the next tick", WHEEL,
     "if (late_.head != kNone && first_tick_ != position_) {", "if (late_.head != kNone && first_tick_ > target) {"),
    ("a late entry does not wake Advance", WHEEL,
     "due, entry);\n      quiet_until_ = 0;", "due, entry);"),
    ("an entry in a cell does not wake Advance", WHEEL,
     "quiet_until_ = std::min(quiet_until_, due);", ""),
    ("an entry in a cell is not the first to come", WHEEL, "first_tick_ = std::min(first_tick_, due);", ""),
    ("what has moved down is not the first to come", WHEEL,
     "    }\n    first_tick_ = FirstTick();\n  }", "    }\n  }"),
    ("quiet for a tick too long", WHEEL, "if (now < quiet_until_) {", "if (now <= quiet_until_) {"),
    ("quiet beyond the end of the window", WHEEL,
     "quiet_until_ = std::min(first_tick_, end == 0 ? kNever : end);", "quiet_until_ = first_tick_;"),
    ("time goes back", WHEEL, "position_ = std::max(position_, now);\n      return true;",
     "position_ = now;\n      return true;"),
    ("the first tick is looked for from the next one on", WHEEL,
     "const uint32_t here = position_ & (kCells - 1);\n    const uint32_t cell = levels_[0].FindAround(here);",
     "const uint32_t here = (position_ + 1) & (kCells - 1);\n    const uint32_t cell = levels_[0].FindAround(here);"),
    ("cells of a window that is still moving down are handed out", WHEEL,
     "return Window(0, tick) <= filed_[0] ? tick : kNever;", "return tick;"),
    ("slots of a window that is still moving down are taken for the first", WHEEL,
     "if (Window(level, slot << kShift[level]) <= filed_[level]) return {level, slot};", "return {level, slot};"),
    ("the ring has one window", WHEEL, "return 2u << (kShift[level + 1] - kShift[level]);",
     "return 1u << (kShift[level + 1] - kShift[level]);"),
    ("a window is filed when its cascade begins", WHEEL,
     "if (slot.head == kNone) {\n      levels_[place.level].Clear(index - BaseOf(place.level));\n"
     "      filed_[place.level - 1] = place.slot;\n    }",
     "filed_[place.level - 1] = place.slot;\n    if (slot.head == kNone) {\n"
     "      levels_[place.level].Clear(index - BaseOf(place.level));\n    }"),
    ("the bit of an emptied slot stays", WHEEL,
     "if (slot.head == kNone) {\n      levels_[place.level].Clear(index - BaseOf(place.level));",
     "if (slot.head == kNone) {"),
    ("the bit of an emptied cell stays", WHEEL,
     "cell.begin = cell.end = 0;\n      levels_[0].Clear(number);", "cell.begin = cell.end = 0;"),
    ("a cell that overflowed is taken for empty", WHEEL,
     "if (cell.begin == cell.end && cell.head == kNone) {\n      cell.begin", "if (cell.begin == cell.end) {\n      cell.begin"),
    ("a cell is written over when it is full", WHEEL,
     "if (cell.end == kInline) return pool_.Append(&cell, [] {});", "if (cell.end == kInline) --cell.end;"),
    ("an entry is lost in the cascade", WHEEL,
     "for (size_t i = 0; i < n; ++i) *AppendToCell(items[i].due) = items[i];",
     "for (size_t i = n > 20 ? 1 : 0; i < n; ++i) *AppendToCell(items[i].due) = items[i];"),
    ("a cascade turns the order around", WHEEL,
     "for (size_t i = 0; i < n; ++i) *AppendToCell(items[i].due) = items[i];",
     "for (size_t i = n; i-- > 0;) *AppendToCell(items[i].due) = items[i];"),
    ("a jump forgets which windows are filed", WHEEL,
     "filed_[level] = std::max(filed_[level], Window(level, tick));", "filed_[level] = Window(level, tick);"),
    ("a jump goes into the window instead of before it", WHEEL,
     "if (start - 1 > position_) JumpTo(start - 1);", "if (start > position_) JumpTo(start);"),
    ("a slot that starts at the target is left for later", WHEEL, "if (start > target) {", "if (start >= target) {"),
    ("a cascade does not count toward the budget", WHEEL, "budget -= Cascade(place, budget);", "Cascade(place, budget);"),
    ("done is said although the budget ended within a tick", WHEEL,
     "if (first_tick_ <= target) {\n        if (budget == 0) return Stop();",
     "if (first_tick_ <= target) {\n        if (budget == 0) return true;"),
    ("nothing is moved down ahead of time", WHEEL, "if (ahead_ != 0) MoveAhead(target - begin, budget);", ""),
    ("what fills the next window is not noticed", WHEEL,
     "if (slot == filed_[level - 1] + 1) NoteAhead(level - 1);", ""),
    ("a window is filed though its own source is not complete", WHEEL,
     "return filed_[level] == Window(level, position_) &&\n"
     "           Window(source.level, source.slot << kShift[source.level]) <= filed_[source.level];",
     "return filed_[level] == Window(level, position_);"),
    ("a crowd is not announced", WHEEL, "return std::max(start - std::min(start, lead), position_ + 1);", "return start;"),
    ("a slot is taken for whole while a part of it has moved", WHEEL, "if (levels_[level - 1].empty()) {",
     "if (true) {"),
    ("now() covers the tick that is being handed out", WHEEL,
     "return TickIsOpen() ? position_ - 1 : position_;", "return position_;"),
    ("now() covers a late entry", WHEEL,
     "if (late_.head != kNone) return late_due_min_ == 0 ? 0 : late_due_min_ - 1;", ""),
    ("the size is not counted down", WHEEL, "    size_ -= count;\n", ""),
    ("a search does not go round", BITS, "return found == kNone && summary_ != 0 ? FindFrom(0) : found;", "return found;"),
    ("a word that empties stays in the summary", BITS,
     "if (words_[bit / 64] == 0) summary_ &= ~(uint64_t{1} << (bit / 64));", ""),
    ("a word that does not empty leaves the summary", BITS, "if (words_[bit / 64] == 0) summary_", "summary_"),
    ("an item is written behind the end of a chunk", LIST,
     "if (PlaceOf(list->write) - kHeaderBytes >= kItems * sizeof(Item)) {",
     "if (PlaceOf(list->write) - kHeaderBytes > kItems * sizeof(Item)) {"),
    ("a chunk that is read is not given back", LIST, "        Free(freed);\n        chunk_freed();", "        chunk_freed();"),
    ("a list that was read to its end goes on writing there", LIST, "if (last) list->write = nullptr;", ""),
    ("a sweep forgets that its chunk is gone", LIST, "if (swept_ == index) swept_ = kNone;", ""),
    ("a chunk that is the last again keeps an end", LIST, "    chunk->end = kItems;\n    return write;", "    return write;"),
    ("a swept chunk forgets what it kept", LIST, "chunk.items[left++] = chunk.items[i];", "++left;"),
    ("the inline part of a swept cell has room before its chain", MORE,
     "cell.begin = static_cast<uint16_t>(cell.end - count);",
     "cell.end = static_cast<uint16_t>(cell.begin + count);"),
    ("a slot that a sweep empties does not end its cascade", MORE,
     "    filed_[level - 1] = source.slot;\n", ""),
    ("what a sweep makes the first to come is not noticed", MORE,
     "filed_[level - 1] = source.slot;\n    first_tick_ = FirstTick();", "filed_[level - 1] = source.slot;"),
    ("a sweep does not count", MORE, "  size_ -= removed;\n", ""),
    ("a sweep never gets to the far levels", MORE,
     "      ++sweep_level_;\n", "      sweep_level_ = sweep_level_ == 1 ? kLevels : sweep_level_ + 1;\n"),
    ("a dead entry stands for the next timer of its thing", CANCEL,
     "return stamp != nullptr && stamp->number == held.number;", "return stamp != nullptr && !stamp->none();"),
    ("what an entry is about is taken to be there", CANCEL,
     "return stamp != nullptr && stamp->number == held.number;", "return stamp->number == held.number;"),
    ("what is handed out can still be cancelled", CANCEL,
     "      *stamp = TimerStamp();\n      --live_;\n      out->push_back", "      --live_;\n      out->push_back"),
    ("a cancelled entry is handed out", CANCEL, "if (!IsAlive(stamp, held)) continue;", "if (stamp == nullptr) continue;"),
    ("a cancelled entry counts as waiting", CANCEL, "    *stamp = TimerStamp();\n    --live_;\n    if",
     "    *stamp = TimerStamp();\n    if"),
    ("the dead are never swept", CANCEL, "if (!sweeping_) sweeping_ = dead() > live_ + kDeadMin;", ""),
    ("a freed node is handed out twice", SLAB, "slab.free_head = slab.nodes[place].next;", ""),
    ("every slab that empties is given back", SLAB, "if (empty_slabs_ == 0) {\n      ++empty_slabs_;\n    } else {",
     "if (false) {\n      ++empty_slabs_;\n    } else {"),
    ("empty slabs are never given back", SLAB, "    if (--slab.live != 0) return;", "    --slab.live;\n    return;"),
    ("a slab that is given back stays with the pool", SLAB,
     "if (slab.nodes != nullptr) memory_->Give(slab.nodes);\n    slab.nodes = nullptr;", "slab.nodes = nullptr;"),
]


def run(command: list[str], cwd: pathlib.Path, timeout: int) -> bool:
    environment = dict(os.environ, DUETIME_SEED="7", DUETIME_TEST_SCALE="0.5")
    try:
        done = subprocess.run(command, cwd=cwd, env=environment, timeout=timeout, capture_output=True, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def seen_by(compiler: str, common: pathlib.Path, fault: tuple[str, str, str, str] | None) -> str | None:
    """The test that fails with the fault planted, "the compiler" if it does not build, None if all pass."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder)
        for part in ["server/base", "server/wheel", "tests/unit/wheel", "tests/support"]:
            shutil.copytree(ROOT / part, copy / part)
        if fault is not None:
            path = copy / fault[1]
            text = path.read_text()
            if text.count(fault[2]) != 1:
                sys.exit(f"{fault[1]}: not there once: {fault[2]!r} ({fault[0]})")
            path.write_text(text.replace(fault[2], fault[3]))
        first = FIRST[fault[1]] if fault else TESTS[0]
        for test in [first] + [test for test in TESTS if test != first]:
            command = [compiler, "-std=c++20", "-O1", "-I.", "-include", str(common),
                       f"tests/unit/wheel/{test}.cc", "server/base/check.cc", "-o", test,
                       "-lgmock", "-lgtest", "-lgtest_main", "-lpthread"]
            if not run(command, copy, 300):
                return "the compiler"
            if not run([f"./{test}"], copy, 60):
                return test
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="", help="only faults whose description contains this")
    parser.add_argument("--compiler", default="g++")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if arguments.only in fault[0]]
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        common = pathlib.Path(folder) / "common.h"
        common.write_text(COMMON)
        subprocess.run([arguments.compiler, "-std=c++20", "-O1", str(common)], check=True)
        if seen_by(arguments.compiler, common, None) is not None:
            print("the tests fail without any fault")
            return 1
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for fault, seen in zip(faults, pool.map(lambda fault: seen_by(arguments.compiler, common, fault), faults)):
                # A fault that does not build shows nothing about the tests.
                caught = seen is not None and seen != "the compiler"
                survived += not caught
                print(f"{'caught' if caught else 'SURVIVED':9} {fault[0]}: {seen}", flush=True)
    print(f"{len(faults) - survived} of {len(faults)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
