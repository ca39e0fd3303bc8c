// SPDX-License-Identifier: Apache-2.0
//
// Cuts the power under the store again and again, at any write or sync, also during the start.
// Compares the reopened store with a model: it must hold all appends up to some point, which is not
// before the last synced append, and its counters must match its messages. With syncing switched
// off the same test must find losses; otherwise it would prove nothing.
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/rocksdb/rocksdb_store.h"
#include "tests/support/from_environment.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_scale.h"
#include "tests/support/unsynced_fs.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::BucketCount;
using storage::CountLevel;
using storage::Durability;
using storage::EncodeIndexEntry;
using storage::EncodeLocator;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;
using storage::ObjectKind;
using storage::Page;
using storage::Record;
using storage::RecordBatch;
using storage::RecordType;
using storage::RocksDbStore;
using storage::TopicId;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

using Messages = std::map<MessageKey, std::string>;
using Values = std::map<std::string, std::string>;
// Topic, level, bucket.
using Counters = std::map<std::tuple<TopicId, CountLevel, uint64_t>, BucketCount>;

constexpr uint64_t kTopics = 2;
// Due times lie within a few minutes and hours.
constexpr uint64_t kDueMax = 12'000'000;

TopicId TopicOf(const MessageKey& key) {
  return TopicId{static_cast<uint32_t>(1 + key.id.sequence() % kTopics)};
}

// Computes the counters of these messages.
Counters CountersOf(const Messages& messages) {
  Counters counters;
  for (const auto& [key, value] : messages) {
    for (const CountLevel level : storage::kCountLevels) {
      const uint64_t start_ms = storage::BucketStart(level, key.due_ms);
      BucketCount& count = counters[{TopicOf(key), level, start_ms}];
      count.start_ms = start_ms;
      count.messages += 1;
      count.bytes += value.size();
    }
  }
  return counters;
}

// The contents of a store with one shard.
struct Contents {
  Messages messages;
  // Index names (without those that may be dropped), ids and object names, as text.
  Values index;
  Values locators;
  Values objects;

  void Apply(const RecordBatch& batch) {
    for (const Record& record : batch) {
      if (record.type == RecordType::kAccept) messages.insert_or_assign(record.key, record.value);
      if (record.type == RecordType::kErase) messages.erase(record.key);
      if (record.type == RecordType::kLocator) {
        locators.insert_or_assign(record.key.id.ToString(), record.value);
      }
      if (record.type == RecordType::kObject) objects.insert_or_assign(record.name, record.value);
      if (record.type == RecordType::kUnobject) objects.erase(record.name);
      if (record.type == RecordType::kIndex && storage::ExpireTimeOf(record.value) == 0) {
        index.insert_or_assign(record.name, record.value);
      }
    }
  }

  friend bool operator==(const Contents&, const Contents&) = default;
};

// One data directory through many cuts.
//
// Each append writes its ordinal as the claim mark. The mark of the reopened store is the number of
// appends that the store holds.
class PowerLossRun {
 public:
  PowerLossRun(uint64_t seed, bool no_sync) : no_sync_(no_sync), random_(seed) {}

  // One run: starts, checks, and appends until the power fails. Returns false if records were lost.
  bool Cycle() {
    // The power fails during the start or soon after it, or late, or between two calls.
    if (Chance(4, 5)) file_system_->CutPowerAt(1 + random_() % 120);
    if (!Start()) return false;
    if (store_ != nullptr && !file_system_->power_is_cut()) {
      if (!Check()) return false;
      AppendUntilTheCut();
    }
    file_system_->CutPower();
    store_.reset();
    file_system_->LoseUnsynced(&random_);
    WriteFile(witness_path_, witness_at_cut_);
    return true;
  }

  const std::string& complaint() const { return complaint_; }
  uint64_t checks() const { return checks_; }
  uint64_t appends_lost() const { return appends_lost_; }
  uint64_t synced_appends() const { return synced_appends_; }
  uint64_t holes() const { return file_system_->holes(); }

