// SPDX-License-Identifier: Apache-2.0
#include "server/base/process_memory.h"

#include "gtest/gtest.h"

namespace duetime::base {
namespace {

TEST(ProcessMemoryTest, IsPlausible) {
  EXPECT_GT(ResidentMemoryBytes(), uint64_t{1} << 20);
  EXPECT_LT(ResidentMemoryBytes(), uint64_t{1} << 40);
}

}  // namespace
}  // namespace duetime::base
