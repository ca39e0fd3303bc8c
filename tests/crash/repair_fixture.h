// SPDX-License-Identifier: Apache-2.0
//
// What the tests of RepairDirectory share.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "storage/repair/repair.h"
#include "storage/repair/verify.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/crash/numbered_records.h"
#include "tests/crash/store_driver.h"
#include "tests/crash/table_damage.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {

namespace fs = std::filesystem;

inline constexpr uint64_t kNowMs = 7 * kStep;

inline std::string BytesOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::map<std::string, std::string> AllFiles(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file()) files[entry.path().string()] = BytesOf(entry.path());
  }
  return files;
}

inline std::vector<fs::path> FilesLike(const std::string& data_dir, const std::string& part) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir + "/db")) {
    if (entry.path().filename().string().find(part) != std::string::npos) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Repairs a copy of a directory, and looks at the result.
class RepairTest : public testing::Test {
 protected:
  void Copy(const std::string& original) {
    fs::remove_all(copy_.path());
    fs::copy(original, copy_.path(), fs::copy_options::recursive);
  }

  const std::string& dir() const { return copy_.path(); }
  std::string into() const { return target_.Join("new"); }

  // Repairs, and checks what holds for every repair.
  absl::Status Repair() {
    store_.reset();
    fs::remove_all(into());
    printed_.clear();
    const auto print = [this](absl::string_view line) { absl::StrAppend(&printed_, line, "\n"); };
    const auto before = AllFiles(dir());
    bool written = false;
    const absl::Status status =
        storage::RepairDirectory(dir(), into(), kNowMs, topics_of_, print, &written);
    EXPECT_TRUE(AllFiles(dir()) == before) << "the repair changed the damaged directory";
    EXPECT_TRUE(written) << status;
    EXPECT_FALSE(fs::exists(into() + "/unfinished"));
    std::string faults;
    const absl::Status verified = storage::VerifyDirectory(
        into(), [&faults](absl::string_view line) { absl::StrAppend(&faults, line, "\n"); });
    EXPECT_TRUE(verified.ok()) << faults;
    storage::RocksDbStoreOptions options = SmallStoreOptions(into());
    options.create_if_missing = false;
    options.now_ms = kNowMs;
    auto store = storage::RocksDbStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    if (store.ok()) store_ = *std::move(store);
    return status;
  }

  // Flips a bit in a block of the largest table of a family, a `part`-th into it.
  fs::path DamageABlock(const std::string& family, uint64_t part = 3) {
    const auto [path, bytes] = LargestTable(family);
    FlipBit(path, bytes / part);
    return path;
  }

  std::pair<fs::path, uint64_t> LargestTable(const std::string& family) const {
    return test::LargestTable(dir(), family);
  }

  storage::TopicsOfObject topics_of_;
  std::string printed_;
  std::unique_ptr<storage::RocksDbStore> store_;
  const TempDirectory copy_;
  const TempDirectory target_;
};

}  // namespace duetime::test
