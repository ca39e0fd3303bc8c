// SPDX-License-Identifier: Apache-2.0
//
// An opened data directory: the lock, the witness and the database, and the protocol that brings
// them up together.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "storage/count_group.h"
#include "storage/file_system.h"
#include "storage/key_codec.h"
#include "storage/rocksdb_compaction.h"
#include "storage/rocksdb_store.h"
#include "storage/witness.h"

namespace duetime::storage {

// What version of FORMAT.md this program reads and writes.
inline constexpr uint32_t kFormatVersion = 3;

// Owns everything that RocksDbStore needs open. RocksDbStore::Open says what opening guarantees and
// refuses. Thread safety: thread-safe but for Close and the destructor.
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

  // Empties the batch and puts the mark for LogTail into it; before that, switches the log if it
  // is full. After an error the database is fenced.
  rocksdb::Status BeginBatch(rocksdb::WriteBatch* batch);
  // Writes the batch. REQUIRES: it was begun with BeginBatch(), as the last one. After the first
  // error, here or in the background, the database is fenced for good.
  rocksdb::Status Write(rocksdb::WriteBatch* batch, bool sync);
  bool fenced() const { return fenced_->load(std::memory_order_acquire); }

  // Puts what a group adds to the counters into a batch.
  void AddCounts(CountGroup* counts, rocksdb::WriteBatch* batch) const;

  // Reads one value of the meta family; empty if it is absent.
  absl::StatusOr<std::string> ReadMeta(const StoreKey& key) const;

  void DropExpired(uint64_t until_ms);
  absl::Status WriteWitness();
  absl::Status Close();

  // Bytes in log files that the database still has.
  uint64_t WalBytes() const;

 private:
  explicit RocksDbDatabase(const RocksDbStoreOptions& options);

  // The steps of Open, in their order.
  absl::Status LockDirectory();
  absl::Status ReadWitness();
  absl::Status CheckFiles();
  absl::Status TrimLog();
  absl::Status OpenDb();
  absl::Status CheckContents();
  absl::Status Upgrade();
  absl::Status BeginEpoch();

  // Starts a new log, and hands the memtables to the flush, when they have grown to their limits.
  //
  // RocksDB would do that by itself in the middle of a write, and would begin the new log while the
  // end of the old one is not synced. A power cut can then keep records of the new log and lose
  // older ones, and a watermark would outlive the records it stands for. So the switch is made
  // here, between two writes, with everything synced, before RocksDB's own limits are reached.
  rocksdb::Status SwitchLogIfFull();
  rocksdb::Status SyncLog();
  rocksdb::Status Fence(const rocksdb::Status& status);
  void NoteAllDurable();

  bool creating() const { return testimony_.state == Testimony::State::kCreating; }
  std::string LastLog() const;
  // Looks whether the log was switched; if so, the record with this number is the first of the new
  // one.
  rocksdb::Status NoteLog(uint64_t first_sequence);
  absl::StatusOr<uint64_t> ReadMetaNumber(const StoreKey& key) const;

  // Constant once Open has returned.
  const RocksDbStoreOptions options_;
  const std::string db_path_;
  std::unique_ptr<rocksdb::Env> env_override_;
  rocksdb::Env* env_ = nullptr;
  std::optional<DirectoryLock> lock_;
  std::unique_ptr<Witness> witness_;
  absl::Status witness_damage_;
  std::unique_ptr<rocksdb::DB> db_;
  std::array<rocksdb::ColumnFamilyHandle*, kColumnFamilyCount> handles_{};
  uint64_t epoch_ = 0;
  uint16_t shard_count_ = 0;
  // What version the database had when it was opened; 0 if it had none.
  uint64_t found_version_ = 0;

  // Shared with RocksDB's listener, which may outlive a failed open by a moment.
  const std::shared_ptr<std::atomic<bool>> fenced_;
  // Shared with RocksDB's compactions.
  const std::shared_ptr<DropMark> drop_mark_;
  // The sequence number of the last record of the last synced write. It never runs ahead of the
  // disk: it is set after the sync has returned, by the one thread that appends, and buffered
  // records are not counted until a later sync covers them.
  std::atomic<uint64_t> durable_sequence_{0};

  // The log that is written to. The appending thread's, as all that follows about it.
  uint64_t log_number_ = 0;
  // RocksDB refused to switch it when it was full, and may do so by itself in the next write.
  bool switch_refused_ = false;
  // Bytes written since the log was switched.
  uint64_t log_bytes_ = 0;
  // The sequence number of the first record of the log.
  uint64_t log_begin_ = 0;

  std::mutex witness_mutex_;
  // What the witness file says. Guarded by witness_mutex_ once Open has returned.
  Testimony testimony_;
};

}  // namespace duetime::storage
