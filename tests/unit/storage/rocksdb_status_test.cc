// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_status.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "storage/rocksdb/file_system.h"
#include "tests/support/temp_directory.h"

namespace duetime::storage {
namespace {

TEST(RocksDbStatusTest, OnlyErrorsOfFullDisksAndMissingDescriptorsMayPass) {
  const auto io_error = [](int error_number) {
    return rocksdb::Status::IOError("While open a file for appending: /d/db/000012.log",
                                    std::strerror(error_number));
  };
  EXPECT_TRUE(MayPass(rocksdb::Status::NoSpace()));
  for (const int error_number : {EMFILE, ENFILE, EDQUOT}) {
    EXPECT_TRUE(MayPass(io_error(error_number))) << error_number;
  }
  for (const int error_number : {EIO, EROFS, EACCES}) {
    EXPECT_FALSE(MayPass(io_error(error_number))) << error_number;
  }
  EXPECT_FALSE(MayPass(rocksdb::Status::Corruption("block checksum mismatch")));
}

TEST(ProbeDirectoryTest, ItFindsMissingDescriptorsAndLeavesNothing) {
  const test::TempDirectory directory;
  EXPECT_TRUE(ProbeDirectory(directory.path(), 1 << 20).ok());
  EXPECT_FALSE(std::ifstream(directory.Join("probe")).is_open());
  EXPECT_FALSE(ProbeDirectory(directory.Join("missing"), 1).ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 40;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const absl::Status status = ProbeDirectory(directory.path(), 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(ProbeDirectory(directory.path(), 1).ok()) << "the failed probe closed its files";
}

}  // namespace
}  // namespace duetime::storage
