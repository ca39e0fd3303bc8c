// SPDX-License-Identifier: Apache-2.0
//
// RocksDbStore: the MessageStore on disk, and its journal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/damage.h"
#include "storage/log_place.h"
#include "storage/message_store.h"
#include "storage/rocksdb/open_options.h"

namespace duetime::storage {

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
// Guarantees, beyond those of MessageStore and Journal: (1) a synced append is on stable storage
// when it returns; (2) a store that has lost acknowledged records does not open (see Open); (3)
// after the first write error, in the foreground or in the background, the store accepts no append
// until it is opened again; (4) a damaged block of a table concerns the records in it: other reads
// and all appends go on, and a compaction that meets the block ends the compactions of its column
// family only.
//
// Cost: an append copies each record once and sorts the group. The options' sizes bound the memory.
//
// Thread safety: as MessageStore. WriteWitness, DiskFreeBytes and Stats may run on any thread.
// REQUIRES: nothing else runs during Close.
class RocksDbStore final : public JournaledStore {
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

  // REQUIRES: the store belongs to a single server (Use::kAlone).
  AppendOutcome Append(std::span<const RecordBatch> group, Durability durability) override;

  // Applies a group of a cell's log, and moves to `place`, together or not at all. Not synced:
  // after a power cut the store is at an earlier place. An error fences the store. REQUIRES: the
  // store is used in a cell; one caller at a time.
  absl::Status ApplyLogged(std::span<const RecordBatch> group, const LogPlace& place);
  // The place of the last ApplyLogged. REQUIRES: the store is used in a cell; the caller is that of
  // ApplyLogged.
  LogPlace log_place() const;
  // True if the store is that of a cell's member.
  bool in_cell() const;
  // Makes the store that of a cell's member, at `place`, from the next Open on. Synced. REQUIRES:
  // not in_cell(); only Close follows.
  absl::Status EnterCell(const LogPlace& place);
  // LogPlace::offset of the last group that was applied. Any thread.
  uint64_t applied_offset() const;
  // Syncs what was applied. Returns LogPlace::offset of a group that is durable now. An error
  // fences the store. Any thread.
  absl::StatusOr<uint64_t> SyncApplied();

  // In a cell, the last epoch of the log, and 1: no two leaders have the same epoch.
  uint64_t epoch() const override;
  uint64_t first_sequence() const override;
  uint16_t shard_count() const override;
  absl::Status Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                    const ScanLimit& limit, Page<MessageRef>* page) override;
  absl::StatusOr<std::optional<std::string>> Get(uint16_t shard, const MessageKey& key) override;
  absl::Status MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                        std::vector<std::optional<std::string>>* values) override;
  absl::Status ScanBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& from,
                           const ScanLimit& limit, Page<BacklogRef>* page) override;
  absl::StatusOr<std::optional<BacklogEntry>> GetBacklog(uint16_t shard,
                                                         SubscriptionId subscription,
                                                         const MessageKey& key) override;
  absl::StatusOr<BacklogOwners> BacklogSubscriptions(uint16_t shard) override;
  absl::StatusOr<std::optional<MessageKey>> BacklogClaim(uint16_t shard,
                                                         SubscriptionId subscription) override;
  absl::StatusOr<std::vector<ProgressRef>> GetProgress(uint16_t shard,
                                                       const MessageKey& key) override;
  absl::Status ScanHeads(uint16_t shard, TopicId topic, const KeyRange& keys,
                         const ScanLimit& limit, size_t scan_max,
                         Page<MessageHeadRef>* page) override;
  absl::StatusOr<std::optional<IndexEntry>> GetIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                                     absl::string_view name) override;
  absl::Status ScanIndex(uint16_t shard, TopicId topic, IndexKind kind, const NameRange& names,
                         size_t limit, std::vector<IndexRef>* entries) override;
  absl::StatusOr<std::optional<Locator>> GetLocator(uint16_t shard, const MessageId& id) override;
  absl::Status ReadCounts(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                          size_t limit, std::vector<BucketCount>* counts) override;
  absl::Status ScanCounts(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                          size_t limit, std::vector<BucketCount>* counts) override;
  absl::StatusOr<std::optional<std::string>> GetObject(ObjectKind kind, uint16_t shard,
                                                       absl::string_view name) override;
  absl::Status ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after, size_t limit,
                           std::vector<ObjectRef>* objects) override;
  void DropExpired(uint64_t until_ms) override;
  absl::StatusOr<ShardMarks> Marks(uint16_t shard) override;
  absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() override;
  DamageReport Damage() const override;
  uint64_t BacklogDamage() const override;
  bool BacklogHidden() const override;

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
  class Impl;
  explicit RocksDbStore(std::unique_ptr<Impl> impl);

  // The parts of ReadCounts and ScanCounts.
  absl::Status ReadTopicCount(uint16_t shard, TopicId topic, std::vector<BucketCount>* counts);
  absl::Status SumDays(uint16_t shard, TopicId topic, std::vector<BucketCount>* counts);
  absl::Status ReadDayCounts(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                             size_t limit, std::vector<BucketCount>* counts);
  absl::Status CountMessages(uint16_t shard, TopicId topic, CountLevel level, const MsRange& times,
                             size_t limit, std::vector<BucketCount>* counts);

  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::storage
