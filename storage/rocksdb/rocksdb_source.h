// SPDX-License-Identifier: Apache-2.0
//
// RocksDbSource: the readable side of a RocksDB database.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/kv_store.h"
#include "storage/rocksdb/open_options.h"
#include "storage/rocksdb/table_damage.h"

namespace duetime::storage {

// Reads an open database, which may be open for reading only. Thread-safe.
class RocksDbSource final : public KvSource {
 public:
  // Logs each damaged block once to `log`, unless it is nullptr. REQUIRES: `db` and `handles`
  // outlive the source.
  RocksDbSource(rocksdb::DB* db, const TableDamage::Handles* handles, LogSink log,
                size_t blocks_max = DamageList::kBlocksMax);

  absl::StatusOr<std::optional<std::string>> Get(ColumnFamily family,
                                                 absl::string_view key) override;
  absl::Status GetMany(std::span<const StoreKey> keys,
                       std::vector<std::optional<std::string>>* values) override;
  std::unique_ptr<KvReader> NewReader(ColumnFamily family, absl::string_view lower,
                                      absl::string_view upper, OnDamage on_damage) override;
  const DamageList& damage() const override { return tables_.list(); }

  // For what concerns tables, and not keys.
  TableDamage* tables() { return &tables_; }

 private:
  // Get for GetMany.
  absl::Status GetAny(const StoreKey& key, std::vector<std::optional<std::string>>* values);

  TableDamage tables_;
};

}  // namespace duetime::storage
