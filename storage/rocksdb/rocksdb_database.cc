// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/rocksdb_database.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <rocksdb/transaction_log.h>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"
#include "storage/rocksdb/checked_tables.h"
#include "storage/rocksdb/data_directory.h"
#include "storage/rocksdb/log_tail.h"
#include "storage/rocksdb/rocksdb_logger.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/rocksdb_status.h"
#include "storage/rocksdb/start_check.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

std::string EncodeStoreId(const StoreId& id) {
  return EncodeNumber(id.high) + EncodeNumber(id.low);
}

// Turns a failed open into a status that names the cause for the operator.
absl::Status OpenError(const rocksdb::Status& status, const std::string& damaged_file,
                       const std::string& db_path) {
  if (status.IsCorruption() && !damaged_file.empty()) {
    return absl::DataLossError(absl::StrCat(
        "write-ahead log ", damaged_file,
        " is damaged before its end, so acknowledged records may be lost: ", status.ToString()));
  }
  const absl::Status error = FromRocksDb(status, absl::StrCat("open database ", db_path));
  // Not if the file itself cannot be opened, for example without a free descriptor.
  for (const absl::string_view held : {"lock hold by current process", "While lock file"}) {
    if (absl::StrContains(status.ToString(), held)) return absl::UnavailableError(error.message());
  }
  // RocksDB says so if it cannot open CURRENT, whatever the cause. The store uses no direct I/O.
  for (const absl::string_view unopened :
       {"Direct I/O is not supported", "options incompatible with filesystem"}) {
    if (absl::StrContains(status.ToString(), unopened)) return error;
  }
  // The manifest has lost its end.
  if (absl::StrContains(status.ToString(), "Column family not found")) {
    return absl::DataLossError(error.message());
  }
  return status.IsInvalidArgument() ? absl::FailedPreconditionError(error.message()) : error;
}

class Batch final : public KvBatch {
 public:
  Batch(rocksdb::WriteBatch* batch, const TableDamage::Handles* handles)
      : batch_(*batch), handles_(*handles) {}

  // An error, for example of a batch that is too large, is that of the write.
  void Put(ColumnFamily family, absl::string_view key, absl::string_view value) override {
    batch_.Put(HandleOf(family), ToSlice(key), ToSlice(value)).PermitUncheckedError();
  }
  void Delete(ColumnFamily family, absl::string_view key) override {
    batch_.Delete(HandleOf(family), ToSlice(key)).PermitUncheckedError();
  }
  void Merge(ColumnFamily family, absl::string_view key, absl::string_view change) override {
    batch_.Merge(HandleOf(family), ToSlice(key), ToSlice(change)).PermitUncheckedError();
  }

 private:
  rocksdb::ColumnFamilyHandle* HandleOf(ColumnFamily family) const {
    return handles_[static_cast<size_t>(family)];
  }

  rocksdb::WriteBatch& batch_;
  const TableDamage::Handles& handles_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RocksDbDatabase>> RocksDbDatabase::Open(
    const RocksDbStoreOptions& options, std::span<const FormatUpgrade> upgrades) {
  std::unique_ptr<RocksDbDatabase> database(new RocksDbDatabase(options, upgrades));
  using Step = absl::Status (RocksDbDatabase::*)();
  for (const Step step :
       {&RocksDbDatabase::FindDirectory, &RocksDbDatabase::LockDirectory,
        &RocksDbDatabase::ReadWitness, &RocksDbDatabase::CheckFiles,
        &RocksDbDatabase::CheckContinuity, &RocksDbDatabase::OpenDb,
        &RocksDbDatabase::CheckContents, &RocksDbDatabase::CheckUse, &RocksDbDatabase::Upgrade,
        &RocksDbDatabase::BeginEpoch, &RocksDbDatabase::RemoveInitFile}) {
    if (absl::Status status = (database.get()->*step)(); !status.ok()) return status;
  }
  return database;
}

RocksDbDatabase::RocksDbDatabase(const RocksDbStoreOptions& options,
                                 std::span<const FormatUpgrade> upgrades)
    : options_(options),
      upgrades_(upgrades),
      db_path_(absl::StrCat(options.data_dir, "/db")),
      env_(rocksdb::NewCompositeEnv(CheckedTables(options.file_system))),
      fenced_(std::make_shared<std::atomic<bool>>(false)),
      lasting_(std::make_shared<std::atomic<bool>>(false)),
      background_errors_(std::make_shared<BackgroundErrors>(fenced_, lasting_)),
      drop_mark_(std::make_shared<DropMark>(0)) {}

RocksDbDatabase::~RocksDbDatabase() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    if (handle != nullptr) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
}

