// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/table_damage.h"

#include <algorithm>
#include <functional>
#include <rocksdb/table_properties.h>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "storage/key_text.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/rocksdb_status.h"

namespace duetime::storage {
namespace {

// More than any key has, so that a search that does not end is noticed.
constexpr size_t kKeyBytesMax = 1200;
// The keys that the search for a block may pass on its way to it.
constexpr size_t kStepsMax = 1'000'000;

rocksdb::ReadOptions OptionsFor(std::function<bool(uint64_t)> wanted) {
  rocksdb::ReadOptions options = MakeScanOptions(nullptr, nullptr, 0);
  // Without prefixes: the search passes all keys.
  options.total_order_seek = true;
  options.table_filter = [wanted = std::move(wanted)](const rocksdb::TableProperties& table) {
    return wanted(table.orig_file_number);
  };
  return options;
}

// Finds the ends of a block by reading the table, because RocksDB has no call for it: a seek to a
// key from the end of the last sound block to the end of the damaged one meets the damage.
class BlockSearch {
 public:
  BlockSearch(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* handle, const TablePlace& place,
              std::string smallest, std::string largest)
      : db_(db),
        handle_(handle),
        place_(place),
        smallest_(std::move(smallest)),
        largest_(std::move(largest)) {}

  // Moves `from` to a key whose seek meets the damage. False if there is none. The table alone
  // shows keys that newer tombstones hide from the read that met the damage.
  bool Approach(std::string* from) {
    Seek(*from);
    for (size_t steps = 0; steps < kStepsMax && iterator_->Valid(); ++steps) {
      from->assign(iterator_->key().data(), iterator_->key().size());
      from->push_back('\0');
      iterator_->Next();
    }
    return AtDamage() && Meets(*from);
  }

  // The greatest key whose seek meets the damage, one byte after the other. REQUIRES: Meets(from).
  std::string Last(const std::string& from) {
    const auto meets = [&](const std::string& key) { return key <= from || Meets(key); };
    std::string prefix;
    while (prefix.size() < kKeyBytesMax && meets(prefix + '\0')) {
      prefix.push_back(Greatest([&](char byte) { return meets(prefix + byte); }));
    }
    return prefix;
  }

  // The least such key.
  std::string First(const std::string& from) {
    const auto meets = [&](const std::string& key) { return key >= from || Meets(key); };
    const std::string high(64, '\xff');
    std::string prefix;
    while (prefix.size() < kKeyBytesMax && !meets(prefix)) {
      // The greatest byte under which no key meets the damage; the next one leads to the first key.
      const auto none = [&](char byte) {
        return !meets(absl::StrCat(prefix, absl::string_view(&byte, 1), high));
      };
      const char byte = none('\0') ? static_cast<char>(Greatest(none) + 1) : '\0';
      prefix.push_back(byte);
    }
    return prefix;
  }

 private:
  // A read of a table without a readable index meets damage everywhere. The bounds of the table
  // bound it.
  bool Meets(const std::string& key) {
    if (key < smallest_ || key > largest_) return false;
    Seek(key);
    return AtDamage();
  }

  // RocksDB's iterators keep an error beyond the next seek if it goes to a place nearby.
  void Seek(const std::string& key) {
    if (iterator_ == nullptr || !iterator_->status().ok()) {
      const auto is_table = [number = place_.number](uint64_t table) { return table == number; };
      iterator_.reset(db_->NewIterator(OptionsFor(is_table), handle_));
    }
    iterator_->Seek(key);
  }

  bool AtDamage() const {
    if (iterator_->Valid() || !iterator_->status().IsCorruption()) return false;
    return TablePlaceIn(iterator_->status().ToString()) == place_;
  }

  // The greatest byte for which `holds`. REQUIRES: it holds for 0, and for no byte above one for
  // which it does not hold.
  template <typename Holds>
  static char Greatest(Holds holds) {
    unsigned low = 0;
    unsigned high = 256;
    while (high - low > 1) {
      const unsigned middle = (low + high) / 2;
      (holds(static_cast<char>(static_cast<unsigned char>(middle))) ? low : high) = middle;
    }
    return static_cast<char>(static_cast<unsigned char>(low));
  }

  rocksdb::DB* const db_;
  rocksdb::ColumnFamilyHandle* const handle_;
  const TablePlace place_;
  const std::string smallest_;
  const std::string largest_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

std::optional<rocksdb::LiveFileMetaData> FileOf(rocksdb::DB* db, const TablePlace& place) {
  std::vector<rocksdb::LiveFileMetaData> files;
  db->GetLiveFilesMetaData(&files);
  for (const rocksdb::LiveFileMetaData& file : files) {
    if (file.file_number == place.number) return file;
  }
  return std::nullopt;
}

class BackgroundListener final : public rocksdb::EventListener {
 public:
  explicit BackgroundListener(std::shared_ptr<BackgroundErrors> errors)
      : errors_(std::move(errors)) {}

