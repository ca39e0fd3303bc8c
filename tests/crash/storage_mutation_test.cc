// SPDX-License-Identifier: Apache-2.0
//
// Changes the files of a data directory in every way that we know to be dangerous, and in random
// ways, and opens it. Three results are right: everything that was acknowledged is there, or the
// store refuses and names a file, or a read answers DATA_LOSS or lists a damaged block. The test
// looks for the others: fewer records without a word, and a process that aborts inside RocksDB.
//
// Each open runs in a child process, because it may abort. This process never opens a store itself:
// RocksDB's threads do not survive a fork.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <random>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

#include "tests/crash/store_driver.h"
#include "tests/crash/store_mutations.h"
#include "tests/support/from_environment.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"

namespace duetime::test {
namespace {

// The ends of a manifest's records, if none is larger than a block's rest.
std::vector<size_t> RecordEnds(const std::string& bytes) {
  std::vector<size_t> ends;
  size_t at = 0;
  while (at + 7 <= bytes.size()) {
    const auto low = static_cast<unsigned char>(bytes[at + 4]);
    const auto high = static_cast<unsigned char>(bytes[at + 5]);
    if (bytes[at + 6] == 0) {  // The rest of a block.
      at = (at / 32768 + 1) * 32768;
      continue;
    }
    at += size_t{7} + low + (size_t{high} << 8);
    ends.push_back(at);
  }
  return ends;
}

class StorageMutationTest : public testing::TestWithParam<Origin> {
 protected:
  // Applies `mutate` to a fresh copy of a file and judges the directory.
  Outcome Try(const std::string& what, const fs::path& file,
              const std::function<void(std::string* bytes)>& mutate) {
    victim_.Restore();
    std::string bytes = ReadFile(file);
    mutate(&bytes);
    WriteFile(victim_.InCopy(file), bytes);
    Outcome outcome = victim_.Judge();
    tally_.Add(absl::StrCat(victim_.name(), ": ", file.filename().string(), " ", what), outcome);
    return outcome;
  }

  void TryCut(const fs::path& file, size_t size) {
    Try(absl::StrCat("cut to ", size), file, [size](std::string* bytes) { bytes->resize(size); });
  }

  void TryDelete(const fs::path& file) {
    victim_.Restore();
    fs::remove(victim_.InCopy(file));
    tally_.Add(absl::StrCat(victim_.name(), ": ", file.filename().string(), " deleted"),
               victim_.Judge());
  }

  void TryZeros(const fs::path& file, size_t begin, size_t end) {
    Try(absl::StrCat("zero from ", begin, " to ", end), file, [=](std::string* bytes) {
      for (size_t i = begin; i < std::min(end, bytes->size()); ++i) (*bytes)[i] = '\0';
    });
  }

  void TryFlip(const fs::path& file, size_t at) {
    Try(absl::StrCat("bit flipped at ", at), file,
        [at](std::string* bytes) { FlipBitOf(bytes, at, 2); });
  }

  fs::path Manifest() const { return victim_.Manifest(); }

