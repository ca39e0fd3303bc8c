// SPDX-License-Identifier: Apache-2.0
#include "server/access/quota_counts.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace duetime::access {
namespace {

TEST(QuotaCountTableTest, TheRestOfManyPrincipalsShareOneRow) {
  QuotaCountTable table;
  constexpr size_t kMax = QuotaCountTable::kPrincipalsMax;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kMax + 50; ++i) {
      table.Of(absl::StrCat("p", i))->of(QuotaName::kStreams).refused += i;
    }
  }
  const std::vector<QuotaCountTable::Row> rows = table.Rows();
  ASSERT_EQ(rows.size(), kMax + 1);
  uint64_t sum = 0;
  for (const auto& [principal, counts] : rows) {
    const uint64_t refused = counts->of(QuotaName::kStreams).refused;
    sum += refused;
    EXPECT_EQ(counts->of(QuotaName::kStreams).used, 0u);
    EXPECT_EQ(counts->of(QuotaName::kBytesPerSecond).refused, 0u);
    if (principal == "p7") {
      EXPECT_EQ(refused, 14u);
    } else if (principal == QuotaCountTable::kOthers) {
      EXPECT_EQ(refused, 2 * 50 * (2 * kMax + 49) / 2);
    }
  }
  EXPECT_EQ(sum, (kMax + 50) * (kMax + 49));
}

}  // namespace
}  // namespace duetime::access