 private:
  bool Chance(uint64_t times, uint64_t of) { return random_() % of < times; }

  bool Start() {
    storage::RocksDbStoreOptions options;
    options.data_dir = directory_.path();
    // Small, so that each run switches logs and writes and merges tables.
    options.write_buffer_bytes = 64 << 10;
    options.wal_bytes_max = 256 << 10;
    options.block_cache_bytes = 1 << 20;
    options.file_system = file_system_;
    options.unsafe_no_sync = no_sync_;
    absl::StatusOr<std::unique_ptr<RocksDbStore>> store = RocksDbStore::Open(options);
    if (file_system_->power_is_cut()) {
      if (store.ok()) store_ = *std::move(store);
      return true;
    }
    if (!store.ok()) {
      complaint_ = store.status().ToString();
      return false;
    }
    store_ = *std::move(store);
    return true;
  }

  // Compares the store with the appended records, and makes its contents the new start.
  bool Check() {
    ++checks_;
    const uint64_t reached = store_->Marks(0)->claim_ms;
    const uint64_t total = first_ + appends_.size();
    if (reached < synced_ || reached > total) {
      complaint_ = "came up with append " + std::to_string(reached) + "; " +
                   std::to_string(synced_) + " was synced, " + std::to_string(total) + " begun";
      return false;
    }
    for (uint64_t at = first_; at < reached; ++at) contents_.Apply(appends_[at - first_]);
    appends_lost_ += total - reached;
    first_ = reached;
    synced_ = reached;
    appends_.clear();
    if (Stored() != contents_) {
      complaint_ = "what is stored is not that of append " + std::to_string(reached);
      return false;
    }
    if (StoredCounters() != CountersOf(contents_.messages)) {
      complaint_ =
          "the counters are not those of the messages, at append " + std::to_string(reached);
      return false;
    }
    latest_ = contents_.messages;
    return true;
  }

  Contents Stored() {
    Contents stored;
    Page<MessageRef> page;
    page.next = MessageKey{};
    while (page.next.has_value()) {
      const MessageKey from = *page.next;
      EXPECT_TRUE(store_->Scan(0, from, MessageKey::FirstAt(2 * kDueMax), {}, &page).ok());
      std::vector<MessageKey> keys;
      for (const MessageRef& ref : page.items) keys.push_back(ref.key);
      std::vector<std::optional<std::string>> values;
      EXPECT_TRUE(store_->MultiGet(0, keys, &values).ok());
      for (size_t i = 0; i < keys.size(); ++i) stored.messages.emplace(keys[i], values[i].value());
    }
    std::vector<storage::IndexRef> entries;
    EXPECT_TRUE(
        store_->ScanIndex(0, TopicId{1}, IndexKind::kUserKey, {"", ""}, 1000, &entries).ok());
    for (const storage::IndexRef& ref : entries) {
      if (ref.entry.expire_ms == 0) stored.index.emplace(ref.name, EncodeIndexEntry(ref.entry));
    }
    for (uint64_t number = 0; number < kLocators; ++number) {
      const auto locator = store_->GetLocator(0, LocatorId(number));
      EXPECT_TRUE(locator.ok()) << locator.status();
      if (locator->has_value()) {
        stored.locators.emplace(LocatorId(number).ToString(), EncodeLocator(**locator));
      }
    }
    std::vector<storage::ObjectRef> objects;
    EXPECT_TRUE(store_->ScanObjects(ObjectKind::kOperation, 0, "", 1000, &objects).ok());
    for (const storage::ObjectRef& object : objects) {
      stored.objects.emplace(object.name, object.value);
    }
    return stored;
  }

