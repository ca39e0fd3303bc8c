// SPDX-License-Identifier: Apache-2.0
//
// Programs continue a data directory by turns, as when a machine moves to another Debian, which has
// another version of RocksDB, and back. With DUETIME_STORES=FOLDER each run of this test is one
// turn: it takes the directories that the last program left in FOLDER, after a kill, and continues
// them. tests/debian/lane.sh runs the programs of two releases. Without it, this program takes both
// turns.
#include <filesystem>
#include <functional>
#include <iostream>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "storage/repair/repair.h"
#include "storage/repair/verify.h"
#include "tests/crash/store_mutations.h"

namespace duetime::test {
namespace {

class StorageMoveTest : public testing::TestWithParam<Origin> {
 protected:
  static void ExpectOk(const std::function<absl::Status()>& call) {
    const TempDirectory text;
    const Outcome outcome = InChild(text.Join("stderr"), [&call] {
      const absl::Status status = call();
      std::cerr << status;
      return status.ok() ? 0 : 1;
    });
    EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  }

  // The messages among what ContentsOf() returned.
  static absl::string_view MessagesIn(absl::string_view contents) {
    return contents.substr(0, contents.find("\nkey-"));
  }

  // Notes in `file` what a reader of the store sees, or compares it with what the file says. The
  // messages must be those of `contents`.
  static absl::Status CheckContents(const fs::path& data_dir, const fs::path& file,
                                    const std::string& contents) {
    auto store = RocksDbStore::Open(SmallStoreOptions(data_dir.string()));
    if (!store.ok()) return store.status();
    const auto found = ContentsOf(store->get());
    if (!found.ok()) return found.status();
    if (MessagesIn(*found) != MessagesIn(contents)) return absl::DataLossError("other messages");
    if (!fs::exists(file)) WriteFile(file, *found);
    return ReadFile(file) == *found ? absl::OkStatus() : absl::DataLossError("other contents");
  }

  static void Print(absl::string_view line) { std::cerr << line << "\n"; }

  // Checks what the last program left, and continues it.
  static void TakeTurn(const std::string& folder) {
    Victim victim(GetParam(), folder);
    victim.Restore();
    ExpectOk([&] { return storage::VerifyDirectory(victim.dir().string(), Print); });
    EXPECT_EQ(victim.Judge().exit_code, kIntact);
    for (const std::string name : {kRepaired, kCheckpoint}) {
      if (!fs::exists(victim.root() / name)) continue;
      const TempDirectory copy;
      fs::copy(victim.root() / name, copy.path(), kAll);
      ExpectOk([&] {
        return CheckContents(copy.path(), victim.root() / (name + ".contents"), victim.contents());
      });
      fs::remove_all(victim.root() / name);
      fs::remove(victim.root() / (name + ".contents"));
    }

    victim.Continue();
    victim.Restore();
    ExpectOk([&] { return storage::VerifyDirectory(victim.dir().string(), Print); });
    const TempDirectory written;
    ExpectOk([&] {
      // The keys of erased messages are still in the index, and the repair reports them as lost.
      bool done = false;
      const absl::Status status = storage::RepairDirectory(
          victim.dir().string(), written.Join(kRepaired), 0, nullptr, Print, &done);
      return done ? absl::OkStatus() : status;
    });
    ExpectOk([&] {
      auto store = RocksDbStore::Open(SmallStoreOptions(victim.dir().string()));
      return store.ok() ? (*store)->WriteCheckpoint(written.Join(kCheckpoint)) : store.status();
    });
    fs::copy(written.path(), victim.root(), kAll);
    for (const std::string name : {kRepaired, kCheckpoint}) {
      ExpectOk([&] {
        return CheckContents(written.Join(name), victim.root() / (name + ".contents"),
                             victim.contents());
      });
    }
  }

  static constexpr char kRepaired[] = "repaired";
  static constexpr char kCheckpoint[] = "checkpoint";
  static constexpr fs::copy_options kAll = fs::copy_options::recursive;
};

TEST_P(StorageMoveTest, EachProgramContinuesTheDirectory) {
  const std::string folder = TextFromEnvironment("DUETIME_STORES");
  const TempDirectory own;
  if (folder.empty()) TakeTurn(own.path());
  TakeTurn(folder.empty() ? own.path() : folder);
}

INSTANTIATE_TEST_SUITE_P(Each, StorageMoveTest,
                         testing::Values(Origin{"OneLog", kNever}, Origin{"TwoLogs", 0},
                                         Origin{"PartlyFlushed", 1}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace duetime::test