  // These two run on the threads that flush and compact.
  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { StopPerfCounters(); }
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    StopPerfCounters();
  }

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* status) override {
    const bool compaction = reason == rocksdb::BackgroundErrorReason::kCompaction;
    if (errors_->Tolerate(compaction, *status)) *status = rocksdb::Status::OK();
  }

  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }

 private:
  const std::shared_ptr<BackgroundErrors> errors_;
};

}  // namespace

std::optional<TablePlace> TablePlaceIn(absl::string_view text) {
  constexpr absl::string_view kEnding = ".sst offset ";
  const size_t ending = text.find(kEnding);
  if (ending == absl::string_view::npos) return std::nullopt;
  const absl::string_view path = text.substr(0, ending);
  const absl::string_view digits = path.substr(path.find_last_of('/') + 1);
  absl::string_view offset = text.substr(ending + kEnding.size());
  offset = offset.substr(0, offset.find_first_not_of("0123456789"));
  TablePlace place;
  if (!absl::SimpleAtoi(digits, &place.number) || !absl::SimpleAtoi(offset, &place.offset)) {
    return std::nullopt;
  }
  place.file = absl::StrCat(digits, ".sst");
  return place;
}

// ---- BackgroundErrors

bool BackgroundErrors::Tolerate(bool compaction, const rocksdb::Status& status) {
  if (!compaction || !status.IsCorruption() || !TablePlaceIn(status.ToString()).has_value()) {
    if (!MayPass(status)) lasting_->store(true, std::memory_order_release);
    fenced_->store(true, std::memory_order_release);
    return false;
  }
  const base::MutexLock lock(&mutex_);
  if (errors_.size() < kErrorsMax) errors_.push_back(status);
  return true;
}

std::vector<rocksdb::Status> BackgroundErrors::Take() {
  const base::MutexLock lock(&mutex_);
  return std::exchange(errors_, {});
}

std::shared_ptr<rocksdb::EventListener> NewBackgroundListener(
    std::shared_ptr<BackgroundErrors> errors) {
  return std::make_shared<BackgroundListener>(std::move(errors));
}

// ---- TableDamage

TableDamage::TableDamage(rocksdb::DB* db, const Handles* handles, LogSink log, size_t blocks_max)
    : db_(db), handles_(*handles), log_(std::move(log)), list_(blocks_max) {}

std::optional<DamagedBlock> TableDamage::Find(ColumnFamily family, const rocksdb::Status& status,
                                              absl::string_view from) {
  if (!status.IsCorruption()) return std::nullopt;
  const std::optional<TablePlace> place = TablePlaceIn(status.ToString());
  if (!place.has_value()) return std::nullopt;
  std::optional<DamagedBlock> block = list_.Find(place->file, place->offset);
  if (block.has_value()) return block;
  if (list_.full()) {
    block = WholeTable(family, *place);
  } else {
    located_.fetch_add(1, std::memory_order_relaxed);
    block = Locate(family, *place, from);
  }
  if (block.has_value() && list_.Add(*block)) {
    Log(absl::StrCat(PlaceText(*block), " is damaged: ",
                     block->whole_table ? "scans leave the table out, because there are too many "
                                          "damaged blocks"
                                        : "what lies in it cannot be read",
                     " (", block->family, ": ", block->first_text, " to ", block->last_text,
                     "); the rest is served"));
  }
  return block;
}

std::optional<DamagedBlock> TableDamage::FirstIn(ColumnFamily family, uint64_t table,
                                                 absl::string_view from) {
  const auto is_table = [table](uint64_t number) { return number == table; };
  const std::unique_ptr<rocksdb::Iterator> iterator(
      db_->NewIterator(OptionsFor(is_table), handle(family)));
  std::string place(from);
  for (iterator->Seek(ToSlice(from)); iterator->Valid(); iterator->Next()) {
    place.assign(iterator->key().data(), iterator->key().size());
    place.push_back('\0');
  }
  return Find(family, iterator->status(), place);
}

absl::Status TableDamage::ErrorOf(ColumnFamily family, const rocksdb::Status& status,
                                  absl::string_view from) {
  if (family != ColumnFamily::kMeta) {
    const std::optional<DamagedBlock> block = Find(family, status, from);
    if (block.has_value()) return DamageError(*block);
  }
  return FromRocksDb(status, "read");
}

