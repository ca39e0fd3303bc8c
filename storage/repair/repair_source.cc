// SPDX-License-Identifier: Apache-2.0
#include "storage/repair/repair_source.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "storage/key_text.h"
#include "storage/repair/log_salvage.h"
#include "storage/rocksdb/checked_tables.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/rocksdb/rocksdb_logger.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_slice.h"
#include "storage/rocksdb/rocksdb_status.h"
#include "storage/rocksdb/start_check.h"
#include "storage/slot.h"

namespace duetime::storage {
namespace {

namespace fs = std::filesystem;

// A repair reads each table once, so a few open ones are enough.
constexpr int kOpenTables = 256;
// Greater than every sequence number of a store. The tables that no manifest names are ordered
// above it by their file numbers.
constexpr uint64_t kFoundSequence = uint64_t{1} << 50;

RocksDbStoreOptions SourceOptions() {
  RocksDbStoreOptions options;
  options.block_cache_bytes = size_t{16} << 20;
  return options;
}

std::vector<rocksdb::ColumnFamilyDescriptor> Families() {
  return MakeColumnFamilies(SourceOptions(), std::make_shared<DropMark>(0));
}

// The number in a name such as 000012.sst; nullopt if the name has another form.
std::optional<uint64_t> FileNumber(absl::string_view name, absl::string_view ending) {
  uint64_t number = 0;
  if (!absl::ConsumeSuffix(&name, ending) || !absl::SimpleAtoi(name, &number)) return std::nullopt;
  return number;
}

std::string TableName(uint64_t number) { return absl::StrFormat("%06d.sst", number); }
std::string LogName(uint64_t number) { return absl::StrFormat("%06d.log", number); }

// A file of the scratch directory. It need not survive a power cut.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& path) {
    status_ = rocksdb::Env::Default()->NewWritableFile(path, &file_, rocksdb::EnvOptions());
  }
  void Append(absl::string_view bytes) {
    if (status_.ok()) status_ = file_->Append(ToSlice(bytes));
    size_ += bytes.size();
  }
  void AppendRecord(absl::string_view record) {
    std::string bytes;
    AppendLogRecord(record, size_, &bytes);
    Append(bytes);
  }
  absl::Status Close() {
    if (status_.ok()) status_ = file_->Close();
    return FromRocksDb(status_, "write the scratch directory");
  }

 private:
  std::unique_ptr<rocksdb::WritableFile> file_;
  rocksdb::Status status_;
  uint64_t size_ = 0;
};

}  // namespace

RepairSource::RepairSource(std::string data_dir, std::string scratch_dir, RepairReport* report)
    : data_dir_(std::move(data_dir)), scratch_dir_(std::move(scratch_dir)), report_(report) {}

RepairSource::~RepairSource() {
  records_.reset();
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    if (handle != nullptr) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
}

std::string RepairSource::Path(absl::string_view name) const {
  return absl::StrCat(data_dir_, "/db/", name);
}
std::string RepairSource::ScratchPath(absl::string_view name) const {
  return absl::StrCat(scratch_dir_, "/", name);
}