  Victim victim_{GetParam()};
  Tally tally_;
};

TEST_P(StorageMutationTest, UnchangedItIsIntact) {
  victim_.Restore();
  EXPECT_EQ(victim_.Judge().exit_code, kIntact);
}

TEST_P(StorageMutationTest, TheManifest) {
  const std::string bytes = ReadFile(Manifest());
  const std::vector<size_t> ends = RecordEnds(bytes);
  ASSERT_EQ(ends.back(), bytes.size());
  ASSERT_GT(ends.size(), 30u);
  for (const size_t end : ends) {
    if (end == bytes.size()) continue;
    TryCut(Manifest(), end);
    TryCut(Manifest(), end + 5);
    TryZeros(Manifest(), end, bytes.size());
  }
  for (size_t at = 0; at < bytes.size(); at += bytes.size() / 25 + 1) {
    TryCut(Manifest(), at);
    TryFlip(Manifest(), at);
    TryZeros(Manifest(), at, at + 40);
  }
  const size_t last_page = (bytes.size() - 1) / 4096 * 4096;
  TryZeros(Manifest(), last_page, bytes.size());
  Try("with a page of zeros behind it", Manifest(),
      [](std::string* content) { content->append(4096, '\0'); });
  TryDelete(Manifest());
  tally_.Print("manifest");
  EXPECT_GT(tally_.of(kRefused), 50u);
}

// An unsynced record at the end of the manifest is zero after a power cut, in part or as a whole.
// No log was deleted yet.
TEST_P(StorageMutationTest, AnUnsyncedEndOfTheManifestIsNoLoss) {
  const std::string bytes = ReadFile(Manifest());
  // A record of 300 bytes was being written.
  for (const size_t begun : {0u, 1u, 6u, 7u, 100u, 299u}) {
    Try(absl::StrCat("with ", begun, " bytes of a record, then zeros"), Manifest(),
        [begun](std::string* content) {
          std::string record =
              std::string("\x11\x22\x33\x44\x25\x01\x01", 7) + std::string(293, 'r');
          record.replace(begun, std::string::npos, std::string(300 - begun, '\0'));
          content->append(record);
        });
  }
  EXPECT_EQ(tally_.of(kIntact), 6u);
}

TEST_P(StorageMutationTest, CurrentAndOlderManifests) {
  const fs::path current = victim_.Files("CURRENT").front();
  for (const fs::directory_entry& moment : fs::directory_iterator(victim_.older())) {
    for (const fs::directory_entry& entry : fs::directory_iterator(moment.path())) {
      const std::string name = entry.path().filename();
      if (!name.starts_with("MANIFEST")) continue;
      victim_.Restore();
      fs::copy_file(entry.path(), victim_.dir() / "db" / name,
                    fs::copy_options::overwrite_existing);
      WriteFile(victim_.InCopy(current), name + "\n");
      tally_.Add(absl::StrCat(victim_.name(), ": CURRENT names an older ", name, " of moment ",
                              moment.path().filename().string()),
                 victim_.Judge());
    }
  }
  EXPECT_GT(tally_.of(kRefused), 2u);
  for (const std::string content :
       {"", "\n", "MANIFEST-", "MANIFEST-000001\n", "MANIFEST-99999999999999999999\n", "junk\n"}) {
    Try("has other content", current, [&content](std::string* bytes) { *bytes = content; });
  }
  TryDelete(current);
}

TEST_P(StorageMutationTest, EachLog) {
  const std::vector<fs::path> logs = victim_.Files(".log");
  for (const fs::path& log : logs) {
    const size_t size = fs::file_size(log);
    TryDelete(log);
    for (const size_t cut : {size_t{0}, size_t{1}, size / 4, size / 2, size - 100, size - 1}) {
      TryCut(log, cut);
    }
    for (size_t at = 0; at < size; at += 4096) {
      TryZeros(log, at, at + 4096);
      TryFlip(log, at + at / 7 % 4096 < size ? at + at / 7 % 4096 : at);
    }
    TryZeros(log, 0, size);
    const std::string own = ReadFile(log);
    const std::vector<std::pair<std::string, std::string>> tails = {
        {"zeros", std::string(5000, '\0')},
        {"its first half", own.substr(0, size / 2)},
        {"itself", own},
        {"its last half", own.substr(size / 2)},
        {"the first log", ReadFile(logs.front())},
        {"the last log", ReadFile(logs.back())}};
    for (const auto& [what, tail] : tails) {
      Try("with " + what + " behind it", log,
          [&behind = tail](std::string* bytes) { *bytes += behind; });
    }
    for (const fs::path& other : logs) {
      Try("replaced by " + other.filename().string(), log,
          [&other](std::string* bytes) { *bytes = ReadFile(other); });
    }
    // The same bytes under a number that follows.
    victim_.Restore();
    fs::copy_file(log, victim_.dir() / "db" / "000999.log");
    tally_.Add(victim_.name() + ": a log is there twice", victim_.Judge());
  }
  // All at once.
  victim_.Restore();
  for (const fs::path& log : logs) fs::remove(victim_.InCopy(log));
  tally_.Add(victim_.name() + ": all logs deleted", victim_.Judge());
  tally_.Print("logs");
  EXPECT_GT(tally_.of(kRefused), 10u);
}

// Old records behind the end of the newest log are no loss.
TEST_P(StorageMutationTest, OldRecordsBehindTheLastLogAreDropped) {
  const fs::path log = victim_.Files(".log").back();
  const std::string own = ReadFile(log);
  Try("with itself behind it", log, [&own](std::string* bytes) { *bytes += own; });
  EXPECT_EQ(tally_.of(kIntact), 1u);
}

// Tables that are missing or have another size.
TEST_P(StorageMutationTest, EachTable) {
  for (const fs::path& table : victim_.LiveTables()) {
    const size_t size = fs::file_size(table);
    TryDelete(table);
    TryCut(table, size - 1);
    Try("with a byte behind it", table, [](std::string* bytes) { bytes->push_back('x'); });
  }
  tally_.Print("tables");
  EXPECT_EQ(tally_.of(kIntact), 0u);
}

// A bit of the first block, of the middle, and of what follows the records.
TEST_P(StorageMutationTest, ABitOfEachTable) {
  for (const fs::path& table : victim_.LiveTables()) {
    const size_t size = fs::file_size(table);
    for (const size_t at : {size_t{3}, size / 2, size - 400}) TryFlip(table, at);
  }
  tally_.Print("bits of tables");
  EXPECT_GT(tally_.of(kDetected), 2u);
}

// What RocksDB uses before it compares a checksum.
TEST_P(StorageMutationTest, TheEndOfEachTable) {
  const std::vector<std::pair<std::string, std::function<void(std::string * table)>>> changes = {
      {"a bit of the properties flipped",
       [](std::string* table) { FlipBitOf(table, PropertiesIn(*table).first + 40, 6); }},
      {"the last bit of the properties flipped", FlipLastBitOfProperties},
      {"a bit of the metaindex flipped",
       [](std::string* table) { FlipBitOf(table, PropertiesIn(*table).second + 20, 3); }},
      {"no checksums", [](std::string* table) { FlipBitOf(table, table->size() - 53, 2); }},
      {"format version 1", [](std::string* table) { FlipBitOf(table, table->size() - 12, 2); }},
      {"format version 7", [](std::string* table) { FlipBitOf(table, table->size() - 12, 1); }},
      {"another magic number", [](std::string* table) { FlipBitOf(table, table->size() - 1, 0); }},
      {"the places of the footer lost", [](std::string* table) {
         table->replace(table->size() - 52, 40, std::string(40, '\x7f'));
       }}};
  for (const fs::path& table : victim_.LiveTables()) {
    for (const auto& [what, change] : changes) {
      const std::string text = Try(what, table, change).text;
      EXPECT_TRUE(absl::StrContains(text, "/db/" + table.filename().string())) << what << text;
      if (absl::StrContains(what, "format version")) {
        EXPECT_TRUE(absl::StrContains(text, "table format")) << what << text;
      }
    }
  }
  tally_.Print("ends of tables");
  EXPECT_EQ(tally_.of(kIntact) + tally_.of(kDetected), 0u);
}

TEST_P(StorageMutationTest, TheWitness) {
  const fs::path witness = victim_.witness();
  TryDelete(witness);
  TryCut(witness, 0);
  TryCut(witness, 64);
  TryZeros(witness, 0, 64);
  TryZeros(witness, 4096, 4160);
  TryZeros(witness, 0, 4160);
  for (const size_t at : {0u, 13u, 49u, 57u}) {
    TryFlip(witness, at);
    TryFlip(witness, at + 4096);
  }
  EXPECT_GT(tally_.of(kIntact), 8u) << "one slot is enough";
}

// One random change of one file.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Apply(Victim* victim) {
    std::vector<fs::path> files = victim->Files("");
    files.push_back(victim->witness());
    // Manifests and logs are few, and matter most.
    for (const absl::string_view part : {"MANIFEST", ".log", "MANIFEST", ".log", ".log"}) {
      for (const fs::path& file : victim->Files(part)) files.push_back(file);
    }
    const fs::path file = files[Below(files.size())];
    const std::string name = file.filename();
    std::string bytes = ReadFile(file);
    std::string what = name;
    if (Below(12) == 0) {
      fs::remove(victim->InCopy(file));
      return name + " deleted";
    }
    for (uint64_t changes = 1 + (Below(4) == 0 ? 1 : 0); changes > 0; --changes) {
      absl::StrAppend(&what, " ", Change(*victim, &bytes));
    }
    WriteFile(victim->InCopy(file), bytes);
    return what;
  }