std::optional<DamagedBlock> TableDamage::Locate(ColumnFamily family, const TablePlace& place,
                                                absl::string_view from) const {
  const std::optional<rocksdb::LiveFileMetaData> file = FileOf(db_, place);
  if (!file.has_value()) return std::nullopt;
  rocksdb::ColumnFamilyHandle* const handle = handles_[static_cast<size_t>(family)];
  BlockSearch search(db_, handle, place, file->smallestkey, file->largestkey);
  std::string met = std::max<std::string>(std::string(from), file->smallestkey);
  if (!search.Approach(&met)) return std::nullopt;
  DamagedBlock block{.file = place.file,
                     .offset = place.offset,
                     .family = handle->GetName(),
                     .first = search.First(met),
                     .last = search.Last(met),
                     .first_text = "",
                     .last_text = ""};
  block.first_text = KeyText(family, block.first);
  block.last_text = KeyText(family, block.last);
  return block;
}

std::optional<DamagedBlock> TableDamage::WholeTable(ColumnFamily family,
                                                    const TablePlace& place) const {
  const std::optional<rocksdb::LiveFileMetaData> file = FileOf(db_, place);
  if (!file.has_value()) return std::nullopt;
  return DamagedBlock{.file = place.file,
                      .whole_table = true,
                      .family = file->column_family_name,
                      .first = file->smallestkey,
                      .last = file->largestkey,
                      .first_text = KeyText(family, file->smallestkey),
                      .last_text = KeyText(family, file->largestkey)};
}

void TableDamage::StopCompactions(BackgroundErrors* errors) {
  for (const rocksdb::Status& status : errors->Take()) {
    const auto file = FileOf(db_, TablePlaceIn(status.ToString()).value_or(TablePlace{}));
    if (!file.has_value()) continue;
    for (size_t i = 0; i < handles_.size(); ++i) {
      if (handles_[i]->GetName() != file->column_family_name) continue;
      Find(static_cast<ColumnFamily>(i), status, file->smallestkey);
      // RocksDB then has no limit for the number of tables, so that writes never wait for the
      // compactions.
      const rocksdb::Status stopped =
          db_->SetOptions(handles_[i], {{"disable_auto_compactions", "true"}});
      if (stopped.ok() && list_.Stop(file->column_family_name)) {
        Log(absl::StrCat("the compactions of ", file->column_family_name,
                         " are stopped, because one needs a damaged block: ", status.ToString()));
      }
    }
  }
}

void TableDamage::Log(absl::string_view text) const {
  if (log_ != nullptr) log_(LogLevel::kError, text);
}

// ---- ReadAround

ReadAround::ReadAround(TableDamage* tables, ColumnFamily family, const DamagedBlock& block,
                       absl::string_view from, absl::string_view until)
    : tables_(tables), family_(family), until_(until) {
  LeaveOut(block);
  // A key after the block can only be unreadable if the index of the table is: then the table is
  // left out as far as the read goes.
  if (from <= block.last) until_ = std::min(until_, block.last + '\0');
  Seek(from);
}

void ReadAround::LeaveOut(const DamagedBlock& block) {
  const std::optional<TablePlace> place =
      TablePlaceIn(absl::StrCat(block.file, " offset ", block.offset));
  if (place.has_value()) left_out_.insert(place->number);
}

void ReadAround::Seek(absl::string_view from) {
  bound_ = rocksdb::Slice(until_);
  rocksdb::ReadOptions options =
      OptionsFor([this](uint64_t table) { return !left_out_.contains(table); });
  options.iterate_upper_bound = &bound_;
  iterator_.reset(tables_->db()->NewIterator(options, tables_->handle(family_)));
  key_.assign(from.data(), from.size());
  iterator_->Seek(ToSlice(from));
  FindReadable();
}

void ReadAround::Next() {
  key_.push_back('\0');
  iterator_->Next();
  FindReadable();
}

void ReadAround::FindReadable() {
  valid_ = false;
  for (; status_.ok() && iterator_->Valid(); iterator_->Next()) {
    key_.assign(iterator_->key().data(), iterator_->key().size());
    if ((valid_ = Read())) return;
    key_.push_back('\0');
  }
  if (!status_.ok() || iterator_->status().ok()) return;
  // Another table is damaged here, too.
  const std::optional<DamagedBlock> block = tables_->Find(family_, iterator_->status(), key_);
  const size_t tables = left_out_.size();
  if (block.has_value()) LeaveOut(*block);
  if (left_out_.size() == tables) {
    status_ = FromRocksDb(iterator_->status(), "scan");
    return;
  }
  if (key_ <= block->last) until_ = std::min(until_, block->last + '\0');
  const std::string from = key_;
  Seek(from);
}

bool ReadAround::Read() {
  const rocksdb::Status status =
      tables_->db()->Get(MakeGetOptions(), tables_->handle(family_), key_, &value_);
  if (status.ok()) return true;
  if (!status.IsNotFound() && !tables_->Find(family_, status, key_).has_value()) {
    status_ = FromRocksDb(status, "scan");
  }
  return false;
}

}  // namespace duetime::storage
