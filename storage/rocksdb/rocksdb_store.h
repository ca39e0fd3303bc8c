// SPDX-License-Identifier: Apache-2.0
//
// RocksDbStore: the MessageStore on disk, and its journal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/record_store.h"
#include "storage/rocksdb/open_options.h"

namespace duetime::storage {

class RocksDbDatabase;

// A snapshot of figures for the metrics.
struct RocksDbStats {
  uint64_t wal_bytes = 0;
  uint64_t memtable_bytes = 0;
  uint64_t table_bytes = 0;
  uint64_t block_cache_bytes = 0;
  uint64_t compaction_pending_bytes = 0;
  // RocksDB stops, or slows down, writes because flushes or compactions are behind.
  bool writes_stopped = false;
  bool writes_delayed = false;
  // See DamageReport.
  uint64_t damaged_blocks = 0;
  uint64_t stopped_families = 0;
  // The journal accepts no more records.
  bool fenced = false;
};

// Keeps messages in one RocksDB database with one write-ahead log, and a witness file beside it.
//
// Guarantees, beyond those of RecordStore: (1) a synced append is on stable storage when it
// returns; (2) a store that has lost acknowledged records does not open (see Open); (3) after the
// first write error, in the foreground or in the background, the store accepts no append until it
// is opened again; (4) a damaged block of a table concerns the records in it: other reads and all
// appends go on, and a compaction that meets the block ends the compactions of its column family
// only.
//
// Memory: the options' sizes bound it.
//
// Thread safety: as MessageStore. WriteWitness, DiskFreeBytes and Stats may run on any thread.
// REQUIRES: nothing else runs during Close.
class RocksDbStore final : public RecordStore {
 public:
  // Opens the store in a data directory. Increments the epoch and syncs it.
  //
  // Creates a new store if there is none, and either `create_if_missing` is set or the directory
  // holds a file with the name "init", which it then removes.
  //
  // Refuses, without changing anything that was acknowledged:
  //   NOT_FOUND            the directory is missing, or empty without a file "init", and
  //                        `create_if_missing` is false. Nothing is created.
  //   UNAVAILABLE          another process has the store open.
  //   FAILED_PRECONDITION  `shards` differs from the store's; the format is of a newer version, or
  //                        of one before kFirstFormatVersion; the directory has another use.
  //   DATA_LOSS            a write-ahead log or the manifest is damaged other than by a torn end, a
  //                        file is missing or has another size, the records do not continue from
  //                        the tables through every log to the witness's durable sequence (the
  //                        error names the file), a table of the records without which no message
  //                        can be served is damaged, the database and the witness belong to
  //                        different stores, or only one of them exists.
  //   INTERNAL             the operating system failed.
  // Drops a torn end of the manifest, and of the last log if no later record shows that it was
  // acknowledged, and logs what was dropped. Begins an interrupted creation again.
  static absl::StatusOr<std::unique_ptr<RocksDbStore>> Open(const RocksDbStoreOptions& options);

  // Closes without a last witness, as a crash would. Prefer Close().
  ~RocksDbStore() override;
  RocksDbStore(const RocksDbStore&) = delete;
  RocksDbStore& operator=(const RocksDbStore&) = delete;

  // Syncs what was applied. Returns LogPlace::offset of a group that is durable now. An error
  // fences the store. Any thread.
  absl::StatusOr<uint64_t> SyncApplied();

  // Records in the witness how far the store is durable, if that has changed. Call about once a
  // second: the loss of a whole log file can hide only records that were synced after the last
  // call. Cost: one sync of a small file. Also stops the compactions that damage makes fail.
  absl::Status WriteWitness();

  // Makes a data directory at `path`, which does not exist, with all records that were durable
  // before the call, and perhaps later ones. Its tables are hard links, so `path` is on the file
  // system of the data directory, and the tables use their space until `path` is removed. After an
  // error, the caller removes what is at `path`. Cost: copies the logs, at most wal_bytes_max.
  absl::Status WriteCheckpoint(const std::string& path);

  // Syncs buffered records, writes the witness and closes the database. An error means that a power
  // cut may lose buffered records; the store still opens. REQUIRES: afterwards only the destructor
  // is called.
  absl::Status Close();

  // True if the journal is fenced only by errors that pass by themselves (a full disk or quota, no
  // free descriptor), and a probe shows that they have: to open the store again would help. The
  // store itself stays fenced, because only Open reads what is on the disk.
  bool ReopenWouldHelp() const;

  // Free space on the file system of the data directory.
  absl::StatusOr<uint64_t> DiskFreeBytes() const;

  RocksDbStats Stats() const;

 private:
  // Takes ownership of `database`.
  explicit RocksDbStore(RocksDbDatabase* database);

  // The RecordStore owns it.
  RocksDbDatabase* const database_;
};

}  // namespace duetime::storage
