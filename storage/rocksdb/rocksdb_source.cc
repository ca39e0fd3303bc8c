// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_source.h"

#include <cstdint>
#include <utility>

#include "server/base/check.h"
#include "storage/rocksdb/range_reader.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"

namespace duetime::storage {
namespace {

// An iterator skips about this many tombstones in the time of one seek. Millions of tombstones can
// lie between an old message that is retried and the young messages.
constexpr uint64_t kTombstonesMax = 64;

}  // namespace

RocksDbSource::RocksDbSource(rocksdb::DB* db, const TableDamage::Handles* handles, LogSink log,
                             size_t blocks_max)
    : tables_(db, handles, std::move(log), blocks_max) {}

absl::StatusOr<std::optional<std::string>> RocksDbSource::Get(ColumnFamily family,
                                                              absl::string_view key) {
  std::string value;
  StopPerfCounters();
  const rocksdb::Status status =
      tables_.db()->Get(MakeGetOptions(), tables_.handle(family), ToSlice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return tables_.ErrorOf(family, status, key);
  return std::optional<std::string>(std::move(value));
}

absl::Status RocksDbSource::GetAny(const StoreKey& key,
                                   std::vector<std::optional<std::string>>* values) {
  auto value = Get(key.family(), key.bytes());
  if (!value.ok() && !IsDamage(value.status())) return value.status();
  values->push_back(value.ok() ? *std::move(value) : std::string());
  return absl::OkStatus();
}

absl::Status RocksDbSource::GetMany(std::span<const StoreKey> keys,
                                    std::vector<std::optional<std::string>>* values) {
  if (keys.empty()) return absl::OkStatus();
  if (keys.size() == 1) return GetAny(keys[0], values);
  // Keys of equal due times are neighbours. An iterator is five times cheaper than RocksDB's
  // MultiGet, which looks up each key from the top (0.3 us against 1.5-3 us per key, among a
  // million).
  const std::string upper = std::string(keys.back().bytes()) + '\0';
  RangeReader range(&tables_, keys[0].family(), keys[0].bytes(), upper, OnDamage::kFail,
                    kTombstonesMax);
  for (const StoreKey& key : keys) {
    range.MoveTo(key.bytes());
    if (range.gave_up() || range.broken()) {
      if (absl::Status status = GetAny(key, values); !status.ok()) return status;
    } else if (range.Valid() && range.key() == key.bytes()) {
      values->emplace_back(std::string(range.value()));
    } else {
      values->emplace_back();
    }
  }
  return absl::OkStatus();
}

std::unique_ptr<KvReader> RocksDbSource::NewReader(ColumnFamily family, absl::string_view lower,
                                                   absl::string_view upper, OnDamage on_damage) {
  if (family == ColumnFamily::kProgress && on_damage == OnDamage::kFail) {
    DT_CHECK(lower.size() == kProgressPrefixBytes && upper.size() == kProgressPrefixBytes);
  }
  return std::make_unique<RangeReader>(&tables_, family, lower, upper, on_damage);
}

}  // namespace duetime::storage
