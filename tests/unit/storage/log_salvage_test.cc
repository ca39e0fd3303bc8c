// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/log_salvage.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

using Gaps = std::vector<LogSalvage::Gap>;

// A write of `records` records from `sequence` on.
std::string WriteOf(uint64_t sequence, uint32_t records, const std::string& rest = "") {
  std::string bytes(12, '\0');
  StoreLittleEndian(sequence, bytes.data());
  StoreLittleEndian(records, &bytes[8]);
  return bytes + rest;
}

std::string LogOf(const std::vector<std::string>& writes) {
  std::string log;
  for (const std::string& write : writes) AppendLogRecord(write, log.size(), &log);
  return log;
}

struct Salvaged {
  std::vector<std::string> writes;
  Gaps gaps;
  uint64_t missing = 0;
};

Salvaged SalvageOf(const std::vector<std::string>& logs, std::optional<uint64_t> covered,
                   uint64_t durable) {
  Salvaged result;
  LogSalvage salvage(covered,
                     [&result](absl::string_view write) { result.writes.emplace_back(write); });
  for (const std::string& log : logs) {
    salvage.BeginLog();
    for (size_t at = 0; at <= log.size(); at += kLogBlockBytes) {
      salvage.AddBlock(absl::string_view(log).substr(at, kLogBlockBytes));
    }
  }
  salvage.Finish(durable);
  result.gaps = salvage.gaps();
  result.missing = salvage.missing();
  return result;
}

TEST(LogSalvageTest, WholeLogsHaveNoGaps) {
  // The second write has three fragments. Behind the third one, a block has no room for a head.
  const std::vector<std::string> first = {WriteOf(5, 2), WriteOf(7, 1, std::string(80'000, 'x')),
                                          WriteOf(8, 1, std::string(18'230, 'y')), WriteOf(9, 0)};
  const std::vector<std::string> second = {WriteOf(9, 0), WriteOf(9, 3)};
  const std::string log = LogOf(first);
  ASSERT_EQ(log.substr(3 * kLogBlockBytes - 4, 4), std::string("y\0\0\0", 4));
  const Salvaged found = SalvageOf({log, LogOf(second)}, 6, 11);
  std::vector<std::string> all = first;
  all.insert(all.end(), second.begin(), second.end());
  EXPECT_EQ(found.writes, all);
  EXPECT_EQ(found.gaps, Gaps{});
}

TEST(LogSalvageTest, MissingSequenceNumbersAreListed) {
  // Before the first log, between two logs, and after the last one.
  const Salvaged found = SalvageOf({LogOf({WriteOf(5, 2)}), LogOf({WriteOf(9, 1)})}, 3, 12);
  EXPECT_EQ(found.gaps, (Gaps{{4, 4}, {7, 8}, {10, 12}}));
  EXPECT_EQ(found.missing, 6u);
  // Nothing is known about the tables.
  EXPECT_EQ(SalvageOf({LogOf({WriteOf(5, 2)})}, std::nullopt, 6).gaps, Gaps{});
  EXPECT_EQ(SalvageOf({}, 3, 5).gaps, (Gaps{{4, 5}}));
}

TEST(LogSalvageTest, ADamagedWriteIsOneGap) {
  const std::vector<std::string> writes = {WriteOf(1, 1, "aaaa"), WriteOf(2, 1, "bbbb"),
                                           WriteOf(3, 1, "cccc")};
  std::string log = LogOf(writes);
  log[log.find("bbbb")] ^= 1;
  const Salvaged found = SalvageOf({log}, 0, 3);
  EXPECT_EQ(found.writes, (std::vector<std::string>{writes[0], writes[2]}));
  EXPECT_EQ(found.gaps, (Gaps{{2, 2}}));
}

// A payload can hold the bytes of a log.
TEST(LogSalvageTest, NothingWithinADamagedWriteIsTakenForAWrite) {
  const std::string inner = LogOf({WriteOf(50, 1, "forged")});
  const std::vector<std::string> writes = {WriteOf(1, 1, inner + inner), WriteOf(2, 1)};
  for (const size_t at : {size_t{0}, size_t{4}, size_t{5}, size_t{6}}) {
    std::string log = LogOf(writes);
    log[at] = static_cast<char>(log[at] ^ 0x40);
    for (const std::string& write : SalvageOf({log}, 0, 2).writes) EXPECT_EQ(write, writes[1]);
  }
}

TEST(LogSalvageTest, OldWritesAreLeftOut) {
  const std::string log = LogOf({WriteOf(1, 2), WriteOf(3, 1), WriteOf(1, 2), WriteOf(4, 1)});
  EXPECT_EQ(SalvageOf({log}, 0, 4).writes,
            (std::vector<std::string>{WriteOf(1, 2), WriteOf(3, 1), WriteOf(4, 1)}));
}

}  // namespace
}  // namespace duetime::storage