  Counters StoredCounters() {
    Counters counters;
    for (uint32_t topic = 0; topic <= kTopics + 1; ++topic) {
      for (const CountLevel level : storage::kCountLevels) {
        std::vector<BucketCount> counts;
        EXPECT_TRUE(
            store_->ScanCounts(0, TopicId{topic}, level, {0, 2 * kDueMax}, 10'000, &counts).ok());
        for (const BucketCount& count : counts) {
          counters[{TopicId{topic}, level, count.start_ms}] = count;
        }
      }
    }
    return counters;
  }

  void AppendUntilTheCut() {
    const uint64_t appends_max = 1 + random_() % 40;
    for (uint64_t i = 0; i < appends_max && !file_system_->power_is_cut(); ++i) {
      appends_.push_back(MakeBatch());
      const bool sync = Chance(1, 2);
      const AppendOutcome outcome = store_->Append(
          std::span(&appends_.back(), 1), sync ? Durability::kSynced : Durability::kBuffered);
      EXPECT_EQ(outcome, AppendOutcome::kAccepted);
      if (file_system_->power_is_cut()) return;
      if (sync) {
        synced_ = first_ + appends_.size();
        ++synced_appends_;
      }
      if (Chance(1, 8)) {
        EXPECT_TRUE(store_->WriteWitness().ok());
      }
      if (Chance(1, 8)) store_->DropExpired(kExpireMs);
    }
  }

  RecordBatch MakeBatch() {
    RecordBatch batch;
    const uint64_t records = 1 + random_() % 12;
    for (uint64_t i = 0; i < records; ++i) {
      // Few places, so that the test writes and erases the same ones again and again.
      const uint64_t due_ms = random_() % 1000 * (kDueMax / 1000);
      const MessageKey key = {due_ms, MessageId::Make(1, random_() % 8, 0, due_ms)};
      if (Chance(2, 3)) {
        AddAccept(key, &batch);
      } else {
        AddErase(key, &batch);
      }
      if (Chance(1, 4)) AddRest(&batch);
    }
    Record mark;
    mark.type = RecordType::kClaim;
    mark.mark_ms = first_ + appends_.size() + 1;
    batch.push_back(std::move(mark));
    return batch;
  }

  void AddAccept(const MessageKey& key, RecordBatch* batch) {
    // Mostly small; some are larger than the log's blocks of 32 KiB.
    const uint64_t bytes = Chance(1, 60) ? 70'000 : random_() % 1500;
    const std::string payload(bytes, static_cast<char>('a' + random_() % 26));
    AddErase(key, batch);
    Record record;
    record.type = RecordType::kAccept;
    record.topic = TopicOf(key);
    record.key = key;
    record.value = storage::EncodeMessageRecord(
        {.header = {TopicOf(key), key.due_ms, key.due_ms}, .payload = payload});
    latest_[key] = record.value;
    batch->push_back(std::move(record));
  }

  void AddErase(const MessageKey& key, RecordBatch* batch) {
    const auto it = latest_.find(key);
    if (it == latest_.end()) return;
    Record record;
    record.type = RecordType::kErase;
    record.topic = TopicOf(key);
    record.key = key;
    record.bytes = static_cast<uint32_t>(it->second.size());
    batch->push_back(std::move(record));
    latest_.erase(it);
  }

  // Adds one record of each other kind.
  void AddRest(RecordBatch* batch) {
    Record index;
    index.type = RecordType::kIndex;
    index.topic = TopicId{1};
    index.kind = static_cast<uint8_t>(IndexKind::kUserKey);
    // RocksDB may drop some index entries, and the test does not look for these.
    const bool drops = Chance(1, 2);
    index.name = std::string(drops ? "drops" : "stays") + std::string(random_() % 60, 'n');
    index.value = EncodeIndexEntry({.id = LocatorId(random_() % kLocators),
                                    .content = {},
                                    .expire_ms = drops ? kExpireMs : 0,
                                    .deliver_ms = random_()});
    batch->push_back(std::move(index));

    Record locator;
    locator.type = RecordType::kLocator;
    locator.key.id = LocatorId(random_() % kLocators);
    locator.value = EncodeLocator({.due_ms = random_() % kDueMax, .tombstone = std::nullopt});
    batch->push_back(std::move(locator));

    Record object;
    object.type = Chance(2, 3) ? RecordType::kObject : RecordType::kUnobject;
    object.kind = static_cast<uint8_t>(ObjectKind::kOperation);
    object.name = "operation-" + std::to_string(random_() % 8);
    object.value = std::string(random_() % 100, 'o');
    batch->push_back(std::move(object));
  }

  static MessageId LocatorId(uint64_t number) { return MessageId::Make(1, number, 0, 0); }

  static constexpr uint64_t kLocators = 50;
  static constexpr uint64_t kExpireMs = 1000;

  const bool no_sync_;
  const TempDirectory directory_;
  const std::string witness_path_ = directory_.Join("witness");
  // The witness bypasses the test's file system, so the test restores its bytes as of the cut.
  std::string witness_at_cut_;
  const std::shared_ptr<UnsyncedFileSystem> file_system_ =
      std::make_shared<UnsyncedFileSystem>([this] { witness_at_cut_ = ReadFile(witness_path_); });
  std::mt19937_64 random_;
  std::unique_ptr<RocksDbStore> store_;
  std::string complaint_;

  // The state after `first_` appends, and the appends since.
  Contents contents_;
  uint64_t first_ = 0;
  std::vector<RecordBatch> appends_;
  // The latest state of each message after these appends.
  Messages latest_;
  // The number of appends that must survive.
  uint64_t synced_ = 0;

  uint64_t checks_ = 0;
  uint64_t appends_lost_ = 0;
  uint64_t synced_appends_ = 0;
};

constexpr uint64_t kCyclesPerDirectory = 25;

TEST(StoragePowerLossTest, SyncedAppendsSurviveAndTheRestIsAPrefix) {
  const uint64_t first_seed = test::FromEnvironment("DUETIME_SEED", 1);
  const uint64_t cycles = std::max(
      kCyclesPerDirectory,
      test::FromEnvironment("DUETIME_CRASH_CYCLES", static_cast<uint64_t>(test::Scaled(1000))));
  uint64_t checks = 0;
  uint64_t appends_lost = 0;
  uint64_t synced_appends = 0;
  uint64_t holes = 0;
  for (uint64_t seed = first_seed; seed < first_seed + cycles / kCyclesPerDirectory; ++seed) {
    PowerLossRun run(seed, /*no_sync=*/false);
    for (uint64_t cycle = 0; cycle < kCyclesPerDirectory; ++cycle) {
      ASSERT_TRUE(run.Cycle()) << run.complaint() << " (DUETIME_SEED=" << seed << ", cycle "
                               << cycle << ")";
    }
    checks += run.checks();
    appends_lost += run.appends_lost();
    synced_appends += run.synced_appends();
    holes += run.holes();
  }
  std::cout << "seeds from " << first_seed << ": " << cycles << " cycles, " << checks
            << " checked, " << synced_appends << " synced appends kept, " << appends_lost
            << " unsynced ones lost, " << holes << " pages left out\n";
  EXPECT_GT(checks, cycles / 4) << "most lives must get past their start";
  EXPECT_GT(appends_lost, cycles / 20) << "a cut must be able to take something";
  EXPECT_GT(holes, cycles / 20) << "also from the middle";
}

TEST(StoragePowerLossTest, WithoutSyncingLossesAreFound) {
  const uint64_t first_seed = test::FromEnvironment("DUETIME_SEED", 1);
  constexpr uint64_t kRuns = 10;
  uint64_t losses = 0;
  for (uint64_t seed = first_seed; seed < first_seed + kRuns; ++seed) {
    PowerLossRun run(seed, /*no_sync=*/true);
    for (uint64_t cycle = 0; cycle < kCyclesPerDirectory; ++cycle) {
      if (run.Cycle()) continue;
      ++losses;
      break;
    }
  }
  EXPECT_GE(losses, kRuns - 2) << "nearly every run must notice that nothing is synced";
}

}  // namespace
}  // namespace duetime::test
