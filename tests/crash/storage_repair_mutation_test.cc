// SPDX-License-Identifier: Apache-2.0
//
// Changes the files of a data directory in random ways and repairs it. The repair must end, the new
// directory must verify as intact, every message in it must be one that was accepted, and each
// missing one must be told.
//
// Each repair runs in a child process, because RocksDB may abort it. This process never opens a
// store itself: RocksDB's threads do not survive a fork.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "storage/repair/repair.h"
#include "storage/repair/verify.h"
#include "tests/crash/store_driver.h"
#include "tests/crash/store_mutations.h"
#include "tests/support/from_environment.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace duetime::test {
namespace {

// The exit codes of a child.
enum RepairVerdict : int {
  kRepaired = 0,
  kNotWritten = 30,
  kNotIntact = 31,
  kInvented = 32,
  kSilent = 33,
};

// True if a line of the report tells of a loss. The messages of this store that were erased still
// have index entries, so lines about entries without a message do not count.
bool TellsOfALoss(absl::string_view line) {
  for (const char* const words : {" is lost (", " is lost: ", "are missing", "is damaged",
                                  "cannot be read", "cannot be decoded", "messages are lost"}) {
    if (absl::StrContains(line, words)) return true;
  }
  return false;
}

// How many messages were accepted, those included that were erased later.
uint64_t AcceptedOf(const std::string& contents) {
  uint64_t count = 0;
  for (size_t at = contents.find("\nkey-"); at != std::string::npos;
       at = contents.find("\nkey-", at + 1)) {
    ++count;
  }
  return count;
}

int RepairAndJudge(const std::string& data_dir, const std::string& into, uint64_t accepted) {
  bool told = false;
  bool written = false;
  const auto print = [&told](absl::string_view line) {
    std::cerr << line << "\n";
    told = told || TellsOfALoss(line);
  };
  const absl::Status status = storage::RepairDirectory(data_dir, into, 1, nullptr, print, &written);
  std::cerr << status << "\n";
  if (!written) return kNotWritten;
  const absl::Status verified =
      storage::VerifyDirectory(into, [](absl::string_view line) { std::cerr << line << "\n"; });
  if (!verified.ok()) return kNotIntact;
  auto store = RocksDbStore::Open(SmallStoreOptions(into));
  if (!store.ok()) return kNotIntact;
  std::set<uint64_t> found;
  for (const uint64_t number : StoredNumbers(store->get())) {
    const storage::Record record = NumberedMessage(number)[0];
    const auto value = (*store)->Get(0, record.key);
    if (number >= accepted || !value.ok() || *value != record.value) return kInvented;
    found.insert(number);
  }
  for (uint64_t number = 0; number < accepted && !told; ++number) {
    const bool erased = (number + 2) % 5 == 4 && number + 2 < accepted;
    if (!erased && !found.contains(number)) return kSilent;
  }
  return kRepaired;
}

class StorageRepairMutationTest : public testing::TestWithParam<Origin> {
 protected:
  // Changes one file in a random way. Returns what it did.
  std::string Mutate(std::mt19937_64* random) {
    std::vector<fs::path> files = victim_.Files("");
    std::erase_if(files, [](const fs::path& file) { return !fs::is_regular_file(file); });
    files.push_back(victim_.witness());
    const fs::path original = files[(*random)() % files.size()];
    const fs::path file = victim_.InCopy(original);
    std::string bytes = ReadFile(original);
    const size_t at = bytes.empty() ? 0 : (*random)() % bytes.size();
    std::string what;
    switch ((*random)() % 5) {
      case 0:
        fs::remove(file);
        return absl::StrCat(file.filename().string(), " deleted; ");
      case 1:
        bytes.resize(at);
        what = "cut";
        break;
      case 2:
        bytes.replace(at, 4096, std::string(std::min<size_t>(4096, bytes.size() - at), '\0'));
        what = "zeros";
        break;
      case 3:
        bytes += bytes.substr(at);
        what = "an old part appended";
        break;
      default:
        if (!bytes.empty()) FlipBitOf(&bytes, at, static_cast<int>((*random)() % 8));
        what = "a bit flipped";
        break;
    }
    WriteFile(file, bytes);
    return absl::StrCat(file.filename().string(), " ", what, " at ", at, "; ");
  }

  void Try(const std::string& what) {
    const TempDirectory target;
    const TempDirectory output;
    const Outcome outcome = InChild(output.Join("repair"), [&] {
      return RepairAndJudge(victim_.dir().string(), target.Join("new"),
                            AcceptedOf(victim_.contents()));
    });
    EXPECT_TRUE(outcome.signal == 0 && outcome.exit_code == kRepaired)
        << victim_.name() << ": " << what << "exit code " << outcome.exit_code << ", signal "
        << outcome.signal << "\n"
        << outcome.text.substr(0, 4000);
  }

  Victim victim_{GetParam()};
};

TEST_P(StorageRepairMutationTest, WhatIsLostIsTold) {
  victim_.Restore();
  Try("nothing, ");
  const uint64_t first_seed = FromEnvironment("DUETIME_SEED", 1);
  for (uint64_t seed = first_seed; seed < first_seed + static_cast<uint64_t>(Scaled(20)); ++seed) {
    std::mt19937_64 random(seed);
    victim_.Restore();
    std::string what = absl::StrCat("seed ", seed, ": ");
    for (uint64_t left = 1 + random() % 2; left > 0; --left) what += Mutate(&random);
    Try(what);
  }
}

TEST_P(StorageRepairMutationTest, ATableWithDamagedPropertiesIsLost) {
  for (const fs::path& table : victim_.LiveTables()) {
    victim_.Restore();
    std::string bytes = ReadFile(table);
    FlipLastBitOfProperties(&bytes);
    WriteFile(victim_.InCopy(table), bytes);
    Try(table.filename().string() + ", ");
    // The verification names the table and the log.
    fs::remove(victim_.InCopy(victim_.Files(".log").back()));
    const TempDirectory output;
    const Outcome verified = InChild(output.Join("verify"), [this] {
      const auto print = [](absl::string_view line) { std::cerr << line << "\n"; };
      return storage::VerifyDirectory(victim_.dir().string(), print).ok() ? kIntact : kRefused;
    });
    EXPECT_EQ(verified.exit_code, kRefused) << verified.signal << verified.text;
    EXPECT_TRUE(absl::StrContains(verified.text, table.filename().string())) << verified.text;
    EXPECT_TRUE(absl::StrContains(verified.text, ".log")) << verified.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Origins, StorageRepairMutationTest,
                         testing::Values(Origin{"OneLog", kNever}, Origin{"TwoLogs", 0},
                                         Origin{"PartlyFlushed", 3}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