absl::Status RepairSource::Open() {
  std::error_code error;
  if (!fs::is_directory(data_dir_ + "/db", error)) {
    return absl::NotFoundError(absl::StrCat(data_dir_, " is not a data directory"));
  }
  absl::StatusOr<DirectoryLock> lock = DirectoryLock::Acquire(data_dir_);
  if (!lock.ok()) return lock.status();
  lock_ = *std::move(lock);
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir_ + "/db", error)) {
    const std::string name = entry.path().filename().string();
    if (const auto table = FileNumber(name, ".sst"); table.has_value()) table_files_.insert(*table);
    if (const auto log = FileNumber(name, ".log"); log.has_value()) log_files_.insert(*log);
  }
  for (const std::set<uint64_t>* files : {&table_files_, &log_files_}) {
    if (!files->empty()) last_file_ = std::max(last_file_, *files->rbegin());
  }
  fs::create_directories(scratch_dir_, error);
  for (const auto step :
       {&RepairSource::ReadWitness, &RepairSource::CheckStart, &RepairSource::ReadManifest,
        &RepairSource::LinkTables, &RepairSource::WriteLogs, &RepairSource::WriteManifest,
        &RepairSource::OpenDb}) {
    if (absl::Status status = (this->*step)(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RepairSource::ReadWitness() {
  const std::string path = data_dir_ + "/witness";
  const auto witness = Witness::OpenToRead(path);
  const auto record = witness.ok() ? (*witness)->Read() : witness.status();
  if (record.ok() && record->has_value()) witness_ = **record;
  if (witness.ok()) witness_written_ms_ = (*witness)->WrittenMs();
  if (!witness_.has_value()) {
    report_->Lost(
        absl::StrCat(path, " cannot be read: whether the last records are missing is not known",
                     record.ok() ? "" : ": ", record.ok() ? "" : record.status().message()));
    return absl::OkStatus();
  }
  return CheckFormatOfDirectory(data_dir_, witness_->format_version, kFormatVersion,
                                kFormatVersion);
}

absl::Status RepairSource::CheckStart() {
  // Without a check of each table, because a table that does not open is lost alone.
  StartCheck check(rocksdb::Env::Default(), data_dir_ + "/db", /*families_exist=*/true);
  const absl::Status status = check.Run(witness_.has_value() ? witness_->durable_sequence : 0);
  sound_ = status.ok();
  if (!sound_) {
    report_->Say(absl::StrCat("a start would refuse the directory: ", status.message()));
    return absl::OkStatus();
  }
  for (const StartCheck::Trim& trim : check.trims()) {
    trims_[trim.path] = trim.bytes;
    if (trim.perhaps_acknowledged) {
      report_->Lost(absl::StrCat("a repair leaves out ", trim.Text(witness_written_ms_)));
    }
  }
  return absl::OkStatus();
}

bool RepairSource::has_manifest() const {
  // RocksDB describes the default family in its first record, without a name.
  return manifest_.family_names.size() + 1 >= kColumnFamilyCount;
}

absl::Status RepairSource::ReadManifestFile(const std::string& name) {
  ManifestReader reader;
  std::string bytes;
  const absl::Status status =
      ReadBlocks(rocksdb::Env::Default(), Path(name), [&](absl::string_view block) {
        reader.AddBlock(block);
        bytes.append(block.data(), block.size());
      });
  if (!status.ok()) return status;
  bytes.resize(std::min<size_t>(bytes.size(), reader.whole_bytes()));
  manifest_name_ = name;
  manifest_ = reader.state();
  manifest_bytes_ = std::move(bytes);
  if (reader.broken() && !sound_) {
    report_->Lost(absl::StrCat(Path(name), " is damaged after byte ", reader.whole_bytes(),
                               ": whether a table is missing is not known"));
  }
  return absl::OkStatus();
}

// CURRENT names the manifest. Without it, the newest manifest counts.
absl::Status RepairSource::ReadManifest() {
  std::string current;
  rocksdb::ReadFileToString(rocksdb::Env::Default(), Path("CURRENT"), &current)
      .PermitUncheckedError();
  std::string name(absl::StripSuffix(current, "\n"));
  std::string newest;
  bool exists = false;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir_ + "/db", error)) {
    const std::string file = entry.path().filename().string();
    absl::string_view digits = file;
    uint64_t number = 0;
    if (!absl::ConsumePrefix(&digits, "MANIFEST-") || !absl::SimpleAtoi(digits, &number)) continue;
    last_file_ = std::max(last_file_, number);
    exists = exists || file == name;
    if (std::make_pair(file.size(), file) > std::make_pair(newest.size(), newest)) newest = file;
  }
  if (!exists) name = newest;
  if (!name.empty()) {
    if (absl::Status status = ReadManifestFile(name); !status.ok()) return status;
  }
  if (has_manifest()) return absl::OkStatus();
  report_->Lost(
      "the manifest cannot be read: it is not known which tables belong to the database, so all of "
      "them are read, and messages that had ended may be back");
  manifest_ = {};
  manifest_bytes_.clear();
  manifest_name_ = absl::StrFormat("MANIFEST-%06d", last_file_ + 1);
  const auto families = Families();
  edits_ = {FirstEdit()};
  for (uint32_t number = 1; number < families.size(); ++number) {
    manifest_.family_names[number] = families[number].name;
    edits_.push_back(FamilyEdit(number, families[number].name));
  }
  return absl::OkStatus();
}

std::optional<uint32_t> RepairSource::FamilyNumber(absl::string_view name) const {
  if (name == rocksdb::kDefaultColumnFamilyName) return 0;
  for (const auto& [number, known] : manifest_.family_names) {
    if (known == name) return number;
  }
  return std::nullopt;
}

absl::Status RepairSource::LinkTables() {
  std::set<uint64_t> wanted;
  if (!sound_) wanted = table_files_;
  for (const auto& [number, bytes] : manifest_.tables) wanted.insert(number);
  for (const uint64_t number : wanted) {
    if (absl::Status status = LinkTable(number); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RepairSource::LinkTable(uint64_t number) {
  const std::string path = Path(TableName(number));
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (error) {
    LoseTable(number, "the file is missing");
    return absl::OkStatus();
  }
  const auto named = manifest_.tables.find(number);
  if (named != manifest_.tables.end() && named->second != bytes) {
    LoseTable(number, absl::StrCat("it has ", bytes, " bytes, but should have ", named->second));
    return absl::OkStatus();
  }
  rocksdb::Options options;
  options.env = CheckedEnv();
  options.table_factory =
      Families()[static_cast<size_t>(ColumnFamily::kMessages)].options.table_factory;
  rocksdb::SstFileReader reader(options);
  const rocksdb::Status opened = reader.Open(path);
  if (MayPass(opened)) return FromRocksDb(opened, absl::StrCat("open ", path));
  if (!opened.ok()) {
    LoseTable(number, opened.ToString());
    return absl::OkStatus();
  }
  if (named == manifest_.tables.end()) {
    const auto family = FamilyNumber(reader.GetTableProperties()->column_family_name);
    if (!family.has_value()) {
      report_->Lost(absl::StrCat("table ", path, " is of an unknown column family"));
      return absl::OkStatus();
    }
    report_->Say(absl::StrCat("table ", path, " is not in the manifest, and is read"));
    edits_.push_back(TableFoundEdit(*family, number, bytes, kFoundSequence + number));
    last_sequence_ = 2 * kFoundSequence;
    found_tables_ = true;
  }
  fs::create_symlink(fs::absolute(path, error), ScratchPath(TableName(number)), error);
  if (error) return SystemError("link", ScratchPath(TableName(number)), error.value());
  return absl::OkStatus();
}

void RepairSource::LoseTable(uint64_t number, absl::string_view why) {
  const auto place = manifest_.table_places.find(number);
  const std::string name = absl::StrCat("table ", TableName(number));
  if (place == manifest_.table_places.end()) {
    report_->Lost(absl::StrCat(name, " is lost: ", why));
    return;
  }
  const ManifestTable& table = place->second;
  edits_.push_back(TableLostEdit(number, table));
  const auto families = Families();
  for (size_t i = 0; i < families.size(); ++i) {
    if (FamilyNumber(families[i].name) != table.family) continue;
    const auto family = static_cast<ColumnFamily>(i);
    report_->Lost(absl::StrCat(name, " is lost (", families[i].name, ", from ",
                               KeyText(family, table.first), " to ", KeyText(family, table.last),
                               "): ", why));
    lost_tables_.push_back({family, table.first, table.last});
  }
}

absl::Status RepairSource::WriteLogs() {
  last_sequence_ = std::max(last_sequence_, manifest_.last_sequence);
  std::unique_ptr<ScratchFile> file;
  LogSalvage salvage(
      manifest_bytes_.empty() ? std::nullopt : std::optional<uint64_t>(manifest_.last_sequence),
      [&file](absl::string_view write) { file->AppendRecord(write); });
  for (const uint64_t number : log_files_) {
    if (number < manifest_.first_log()) continue;
    const std::string path = Path(LogName(number));
    file = std::make_unique<ScratchFile>(ScratchPath(LogName(number)));
    salvage.BeginLog();
    const auto trim = trims_.find(path);
    uint64_t left = trim != trims_.end() ? trim->second : ~uint64_t{0};
    const absl::Status read =
        ReadBlocks(rocksdb::Env::Default(), path, [&](absl::string_view block) {
          block = block.substr(0, std::min<uint64_t>(left, block.size()));
          left -= block.size();
          salvage.AddBlock(block);
        });
    if (!read.ok()) return read;
    if (absl::Status status = file->Close(); !status.ok()) return status;
  }
  salvage.Finish(witness_.has_value() ? witness_->durable_sequence : 0);
  last_sequence_ = std::max(last_sequence_, salvage.last_sequence());
  missing_changes_ = sound_ ? 0 : salvage.missing();
  if (missing_changes_ == 0) return absl::OkStatus();
  for (const auto& [first, last] : salvage.gaps()) {
    report_->Lost(absl::StrCat("the changes ", first, " to ", last, " are missing from the logs"));
  }
  report_->Say(
      absl::StrCat(missing_changes_,
                   " changes are missing: messages accepted by them are lost, and "
                   "messages ended by them are back",
                   found_tables_ ? ", unless a table that is not in the manifest has them" : ""));
  return absl::OkStatus();
}

absl::Status RepairSource::WriteManifest() {
  ScratchFile manifest(ScratchPath(manifest_name_));
  manifest.Append(manifest_bytes_);
  for (const std::string& edit : edits_) manifest.AppendRecord(edit);
  manifest.AppendRecord(LastEdit(std::max(last_file_ + 2, manifest_.next_file), last_sequence_));
  if (absl::Status status = manifest.Close(); !status.ok()) return status;
  ScratchFile current(ScratchPath("CURRENT"));
  current.Append(manifest_name_ + "\n");
  return current.Close();
}

absl::Status RepairSource::OpenDb() {
  const auto errors = std::make_shared<BackgroundErrors>(
      std::make_shared<std::atomic<bool>>(false), std::make_shared<std::atomic<bool>>(false));
  rocksdb::DBOptions options = MakeDbOptions(CheckedEnv(), std::make_shared<RocksDbLogger>(nullptr),
                                             NewBackgroundListener(errors));
  options.max_open_files = kOpenTables;
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const rocksdb::Status opened =
      rocksdb::DB::OpenForReadOnly(options, scratch_dir_, Families(), &handles, &db);
  if (!opened.ok()) return FromRocksDb(opened, absl::StrCat("open what is left of ", data_dir_));
  db_.reset(db);
  std::copy(handles.begin(), handles.end(), handles_.begin());
  records_ =
      std::make_unique<RocksDbSource>(db, &handles_, nullptr, std::numeric_limits<size_t>::max());
  const auto version = FormatOfDb(db, records_->tables()->handle(ColumnFamily::kMeta));
  // If the table with the newest version is lost, an older one may be visible. The witness knows.
  if (!version.has_value() || (witness_.has_value() && *version < witness_->format_version)) {
    return absl::OkStatus();
  }
  return CheckFormatVersion(data_dir_, *version, kFormatVersion, kFormatVersion);
}

absl::StatusOr<std::optional<std::string>> RepairSource::Get(const StoreKey& key) const {
  std::string value;
  const rocksdb::Status status = db_->Get(
      MakeGetOptions(), records_->tables()->handle(key.family()), ToSlice(key.bytes()), &value);
  if (status.ok()) return std::optional<std::string>(std::move(value));
  if (status.IsNotFound() ||
      records_->tables()->Find(key.family(), status, key.bytes()).has_value()) {
    return std::optional<std::string>();
  }
  return FromRocksDb(status, "read a record");
}

uint64_t RepairSource::bytes() const {
  uint64_t sum = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(data_dir_ + "/db", error)) {
    const uint64_t bytes = entry.file_size(error);
    if (!error) sum += bytes;
  }
  return sum;
}

bool RepairSource::InDamage(const StoreKey& key) const {
  for (const LostTable& table : lost_tables_) {
    if (table.family == key.family() && key.bytes() >= table.first && key.bytes() <= table.last) {
      return true;
    }
  }
  std::string value;
  const rocksdb::Status status = db_->Get(
      MakeGetOptions(), records_->tables()->handle(key.family()), ToSlice(key.bytes()), &value);
  return status.IsCorruption();
}

// ---- Names of topics

void RepairNames::NoteMessage(const MessageId& id, const MessageRecord& record) {
  Note(record.header.topic);
  const uint32_t topic = Number(record.header.topic);
  Evidence& evidence = evidence_[topic];
  evidence.newest = std::max(evidence.newest, id);
  const auto name = names_.find(topic);
  if (name == names_.end() || record.key.empty()) return;
  if (SlotOfName(name->second, record.key) != id.slot()) {
    ++evidence.unfit;
    return;
  }
  ++evidence.fit;
  evidence.newest_fit = std::max(evidence.newest_fit, id);
}

RepairNames::Evidence RepairNames::EvidenceOf(uint32_t topic) const {
  const auto evidence = evidence_.find(topic);
  return evidence == evidence_.end() ? Evidence{} : evidence->second;
}

bool RepairNames::Precedes(uint32_t topic, uint32_t other) const {
  const auto rank = [this](uint32_t of) {
    const Evidence evidence = EvidenceOf(of);
    const int majority = evidence.fit == evidence.unfit  ? 0
                         : evidence.fit > evidence.unfit ? 1
                                                         : -1;
    return std::tuple(majority, evidence.newest_fit, evidence.newest, of);
  };
  return rank(topic) > rank(other);
}

const std::string& RepairNames::Recover(uint32_t topic) {
  const std::string first = absl::StrCat("recovered-topic-", topic);
  std::string name = first;
  for (int copy = 2; !taken_.insert(name).second; ++copy) name = absl::StrCat(first, "-", copy);
  return names_[topic] = std::move(name);
}

std::vector<RepairNames::Change> RepairNames::Complete() {
  std::vector<Change> changes;
  std::map<std::string, std::vector<uint32_t>> topics_of_name;
  for (const auto& [topic, name] : names_) {
    taken_.insert(name);
    topics_of_name[name].push_back(topic);
  }
  for (const auto& [name, topics] : topics_of_name) {
    if (topics.size() == 1) continue;
    const uint32_t first = *std::max_element(
        topics.begin(), topics.end(), [this](uint32_t a, uint32_t b) { return Precedes(b, a); });
    const Evidence evidence = EvidenceOf(first);
    const bool kept = evidence.fit >= evidence.unfit;
    const std::string text = absl::CHexEscape(name);
    for (const uint32_t topic : topics) {
      if (kept && topic == first) continue;
      const std::string& recovered = Recover(topic);
      const std::string why =
          kept ? absl::StrCat("topics ", topic, " and ", first, " both have the name \"", text,
                              "\", so one of the two names is old; topic ", first,
                              " keeps it, topic ", topic, " is now ", recovered)
               : absl::StrCat("several topics have the name \"", text,
                              "\", but the keys of most messages fit another name; topic ", topic,
                              " is now ", recovered);
      changes.push_back({.topic = TopicId{topic}, .name = recovered, .text = why, .loss = true});
    }
  }
  for (const uint32_t topic : noted_) {
    if (topic == 0 || names_.contains(topic)) continue;
    const std::string& recovered = Recover(topic);
    changes.push_back(
        {.topic = TopicId{topic},
         .name = recovered,
         .text = absl::StrCat("the name of topic ", topic, " is lost; it is now ", recovered)});
  }
  return changes;
}

std::string RepairNames::TextOf(TopicId topic) const {
  const auto name = names_.find(Number(topic));
  return absl::StrCat(
      "topic ", Number(topic),
      name == names_.end() ? "" : absl::StrCat(" \"", absl::CHexEscape(name->second), "\""));
}

}  // namespace duetime::storage
