// SPDX-License-Identifier: Apache-2.0
//
// Damages the files of a store and opens it. Two results are right: every acknowledged record is
// there, or the store refuses and says why. The test looks for the third one: a silent loss.
#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "storage/repair/verify.h"
#include "tests/crash/store_driver.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

namespace fs = std::filesystem;
using storage::AppendOutcome;
using storage::Durability;
using storage::RocksDbStore;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

void FlipBit(const fs::path& path, size_t at) {
  std::string bytes = ReadFile(path);
  ASSERT_LT(at, bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  WriteFile(path, bytes);
}

// The database files with this ending, in the order of their numbers.
std::vector<fs::path> DbFiles(const std::string& data_dir, const std::string& ending) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir + "/db")) {
    if (entry.path().string().ends_with(ending)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Makes one store, with messages in tables and in the log, and leaves it as a kill would. Each test
// works on a copy.
class StorageDamageTest : public testing::Test {
 protected:
  static constexpr uint64_t kMessages = 600;

  static void SetUpTestSuite() {
    original_ = new TempDirectory;
    absl::StatusOr<std::unique_ptr<RocksDbStore>> store =
        RocksDbStore::Open(SmallStoreOptions(original_->path()));
    ASSERT_TRUE(store.ok()) << store.status();
    for (uint64_t number = 0; number < kMessages; ++number) {
      ASSERT_EQ(AppendNumbered(store->get(), number), AppendOutcome::kAccepted);
    }
    ASSERT_TRUE((*store)->WriteWitness().ok());
    // RocksDB writes tables in the background, and closing the store would stop that.
    for (int i = 0; i < 1000 && DbFiles(original_->path(), ".sst").empty(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    store->reset();
    ASSERT_FALSE(DbFiles(original_->path(), ".sst").empty());
    ASSERT_FALSE(DbFiles(original_->path(), ".log").empty());
    ASSERT_GT(fs::file_size(DbFiles(original_->path(), ".log").back()), 5'000u);
  }

  static void TearDownTestSuite() {
    delete original_;
    original_ = nullptr;
  }

  // Makes a fresh copy.
  void Restore() {
    fs::remove_all(copy_.path());
    fs::copy(original_->path(), copy_.path(), fs::copy_options::recursive);
  }

  void SetUp() override { Restore(); }

  const std::string& dir() const { return copy_.path(); }
  fs::path Log() const { return DbFiles(dir(), ".log").back(); }
  fs::path WitnessFile() const { return dir() + "/witness"; }

  absl::Status Open() {
    auto store = RocksDbStore::Open(SmallStoreOptions(dir()));
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    return absl::OkStatus();
  }

  void ExpectRefused(const std::string& words) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const absl::Status status = Open();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(words))
          << "attempt " << attempt << ": refusing once must not make it all right";
      store_.reset();
    }
  }

  void ExpectComplete() {
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(StoredNumbers(store_.get()), NumbersUpTo(kMessages));
  }

  static TempDirectory* original_;
  const TempDirectory copy_;
  std::unique_ptr<RocksDbStore> store_;
};

TempDirectory* StorageDamageTest::original_ = nullptr;

TEST_F(StorageDamageTest, AnUndamagedCopyOpens) {
  ExpectComplete();
  EXPECT_EQ(AppendNumbered(store_.get(), kMessages), AppendOutcome::kAccepted);
  EXPECT_TRUE(store_->Close().ok());
}

TEST_F(StorageDamageTest, ABitInTheMiddleOfTheLogRefusesAndNamesTheFile) {
  FlipBit(Log(), fs::file_size(Log()) / 2);
  ExpectRefused(Log().filename());
}

TEST_F(StorageDamageTest, NoBitOfTheLogFlipsUnnoticed) {
  const size_t size = fs::file_size(Log());
  constexpr size_t kStep = 97;
  size_t refused = 0;
  for (size_t at = 0; at < size; at += kStep) {
    SCOPED_TRACE(at);
    Restore();
    FlipBit(Log(), at);
    const absl::Status status = Open();
    if (status.ok()) {
      EXPECT_EQ(StoredNumbers(store_.get()), NumbersUpTo(kMessages));
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      ++refused;
    }
    store_.reset();
  }
  EXPECT_GT(refused, size / kStep / 2);
}

TEST_F(StorageDamageTest, TheVerifierReadsTheLogAndTheWitness) {
  std::string printed;
  const auto verify = [&] {
    printed.clear();
    return storage::VerifyDirectory(
        dir(), [&printed](absl::string_view line) { absl::StrAppend(&printed, line, "\n"); });
  };
  EXPECT_TRUE(verify().ok()) << printed;
  FlipBit(Log(), fs::file_size(Log()) / 2);
  EXPECT_TRUE(absl::IsDataLoss(verify()));
  EXPECT_THAT(printed, HasSubstr(Log().filename().string()));
  Restore();
  fs::resize_file(Log(), fs::file_size(Log()) / 2);
  EXPECT_TRUE(absl::IsDataLoss(verify()));
  EXPECT_THAT(printed, HasSubstr("was durable"));
  Restore();
  WriteFile(WitnessFile(), std::string(fs::file_size(WitnessFile()), '\0'));
  EXPECT_TRUE(absl::IsDataLoss(verify()));
}

// Neither a start nor the verifier can know whether the end of the log was acknowledged, if the
// witness does not cover it. Both say what may be missing, and since when.
TEST_F(StorageDamageTest, ADamagedEndAfterTheWitnessIsDroppedWithTrueWords) {
  constexpr uint64_t kMore = 40;
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(store_->WriteWitness().ok());
  const size_t covered = fs::file_size(Log());
  for (uint64_t number = kMessages; number < kMessages + kMore; ++number) {
    ASSERT_EQ(AppendNumbered(store_.get(), number), AppendOutcome::kAccepted);
  }
  store_.reset();
  const TempDirectory damaged;
  const std::string log_name = "/db/" + Log().filename().string();
  const std::string whole = ReadFile(Log());
  ASSERT_GT(whole.size(), covered + 1'000);
  const struct {
    const char* name;
    std::string log;
  } cases[] = {
      {"the last byte is cut", whole.substr(0, whole.size() - 1)},
      {"a bit of the last write is flipped", whole.substr(0, whole.size() - 20) +
                                                 static_cast<char>(whole[whole.size() - 20] ^ 1) +
                                                 whole.substr(whole.size() - 19)},
      {"the end is zeros",
       whole.substr(0, covered + 500) + std::string(whole.size() - covered - 500, '\0')},
      {"foreign bytes follow", whole + std::string(100, 'x')},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    fs::remove_all(damaged.path());
    fs::copy(dir(), damaged.path(), fs::copy_options::recursive);
    WriteFile(damaged.path() + log_name, one.log);
    fs::last_write_time(damaged.path() + "/witness",
                        fs::file_time_type::clock::from_sys(std::chrono::sys_seconds(
                            std::chrono::sys_days(std::chrono::year(2026) / 1 / 2))));
    std::string printed;
    bool perhaps_lost = false;
    const auto verify = [&] {
      printed.clear();
      return storage::VerifyDirectory(
          damaged.path(),
          [&printed](absl::string_view line) { absl::StrAppend(&printed, line, "\n"); },
          &perhaps_lost);
    };
    ASSERT_TRUE(verify().ok()) << printed;
    EXPECT_TRUE(perhaps_lost);
    std::string logged;
    storage::RocksDbStoreOptions options = SmallStoreOptions(damaged.path());
    options.log = [&logged](auto, absl::string_view text) { absl::StrAppend(&logged, text, "\n"); };
    auto store = RocksDbStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    const size_t stored = StoredNumbers(store->get()).size();
    EXPECT_GE(stored, kMessages);
    EXPECT_EQ(stored == kMessages + kMore, one.log.size() > whole.size());
    for (const std::string& text : {printed, logged}) {
      EXPECT_THAT(text, ContainsRegex("drop(s|ping) the last [0-9]+ bytes of .*" + log_name +
                                      ", from byte [0-9]+ on"));
      EXPECT_THAT(text, HasSubstr("acknowledged after 2026-01-01T23:59:59"));
      EXPECT_THAT(text, Not(HasSubstr("no acknowledged record")));
    }
    ASSERT_TRUE((*store)->Close().ok());
    store->reset();
    ASSERT_TRUE(verify().ok()) << printed;
    EXPECT_FALSE(perhaps_lost);
  }
}

TEST_F(StorageDamageTest, TheVerifierTakesATornEndForIntact) {
  std::string printed;
  const auto print = [&printed](absl::string_view line) { absl::StrAppend(&printed, line, "\n"); };
  WriteFile(Log(), ReadFile(Log()) + std::string(100, 'x'));
  // A power cut may also leave a part of a table that no manifest names.
  WriteFile(dir() + "/db/900000.sst", "torn");
  EXPECT_TRUE(storage::VerifyDirectory(dir(), print).ok()) << printed;
  EXPECT_THAT(printed, HasSubstr("a start drops the last 100 bytes of " + Log().string()));
  FlipBit(DbFiles(dir(), ".sst").front(), 10);
  EXPECT_TRUE(absl::IsDataLoss(storage::VerifyDirectory(dir(), print))) << printed;
}

// RocksDB believes a manifest that was cut short.
TEST_F(StorageDamageTest, TheVerifierAgreesWithTheStartAboutAManifestCutShort) {
  const auto manifest = [this] {
    for (const fs::directory_entry& entry : fs::directory_iterator(dir() + "/db")) {
      if (entry.path().filename().string().starts_with("MANIFEST")) return entry.path();
    }
    return fs::path();
  };
  const size_t size = fs::file_size(manifest());
  const size_t step = size / 40 + 1;
  size_t refused = 0;
  for (size_t kept = 0; kept < size; kept += step) {
    SCOPED_TRACE(kept);
    Restore();
    fs::resize_file(manifest(), kept);
    const absl::Status verdict = storage::VerifyDirectory(dir(), [](absl::string_view) {});
    const absl::Status opened = Open();
    EXPECT_EQ(absl::IsDataLoss(verdict), absl::IsDataLoss(opened)) << verdict << opened;
    if (!opened.ok()) ++refused;
    store_.reset();
  }
  EXPECT_GT(refused, 5u);
}

TEST_F(StorageDamageTest, TheVerifierDoesNotTakeTheSystemsErrorsForDamage) {
  const auto verify = [this] { return storage::VerifyDirectory(dir(), [](absl::string_view) {}); };
  struct rlimit limit {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int lowest = ::dup(STDERR_FILENO);
  ASSERT_GE(lowest, 0);
  ::close(lowest);
  // Enough for all but the tables.
  const struct rlimit few = {static_cast<rlim_t>(lowest) + 3, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status at_the_limit = verify();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(absl::IsInternal(at_the_limit)) << at_the_limit;
  fs::remove(WitnessFile());
  fs::create_directory(WitnessFile());
  EXPECT_TRUE(absl::IsInternal(verify()));
}

TEST_F(StorageDamageTest, ADeletedLogRefuses) {
  fs::remove(Log());
  ExpectRefused("was durable");
}

TEST_F(StorageDamageTest, AnEmptyLogRefuses) {
  fs::resize_file(Log(), 0);
  ExpectRefused("was durable");
}

TEST_F(StorageDamageTest, ALogCutInHalfRefuses) {
  fs::resize_file(Log(), fs::file_size(Log()) / 2);
  ExpectRefused("was durable");
}

TEST_F(StorageDamageTest, ALogOfZerosRefuses) {
  WriteFile(Log(), std::string(fs::file_size(Log()), '\0'));
  ExpectRefused("was durable");
}

TEST_F(StorageDamageTest, ALogThatLacksItsLastSyncedRecordRefuses) {
  fs::resize_file(Log(), fs::file_size(Log()) - 1);
  ExpectRefused("was durable");
}

TEST_F(StorageDamageTest, AMissingTableRefuses) {
  fs::remove(DbFiles(dir(), ".sst").front());
  ExpectRefused("");
}

TEST_F(StorageDamageTest, ATableCutShortRefuses) {
  const fs::path table = DbFiles(dir(), ".sst").front();
  fs::resize_file(table, fs::file_size(table) / 2);
  ExpectRefused("");
}

// Each message is read, or its read is refused as damaged. None is absent, and the scan shows all
// that can be read.
TEST_F(StorageDamageTest, ABitInATableIsNeverReadAsData) {
  const fs::path table = DbFiles(dir(), ".sst").front();
  const size_t size = fs::file_size(table);
  for (size_t at = 0; at < size; at += 499) {
    SCOPED_TRACE(at);
    Restore();
    FlipBit(table, at);
    if (!Open().ok()) continue;
    storage::Page<storage::MessageRef> page;
    storage::MessageKey from;
    size_t found = 0;
    absl::Status status;
    do {
      status = store_->Scan(0, from, storage::MessageKey::FirstAt(kMessages), {}, &page);
      found += page.items.size();
      from = page.next.value_or(from);
    } while (status.ok() && page.next.has_value());
    EXPECT_TRUE(status.ok()) << status;
    size_t sound = 0;
    for (uint64_t number = 0; number < kMessages; ++number) {
      const auto message = store_->Get(0, NumberedMessage(number)[0].key);
      if (message.ok() && message->has_value()) ++sound;
      EXPECT_TRUE(message.ok() ? message->has_value() : storage::IsDamage(message.status()))
          << number << " " << message.status();
    }
    EXPECT_EQ(found, sound);
    EXPECT_EQ(sound == kMessages, store_->Damage().blocks.empty());
    store_.reset();
  }
}

TEST_F(StorageDamageTest, AMissingCurrentOrManifestRefuses) {
  fs::remove(dir() + "/db/CURRENT");
  ExpectRefused("CURRENT");
  Restore();
  for (const fs::directory_entry& entry : fs::directory_iterator(dir() + "/db")) {
    if (entry.path().filename().string().starts_with("MANIFEST")) fs::remove(entry.path());
  }
  EXPECT_EQ(Open().code(), absl::StatusCode::kDataLoss);
}

TEST_F(StorageDamageTest, ADatabaseAndAWitnessNeedEachOther) {
  fs::remove(WitnessFile());
  ExpectRefused("witness is missing");
  Restore();
  WriteFile(WitnessFile(), std::string(fs::file_size(WitnessFile()), '\0'));
  ExpectRefused("witness is missing or empty, or only zeros");
  Restore();
  fs::remove_all(dir() + "/db");
  ExpectRefused("is missing or empty");
}

TEST_F(StorageDamageTest, AnotherStoresDatabaseRefuses) {
  const TempDirectory other;
  {
    auto store = RocksDbStore::Open(SmallStoreOptions(other.path()));
    ASSERT_TRUE(store.ok());
    for (uint64_t number = 0; number < kMessages + 100; ++number) {
      ASSERT_EQ(AppendNumbered(store->get(), number), AppendOutcome::kAccepted);
    }
  }
  fs::remove_all(dir() + "/db");
  fs::copy(other.Join("db"), dir() + "/db", fs::copy_options::recursive);
  ExpectRefused("is not the database that");
}

TEST_F(StorageDamageTest, AnOldCopyOfTheDatabaseRefuses) {
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(AppendNumbered(store_.get(), kMessages), AppendOutcome::kAccepted);
  ASSERT_TRUE(store_->WriteWitness().ok());
  store_.reset();
  fs::remove_all(dir() + "/db");
  fs::copy(original_->Join("db"), dir() + "/db", fs::copy_options::recursive);
  ExpectRefused("was durable");
}

// Unacknowledged records may be lost, at any length. No other record may be.
TEST_F(StorageDamageTest, ATornEndOfUnsyncedRecordsIsDropped) {
  ASSERT_TRUE(Open().ok());
  const fs::path log = Log();
  const size_t synced_bytes = fs::file_size(log);
  for (uint64_t number = kMessages; number < kMessages + 20; ++number) {
    ASSERT_EQ(AppendNumbered(store_.get(), number, Durability::kBuffered),
              AppendOutcome::kAccepted);
  }
  ASSERT_TRUE(store_->WriteWitness().ok());
  store_.reset();
  const TempDirectory crashed;
  fs::remove_all(crashed.path());
  fs::copy(dir(), crashed.path(), fs::copy_options::recursive);
  const size_t size = fs::file_size(log);
  ASSERT_GT(size, synced_bytes);

  size_t last = 0;
  for (size_t kept = synced_bytes; kept <= size; kept += 61) {
    SCOPED_TRACE(kept);
    fs::remove_all(dir());
    fs::copy(crashed.path(), dir(), fs::copy_options::recursive);
    fs::resize_file(log, kept);
    ASSERT_TRUE(Open().ok());
    const std::vector<uint64_t> numbers = StoredNumbers(store_.get());
    EXPECT_EQ(numbers, NumbersUpTo(numbers.size()));
    EXPECT_GE(numbers.size(), std::max<size_t>(kMessages, last));
    last = numbers.size();
    store_.reset();
  }
  EXPECT_GT(last, kMessages);
}

}  // namespace
}  // namespace duetime::test
