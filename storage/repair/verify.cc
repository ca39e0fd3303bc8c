// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/verify.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <rocksdb/sst_file_reader.h>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "storage/day_counts.h"
#include "storage/key_text.h"
#include "storage/locator.h"
#include "storage/message_record.h"
#include "storage/rocksdb/checked_tables.h"
#include "storage/rocksdb/file_system.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_logger.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_status.h"
#include "storage/rocksdb/start_check.h"
#include "storage/rocksdb/witness.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

class Verifier {
 public:
  Verifier(const std::string& data_dir, const std::function<void(absl::string_view)>& print)
      : data_dir_(data_dir), db_path_(absl::StrCat(data_dir, "/db")), print_(print) {}
  ~Verifier() {
    source_.reset();
    for (rocksdb::ColumnFamilyHandle* handle : handles_) {
      if (handle != nullptr) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
    }
  }
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  absl::Status Run() {
    std::error_code error;
    if (!fs::is_directory(db_path_, error) || !fs::exists(data_dir_ + "/witness", error)) {
      return absl::NotFoundError(absl::StrCat(data_dir_, " is not a data directory"));
    }
    const absl::StatusOr<DirectoryLock> lock = DirectoryLock::Acquire(data_dir_);
    if (!lock.ok()) return lock.status();
    for (const auto step : {&Verifier::ReadWitness, &Verifier::CheckVersion, &Verifier::CheckStart,
                            &Verifier::OpenDb, &Verifier::VerifyTables}) {
      if (absl::Status status = (this->*step)(); !status.ok()) return status;
    }
    if (db_ != nullptr) {
      CompareWitness();
      for (size_t i = 0; i < kColumnFamilyCount; ++i) ReadFamily(static_cast<ColumnFamily>(i));
      CompareCounts();
      for (const DamagedBlock& block : source_->damage().report().blocks) {
        Fault(absl::StrCat("table ", block.file, ": ", PlaceText(block), " is damaged: ",
                           block.family, ", from ", block.first_text, " to ", block.last_text));
      }
    }
    print_(absl::StrCat(tables_read_, " tables, ", records_, " records, ", messages_, " messages, ",
                        faults_, " faults"));
    if (faults_ == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(data_dir_, " is damaged"));
  }

  bool perhaps_lost() const { return perhaps_lost_; }

 private:
  void Fault(absl::string_view text) {
    ++faults_;
    // A damaged family could have millions.
    if (faults_ <= kPrintedMax) print_(text);
    if (faults_ == kPrintedMax) print_("more faults are only counted");
  }

  absl::Status ReadWitness() {
    const auto witness = Witness::OpenToRead(data_dir_ + "/witness");
    if (!witness.ok()) return witness.status();
    const auto record = (*witness)->Read();
    witness_written_ms_ = (*witness)->WrittenMs();
    if (absl::IsInternal(record.status())) return record.status();
    if (!record.ok()) {
      Fault(record.status().message());
    } else if (!record->has_value()) {
      Fault("the witness is empty");
    } else {
      witness_ = **record;
    }
    return absl::OkStatus();
  }

  absl::Status CheckVersion() {
    if (!witness_.has_value()) return absl::OkStatus();
    return CheckFormatOfDirectory(data_dir_, witness_->format_version, kFormatVersion,
                                  kFormatVersion);
  }

  // Checks what a start checks before it lets RocksDB open the database.
  absl::Status CheckStart() {
    // Without a check of each table, because VerifyTables() names all that are damaged.
    StartCheck check(rocksdb::Env::Default(), db_path_, /*families_exist=*/true);
    const absl::Status status = check.Run(witness_.has_value() ? witness_->durable_sequence : 0);
    if (absl::IsDataLoss(status)) {
      Fault(status.message());
      return absl::OkStatus();
    }
    if (!status.ok()) return status;
    for (const StartCheck::Trim& trim : check.trims()) {
      print_(absl::StrCat("a start drops ", trim.Text(witness_written_ms_),
                          ". Until then, only the checksums of the tables are compared"));
      perhaps_lost_ = perhaps_lost_ || trim.perhaps_acknowledged;
    }
    may_open_ = check.trims().empty();
    tables_needed_ = check.tables();
    return absl::OkStatus();
  }

