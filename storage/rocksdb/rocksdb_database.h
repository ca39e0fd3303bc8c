// SPDX-License-Identifier: Apache-2.0
//
// An open data directory: the lock, the witness, the database, and the protocol that opens them
// together.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/write_batch.h>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/mutex.h"
#include "storage/log_place.h"
#include "storage/rocksdb/compaction.h"
#include "storage/rocksdb/file_system.h"
#include "storage/rocksdb/format_version.h"
#include "storage/rocksdb/open_options.h"
#include "storage/rocksdb/rocksdb_source.h"
#include "storage/rocksdb/witness.h"

namespace duetime::storage {

// The KvStore of a data directory. RocksDbStore::Open documents the guarantees and the refusals of
// Open. Thread safety: as KvStore; all else is thread-safe, except Close and the destructor.
class RocksDbDatabase final : public KvStore {
 public:
  // A test gives upgrades to versions that do not exist yet.
  static absl::StatusOr<std::unique_ptr<RocksDbDatabase>> Open(
      const RocksDbStoreOptions& options,
      std::span<const FormatUpgrade> upgrades = kFormatUpgrades);
  ~RocksDbDatabase() override;
  RocksDbDatabase(const RocksDbDatabase&) = delete;
  RocksDbDatabase& operator=(const RocksDbDatabase&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* handle(ColumnFamily family) const {
    return handles_[static_cast<size_t>(family)];
  }
  const TableDamage::Handles& handles() const { return handles_; }
  // Grows by one with each opening. The log of a cell has epochs of its own.
  uint64_t epoch() const { return epoch_; }
  // See RecordStore.
  uint64_t first_sequence() const { return first_sequence_; }
  bool in_cell() const { return in_cell_; }
  // The place in the log when the database was opened.
  const LogPlace& log_place() const { return log_place_; }
  uint16_t shard_count() const { return shard_count_; }
  const std::string& data_dir() const { return options_.data_dir; }

  // After the first error, here or in the background, the database is fenced for good.
  absl::Status Append(absl::FunctionRef<void(KvBatch*)> fill, Durability durability) override;
  // As Append, for writers that tell a person what happened: if the database is fenced by an error
  // in the background, returns that error (INTERNAL), not FAILED_PRECONDITION.
  absl::Status Write(absl::FunctionRef<void(KvBatch*)> fill, Durability durability);
  void DropExpired(uint64_t until_ms) override;
  KvSource* source() override { return source_.get(); }

  // Fences the database, and returns the error. Any thread.
  rocksdb::Status Fence(const rocksdb::Status& status);
  bool fenced() const { return fenced_->load(std::memory_order_acquire); }
  // True if the database is fenced, and every error may pass (MayPass).
  bool fence_may_pass() const { return fenced() && !lasting_->load(std::memory_order_acquire); }

  // Reads one value of the meta family; empty if the key is absent.
  absl::StatusOr<std::string> ReadMeta(const StoreKey& key) const;
  // Reads every record of the family meta. An error names the damaged file.
  absl::Status CheckMeta() const;

  // See BackgroundErrors.
  void StopDamagedCompactions() { source_->tables()->StopCompactions(background_errors_.get()); }
  absl::Status WriteWitness();
  // See RocksDbStore::WriteCheckpoint.
  absl::Status WriteCheckpoint(const std::string& path);
  absl::Status Close();

  // Bytes in the log files that the database has not deleted.
  uint64_t WalBytes() const;

 private:
  RocksDbDatabase(const RocksDbStoreOptions& options, std::span<const FormatUpgrade> upgrades);

  // The steps of Open, in order.
  absl::Status FindDirectory();
  absl::Status LockDirectory();
  absl::Status ReadWitness();
  absl::Status CheckFiles();
  absl::Status CheckContinuity();
  absl::Status OpenDb();
  absl::Status CheckContents();
  absl::Status CheckUse();
  absl::Status Upgrade();
  absl::Status BeginEpoch();
  absl::Status RemoveInitFile();
  // Values of the family meta that begin an epoch.
  using Marks = std::vector<std::pair<StoreKey, std::string>>;
  // Adds the identity of the witness file, and if the directory is a copy, claims of all that is
  // due by now.
  absl::Status MarkIfCopied(Marks* marks);
  absl::Status ClaimUntilNow(Marks* marks);

  // Clears the batch and puts the LogMark into it. If the log is full, switches the log first.
  rocksdb::Status BeginBatch();
  rocksdb::Status WriteOut(bool sync);

  // Starts a new log and flushes the memtables in the background, if the log or the memtables have
  // reached their limits.
  //
  // RocksDB would switch logs by itself in the middle of a write, and would begin the new log while
  // the end of the old one is not synced. A power cut could then keep records of the new log and
  // lose older ones, and a watermark could outlive the records it covers. This function switches
  // between two writes, with everything synced, before RocksDB reaches its own limits.
  rocksdb::Status SwitchLogIfFull();
  rocksdb::Status SyncLog();
  void NoteAllDurable();
  // What the witness may say now.
  WitnessRecord DurableRecord() const;

  bool creating() const { return found_.state == WitnessRecord::State::kCreating; }
  // The newest version that this program knows, and that it writes.
  uint32_t format_version() const {
    return kFirstFormatVersion + static_cast<uint32_t>(upgrades_.size());
  }
  // If the log was switched, records that `first_sequence` is the first record of the new log.
  rocksdb::Status NoteLog(uint64_t first_sequence);
  absl::StatusOr<uint64_t> ReadMetaNumber(const StoreKey& key) const;

  // Constant once Open has returned.
  const RocksDbStoreOptions options_;
  const std::span<const FormatUpgrade> upgrades_;
  const std::string db_path_;
  const std::unique_ptr<rocksdb::Env> env_;
  std::optional<DirectoryLock> lock_;
  std::unique_ptr<Witness> witness_;
  // The record in the witness file when Open() began. For a new store, the record that Open()
  // wrote.
  WitnessRecord found_;
  // The last record in the files, as Open() found them.
  uint64_t last_sequence_found_ = 0;
  std::unique_ptr<rocksdb::DB> db_;
  TableDamage::Handles handles_{};
  std::unique_ptr<RocksDbSource> source_;
  uint64_t epoch_ = 0;
  // Not stored: together with the epoch it only keeps the ids of copies apart.
  uint64_t first_sequence_ = 0;
  uint16_t shard_count_ = 0;
  bool in_cell_ = false;
  LogPlace log_place_;
  // The format version of the database before Upgrade(); 0 for a new store.
  uint64_t found_version_ = 0;

  // Shared with RocksDB's listener, which may briefly outlive a failed Open().
  const std::shared_ptr<std::atomic<bool>> fenced_;
  // An error of the fence is not one that passes by itself. Set before fenced_.
  const std::shared_ptr<std::atomic<bool>> lasting_;
  const std::shared_ptr<BackgroundErrors> background_errors_;
  // Shared with RocksDB's compactions.
  const std::shared_ptr<DropMark> drop_mark_;
  // The sequence number of the last record of the last synced write. The appending thread sets it
  // after the sync has returned, so it is never ahead of the disk. Buffered records count when a
  // later sync covers them.
  std::atomic<uint64_t> durable_sequence_{0};

  // Reused by each append. This field and the next five belong to the appending thread.
  rocksdb::WriteBatch batch_;
  // The current log; before Open() has opened the database, the last one that it found.
  uint64_t log_number_ = 0;
  uint64_t previous_log_ = 0;
  // RocksDB refused to switch the full log. The next write may then switch it.
  bool switch_refused_ = false;
  // Bytes written since the last switch.
  uint64_t log_bytes_ = 0;
  // The sequence number of the first record of the log.
  uint64_t log_begin_ = 0;

  base::Mutex witness_mutex_;
  // Empty until the first write.
  std::optional<WitnessRecord> last_written_ ABSL_GUARDED_BY(witness_mutex_);
};

}  // namespace duetime::storage
