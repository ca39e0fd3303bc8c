// SPDX-License-Identifier: Apache-2.0
//
// RocksDbStore: the MessageStore on disk.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/message_store.h"

namespace rocksdb {
class FileSystem;
}  // namespace rocksdb

namespace duetime::storage {

// How to open a store.
struct RocksDbStoreOptions {
  enum class LogLevel : uint8_t { kWarning, kError };

  // Created if it does not exist; its parent must. Holds db/ and witness, and nothing else of ours.
  std::string data_dir;
  // The number of shards that is wanted, or 0 for whatever the store has.
  uint16_t shards = 0;
  // What a new store gets if `shards` is 0. At most MessageId::kSlotCount.
  uint16_t shards_if_new = 1;

  // Cache of uncompressed blocks, indexes and filters.
  size_t block_cache_bytes = size_t{64} << 20;
  // Records kept in memory before they are written out as a table; up to three such lots at a time.
  // Smaller means less to read again at a start, larger means fewer tables to merge.
  size_t write_buffer_bytes = size_t{32} << 20;
  // The same for the log files that belong to them. About half of it is one log.
  size_t wal_bytes_max = size_t{96} << 20;
  // How long what DropExpired() lets go of stays on disk, about, when nothing else makes RocksDB
  // rewrite the table it is in: every table of index entries, traces and counters is rewritten once
  // in this time. A counter that has come to zero takes twice as long. In seconds.
  uint64_t garbage_age_s = 3600;

  // RocksDB's warnings and errors. Called on any thread; must be thread-safe and must not call the
  // store.
  std::function<void(LogLevel, absl::string_view)> log;

  // For tests: the file system under RocksDB instead of the machine's.
  std::shared_ptr<rocksdb::FileSystem> file_system;
  // For tests: kSynced is not synced, to show that the crash tests would notice.
  bool unsafe_no_sync = false;
};

// Figures for the metrics, as of now.
struct RocksDbStats {
  uint64_t wal_bytes = 0;
  uint64_t memtable_bytes = 0;
  uint64_t table_bytes = 0;
  uint64_t block_cache_bytes = 0;
  uint64_t compaction_pending_bytes = 0;
  // RocksDB has stopped, or slowed down, writes because flushes or compactions are behind.
  bool writes_stopped = false;
  bool writes_delayed = false;
  // The journal takes no more records.
  bool fenced = false;
};

// Keeps messages in one RocksDB database with one write-ahead log, and a witness file beside it.
//
// Guarantees, beyond MessageStore's: (1) a synced append is on stable storage when it returns; (2)
// a store that has lost acknowledged records does not open (see Open); (3) after the first error of
// any write, in the foreground or in the background, no append is accepted until the store is
// opened again. Cost: an append copies each record once and sorts the group; memory is bounded by
// the options' sizes. Thread safety: as MessageStore; WriteWitness, DiskFreeBytes and Stats from
// any thread; Close when nothing else runs.
class RocksDbStore final : public MessageStore {
 public:
  // Opens the store in a data directory, or creates it there if there is none, and bumps and syncs
  // its epoch.
  //
  // Refuses, changing nothing that was acknowledged:
  //   UNAVAILABLE          another process has it open.
  //   FAILED_PRECONDITION  `shards` differs from the store's; the format is of a newer version.
  //   DATA_LOSS            the write-ahead log is damaged other than by a torn end (the file is
  //                        named), a file is missing or too short, the database ends before what
  //                        the witness knows to be durable, it is another database than the
  //                        witness's, or one of the two is there without the other.
  //   INTERNAL             the operating system failed.
  // A torn end of the log, which was never acknowledged, is dropped. An interrupted creation is
  // begun again.
  static absl::StatusOr<std::unique_ptr<RocksDbStore>> Open(const RocksDbStoreOptions& options);

  // Closes as a crash would: without a last witness. Prefer Close().
  ~RocksDbStore() override;
  RocksDbStore(const RocksDbStore&) = delete;
  RocksDbStore& operator=(const RocksDbStore&) = delete;

  AppendOutcome Append(std::span<const RecordBatch> group, Durability durability) override;
  uint64_t epoch() const override;
  uint16_t shard_count() const override;
  absl::Status Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                    const ScanLimit& limit, Page<MessageRef>* page) override;
  absl::Status MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                        std::vector<std::optional<std::string>>* values) override;
  absl::Status ScanBacklog(uint16_t shard, SubscriptionId subscription, const MessageKey& from,
                           const ScanLimit& limit, Page<BacklogRef>* page) override;
  absl::StatusOr<std::optional<BacklogEntry>> GetBacklog(uint16_t shard,
                                                         SubscriptionId subscription,
                                                         const MessageKey& key) override;
  absl::StatusOr<std::vector<SubscriptionId>> BacklogSubscriptions(uint16_t shard) override;
  absl::StatusOr<std::optional<MessageKey>> BacklogClaim(uint16_t shard,
                                                         SubscriptionId subscription) override;
  absl::StatusOr<std::vector<ProgressRef>> GetProgress(uint16_t shard,
                                                       const MessageKey& key) override;
  absl::Status ScanHeads(uint16_t shard, TopicId topic, const MessageKey& from,
                         const MessageKey& until, const ScanLimit& limit, size_t scan_max,
                         Page<MessageHeadRef>* page) override;
  absl::StatusOr<std::optional<IndexEntry>> GetIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                                     absl::string_view name) override;
  absl::Status ScanIndex(uint16_t shard, TopicId topic, IndexKind kind, absl::string_view prefix,
                         absl::string_view after, size_t limit,
                         std::vector<IndexRef>* entries) override;
  absl::StatusOr<std::optional<Trace>> GetTrace(uint16_t shard, const MessageId& id) override;
  absl::Status ScanCounts(uint16_t shard, TopicId topic, CountLevel level, uint64_t from_ms,
                          uint64_t until_ms, size_t limit,
                          std::vector<BucketCount>* counts) override;
  absl::StatusOr<std::optional<std::string>> GetObject(ObjectKind kind, uint16_t shard,
                                                       absl::string_view name) override;
  absl::Status ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after, size_t limit,
                           std::vector<ObjectRef>* objects) override;
  void DropExpired(uint64_t until_ms) override;
  absl::StatusOr<ShardMarks> Marks(uint16_t shard) override;
  absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() override;

  // Writes down how far the store is known to be durable, if that has changed. Call about once a
  // second: what is synced after the last call is what the loss of a whole log file could still
  // hide. One sync of a small file.
  absl::Status WriteWitness();

  // Syncs what was buffered, writes the witness and closes the database. Nothing may be called
  // afterwards but the destructor. An error means that buffered records may be lost with the
  // machine's power; the store opens all the same.
  absl::Status Close();

  // Space left on the file system of the data directory.
  absl::StatusOr<uint64_t> DiskFreeBytes() const;

  RocksDbStats Stats() const;

 private:
  class Impl;
  explicit RocksDbStore(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::storage