  // Opens the database without writing. Replays the logs, whose records have checksums. Leaves db_
  // empty if it is too damaged to open.
  absl::Status OpenDb() {
    if (!may_open_) return absl::OkStatus();
    const auto logger = std::make_shared<RocksDbLogger>(nullptr);
    const auto errors = std::make_shared<BackgroundErrors>(
        std::make_shared<std::atomic<bool>>(false), std::make_shared<std::atomic<bool>>(false));
    RocksDbStoreOptions options;
    options.data_dir = data_dir_;
    rocksdb::DB* db = nullptr;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    const rocksdb::Status opened = rocksdb::DB::OpenForReadOnly(
        MakeDbOptions(CheckedEnv(), logger, NewBackgroundListener(errors)), db_path_,
        MakeColumnFamilies(options, std::make_shared<DropMark>(0)), &handles, &db);
    if (MayPass(opened)) return FromRocksDb(opened, absl::StrCat("open ", db_path_));
    if (!opened.ok()) {
      Fault(absl::StrCat("the database does not open", logger->damaged_file().empty() ? "" : ": ",
                         logger->damaged_file(), ": ", opened.ToString()));
      return absl::OkStatus();
    }
    db_.reset(db);
    std::copy(handles.begin(), handles.end(), handles_.begin());
    // No table is left out as a whole, however many blocks are damaged.
    source_ =
        std::make_unique<RocksDbSource>(db, &handles_, nullptr, std::numeric_limits<size_t>::max());
    const auto version = FormatOfDb(db, handles_[static_cast<size_t>(ColumnFamily::kMeta)]);
    if (!version.has_value()) return absl::OkStatus();
    if (witness_.has_value() && *version < witness_->format_version) {
      Fault(absl::StrCat("the database has format version ", *version, ", but the witness ",
                         witness_->format_version, ": its last records are lost"));
      return absl::OkStatus();
    }
    return CheckFormatVersion(data_dir_, *version, kFormatVersion, kFormatVersion);
  }

