// SPDX-License-Identifier: Apache-2.0
#include "storage/slot.h"

#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

// Lookups of stored messages use the slot, so these values must never change.
TEST(SlotTest, IsTheSameForEver) {
  EXPECT_EQ(SlotOfName("orders", "42"), 8114u);
  EXPECT_EQ(SlotOfName("order", "s42"), 14049u);
  EXPECT_EQ(SlotOfName("", ""), 11483u);
}

}  // namespace
}  // namespace duetime::storage