 private:
  size_t Below(size_t bound) { return random_() % bound; }
  // A place in the file, often near its end or at a page.
  size_t Place(const std::string& bytes) {
    const size_t at = Below(bytes.size() + 1);
    if (Below(4) == 0) return at / 4096 * 4096;
    if (Below(4) == 0) return bytes.size() - std::min(bytes.size(), Below(300));
    return at;
  }
  size_t Length() { return Below(3) == 0 ? 4096 * (1 + Below(3)) : 1 + Below(200); }

  std::string Change(const Victim& victim, std::string* bytes) {
    const size_t at = Place(*bytes);
    const size_t length = std::min(Length(), bytes->size() - at);
    const auto begin = bytes->begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    switch (Below(9)) {
      case 0:
        if (at < bytes->size()) (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Below(8)));
        return absl::StrCat("bit flipped at ", at);
      case 1:
        bytes->resize(at);
        return absl::StrCat("cut to ", at);
      case 2:
        std::fill(begin, end, '\0');
        return absl::StrCat(length, " zeros at ", at);
      case 3:
        std::generate(begin, end, [this] { return static_cast<char>(random_()); });
        return absl::StrCat(length, " random bytes at ", at);
      case 4:
        bytes->append(std::string(Length(), '\0'));
        return "zeros appended";
      case 5:
        bytes->append(bytes->substr(at));
        return absl::StrCat("appended to itself from ", at);
      case 6:
        bytes->erase(at, length);
        return absl::StrCat(length, " bytes removed at ", at);
      case 7:
        bytes->insert(at, bytes->substr(at, length));
        return absl::StrCat(length, " bytes doubled at ", at);
      default: {
        const std::vector<fs::path> others = victim.Files("");
        const fs::path other = others[Below(others.size())];
        *bytes = bytes->substr(0, at) + ReadFile(other);
        return absl::StrCat("continued at ", at, " with ", other.filename().string());
      }
    }
  }

  std::mt19937_64 random_;
};

