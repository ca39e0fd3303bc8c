// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the storage tests in this folder, which open a RocksDbStore and fill it with numbered
// messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "storage/message_record.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime::test {

// Small sizes, so that a test produces several logs and tables.
inline storage::RocksDbStoreOptions SmallStoreOptions(const std::string& data_dir) {
  storage::RocksDbStoreOptions options;
  options.data_dir = data_dir;
  options.write_buffer_bytes = 64 << 10;
  options.wal_bytes_max = 256 << 10;
  options.block_cache_bytes = 1 << 20;
  return options;
}

// One batch with one message, which is due at its number.
inline storage::RecordBatch NumberedMessage(uint64_t number, size_t payload_bytes = 100) {
  storage::Record record;
  record.type = storage::RecordType::kAccept;
  record.topic = storage::TopicId{1};
  record.key = {number, storage::MessageId::Make(1, number, 0, number)};
  const std::string payload(payload_bytes, static_cast<char>('a' + number % 26));
  record.value = storage::EncodeMessageRecord(
      {.header = {storage::TopicId{1}, number, number}, .payload = payload});
  return {std::move(record)};
}

inline storage::AppendOutcome AppendNumbered(
    storage::RocksDbStore* store, uint64_t number,
    storage::Durability durability = storage::Durability::kSynced, size_t payload_bytes = 100) {
  const std::vector<storage::RecordBatch> group = {NumberedMessage(number, payload_bytes)};
  return store->Append(group, durability);
}

// Reads every message with its checksum and returns the numbers.
inline std::vector<uint64_t> StoredNumbers(storage::RocksDbStore* store) {
  std::vector<uint64_t> numbers;
  storage::Page<storage::MessageRef> page;
  page.next = storage::MessageKey{};
  while (page.next.has_value()) {
    const storage::MessageKey from = *page.next;
    const absl::Status status =
        store->Scan(0, from, storage::MessageKey::FirstAt(uint64_t{1} << 43), {}, &page);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return numbers;
    for (const storage::MessageRef& ref : page.items) {
      const auto value = store->Get(0, ref.key);
      EXPECT_TRUE(value.ok()) << value.status();
      storage::MessageRecord record;
      EXPECT_TRUE(storage::DecodeMessageRecord(value->value(), &record).ok());
      numbers.push_back(ref.key.due_ms);
    }
  }
  return numbers;
}

// 0, 1, ... count - 1.
inline std::vector<uint64_t> NumbersUpTo(uint64_t count) {
  std::vector<uint64_t> numbers;
  for (uint64_t number = 0; number < count; ++number) numbers.push_back(number);
  return numbers;
}

}  // namespace duetime::test
