// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/log_tail.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/support/temp_directory.h"

namespace duetime::storage {
namespace {

// A log as RocksDB writes it, which LogTail must understand.
struct Log {
  std::string bytes;
  // The end of each write. The first write belongs to the start.
  std::vector<size_t> ends;
};

// Writes `count` messages of various sizes, up to more than two blocks of the log.
Log WriteLog(size_t count, Durability durability) {
  const test::TempDirectory directory;
  RocksDbStoreOptions options;
  options.data_dir = directory.path();
  auto store = RocksDbStore::Open(options);
  EXPECT_TRUE(store.ok()) << store.status();
  std::string path;
  for (const auto& entry : std::filesystem::directory_iterator(directory.Join("db"))) {
    if (entry.path().extension() == ".log") path = entry.path();
  }
  Log log;
  log.ends.push_back(std::filesystem::file_size(path));
  std::mt19937_64 random(5);
  for (size_t i = 0; i < count; ++i) {
    Record record;
    record.type = RecordType::kAccept;
    record.key = {i, MessageId::Make(1, i, 0, i)};
    const size_t payload_bytes = i % 5 == 4 ? random() % 80'000 : random() % 300;
    const std::string payload(payload_bytes, 'x');
    record.value = EncodeMessageRecord({.payload = payload});
    const std::vector<RecordBatch> group = {{record}};
    EXPECT_EQ((*store)->Append(group, durability), AppendOutcome::kAccepted);
    log.ends.push_back(std::filesystem::file_size(path));
  }
  std::ifstream file(path, std::ios::binary);
  log.bytes = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(log.bytes.size(), log.ends.back());
  EXPECT_GT(log.bytes.size(), 3 * kLogBlockBytes);
  return log;
}

LogTail Follow(absl::string_view bytes) {
  LogTail tail;
  while (bytes.size() >= kLogBlockBytes) {
    tail.AddBlock(bytes.substr(0, kLogBlockBytes));
    bytes.remove_prefix(kLogBlockBytes);
  }
  tail.AddBlock(bytes);
  return tail;
}

// The number of complete writes in the first `bytes`.
size_t WholeWrites(const Log& log, size_t bytes) {
  return static_cast<size_t>(std::upper_bound(log.ends.begin(), log.ends.end(), bytes) -
                             log.ends.begin());
}

TEST(LogTailTest, AWholeLogIsNotBroken) {
  const Log log = WriteLog(40, Durability::kSynced);
  for (const size_t end : log.ends) {
    const LogTail tail = Follow(absl::string_view(log.bytes).substr(0, end));
    EXPECT_FALSE(tail.broken()) << end;
    EXPECT_EQ(tail.whole_bytes(), end);
  }
  EXPECT_FALSE(Follow("").broken());
}

TEST(LogTailTest, ATornEndIsBrokenAndLosesNothingElse) {
  const Log log = WriteLog(40, Durability::kSynced);
  for (size_t size = 1; size < log.bytes.size(); size += 1009) {
    const size_t writes = WholeWrites(log, size);
    const LogTail tail = Follow(absl::string_view(log.bytes).substr(0, size));
    const size_t whole = writes == 0 ? 0 : log.ends[writes - 1];
    EXPECT_EQ(tail.broken(), whole != size) << size;
    EXPECT_EQ(tail.whole_bytes(), whole) << size;
    if (tail.broken()) {
      EXPECT_FALSE(tail.lost_synced_records()) << size;
    }
  }
}

TEST(LogTailTest, AGapBeforeAWriteThatCameAfterItsSyncIsALoss) {
  const Log log = WriteLog(40, Durability::kSynced);
  for (size_t at = 0; at < log.bytes.size(); at += 1511) {
    std::string damaged = log.bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    const size_t writes = WholeWrites(log, at);
    const LogTail tail = Follow(damaged);
    ASSERT_TRUE(tail.broken()) << at;
    EXPECT_EQ(tail.whole_bytes(), writes == 0 ? 0 : log.ends[writes - 1]) << at;
    EXPECT_EQ(tail.lost_synced_records(), writes + 1 < log.ends.size()) << at;
  }
}

TEST(LogTailTest, AGapAmongUnsyncedWritesIsNone) {
  const Log log = WriteLog(40, Durability::kBuffered);
  for (size_t at = log.ends[0]; at < log.bytes.size(); at += 4096) {
    std::string damaged = log.bytes;
    std::fill_n(damaged.begin() + static_cast<std::ptrdiff_t>(at),
                std::min<size_t>(4096, damaged.size() - at), '\0');
    const LogTail tail = Follow(damaged);
    ASSERT_TRUE(tail.broken()) << at;
    EXPECT_EQ(tail.whole_bytes(), log.ends[WholeWrites(log, at) - 1]) << at;
    EXPECT_FALSE(tail.lost_synced_records()) << at;
  }
}

TEST(LogTailTest, AGapAtTheVeryBeginningIsJudgedByTheLogsFirstRecord) {
  for (const Durability durability : {Durability::kBuffered, Durability::kSynced}) {
    Log log = WriteLog(40, durability);
    // The first write, that of the start, was synced in either case.
    log.bytes[3] = static_cast<char>(log.bytes[3] ^ 1);
    const LogTail tail = Follow(log.bytes);
    EXPECT_TRUE(tail.broken());
    EXPECT_EQ(tail.whole_bytes(), 0u);
    EXPECT_TRUE(tail.lost_synced_records());
  }
}

// RocksDB aborts the process when the records of a log go back.
TEST(LogTailTest, OldWritesBehindTheEndAreAHarmlessGap) {
  const Log log = WriteLog(40, Durability::kSynced);
  for (const size_t from : {size_t{0}, log.ends[3], log.ends[30]}) {
    const LogTail tail = Follow(log.bytes + log.bytes.substr(from, log.ends[35] - from));
    EXPECT_TRUE(tail.broken()) << from;
    EXPECT_EQ(tail.whole_bytes(), log.bytes.size()) << from;
    EXPECT_FALSE(tail.lost_synced_records()) << from;
  }
}

TEST(LogTailTest, ItKnowsItsSequencesAndTheLogBefore) {
  const Log log = WriteLog(40, Durability::kSynced);
  const LogTail first = Follow(absl::string_view(log.bytes).substr(0, log.ends[0]));
  const LogTail all = Follow(log.bytes);
  ASSERT_TRUE(first.next_sequence().has_value() && all.next_sequence().has_value());
  EXPECT_EQ(first.first_sequence(), 1u);
  EXPECT_EQ(all.first_sequence(), 1u);
  // Each append stores a message and its two counters.
  EXPECT_EQ(*all.next_sequence(), *first.next_sequence() + 3 * 40);
  EXPECT_EQ(all.previous_log(), 0u) << "the first log of a store follows none";
  EXPECT_EQ(Follow("").first_sequence(), std::nullopt);
  EXPECT_EQ(Follow("").previous_log(), std::nullopt);
}

TEST(LogTailTest, NoiseIsBroken) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    std::string noise(50'000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    const LogTail tail = Follow(noise);
    EXPECT_TRUE(tail.broken());
    EXPECT_EQ(tail.whole_bytes(), 0u);
    EXPECT_FALSE(tail.lost_synced_records());
  }
}

}  // namespace
}  // namespace duetime::storage
