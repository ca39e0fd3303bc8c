// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_logger.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::storage {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(RocksDbLoggerTest, WarningsAndErrorsAreForwardedAndTheRestIsDropped) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  RocksDbLogger logger([&lines](LogLevel level, absl::string_view line) {
    lines.emplace_back(level, std::string(line));
  });
  rocksdb::Header(&logger, "header");
  rocksdb::Debug(&logger, "debug");
  rocksdb::Info(&logger, "info");
  rocksdb::Warn(&logger, "number %d", 7);
  rocksdb::Error(&logger, "%s", "bad");
  rocksdb::Fatal(&logger, "worse");
  EXPECT_THAT(lines, ElementsAre(Pair(LogLevel::kWarning, "number 7"),
                                 Pair(LogLevel::kError, "bad"), Pair(LogLevel::kError, "worse")));
  EXPECT_EQ(logger.damaged_file(), "");
}

TEST(RocksDbLoggerTest, ALongLineIsCutNotOverrun) {
  size_t size = 0;
  RocksDbLogger logger([&size](LogLevel, absl::string_view line) { size = line.size(); });
  rocksdb::Warn(&logger, "%s", std::string(10'000, 'x').c_str());
  EXPECT_EQ(size, 2047u);
}

TEST(RocksDbLoggerTest, TheDamagedFileIsRemembered) {
  RocksDbLogger logger(nullptr);
  rocksdb::Warn(&logger, "[db/db_impl/db_impl_open.cc:982] %s%s: dropping %d bytes; %s", "",
                "/data/db/000012.log", 31, "Corruption: checksum mismatch");
  EXPECT_EQ(logger.damaged_file(), "/data/db/000012.log");
}

}  // namespace
}  // namespace duetime::storage