absl::Status RocksDbDatabase::FindDirectory() {
  if (HoldsStore(options_.data_dir)) return absl::OkStatus();
  std::error_code error;
  if (options_.create_if_missing) {
    if (absl::Status status = CreateDirectory(options_.data_dir); !status.ok()) return status;
  } else if (!std::filesystem::exists(InitFile(options_.data_dir), error)) {
    const bool empty = std::filesystem::is_directory(options_.data_dir, error);
    return absl::NotFoundError(absl::StrCat(
        "there is no store in ", options_.data_dir, ": the directory ",
        empty ? "holds none" : "does not exist",
        ". Is the volume mounted? To create a new, empty store there, start once with --init"));
  }
  return CheckPlaceOfNewStore(options_.data_dir, options_.own_file);
}

absl::Status RocksDbDatabase::LockDirectory() {
  absl::StatusOr<DirectoryLock> lock = DirectoryLock::Acquire(options_.data_dir);
  if (!lock.ok()) return lock.status();
  lock_ = *std::move(lock);
  return absl::OkStatus();
}

absl::Status RocksDbDatabase::ReadWitness() {
  absl::StatusOr<std::unique_ptr<Witness>> witness =
      Witness::Open(absl::StrCat(options_.data_dir, "/witness"));
  if (!witness.ok()) return witness.status();
  witness_ = *std::move(witness);
  absl::StatusOr<std::optional<WitnessRecord>> record = witness_->Read();
  if (!record.ok()) return record.status();
  if (record->has_value()) found_ = **record;
  return absl::OkStatus();
}

// Decides from the files alone whether the directory holds a store, is new, or is broken.
absl::Status RocksDbDatabase::CheckFiles() {
  const bool witnessed = found_.format_version != 0;
  if (witnessed) {
    const absl::Status known = CheckFormatOfDirectory(options_.data_dir, found_.format_version,
                                                      kFirstFormatVersion, format_version());
    if (!known.ok()) return known;
  }

  std::vector<std::string> children;
  const rocksdb::Status listed = env_->GetChildren(db_path_, &children);
  if (!listed.ok() && !listed.IsNotFound() && !listed.IsPathNotFound()) {
    return FromRocksDb(listed, absl::StrCat("list ", db_path_));
  }
  std::erase_if(children, [](const std::string& name) {
    return name == "." || name == ".." || name == "LOCK";
  });

  if (witnessed && creating()) return absl::OkStatus();
  if (!witnessed && children.empty()) {
    if (options_.file_system == nullptr) {
      if (absl::Status status = CreateDirectory(db_path_); !status.ok()) return status;
    }
    // After a crash from here on, the next start finds state kCreating and begins again.
    const absl::StatusOr<StoreId> store_id = NewStoreId();
    if (!store_id.ok()) return store_id.status();
    found_ = WitnessRecord{WitnessRecord::State::kCreating, format_version(), *store_id, 0, 0};
    return witness_->Write(found_);
  }
  if (!witnessed) {
    return absl::DataLossError(absl::StrCat(db_path_, " has files but ", options_.data_dir,
                                            "/witness is missing or empty, or only zeros: the "
                                            "expected content of the database is unknown"));
  }
  if (children.empty()) {
    return absl::DataLossError(absl::StrCat(options_.data_dir, "/witness records a database, but ",
                                            db_path_, " is missing or empty"));
  }
  if (!env_->FileExists(db_path_ + "/CURRENT").ok()) {
    return absl::DataLossError(absl::StrCat(db_path_, "/CURRENT is missing"));
  }
  return absl::OkStatus();
}

absl::Status RocksDbDatabase::CheckContinuity() {
  // Only a creation that was interrupted early has no CURRENT.
  if (!env_->FileExists(db_path_ + "/CURRENT").ok()) return absl::OkStatus();
  StartCheck check(env_.get(), db_path_, /*families_exist=*/!creating());
  if (absl::Status status = check.Run(found_.durable_sequence); !status.ok()) return status;
  for (const StartCheck::Trim& trim : check.trims()) {
    if (options_.log != nullptr) {
      const bool in_cell = options_.use == RocksDbStoreOptions::Use::kInCell;
      options_.log(RocksDbStoreOptions::LogLevel::kWarning,
                   absl::StrCat("dropping ", trim.Text(witness_->WrittenMs()),
                                in_cell ? "; the log of the cell has them" : ""));
    }
    if (absl::Status status = TruncateFile(trim.path, trim.bytes); !status.ok()) return status;
  }
  last_sequence_found_ = check.last_sequence();
  log_number_ = check.last_log();
  return absl::OkStatus();
}

