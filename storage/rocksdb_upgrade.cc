// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_upgrade.h"

#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>
#include <string>

#include "storage/count_group.h"
#include "storage/key_codec.h"
#include "storage/message_record.h"
#include "storage/rocksdb_database.h"
#include "storage/rocksdb_options.h"
#include "storage/rocksdb_slice.h"
#include "storage/rocksdb_status.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

// Bounds the memory of a batch even if every message is due in its own minute.
constexpr size_t kMessagesPerBatch = 10'000;

// Counts one stored message.
absl::Status Count(const rocksdb::Slice& key, const rocksdb::Slice& value, CountGroup* counts) {
  const absl::string_view bytes(key.data(), key.size());
  const std::optional<uint16_t> shard = DecodeShard(bytes);
  const std::optional<MessageKey> place = DecodeMessageKey(bytes);
  if (!shard.has_value() || !place.has_value()) {
    return absl::DataLossError("the store holds a message key that cannot be decoded");
  }
  MessageHeader header;
  if (absl::Status status = DecodeMessageHeader({value.data(), value.size()}, &header);
      !status.ok()) {
    return status;
  }
  counts->Add(*shard, header.topic, place->due_ms,
              {.messages = 1, .bytes = static_cast<int64_t>(value.size())});
  return absl::OkStatus();
}

// Counts one batch of messages from `*place` on, writes the counts, and advances `*place`. At the
// end `*place` is empty.
absl::Status CountBatch(RocksDbDatabase* database, std::string* place) {
  const rocksdb::Slice lower(*place);
  const std::unique_ptr<rocksdb::Iterator> messages(
      database->db()->NewIterator(MakeScanOptions(&lower, nullptr, /*tombstones_max=*/0),
                                  database->handle(ColumnFamily::kMessages)));
  CountGroup counts;
  messages->SeekToFirst();
  for (size_t i = 0; i < kMessagesPerBatch && messages->Valid(); ++i, messages->Next()) {
    if (absl::Status status = Count(messages->key(), messages->value(), &counts); !status.ok()) {
      return status;
    }
  }
  if (!messages->status().ok()) return FromRocksDb(messages->status(), "count the messages");
  std::string next = messages->Valid() ? messages->key().ToString() : std::string();

  rocksdb::WriteBatch batch;
  rocksdb::Status status = database->BeginBatch(&batch);
  if (!status.ok()) return FromRocksDb(status, "begin a write");
  database->AddCounts(&counts, &batch);
  rocksdb::ColumnFamilyHandle* meta = database->handle(ColumnFamily::kMeta);
  const StoreKey upgrade = UpgradeKey();
  const StoreKey version = FormatVersionKey();
  if (next.empty()) {
    batch.Delete(meta, ToSlice(upgrade.bytes())).PermitUncheckedError();
    batch.Put(meta, ToSlice(version.bytes()), EncodeNumber(2)).PermitUncheckedError();
  } else {
    batch.Put(meta, ToSlice(upgrade.bytes()), next).PermitUncheckedError();
  }
  status = database->Write(&batch, /*sync=*/next.empty());
  if (!status.ok()) return FromRocksDb(status, "write the upgrade");
  *place = std::move(next);
  return absl::OkStatus();
}

}  // namespace

absl::Status UpgradeToVersion2(RocksDbDatabase* database) {
  absl::StatusOr<std::string> place = database->ReadMeta(UpgradeKey());
  if (!place.ok()) return place.status();
  do {
    if (absl::Status status = CountBatch(database, &*place); !status.ok()) return status;
  } while (!place->empty());
  return absl::OkStatus();
}

absl::Status UpgradeToVersion4(RocksDbDatabase* database) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status = database->BeginBatch(&batch);
  if (!status.ok()) return FromRocksDb(status, "begin a write");
  batch
      .Put(database->handle(ColumnFamily::kMeta), ToSlice(FormatVersionKey().bytes()),
           EncodeNumber(4))
      .PermitUncheckedError();
  return FromRocksDb(database->Write(&batch, /*sync=*/true), "write the upgrade");
}

}  // namespace duetime::storage