  absl::Status VerifyTables() {
    std::map<uint64_t, rocksdb::LiveFileMetaData> live;
    if (db_ != nullptr) {
      std::vector<rocksdb::LiveFileMetaData> files;
      db_->GetLiveFilesMetaData(&files);
      for (auto& file : files) live[file.file_number] = file;
    }
    std::error_code error;
    std::vector<fs::path> paths;
    for (const fs::directory_entry& entry : fs::directory_iterator(db_path_, error)) {
      if (entry.path().extension() == ".sst") paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    for (const fs::path& path : paths) {
      const auto place = TablePlaceIn(absl::StrCat(path.filename().string(), " offset 0"));
      const auto file = place.has_value() ? live.find(place->number) : live.end();
      // RocksDB deletes a table that belongs to no version at the next start.
      if (db_ != nullptr && file == live.end()) continue;
      if (tables_needed_.has_value() && place.has_value() &&
          !tables_needed_->contains(place->number)) {
        continue;
      }
      const absl::Status status = VerifyTable(path, file != live.end() ? &file->second : nullptr);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status VerifyTable(const fs::path& path, const rocksdb::LiveFileMetaData* file) {
    ++tables_read_;
    rocksdb::Options options;
    options.env = CheckedEnv();
    rocksdb::SstFileReader reader(options);
    rocksdb::Status status = reader.Open(path.string());
    if (status.ok()) status = reader.VerifyChecksum(rocksdb::ReadOptions());
    if (status.ok()) return absl::OkStatus();
    if (MayPass(status)) return FromRocksDb(status, absl::StrCat("read ", path.string()));
    if (file == nullptr || !FindBlocks(*file)) {
      Fault(absl::StrCat("table ", path.filename().string(), ": ", status.ToString()));
    }
    return absl::OkStatus();
  }

  // Finds every damaged block of a table. False if none of them holds records.
  bool FindBlocks(const rocksdb::LiveFileMetaData& file) {
    bool found = false;
    for (size_t i = 0; i < kColumnFamilyCount; ++i) {
      if (handles_[i]->GetName() != file.column_family_name) continue;
      std::string from = file.smallestkey;
      for (;;) {
        const auto block =
            source_->tables()->FirstIn(static_cast<ColumnFamily>(i), file.file_number, from);
        if (!block.has_value()) return found;
        found = true;
        if (from > block->last) return found;
        from = block->last + '\0';
      }
    }
    return found;
  }

  void CompareWitness() {
    if (!witness_.has_value()) return;
    const uint64_t sequence = db_->GetLatestSequenceNumber();
    if (sequence < witness_->durable_sequence) {
      Fault(absl::StrCat("the database ends at sequence ", sequence, ", but ",
                         witness_->durable_sequence,
                         " was durable: a log is missing or cut short"));
    }
  }

  void ReadFamily(ColumnFamily family) {
    const auto range = source_->NewReader(family, "", kLastKey, OnDamage::kGoAround);
    for (; range->Valid(); range->Next()) {
      ++records_;
      if (!Decode(family, range->key(), range->value())) {
        Fault(absl::StrCat("a record cannot be decoded: ", LayoutOf(family).name, ", ",
                           KeyText(family, range->key())));
      }
    }
    if (!range->status().ok()) Fault(range->status().message());
  }

  bool Decode(ColumnFamily family, absl::string_view key, absl::string_view value) {
    switch (family) {
      case ColumnFamily::kMeta:
        return true;
      case ColumnFamily::kMessages:
        return DecodeMessage(key, value);
      case ColumnFamily::kBacklog:
        return DecodeBacklogKey(key).has_value() && DecodeBacklogEntry(value).has_value();
      case ColumnFamily::kIndex:
        return DecodeIndexKey(key).has_value() && DecodeIndexEntry(value).ok();
      case ColumnFamily::kLocators:
        return DecodeTrace(key, value);
      case ColumnFamily::kCounts:
        return DecodeCount(key, value);
      case ColumnFamily::kObjects:
        return DecodeObjectKey(key).has_value();
      case ColumnFamily::kProgress:
        return DecodeProgressKey(key).has_value() && DecodeProgress(value).has_value();
    }
    return false;
  }

  static bool DecodeTrace(absl::string_view key, absl::string_view value) {
    const std::optional<MessageId> id = DecodeLocatorKey(key);
    return id.has_value() && ReadTraceRow(*id, value, *id).ok();
  }

  bool DecodeMessage(absl::string_view key, absl::string_view value) {
    MessageRecord record;
    const std::optional<uint16_t> shard = DecodeShard(key);
    if (!DecodeMessageKey(key).has_value() || !DecodeMessageRecord(value, &record).ok()) {
      return false;
    }
    ++messages_;
    CountDelta& sum = counted_[{*shard, record.header.topic}];
    sum = Sum(sum, {.messages = 1, .bytes = static_cast<int64_t>(value.size())});
    return true;
  }

  bool DecodeCount(absl::string_view key, absl::string_view value) {
    const std::optional<CountPlace> place = DecodeCountKey(key);
    if (!place.has_value()) return false;
    if (place->row != CountRow::kTopic) {
      DayCounts day;
      return day.Add(value);
    }
    const std::optional<CountDelta> sum = DecodeCountDelta(value);
    if (!sum.has_value()) return false;
    written_[{place->shard, place->topic}] = *sum;
    return true;
  }

  // The counter of each topic is the number of its messages. Says nothing if one of them is
  // damaged.
  void CompareCounts() {
    for (const DamagedBlock& block : source_->damage().report().blocks) {
      if (block.family == "messages" || block.family == "counts") return;
    }
    for (const auto& [place, sum] : written_) counted_.try_emplace(place);
    for (const auto& [place, counted] : counted_) {
      const auto written = written_.find(place);
      const CountDelta sum = written != written_.end() ? written->second : CountDelta{};
      if (sum == counted) continue;
      Fault(absl::StrCat("the counter of shard ", place.first, " topic ",
                         static_cast<uint32_t>(place.second), " is ", sum.messages,
                         " messages with ", sum.bytes, " bytes; the store holds ", counted.messages,
                         " with ", counted.bytes));
    }
  }

  static constexpr uint64_t kPrintedMax = 1000;

  using TopicPlace = std::pair<uint16_t, TopicId>;

  const std::string data_dir_;
  const std::string db_path_;
  const std::function<void(absl::string_view)>& print_;
  std::optional<WitnessRecord> witness_;
  uint64_t witness_written_ms_ = 0;
  bool perhaps_lost_ = false;
  // RocksDB can open the files without a change.
  bool may_open_ = false;
  // The tables that the manifest names; absent if the files do not pass the check.
  std::optional<std::map<uint64_t, uint64_t>> tables_needed_;
  std::unique_ptr<rocksdb::DB> db_;
  TableDamage::Handles handles_{};
  std::unique_ptr<RocksDbSource> source_;
  std::map<TopicPlace, CountDelta> counted_;
  std::map<TopicPlace, CountDelta> written_;
  uint64_t tables_read_ = 0;
  uint64_t records_ = 0;
  uint64_t messages_ = 0;
  uint64_t faults_ = 0;
};

}  // namespace

absl::Status VerifyDirectory(const std::string& data_dir,
                             const std::function<void(absl::string_view)>& print,
                             bool* perhaps_lost) {
  Verifier verifier(data_dir, print);
  const absl::Status status = verifier.Run();
  if (perhaps_lost != nullptr) *perhaps_lost = verifier.perhaps_lost();
  return status;
}

}  // namespace duetime::storage