absl::Status RocksDbDatabase::OpenDb() {
  const auto logger = std::make_shared<RocksDbLogger>(options_.log);
  rocksdb::DBOptions db_options =
      MakeDbOptions(env_.get(), logger, NewBackgroundListener(background_errors_));
  if (options_.open_files_max != 0) {
    db_options.max_open_files = static_cast<int>(options_.open_files_max);
  }
  db_options.create_if_missing = creating();
  db_options.create_missing_column_families = creating();

  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status status = rocksdb::DB::Open(
      db_options, db_path_, MakeColumnFamilies(options_, drop_mark_), &handles, &db);
  if (!status.ok()) return OpenError(status, logger->damaged_file(), db_path_);
  db_.reset(db);
  std::copy(handles.begin(), handles.end(), handles_.begin());
  source_ =
      std::make_unique<RocksDbSource>(db, &handles_, options_.log, options_.damaged_blocks_max);
  return FromRocksDb(NoteLog(db_->GetLatestSequenceNumber() + 1), "find the log");
}

// Compares the recovered database with the witness and with the options.
absl::Status RocksDbDatabase::CheckContents() {
  absl::StatusOr<std::string> store_id = ReadMeta(StoreIdKey());
  if (!store_id.ok()) return store_id.status();
  if (creating() && store_id->empty()) {
    const uint64_t shards = options_.shards != 0 ? options_.shards : options_.shards_if_new;
    if (shards == 0 || shards > MessageId::kSlotCount) {
      return absl::InvalidArgumentError(
          absl::StrCat(shards, " shards; there must be 1 to ", MessageId::kSlotCount));
    }
    shard_count_ = static_cast<uint16_t>(shards);
    return absl::OkStatus();
  }

  const uint64_t recovered = db_->GetLatestSequenceNumber();
  // RocksDB has written the recovered records to tables and synced them.
  durable_sequence_.store(recovered, std::memory_order_release);
  if (recovered < last_sequence_found_) {
    return absl::DataLossError(absl::StrCat("database ", db_path_, " was opened up to sequence ",
                                            recovered, ", but its files go on to ",
                                            last_sequence_found_));
  }
  if (*store_id != EncodeStoreId(found_.store_id)) {
    return absl::DataLossError(absl::StrCat("database ", db_path_, " is not the database that ",
                                            options_.data_dir, "/witness belongs to"));
  }
  const absl::StatusOr<uint64_t> version = ReadMetaNumber(FormatVersionKey());
  if (!version.ok()) return version.status();
  // The witness is written after the database, so its version may be older, never newer.
  if (*version > format_version() || *version < found_.format_version) {
    return absl::FailedPreconditionError(absl::StrCat(
        "database ", db_path_, " has format version ", *version, ", ", options_.data_dir,
        "/witness ", found_.format_version, "; this program knows up to ", format_version()));
  }
  found_version_ = *version;
  const absl::StatusOr<uint64_t> shards = ReadMetaNumber(ShardCountKey());
  if (!shards.ok()) return shards.status();
  if (options_.shards != 0 && options_.shards != *shards) {
    return absl::FailedPreconditionError(
        absl::StrCat("the store in ", options_.data_dir, " was created with ", *shards,
                     " shards and cannot be opened with ", options_.shards));
  }
  shard_count_ = static_cast<uint16_t>(*shards);
  const absl::StatusOr<uint64_t> epoch = ReadMetaNumber(EpochKey());
  if (!epoch.ok()) return epoch.status();
  epoch_ = *epoch;
  return absl::OkStatus();
}

absl::Status RocksDbDatabase::CheckUse() {
  using Use = RocksDbStoreOptions::Use;
  const bool fresh = creating() && epoch_ == 0;
  const absl::StatusOr<std::string> place = ReadMeta(LogPlaceKey());
  if (!place.ok()) return place.status();
  in_cell_ = fresh ? options_.use == Use::kInCell : !place->empty();
  if (in_cell_ && !fresh) {
    const std::optional<LogPlace> decoded = DecodeLogPlace(*place);
    if (!decoded.has_value()) return absl::DataLossError("the place in the log cannot be decoded");
    log_place_ = *decoded;
  }
  if (in_cell_ && options_.use == Use::kAlone) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.data_dir, " belongs to a member of a cell, and cannot be served without its log"));
  }
  if (!in_cell_ && options_.use == Use::kInCell) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.data_dir,
                     " belongs to a server without a cell; a new member of a cell begins empty. To "
                     "make this server the first member of a new cell: duetimed --into-cell"));
  }
  return absl::OkStatus();
}

