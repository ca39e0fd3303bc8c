// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/repair.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"
#include "storage/repair/new_directory.h"
#include "storage/repair/repair_copy.h"
#include "storage/repair/repair_source.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

// What the records tell about the number of shards.
class ShardGuess {
 public:
  // A message with this id lies, or lay, in the shard.
  void Add(uint16_t shard, const MessageId& id) {
    const uint32_t slot = id.slot();
    auto& [first, last] = slots_.try_emplace(shard, slot, slot).first->second;
    first = std::min(first, slot);
    last = std::max(last, slot);
    Add(shard);
  }
  void Add(uint16_t shard) { least_ = std::max(least_, shard + 1u); }

  // The least number that fits; nullopt if there is none.
  std::optional<uint16_t> Least() const {
    for (uint32_t count = least_; count <= MessageId::kSlotCount; ++count) {
      const auto shards = static_cast<uint16_t>(count);
      const bool fits = std::all_of(slots_.begin(), slots_.end(), [shards](const auto& shard) {
        return ShardOfSlot(shard.second.first, shards) == shard.first &&
               ShardOfSlot(shard.second.second, shards) == shard.first;
      });
      if (fits) return shards;
    }
    return std::nullopt;
  }

 private:
  // The least and the greatest slot of each shard.
  std::map<uint16_t, std::pair<uint32_t, uint32_t>> slots_;
  uint32_t least_ = 1;
};

// The least number of shards that puts each message, each locator and each object into the shard in
// which it lies.
absl::StatusOr<uint16_t> ShardsOfRecords(RepairSource* source) {
  // The catalog's objects, which belong to no shard, have this one.
  constexpr uint16_t kNoShard = 0xffff;
  ShardGuess guess;
  const auto read = [source](ColumnFamily family, const auto& take) {
    const auto range = source->records()->NewReader(family, "", kLastKey, OnDamage::kGoAround);
    for (; range->Valid(); range->Next()) take(range->key());
    return absl::IsDataLoss(range->status()) ? absl::OkStatus() : range->status();
  };
  absl::Status status = read(ColumnFamily::kMessages, [&guess](absl::string_view key) {
    const std::optional<MessageKey> place = DecodeMessageKey(key);
    if (place.has_value()) guess.Add(*DecodeShard(key), place->id);
  });
  if (!status.ok()) return status;
  status = read(ColumnFamily::kLocators, [&guess](absl::string_view key) {
    const std::optional<MessageId> id = DecodeLocatorKey(key);
    if (id.has_value()) guess.Add(*DecodeShard(key), *id);
  });
  if (!status.ok()) return status;
  status = read(ColumnFamily::kObjects, [&guess](absl::string_view key) {
    if (!DecodeObjectKey(key).has_value()) return;
    // The kind is before the shard.
    const uint16_t shard = LoadBigEndian<uint16_t>(key.data() + 1);
    if (shard != kNoShard) guess.Add(shard);
  });
  if (!status.ok()) return status;
  const std::optional<uint16_t> shards = guess.Least();
  if (shards.has_value()) return *shards;
  return absl::DataLossError("the number of shards is lost, and the records do not tell it");
}

absl::StatusOr<uint16_t> ShardCountOf(RepairSource* source, RepairReport* report) {
  const auto bytes = source->Get(ShardCountKey());
  if (!bytes.ok()) return bytes.status();
  const std::optional<uint64_t> stored =
      bytes->has_value() ? DecodeNumber(**bytes) : std::optional<uint64_t>();
  if (stored.has_value() && *stored > 0 && *stored <= MessageId::kSlotCount) {
    return static_cast<uint16_t>(*stored);
  }
  const absl::StatusOr<uint16_t> shards = ShardsOfRecords(source);
  if (shards.ok()) {
    report->Lost(absl::StrCat(
        "the number of shards is lost; the messages, locators and objects fit ", *shards));
  }
  return shards;
}

absl::Status WriteStore(RepairSource* source, const std::string& store_dir, uint64_t now_ms,
                        const TopicsOfObject& topics_of, RepairReport* report) {
  const absl::StatusOr<uint16_t> shards = ShardCountOf(source, report);
  if (!shards.ok()) return shards.status();
  RocksDbStoreOptions options;
  options.data_dir = store_dir;
  options.shards = *shards;
  auto target = RocksDbDatabase::Open(options);
  if (!target.ok()) return target.status();
  if (absl::Status status = RepairCopy(source, target->get(), report, now_ms, topics_of).Run();
      !status.ok()) {
    return status;
  }
  if (absl::Status status = (*target)->Close(); !status.ok()) return status;
  target->reset();
  // Proves that the directory starts, and moves the last records into tables.
  options.create_if_missing = false;
  target = RocksDbDatabase::Open(options);
  if (!target.ok()) return target.status();
  return (*target)->Close();
}

}  // namespace

absl::Status RepairDirectory(const std::string& data_dir, const std::string& into, uint64_t now_ms,
                             const TopicsOfObject& topics_of,
                             const std::function<void(absl::string_view)>& print, bool* written) {
  *written = false;
  std::error_code error;
  if (!fs::is_directory(data_dir + "/db", error)) {
    return absl::NotFoundError(absl::StrCat(data_dir, " is not a data directory"));
  }
  const auto created = NewDirectory::Create(data_dir, into);
  if (!created.ok()) return created.status();
  NewDirectory* const target = created->get();
  RepairReport report(print);
  {
    RepairSource source(data_dir, target->scratch(), &report);
    if (absl::Status status = target->CheckRoom(source.bytes()); !status.ok()) return status;
    if (absl::Status status = source.Open(); !status.ok()) return status;
    if (absl::Status status = WriteStore(&source, target->store(), now_ms, topics_of, &report);
        !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = target->Publish(); !status.ok()) return status;
  *written = true;
  if (report.lossless()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("what could be read of ", data_dir, " is in ", into));
}

}  // namespace duetime::storage