TEST_P(StorageMutationTest, RandomChanges) {
  const uint64_t first_seed = FromEnvironment("DUETIME_SEED", 1);
  const uint64_t count =
      FromEnvironment("DUETIME_STORAGE_MUTATIONS", static_cast<uint64_t>(Scaled(40)));
  for (uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    victim_.Restore();
    Mutator mutator(seed);
    const std::string what = mutator.Apply(&victim_);
    tally_.Add(absl::StrCat(victim_.name(), ", DUETIME_SEED=", seed, ": ", what), victim_.Judge());
  }
  tally_.Print(absl::StrCat(victim_.name(), ": seeds from ", first_seed));
}

INSTANTIATE_TEST_SUITE_P(Each, StorageMutationTest,
                         testing::Values(Origin{"OneLog", kNever}, Origin{"TwoLogs", 0},
                                         Origin{"PartlyFlushed", 1}),
                         [](const auto& test) { return test.param.name; });

// Copies a live directory class by class, while the store goes on writing and flushing.
int CopyLive(const std::string& data_dir, const fs::path& copy,
             const std::array<std::string, 4>& order) {
  auto store = RocksDbStore::Open(SmallStoreOptions(data_dir));
  Require(store.ok());
  AppendRange(store->get(), 0, 400);
  Require((*store)->WriteWitness().ok());
  uint64_t number = 400;
  fs::create_directories(copy / "db");
  for (const std::string& part : order) {
    std::error_code gone;
    if (part == "witness") fs::copy_file(data_dir + "/witness", copy / "witness", gone);
    for (const fs::path& file : DbFiles(data_dir, part)) {
      fs::copy_file(file, copy / "db" / file.filename(), gone);
      if (part == "MANIFEST") {
        fs::copy_file(data_dir + "/db/CURRENT", copy / "db" / "CURRENT",
                      fs::copy_options::overwrite_existing, gone);
      }
    }
    AppendRange(store->get(), number, number + 170);
    number += 170;
    Require((*store)->WriteWitness().ok());
  }
  ::_exit(0);
}

TEST(StorageCopyTest, ACopyOfALiveDirectoryInAnyOrderIsWholeOrRefused) {
  // The messages that the copy must hold are a prefix, and reach the first 400.
  const auto complete = [](const std::string& contents) {
    uint64_t keys = 0;
    for (uint64_t number = 0; absl::StrContains(contents, absl::StrCat("\nkey-", number, "\n"));
         ++number) {
      ++keys;
    }
    uint64_t messages = keys;
    for (uint64_t number = 4; number < keys; number += 5) --messages;
    const auto lines = static_cast<uint64_t>(std::count(contents.begin(), contents.end(), '\n'));
    return keys >= 400 &&
           absl::StrContains(contents, absl::StrCat("\n", messages, " messages\n")) &&
           absl::StrContains(contents, absl::StrCat("\nkey-", keys - 1, "\n")) &&
           lines >= messages + keys + 1;
  };
  Tally tally;
  std::array<std::string, 4> order = {".log", ".sst", "MANIFEST", "witness"};
  do {
    const TempDirectory live;
    const TempDirectory copy;
    const TempDirectory errors;
    const Outcome made =
        InChild(errors.Join("made"), [&] { return CopyLive(live.path(), copy.path(), order); });
    ASSERT_EQ(made.exit_code, 0) << made.text;
    tally.Add(
        absl::StrCat("copied in the order ", order[0], " ", order[1], " ", order[2], " ", order[3]),
        InChild(errors.Join("judge"), [&] { return OpenAndJudge(copy.path(), complete); }));
  } while (std::next_permutation(order.begin(), order.end()));
  tally.Print("copies");
}

}  // namespace
}  // namespace duetime::test