absl::Status RocksDbDatabase::Upgrade() {
  if (found_version_ == 0) return absl::OkStatus();
  for (uint64_t version = found_version_; version < format_version(); ++version) {
    if (options_.log != nullptr) {
      options_.log(RocksDbStoreOptions::LogLevel::kWarning,
                   absl::StrCat("bringing ", options_.data_dir, " from format version ", version,
                                " to ", version + 1));
    }
    absl::Status status = upgrades_[version - kFirstFormatVersion](this);
    if (!status.ok()) return status;
    status = Write(
        [version](KvBatch* last) {
          last->Delete(ColumnFamily::kMeta, UpgradeKey().bytes());
          last->Put(ColumnFamily::kMeta, FormatVersionKey().bytes(), EncodeNumber(version + 1));
        },
        Durability::kSynced);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RocksDbDatabase::BeginEpoch() {
  if (epoch_ >= MessageId::kEpochMax) {
    return absl::FailedPreconditionError(
        "the store has used up its epochs: it was opened too often");
  }
  ++epoch_;
  const absl::StatusOr<uint64_t> random = RandomNumber();
  if (!random.ok()) return random.status();
  first_sequence_ = 1 + *random % MessageId::kFirstSequenceMax;
  Marks marks;
  marks.emplace_back(EpochKey(), EncodeNumber(epoch_));
  if (creating()) {
    marks.emplace_back(FormatVersionKey(), EncodeNumber(format_version()));
    marks.emplace_back(StoreIdKey(), EncodeStoreId(found_.store_id));
    marks.emplace_back(ShardCountKey(), EncodeNumber(shard_count_));
  }
  // What a member has comes from the log alone.
  if (in_cell_) {
    marks.emplace_back(LogPlaceKey(), EncodeLogPlace(log_place_));
  } else if (absl::Status status = MarkIfCopied(&marks); !status.ok()) {
    return status;
  }
  absl::Status status = Write(
      [&marks](KvBatch* batch) {
        for (const auto& [key, value] : marks) batch->Put(key.family(), key.bytes(), value);
      },
      Durability::kSynced);
  if (!status.ok()) return status;
  // This write also completes a creation: from here on, an empty database directory is refused.
  return WriteWitness();
}

// The store exists. If it vanishes later, no file may allow a new one in its place.
absl::Status RocksDbDatabase::RemoveInitFile() {
  std::error_code error;
  const std::string path = InitFile(options_.data_dir);
  if (!std::filesystem::remove(path, error)) {
    return error ? SystemError("remove", path, error.value()) : absl::OkStatus();
  }
  return SyncParentDirectory(path);
}

absl::Status RocksDbDatabase::MarkIfCopied(Marks* marks) {
  const std::string file = witness_->FileIdentity();
  if (options_.now_ms == 0 || file.empty()) return absl::OkStatus();
  const StoreKey key = WitnessFileKey();
  const auto known = source_->Get(key.family(), key.bytes());
  if (!known.ok()) return known.status();
  if (*known == file) return absl::OkStatus();
  marks->emplace_back(key, file);
  if (!known->has_value()) return absl::OkStatus();  // a new store, or the first start that looks
  if (options_.log != nullptr) {
    options_.log(RocksDbStoreOptions::LogLevel::kWarning,
                 absl::StrCat(options_.data_dir,
                              " is a copy or was restored: its messages that were due before now "
                              "count as perhaps delivered by the original"));
  }
  return ClaimUntilNow(marks);
}

absl::Status RocksDbDatabase::ClaimUntilNow(Marks* marks) {
  for (uint16_t shard = 0; shard < shard_count_; ++shard) {
    const StoreKey key = ClaimKey(shard);
    const auto value = source_->Get(key.family(), key.bytes());
    if (!value.ok()) return value.status();
    const bool claimed = value->has_value() && (*value)->size() >= sizeof(uint64_t);
    const uint64_t claim_ms = claimed ? LoadLittleEndian<uint64_t>((*value)->data()) : 0;
    marks->emplace_back(key, EncodeNumber(std::max(claim_ms, options_.now_ms)));
  }
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  const std::string until = EncodePlace({.due_ms = options_.now_ms, .id = {kMax, kMax}});
  const StoreKey lower = EncodeBacklogKey(0, SubscriptionId{}, MessageKey{});
  const StoreKey upper = BacklogEnd(static_cast<uint16_t>(shard_count_ - 1),
                                    SubscriptionId{std::numeric_limits<uint32_t>::max()});
  // The shards log the damage when they read their backlogs.
  RocksDbSource silent(db_.get(), &handles_, nullptr);
  const auto entries =
      silent.NewReader(ColumnFamily::kBacklog, lower.bytes(), upper.bytes(), OnDamage::kGoAround);
  while (entries->Valid()) {
    const std::optional<uint16_t> shard = DecodeShard(entries->key());
    const std::optional<BacklogPlace> place = DecodeBacklogKey(entries->key());
    if (!shard.has_value() || !place.has_value()) {
      return absl::DataLossError("a backlog key cannot be decoded");
    }
    const StoreKey key = BacklogClaimKey(*shard, place->subscription);
    const auto claim = source_->Get(key.family(), key.bytes());
    if (!claim.ok()) return claim.status();
    // The bytes of places have the order of the places. An absent claim is less than any.
    if (*claim < until) marks->emplace_back(key, until);
    entries->Seek(BacklogEnd(*shard, place->subscription).bytes());
  }
  return entries->status();
}

absl::Status RocksDbDatabase::Append(absl::FunctionRef<void(KvBatch*)> fill,
                                     Durability durability) {
  if (fenced()) return absl::FailedPreconditionError("the store is fenced");
  return Write(fill, durability);
}

absl::Status RocksDbDatabase::Write(absl::FunctionRef<void(KvBatch*)> fill, Durability durability) {
  StopPerfCounters();
  rocksdb::Status status = BeginBatch();
  if (status.ok()) {
    Batch batch(&batch_, &handles_);
    fill(&batch);
    status = WriteOut(durability == Durability::kSynced);
  }
  return status.ok() ? absl::OkStatus()
                     : FromRocksDb(Fence(status), absl::StrCat("write to ", db_path_));
}

rocksdb::Status RocksDbDatabase::BeginBatch() {
  if (rocksdb::Status status = SwitchLogIfFull(); !status.ok()) return status;
  batch_.Clear();
  const auto mark = EncodeLogMark({.log_begin = log_begin_,
                                   .synced = durable_sequence_.load(std::memory_order_acquire),
                                   .previous_log = previous_log_});
  return batch_.PutLogData({mark.data(), mark.size()});
}

rocksdb::Status RocksDbDatabase::WriteOut(bool sync) {
  const uint64_t first_sequence = db_->GetLatestSequenceNumber() + 1;
  rocksdb::Status status = db_->Write(MakeWriteOptions(sync && !options_.unsafe_no_sync), &batch_);
  if (!status.ok()) return status;
  log_bytes_ += batch_.GetDataSize();
  if (switch_refused_) {
    if (status = NoteLog(first_sequence); !status.ok()) return status;
  }
  if (sync) NoteAllDurable();
  return status;
}

rocksdb::Status RocksDbDatabase::Fence(const rocksdb::Status& status) {
  if (!MayPass(status)) lasting_->store(true, std::memory_order_release);
  fenced_->store(true, std::memory_order_release);
  if (options_.log != nullptr) {
    options_.log(RocksDbStoreOptions::LogLevel::kError,
                 absl::StrCat("the journal is fenced because a write failed: ", status.ToString()));
  }
  return status;
}

rocksdb::Status RocksDbDatabase::SwitchLogIfFull() {
  switch_refused_ = false;
  uint64_t memtable_bytes = 0;
  db_->GetAggregatedIntProperty(rocksdb::DB::Properties::kCurSizeActiveMemTable, &memtable_bytes);
  if (memtable_bytes < options_.write_buffer_bytes && log_bytes_ < options_.wal_bytes_max / 2) {
    return rocksdb::Status::OK();
  }
  if (rocksdb::Status status = SyncLog(); !status.ok()) return status;
  rocksdb::FlushOptions in_background;
  in_background.wait = false;
  in_background.allow_write_stall = true;
  const rocksdb::Status status = db_->Flush(in_background, {handles_.begin(), handles_.end()});
  // TryAgain: flushes or compactions are behind, and RocksDB stops writes. The next write waits for
  // them, and the one after it finds room. RocksDB switches the families one by one, so it may have
  // switched the log already; otherwise the next write switches it and is the first in the new log.
  switch_refused_ = status.IsTryAgain();
  if (!status.ok() && !switch_refused_) return status;
  return NoteLog(db_->GetLatestSequenceNumber() + 1);
}

rocksdb::Status RocksDbDatabase::NoteLog(uint64_t first_sequence) {
  std::unique_ptr<rocksdb::LogFile> log;
  rocksdb::Status status = db_->GetCurrentWalFile(&log);
  if (!status.ok() || log->LogNumber() == log_number_) return status;
  previous_log_ = log_number_;
  log_number_ = log->LogNumber();
  log_bytes_ = 0;
  log_begin_ = first_sequence;
  return status;
}

void RocksDbDatabase::DropExpired(uint64_t until_ms) {
  drop_mark_->store(until_ms, std::memory_order_relaxed);
}

rocksdb::Status RocksDbDatabase::SyncLog() {
  if (db_->GetLatestSequenceNumber() == durable_sequence_.load(std::memory_order_acquire)) {
    return rocksdb::Status::OK();
  }
  if (!options_.unsafe_no_sync) {
    if (rocksdb::Status status = db_->SyncWAL(); !status.ok()) return status;
  }
  NoteAllDurable();
  return rocksdb::Status::OK();
}

void RocksDbDatabase::NoteAllDurable() {
  // A sync also covers everything before the synced record, in older log files too. No other writer
  // could have added records meanwhile.
  durable_sequence_.store(db_->GetLatestSequenceNumber(), std::memory_order_release);
}

WitnessRecord RocksDbDatabase::DurableRecord() const {
  WitnessRecord record = found_;
  record.state = WitnessRecord::State::kCreated;
  record.format_version = format_version();
  record.epoch = epoch_;
  record.durable_sequence = durable_sequence_.load(std::memory_order_acquire);
  return record;
}

absl::Status RocksDbDatabase::WriteWitness() {
  const base::MutexLock lock(&witness_mutex_);
  const WitnessRecord record = DurableRecord();
  if (record == last_written_) return absl::OkStatus();
  if (absl::Status status = witness_->Write(record); !status.ok()) return status;
  last_written_ = record;
  return absl::OkStatus();
}

absl::Status RocksDbDatabase::Close() {
  absl::Status result;
  if (!fenced()) {
    result = FromRocksDb(SyncLog(), "sync the write-ahead log");
    result.Update(WriteWitness());
  }
  for (rocksdb::ColumnFamilyHandle*& handle : handles_) {
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    handle = nullptr;
  }
  result.Update(FromRocksDb(db_->Close(), "close the database"));
  db_.reset();
  return result;
}

uint64_t RocksDbDatabase::WalBytes() const {
  std::vector<std::string> children;
  if (!env_->GetChildren(db_path_, &children).ok()) return 0;
  uint64_t total = 0;
  for (const std::string& name : children) {
    uint64_t bytes = 0;
    // RocksDB may delete a log between the two calls.
    if (absl::EndsWith(name, ".log") &&
        env_->GetFileSize(absl::StrCat(db_path_, "/", name), &bytes).ok()) {
      total += bytes;
    }
  }
  return total;
}

absl::StatusOr<std::string> RocksDbDatabase::ReadMeta(const StoreKey& key) const {
  std::string value;
  const rocksdb::Status status =
      db_->Get(MakeGetOptions(), handle(ColumnFamily::kMeta), ToSlice(key.bytes()), &value);
  if (status.IsNotFound()) return std::string();
  if (!status.ok()) return FromRocksDb(status, absl::StrCat("read ", key.bytes()));
  return value;
}

absl::Status RocksDbDatabase::CheckMeta() const {
  const std::unique_ptr<rocksdb::Iterator> all(
      db_->NewIterator(MakeScanOptions(nullptr, nullptr, 0), handle(ColumnFamily::kMeta)));
  for (all->SeekToFirst(); all->Valid(); all->Next()) {
  }
  return FromRocksDb(all->status(), "read the records without which no message can be served");
}

absl::StatusOr<uint64_t> RocksDbDatabase::ReadMetaNumber(const StoreKey& key) const {
  const absl::StatusOr<std::string> value = ReadMeta(key);
  if (!value.ok()) return value.status();
  const std::optional<uint64_t> number = DecodeNumber(*value);
  if (!number.has_value()) {
    return absl::DataLossError(
        absl::StrCat("database ", db_path_, " has no valid entry ", key.bytes()));
  }
  return *number;
}

}  // namespace duetime::storage
