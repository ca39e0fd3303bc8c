// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/stall_watch.h"

#include <gtest/gtest.h>

namespace duetime::runtime {
namespace {

TEST(StallWatchTest, NamesAnEngineThatMakesNoTurnsUntilItMakesOne) {
  StallWatch watch;
  uint64_t turns = 1;
  const auto look = [&](uint64_t of_second) {
    watch.Look({turns++, of_second, 100 + turns});
    return watch.Trouble();
  };
  EXPECT_EQ(watch.Trouble(), "");
  for (int i = 0; i < StallWatch::kLooksMax; ++i) EXPECT_EQ(look(7), "") << i;
  EXPECT_EQ(look(7), "shard 1 makes no progress");
  EXPECT_EQ(look(7), "shard 1 makes no progress");
  EXPECT_EQ(look(8), "");
}

}  // namespace
}  // namespace duetime::runtime
