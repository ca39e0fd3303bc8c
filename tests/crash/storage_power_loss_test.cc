// SPDX-License-Identifier: Apache-2.0
//
// Cuts the power under the store again and again, at any write or sync, also while it starts, and
// compares what comes up with a model: everything that was appended up to some point, which is not
// before the last synced append. The same test with syncing switched off must find losses;
// otherwise it would prove nothing.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/rocksdb_store.h"
#include "tests/crash/unsynced_fs.h"
#include "tests/support/temp_directory.h"

namespace duetime::test {
namespace {

using storage::AppendOutcome;
using storage::Durability;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;
using storage::Page;
using storage::Record;
using storage::RecordBatch;
using storage::RecordType;
using storage::RocksDbStore;
using storage::TopicId;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

using Messages = std::map<MessageKey, std::string>;

void Apply(const RecordBatch& batch, Messages* messages) {
  for (const Record& record : batch) {
    if (record.type == RecordType::kAccept) messages->insert_or_assign(record.key, record.value);
    if (record.type == RecordType::kErase) messages->erase(record.key);
  }
}

// One data directory through many cuts.
//
// Each append carries its ordinal as the claim mark, so that the store itself says how many appends
// it has come up with.
class PowerLossRun {
 public:
  PowerLossRun(uint64_t seed, bool no_sync) : no_sync_(no_sync), random_(seed) {}

  // One life: start, check, append until the power fails. Returns false if something was lost.
  bool Cycle() {
    // Sometimes the power fails during the start or soon after it, sometimes late, sometimes
    // between two calls.
    if (Chance(4, 5)) file_system_->CutPowerAt(1 + random_() % 80);
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
    // Small, so that logs are switched and tables written and merged within a life.
    options.write_buffer_bytes = 64 << 10;
    options.wal_bytes_max = 256 << 10;
    options.block_cache_bytes = 1 << 20;
    options.file_system = file_system_;
    options.unsafe_no_sync = no_sync_;
    // The witness does not go through our file system. What is written after the cut was never
    // written.
    const std::string witness = ReadFile(witness_path_);
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

  // Compares the store with what was appended, and takes what it holds as the new beginning.
  bool Check() {
    ++checks_;
    const uint64_t reached = store_->Marks(0)->claim_ms;
    const uint64_t total = first_ + appends_.size();
    if (reached < synced_ || reached > total) {
      complaint_ = "came up with append " + std::to_string(reached) + "; " +
                   std::to_string(synced_) + " was synced, " + std::to_string(total) + " begun";
      return false;
    }
    for (uint64_t at = first_; at < reached; ++at) Apply(appends_[at - first_], &messages_);
    appends_lost_ += total - reached;
    first_ = reached;
    synced_ = reached;
    appends_.clear();
    if (Stored() != messages_) {
      complaint_ = "the messages are not those of append " + std::to_string(reached);
      return false;
    }
    return true;
  }

  Messages Stored() {
    Messages stored;
    Page<MessageRef> page;
    page.next = MessageKey{};
    while (page.next.has_value()) {
      const MessageKey from = *page.next;
      EXPECT_TRUE(store_->Scan(0, from, MessageKey::FirstAt(1'000'000), {}, &page).ok());
      std::vector<MessageKey> keys;
      for (const MessageRef& ref : page.items) keys.push_back(ref.key);
      std::vector<std::optional<std::string>> values;
      EXPECT_TRUE(store_->MultiGet(0, keys, &values).ok());
      for (size_t i = 0; i < keys.size(); ++i) stored.emplace(keys[i], values[i].value());
    }
    return stored;
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
    }
  }

  RecordBatch MakeBatch() {
    RecordBatch batch;
    const uint64_t records = 1 + random_() % 12;
    for (uint64_t i = 0; i < records; ++i) {
      Record record;
      const uint64_t due_ms = random_() % 1000;
      record.key = MessageKey{due_ms, MessageId::Make(1, random_() % 8, 0, due_ms)};
      record.type = Chance(2, 3) ? RecordType::kAccept : RecordType::kErase;
      if (record.type == RecordType::kAccept) {
        // Mostly small; some larger than the log's blocks of 32 KiB.
        const uint64_t bytes = Chance(1, 60) ? 70'000 : random_() % 1500;
        const std::string payload(bytes, static_cast<char>('a' + random_() % 26));
        record.value = storage::EncodeMessageRecord(
            {.header = {TopicId{1}, due_ms, due_ms}, .payload = payload});
      }
      batch.push_back(std::move(record));
    }
    Record mark;
    mark.type = RecordType::kClaim;
    mark.mark_ms = first_ + appends_.size() + 1;
    batch.push_back(std::move(mark));
    return batch;
  }

  const bool no_sync_;
  const TempDirectory directory_;
  const std::string witness_path_ = directory_.Join("witness");
  // The witness does not go through our file system; what it says after the cut was never written.
  std::string witness_at_cut_;
  const std::shared_ptr<UnsyncedFileSystem> file_system_ =
      std::make_shared<UnsyncedFileSystem>([this] { witness_at_cut_ = ReadFile(witness_path_); });
  std::mt19937_64 random_;
  std::unique_ptr<RocksDbStore> store_;
  std::string complaint_;

  // The state after `first_` appends, and the appends since.
  Messages messages_;
  uint64_t first_ = 0;
  std::vector<RecordBatch> appends_;
  // What must come up at least.
  uint64_t synced_ = 0;

  uint64_t checks_ = 0;
  uint64_t appends_lost_ = 0;
  uint64_t synced_appends_ = 0;
};

constexpr uint64_t kCyclesPerDirectory = 25;

TEST(StoragePowerLossTest, SyncedAppendsSurviveAndTheRestIsAPrefix) {
  const uint64_t first_seed = FromEnvironment("DUETIME_SEED", 1);
  const uint64_t cycles = FromEnvironment("DUETIME_CRASH_CYCLES", 1000);
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
  const uint64_t first_seed = FromEnvironment("DUETIME_SEED", 1);
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
