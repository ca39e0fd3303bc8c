// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "server/wheel/timing_wheel.h"
#include "storage/message_store.h"

namespace duetime::scheduler {

// A pending message in the wheel. The wheel keeps the due time beside it.
struct Timer {
  storage::MessageId id;
  storage::TopicId topic{};
  uint32_t bytes : 30 = 0;
  // MessageFlags::kRecurs.
  uint32_t recurs : 1 = 0;
  // The message was late when it was added, so it holds the low watermark itself.
  uint32_t pinned : 1 = 0;
};
static_assert(sizeof(Timer) == 24);

using Wheel = wheel::TimingWheel<Timer>;

}  // namespace duetime::scheduler
