// SPDX-License-Identifier: Apache-2.0
//
// Compactions drop garbage and nothing else. The test opens the families as the store does, but
// without the store, so that it can flush, compact and set RocksDB's clock.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "storage/day_counts.h"
#include "storage/key_codec.h"
#include "storage/locator.h"
#include "storage/rocksdb/compaction.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/value_codec.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_seed.h"

namespace duetime::storage {
namespace {

rocksdb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

// The machine's environment with a clock that the test can advance.
class LaterEnv final : public rocksdb::EnvWrapper {
 public:
  LaterEnv() : rocksdb::EnvWrapper(rocksdb::Env::Default()) {}

  rocksdb::Status GetCurrentTime(int64_t* seconds) override {
    rocksdb::Status status = target()->GetCurrentTime(seconds);
    *seconds += later_.load();
    return status;
  }
  void Forward(int64_t seconds) { later_ += seconds; }

 private:
  std::atomic<int64_t> later_ = 0;
};

// Wakes the test after each compaction.
class CompactionListener final : public rocksdb::EventListener {
 public:
  void OnCompactionCompleted(rocksdb::DB* /*db*/,
                             const rocksdb::CompactionJobInfo& /*info*/) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  }
  // Waits until `what` is true, which only a compaction can cause. Returns false after half a
  // minute.
  bool Await(const std::function<bool()>& what) {
    std::unique_lock<std::mutex> lock(mutex_);
    // RocksDB calls the listener a moment before the result is visible, so the waits are short.
    for (int i = 0; i < 3000; ++i) {
      lock.unlock();
      if (what()) return true;
      lock.lock();
      changed_.wait_for(lock, std::chrono::milliseconds(10));
    }
    return false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class RocksDbCompactionTest : public testing::Test {
 protected:
  RocksDbCompactionTest() {
    RocksDbStoreOptions options;
    options.data_dir = directory_.path();
    options.write_buffer_bytes = 4 << 20;
    rocksdb::DBOptions db_options = MakeDbOptions(&env_, nullptr, listener_);
    db_options.create_if_missing = true;
    db_options.create_missing_column_families = true;
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(
        db_options, directory_.Join("db"), MakeColumnFamilies(options, drop_mark_), &handles_, &db);
    EXPECT_TRUE(status.ok()) << status.ToString();
    db_.reset(db);
  }
  ~RocksDbCompactionTest() override {
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
  }

  rocksdb::ColumnFamilyHandle* handle(ColumnFamily family) {
    return handles_[static_cast<size_t>(family)];
  }

  void Flush(ColumnFamily family) {
    ASSERT_TRUE(db_->Flush(rocksdb::FlushOptions(), handle(family)).ok());
  }
  // Merges everything into the last level. Also rewrites the last level if there is no other.
  void Compact(ColumnFamily family) {
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
    ASSERT_TRUE(db_->CompactRange(options, handle(family), nullptr, nullptr).ok());
  }

  // The number of entries in the tables, with tombstones and operands.
  uint64_t TableEntries(ColumnFamily family) {
    rocksdb::TablePropertiesCollection tables;
    EXPECT_TRUE(db_->GetPropertiesOfAllTables(handle(family), &tables).ok());
    uint64_t entries = 0;
    for (const auto& [name, properties] : tables) entries += properties->num_entries;
    return entries;
  }

  void PutLocator(uint64_t sequence, uint64_t expire_ms) {
    Locator locator;
    if (expire_ms == 0) {
      locator.due_ms = 5;
    } else {
      locator.tombstone = Tombstone{.state = EndState::kAcked, .expire_ms = expire_ms, .key = ""};
    }
    ASSERT_TRUE(db_->Put(Unsynced(), handle(ColumnFamily::kLocators),
                         ToSlice(LocatorKey(sequence).bytes()), EncodeLocator(locator))
                    .ok());
  }
  bool HasLocator(uint64_t sequence) {
    std::string value;
    return db_
        ->Get(rocksdb::ReadOptions(), handle(ColumnFamily::kLocators),
              ToSlice(LocatorKey(sequence).bytes()), &value)
        .ok();
  }
  static StoreKey LocatorKey(uint64_t sequence) {
    return EncodeLocatorKey(0, MessageId::Make(1, sequence, 0, 0));
  }

  // Write options without a sync, because this test cuts no power.
  static rocksdb::WriteOptions Unsynced() {
    rocksdb::WriteOptions write;
    write.sync = false;
    return write;
  }

  // Even numbers are topics, odd numbers are days with one minute.
  static constexpr size_t kMinute = 70;
  static bool IsTopic(uint64_t number) { return number % 2 == 0; }
  static StoreKey CounterKey(uint64_t number) {
    const TopicId topic{static_cast<uint32_t>(number)};
    return IsTopic(number) ? CountKey(0, topic) : DayKey(0, topic, 3 * kDayMs);
  }

  void Count(uint64_t number, const CountDelta& delta) {
    const auto sum = EncodeCountDelta(delta);
    DayEncoder day;
    day.Add(kMinute, delta);
    const rocksdb::Slice value =
        IsTopic(number) ? rocksdb::Slice(sum.data(), sum.size()) : rocksdb::Slice(day.bytes());
    ASSERT_TRUE(db_->Merge(Unsynced(), handle(ColumnFamily::kCounts),
                           ToSlice(CounterKey(number).bytes()), value)
                    .ok());
  }
  // Returns nullopt if the counter is absent.
  std::optional<CountDelta> ReadCount(uint64_t number) {
    std::string value;
    const rocksdb::Status status = db_->Get(rocksdb::ReadOptions(), handle(ColumnFamily::kCounts),
                                            ToSlice(CounterKey(number).bytes()), &value);
    if (status.IsNotFound()) return std::nullopt;
    EXPECT_TRUE(status.ok()) << status.ToString();
    if (IsTopic(number)) return DecodeCountDelta(value);
    DayDecoder decoder(value);
    if (!decoder.Next()) return CountDelta{};
    EXPECT_EQ(decoder.minute(), kMinute);
    return decoder.delta();
  }

  const test::TempDirectory directory_;
  LaterEnv env_;
  const std::shared_ptr<DropMark> drop_mark_ = std::make_shared<DropMark>(0);
  const std::shared_ptr<CompactionListener> listener_ = std::make_shared<CompactionListener>();
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST_F(RocksDbCompactionTest, OnlyEntriesExpiredAtTheMarkAreDropped) {
  PutLocator(1, 0);
  PutLocator(2, 100);
  PutLocator(3, 101);
  Flush(ColumnFamily::kLocators);
  Compact(ColumnFamily::kLocators);
  EXPECT_TRUE(HasLocator(2)) << "the mark is 0";
  drop_mark_->store(100);
  EXPECT_TRUE(HasLocator(2)) << "not before a compaction";
  Compact(ColumnFamily::kLocators);
  EXPECT_TRUE(HasLocator(1));
  EXPECT_FALSE(HasLocator(2));
  EXPECT_TRUE(HasLocator(3));
  EXPECT_EQ(TableEntries(ColumnFamily::kLocators), 2u);
}

TEST_F(RocksDbCompactionTest, ADroppedEntryShowsNothingOlder) {
  // The older entry is in the last level. The newer one, which expires, is above it.
  PutLocator(1, 0);
  Flush(ColumnFamily::kLocators);
  Compact(ColumnFamily::kLocators);
  PutLocator(1, 50);
  Flush(ColumnFamily::kLocators);
  PutLocator(2, 0);
  Flush(ColumnFamily::kLocators);
  drop_mark_->store(50);
  // Merges only the young tables, without the last level.
  rocksdb::ColumnFamilyMetaData meta;
  db_->GetColumnFamilyMetaData(handle(ColumnFamily::kLocators), &meta);
  std::vector<std::string> young;
  for (const rocksdb::SstFileMetaData& file : meta.levels[0].files) young.push_back(file.name);
  ASSERT_EQ(young.size(), 2u);
  ASSERT_TRUE(db_->CompactFiles(rocksdb::CompactionOptions(), handle(ColumnFamily::kLocators),
                                young,
                                /*output_level=*/1)
                  .ok());
  EXPECT_FALSE(HasLocator(1)) << "its tombstone hides older values";
  Compact(ColumnFamily::kLocators);
  EXPECT_FALSE(HasLocator(1));
  EXPECT_TRUE(HasLocator(2));
  EXPECT_EQ(TableEntries(ColumnFamily::kLocators), 1u);
}

// Old ids lie in tables that no new id overlaps, so only their age makes RocksDB compact them.
TEST_F(RocksDbCompactionTest, OldTablesAreVisitedWithinTheGarbageAge) {
  for (uint64_t sequence = 0; sequence < 100; ++sequence) PutLocator(sequence, 50);
  Flush(ColumnFamily::kLocators);
  Compact(ColumnFamily::kLocators);
  ASSERT_EQ(TableEntries(ColumnFamily::kLocators), 100u);
  drop_mark_->store(50);
  // Before the garbage age, a new table makes RocksDB look for work, and it finds none.
  env_.Forward(1800);
  PutLocator(1000, 0);
  Flush(ColumnFamily::kLocators);
  EXPECT_EQ(TableEntries(ColumnFamily::kLocators), 101u);
  env_.Forward(1900);
  PutLocator(1001, 0);
  Flush(ColumnFamily::kLocators);
  EXPECT_TRUE(listener_->Await([this] { return TableEntries(ColumnFamily::kLocators) == 2; }))
      << TableEntries(ColumnFamily::kLocators);
}

TEST_F(RocksDbCompactionTest, CountersOfZeroGoInTheEnd) {
  Count(1, {1, 10});
  Count(1, {-1, -10});
  Count(2, {5, 50});
  Flush(ColumnFamily::kCounts);
  EXPECT_EQ(ReadCount(1), CountDelta{});
  // The first compaction merges the operands into a value. The second one drops it.
  Compact(ColumnFamily::kCounts);
  EXPECT_EQ(ReadCount(2), (CountDelta{5, 50}));
  Compact(ColumnFamily::kCounts);
  EXPECT_EQ(ReadCount(1), std::nullopt);
  EXPECT_EQ(ReadCount(2), (CountDelta{5, 50}));
  EXPECT_EQ(TableEntries(ColumnFamily::kCounts), 1u);
  Count(1, {3, 30});
  EXPECT_EQ(ReadCount(1), (CountDelta{3, 30}));
}

// Puts a zero over an older sum, and changes over a zero, wherever a filter may meet them.
TEST_F(RocksDbCompactionTest, DroppingAZeroNeverUncoversAnOlderSum) {
  Count(1, {5, 50});
  Flush(ColumnFamily::kCounts);
  Compact(ColumnFamily::kCounts);
  // After 17 changes in a row, RocksDB writes their sum, a value, over the older one.
  for (int i = 0; i < 5; ++i) Count(1, {-1, -10});
  for (int i = 0; i < 10; ++i) {
    Count(1, {1, 10});
    Count(1, {-1, -10});
  }
  Flush(ColumnFamily::kCounts);
  Count(2, {1, 1});
  Flush(ColumnFamily::kCounts);
  EXPECT_EQ(ReadCount(1), CountDelta{});
  rocksdb::ColumnFamilyMetaData meta;
  db_->GetColumnFamilyMetaData(handle(ColumnFamily::kCounts), &meta);
  std::vector<std::string> young;
  for (const rocksdb::SstFileMetaData& file : meta.levels[0].files) young.push_back(file.name);
  ASSERT_TRUE(db_->CompactFiles(rocksdb::CompactionOptions(), handle(ColumnFamily::kCounts), young,
                                /*output_level=*/1)
                  .ok());
  EXPECT_EQ(ReadCount(1).value_or(CountDelta{}), CountDelta{});
  Count(1, {2, 20});
  EXPECT_EQ(ReadCount(1), (CountDelta{2, 20}));
  Flush(ColumnFamily::kCounts);
  Compact(ColumnFamily::kCounts);
  EXPECT_EQ(ReadCount(1), (CountDelta{2, 20}));
}

// Random changes, flushes and compactions of some or all tables. Every sum is always right.
TEST_F(RocksDbCompactionTest, NoSumIsEverWrong) {
  std::mt19937_64 random(test::TestSeed(1));
  constexpr uint64_t kMinutes = 40;
  std::map<uint64_t, CountDelta> model;
  for (int step = 0; step < 3000; ++step) {
    const uint64_t minute = random() % 3 == 0 ? 0 : random() % kMinutes;
    CountDelta& sum = model[minute];
    CountDelta delta = {static_cast<int64_t>(random() % 3), static_cast<int64_t>(random() % 300)};
    // Often returns a sum to zero.
    if (random() % 3 == 0) delta = {-sum.messages, -sum.bytes};
    Count(minute, delta);
    sum = Sum(sum, delta);
    if (random() % 40 == 0) Flush(ColumnFamily::kCounts);
    if (random() % 200 == 0) Compact(ColumnFamily::kCounts);
    if (random() % 20 != 0) continue;
    for (uint64_t at = 0; at < kMinutes; ++at) {
      ASSERT_EQ(ReadCount(at).value_or(CountDelta{}), model[at]) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace duetime::storage
