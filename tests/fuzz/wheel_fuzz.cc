// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the wheel: compares any sequence of operations with a sorted map.
#include <algorithm>
#include <cstdint>

#include "server/base/check.h"
#include "server/wheel/cancellable_wheel.h"
#include "server/wheel/timing_wheel.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/target.h"
#include "tests/support/wheel_model.h"

namespace {

using duetime::test::ByteReader;
using duetime::test::CancellableWheel;
using duetime::test::CheckedWheel;
using duetime::wheel::kNever;
using duetime::wheel::Tick;
using duetime::wheel::TimingWheel;

// Short runs, so that a fuzzer makes many per second.
constexpr int kOperationsMax = 400;
constexpr size_t kNumberWindow = 256;

Tick After(Tick from, Tick delay) { return delay < kNever - 1 - from ? from + delay : kNever - 1; }

template <typename Wheel>
void RunOperation(ByteReader* reader, CheckedWheel<Wheel>* wheel) {
  const Tick position = wheel->wheel().position();
  const uint8_t operation = reader->Byte();
  switch (operation % 8) {
    case 0:
    case 1:
      wheel->Add(After(position, reader->Magnitude()));
      break;
    case 2: {  // around the next edge of a level
      constexpr uint32_t kShifts[] = {11, 22, 29, 36, 43, 50, 57};
      const uint32_t shift = kShifts[operation / 8 % 7];
      const Tick edge = ((position >> shift) + 1) << shift;
      if (edge > position) wheel->Add(After(edge - 2, reader->Byte() % 4));
      break;
    }
    case 3:  // late
      wheel->Add(position - std::min(position, reader->Magnitude()));
      break;
    case 4:
      if (wheel->added() > 0) {
        const uint64_t back = reader->Byte() % std::min<uint64_t>(wheel->added(), kNumberWindow);
        wheel->Cancel(wheel->added() - 1 - back);
        for (int steps = operation / 8; steps > 0; --steps) wheel->SweepStep();
      }
      break;
    case 5:  // to the next due time, like a caller that sleeps
      if (wheel->waiting() > 0) wheel->Advance(wheel->wheel().NextDue(), 1u + reader->Byte());
      break;
    case 6:
      wheel->Advance(After(position, reader->Magnitude()), 1u + reader->Byte() % 8);
      break;
    default:
      if (operation == 0xff) {
        wheel->Clear();
      } else {
        wheel->Advance(wheel->target(), 1u + reader->Byte());
      }
      break;
  }
}

template <typename Wheel>
void Run(const uint8_t* data, size_t size) {
  ByteReader reader(data, size);
  CheckedWheel<Wheel> wheel(reader.Magnitude());
  for (int i = 0; i < kOperationsMax && !reader.empty(); ++i) {
    RunOperation(&reader, &wheel);
    // Seldom, because the check walks every slot.
    if (i % 64 == 63) wheel.wheel().CheckInvariants();
  }
  wheel.Drain(kNever - 1, 1u + reader.Byte());
  wheel.wheel().CheckInvariants();
  DT_CHECK_EQ(wheel.waiting(), size_t{0});
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Run<TimingWheel<uint64_t>>(data, size);
  Run<CancellableWheel>(data, size);
  return 0;
}
