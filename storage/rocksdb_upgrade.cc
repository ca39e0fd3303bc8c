// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_upgrade.h"

#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>
#include <string>

#include "storage/count_group.h"
#include "storage/day_counts.h"
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

// Turns the counters of versions before 5 into those of days.
class DayUpgrade {
 public:
  explicit DayUpgrade(RocksDbDatabase* database) : database_(database) {}

  absl::Status Run() {
    if (absl::Status status = Begin(); !status.ok()) return status;
    const std::unique_ptr<rocksdb::Iterator> counts(
        database_->db()->NewIterator(MakeScanOptions(nullptr, nullptr, /*tombstones_max=*/0),
                                     database_->handle(ColumnFamily::kCounts)));
    for (counts->SeekToFirst(); counts->Valid(); counts->Next()) {
      if (absl::Status status = Take(counts->key(), counts->value()); !status.ok()) return status;
    }
    if (!counts->status().ok()) return FromRocksDb(counts->status(), "read the counters");
    FinishDay();
    batch_
        .Put(database_->handle(ColumnFamily::kMeta), ToSlice(FormatVersionKey().bytes()),
             EncodeNumber(5))
        .PermitUncheckedError();
    return FromRocksDb(database_->Write(&batch_, /*sync=*/true), "write the upgrade");
  }

 private:
  absl::Status Begin() { return FromRocksDb(database_->BeginBatch(&batch_), "begin a write"); }

  // Takes one counter. They come in the order of their keys: for each topic its hours, then its
  // minutes.
  absl::Status Take(const rocksdb::Slice& key, const rocksdb::Slice& value) {
    const std::optional<CountPlace> place = DecodeCountKey({key.data(), key.size()});
    if (!place.has_value() || place->start_ms % kMinuteMs != 0) {
      return absl::DataLossError("the store holds an invalid counter key");
    }
    if (place->row == CountRow::kTopic || place->row == CountRow::kDay) return absl::OkStatus();
    if (place->row == CountRow::kMinuteBefore5) {
      const std::optional<CountDelta> sum = DecodeCountDelta({value.data(), value.size()});
      if (!sum.has_value()) return absl::DataLossError("the store holds an invalid counter");
      const CountPlace day = {place->shard, place->topic, CountRow::kDay, DayOf(place->start_ms)};
      if (day != day_) {
        FinishDay();
        if (batch_.Count() >= kChangesPerBatch) {
          const rocksdb::Status status = database_->Write(&batch_, /*sync=*/false);
          if (!status.ok()) return FromRocksDb(status, "write the upgrade");
          if (absl::Status begun = Begin(); !begun.ok()) return begun;
        }
        day_ = day;
      }
      minutes_.Add((place->start_ms - day.start_ms) / kMinuteMs, *sum);
    }
    batch_.Delete(database_->handle(ColumnFamily::kCounts), key).PermitUncheckedError();
    return absl::OkStatus();
  }

  void FinishDay() {
    if (!minutes_.bytes().empty()) {
      batch_
          .Put(database_->handle(ColumnFamily::kCounts),
               ToSlice(DayKey(day_.shard, day_.topic, day_.start_ms).bytes()), minutes_.bytes())
          .PermitUncheckedError();
    }
    minutes_ = {};
  }

  static constexpr int kChangesPerBatch = 10'000;

  RocksDbDatabase* const database_;
  rocksdb::WriteBatch batch_;
  // The day that is being put together.
  CountPlace day_;
  DayEncoder minutes_;
};

}  // namespace

absl::Status UpgradeToVersion2(RocksDbDatabase* database) {
  absl::StatusOr<std::string> place = database->ReadMeta(UpgradeKey());
  if (!place.ok()) return place.status();
  do {
    if (absl::Status status = CountBatch(database, &*place); !status.ok()) return status;
  } while (!place->empty());
  return absl::OkStatus();
}

absl::Status UpgradeToVersion5(RocksDbDatabase* database) { return DayUpgrade(database).Run(); }

absl::Status UpgradeToNewest(RocksDbDatabase* database) {
  rocksdb::WriteBatch batch;
  rocksdb::Status status = database->BeginBatch(&batch);
  if (!status.ok()) return FromRocksDb(status, "begin a write");
  batch
      .Put(database->handle(ColumnFamily::kMeta), ToSlice(FormatVersionKey().bytes()),
           EncodeNumber(kFormatVersion))
      .PermitUncheckedError();
  return FromRocksDb(database->Write(&batch, /*sync=*/true), "write the upgrade");
}

}  // namespace duetime::storage
