// SPDX-License-Identifier: Apache-2.0
//
// An open data directory: the lock, the witness, the database, and the protocol that opens them
// together.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/base/mutex.h"
#include "storage/count_group.h"
#include "storage/file_system.h"
#include "storage/key_codec.h"
#include "storage/rocksdb_compaction.h"
#include "storage/rocksdb_store.h"
#include "storage/witness.h"

namespace duetime::storage {

// The version of FORMAT.md that this program reads and writes.
inline constexpr uint32_t kFormatVersion = 5;

// Owns the open files of a RocksDbStore. RocksDbStore::Open documents the guarantees and the
// refusals of Open. Thread safety: thread-safe except Close and the destructor.
class RocksDbDatabase {
 public:
  static absl::StatusOr<std::unique_ptr<RocksDbDatabase>> Open(const RocksDbStoreOptions& options);
  ~RocksDbDatabase();
  RocksDbDatabase(const RocksDbDatabase&) = delete;
  RocksDbDatabase& operator=(const RocksDbDatabase&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* handle(ColumnFamily family) const {
    return handles_[static_cast<size_t>(family)];
  }
  uint64_t epoch() const { return epoch_; }
  uint16_t shard_count() const { return shard_count_; }
  const std::string& data_dir() const { return options_.data_dir; }

  // Clears the batch and puts the LogMark into it. If the log is full, switches the log first.
  // After an error the database is fenced.
  rocksdb::Status BeginBatch(rocksdb::WriteBatch* batch);
  // Writes the batch. After the first error, here or in the background, the database is fenced for
  // good. REQUIRES: the last BeginBatch() began this batch.
  rocksdb::Status Write(rocksdb::WriteBatch* batch, bool sync);
  bool fenced() const { return fenced_->load(std::memory_order_acquire); }

  // Adds the counter changes of a group to a batch.
  void AddCounts(CountGroup* counts, rocksdb::WriteBatch* batch) const;

  // Reads one value of the meta family; empty if the key is absent.
  absl::StatusOr<std::string> ReadMeta(const StoreKey& key) const;

  void DropExpired(uint64_t until_ms);
  absl::Status WriteWitness();
  absl::Status Close();

  // Bytes in the log files that the database has not deleted.
  uint64_t WalBytes() const;

 private:
  explicit RocksDbDatabase(const RocksDbStoreOptions& options);

  // The steps of Open, in order.
  absl::Status LockDirectory();
  absl::Status ReadWitness();
  absl::Status CheckFiles();
  absl::Status TrimLog();
  absl::Status OpenDb();
  absl::Status CheckContents();
  absl::Status Upgrade();
  absl::Status BeginEpoch();

  // Starts a new log and flushes the memtables in the background, if the log or the memtables have
  // reached their limits.
  //
  // RocksDB would switch logs by itself in the middle of a write, and would begin the new log while
  // the end of the old one is not synced. A power cut could then keep records of the new log and
  // lose older ones, and a watermark could outlive the records it covers. This function switches
  // between two writes, with everything synced, before RocksDB reaches its own limits.
  rocksdb::Status SwitchLogIfFull();
  rocksdb::Status SyncLog();
  rocksdb::Status Fence(const rocksdb::Status& status);
  void NoteAllDurable();

  bool creating() const { return found_.state == WitnessRecord::State::kCreating; }
  std::string LastLog() const;
  // If the log was switched, records that `first_sequence` is the first record of the new log.
  rocksdb::Status NoteLog(uint64_t first_sequence);
  absl::StatusOr<uint64_t> ReadMetaNumber(const StoreKey& key) const;

  // Constant once Open has returned.
  const RocksDbStoreOptions options_;
  const std::string db_path_;
  std::unique_ptr<rocksdb::Env> env_override_;
  rocksdb::Env* env_ = nullptr;
  std::optional<DirectoryLock> lock_;
  std::unique_ptr<Witness> witness_;
  // The record in the witness file when Open() began. For a new store, the record that Open()
  // wrote.
  WitnessRecord found_;
  absl::Status witness_damage_;
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kColumnFamilyCount> handles_{};
  uint64_t epoch_ = 0;
  uint16_t shard_count_ = 0;
  // The format version of the database before Upgrade(); 0 for a new store.
  uint64_t found_version_ = 0;

  // Shared with RocksDB's listener, which may briefly outlive a failed Open().
  const std::shared_ptr<std::atomic<bool>> fenced_;
  // Shared with RocksDB's compactions.
  const std::shared_ptr<DropMark> drop_mark_;
  // The sequence number of the last record of the last synced write. The appending thread sets it
  // after the sync has returned, so it is never ahead of the disk. Buffered records count when a
  // later sync covers them.
  std::atomic<uint64_t> durable_sequence_{0};

  // The current log. This field and the next three belong to the appending thread.
  uint64_t log_number_ = 0;
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
