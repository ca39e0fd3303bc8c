// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/start_check.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "storage/key_text.h"
#include "storage/layout.h"
#include "storage/rocksdb/rocksdb_options.h"
#include "storage/rocksdb/rocksdb_status.h"

namespace duetime::storage {
namespace {

// The number in a file name; nullopt if the name has another form.
std::optional<uint64_t> NumberIn(absl::string_view name, absl::string_view before,
                                 absl::string_view after) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, before) || !absl::ConsumeSuffix(&name, after)) {
    return std::nullopt;
  }
  const bool digits = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
  if (!digits || !absl::SimpleAtoi(name, &number)) return std::nullopt;
  return number;
}

}  // namespace

std::string StartCheck::Trim::Text(uint64_t witness_ms) const {
  const std::string end = absl::StrCat("the last ", dropped, " bytes of ", path, ", from byte ",
                                       bytes, " on, which are torn or damaged");
  if (!perhaps_acknowledged) return absl::StrCat(end, "; no acknowledged record needs them");
  return absl::StrCat(end,
                      "; everything that the witness covers is there, but messages that were "
                      "acknowledged after ",
                      TimeText(witness_ms),
                      ", by the time of the witness file, may be among them, unless only a kill or "
                      "a power cut tore them");
}

StartCheck::StartCheck(rocksdb::Env* env, std::string db_path, bool families_exist)
    : env_(env), db_path_(std::move(db_path)), families_exist_(families_exist) {}

absl::Status StartCheck::Run(uint64_t durable_sequence) {
  if (absl::Status status = ReadManifest(); !status.ok()) return status;
  if (absl::Status status = CheckFamilies(); !status.ok()) return status;
  if (absl::Status status = CheckTables(); !status.ok()) return status;
  if (absl::Status status = ReadLogs(); !status.ok()) return status;
  if (absl::Status status = CheckLogs(); !status.ok()) return status;
  return CheckEnd(durable_sequence);
}

std::string StartCheck::LogPath(uint64_t number) const {
  return absl::StrFormat("%s/%06d.log", db_path_, number);
}

absl::Status ReadBlocks(rocksdb::Env* env, const std::string& path,
                        const std::function<void(absl::string_view)>& add) {
  std::unique_ptr<rocksdb::SequentialFile> file;
  rocksdb::Status status = env->NewSequentialFile(path, &file, rocksdb::EnvOptions());
  std::string scratch(kLogBlockBytes, '\0');
  rocksdb::Slice block;
  do {
    if (status.ok()) status = file->Read(scratch.size(), &block, scratch.data());
    if (!status.ok()) return FromRocksDb(status, absl::StrCat("read ", path));
    add({block.data(), block.size()});
  } while (block.size() == scratch.size());
  return absl::OkStatus();
}

absl::Status StartCheck::ReadManifest() {
  const std::string current_path = db_path_ + "/CURRENT";
  std::string current;
  const rocksdb::Status read = rocksdb::ReadFileToString(env_, current_path, &current);
  if (!read.ok()) return FromRocksDb(read, absl::StrCat("read ", current_path));
  const std::optional<uint64_t> number = NumberIn(current, "MANIFEST-", "\n");
  if (!number.has_value()) {
    return absl::DataLossError(absl::StrCat(current_path, " does not name a manifest"));
  }
  manifest_number_ = *number;
  manifest_path_ = absl::StrCat(db_path_, "/", absl::StripSuffix(current, "\n"));
  if (!env_->FileExists(manifest_path_).ok()) {
    return absl::DataLossError(
        absl::StrCat(manifest_path_, " is missing, but ", current_path, " names it"));
  }
  const absl::Status status = ReadBlocks(
      env_, manifest_path_, [this](absl::string_view block) { manifest_.AddBlock(block); });
  if (!status.ok()) return status;
  if (manifest_.unknown()) {
    return absl::DataLossError(absl::StrCat(manifest_path_, " has a record after byte ",
                                            manifest_.whole_bytes(),
                                            " that this program does not know: a newer RocksDB, "
                                            "or one with other options, may have written it"));
  }
  // RocksDB writes the state of an older manifest first, then the changes since, and the last of
  // these with the first file number after that of the manifest itself. It puts the name into
  // CURRENT when all this is synced.
  if (manifest_.state().next_file <= manifest_number_) {
    return absl::DataLossError(absl::StrCat(manifest_path_,
                                            " is damaged or cut short within its first records: "
                                            "the whole part ends at byte ",
                                            manifest_.whole_bytes()));
  }
  if (!manifest_.broken()) return absl::OkStatus();
  return Cut(manifest_path_, manifest_.whole_bytes(), /*perhaps_acknowledged=*/false);
}

// RocksDB checks the same, but only after the files were trimmed.
absl::Status StartCheck::CheckFamilies() const {
  if (!families_exist_) return absl::OkStatus();
  for (const FamilyLayout& layout : kFamilies) {
    const absl::string_view name = layout.name;
    if (name == rocksdb::kDefaultColumnFamilyName) continue;
    const auto& names = manifest_.state().family_names;
    if (std::any_of(names.begin(), names.end(),
                    [name](const auto& family) { return family.second == name; })) {
      continue;
    }
    return absl::DataLossError(
        absl::StrCat(manifest_path_, " lacks the column family ", name,
                     ", so it is cut short or not of this database: its whole part ends at byte ",
                     manifest_.whole_bytes()));
  }
  return absl::OkStatus();
}

// RocksDB checks the same, but only after the manifest was trimmed.
absl::Status StartCheck::CheckTables() const {
  for (const auto& [number, bytes] : manifest_.state().tables) {
    const std::string path = absl::StrFormat("%s/%06d.sst", db_path_, number);
    uint64_t found = 0;
    const rocksdb::Status status = env_->GetFileSize(path, &found);
    if (!status.ok() && env_->FileExists(path).IsNotFound()) {
      return absl::DataLossError(
          absl::StrCat("table ", path, " is missing, but ", manifest_path_, " names it"));
    }
    if (!status.ok()) return FromRocksDb(status, absl::StrCat("get the size of ", path));
    if (found != bytes) {
      return absl::DataLossError(absl::StrCat("table ", path, " has ", found, " bytes, but ",
                                              manifest_path_, " says ", bytes));
    }
    // CheckedTables() checks the end of a table when it is opened.
    std::unique_ptr<rocksdb::RandomAccessFile> file;
    const rocksdb::Status opened = env_->NewRandomAccessFile(path, &file, rocksdb::EnvOptions());
    if (!opened.ok()) return FromRocksDb(opened, absl::StrCat("open table ", path));
  }
  return absl::OkStatus();
}

absl::Status StartCheck::ReadLogs() {
  std::vector<std::string> children;
  const rocksdb::Status listed = env_->GetChildren(db_path_, &children);
  if (!listed.ok()) return FromRocksDb(listed, absl::StrCat("list ", db_path_));
  const uint64_t first = manifest_.state().first_log();
  for (const std::string& name : children) {
    const std::optional<uint64_t> number = NumberIn(name, "", ".log");
    if (!number.has_value()) continue;
    last_log_ = std::max(last_log_, *number);
    if (*number >= first) logs_.push_back({*number, absl::StrCat(db_path_, "/", name), {}});
  }
  std::sort(logs_.begin(), logs_.end(),
            [](const Log& a, const Log& b) { return a.number < b.number; });
  for (Log& log : logs_) {
    const absl::Status status =
        ReadBlocks(env_, log.path, [&log](absl::string_view block) { log.tail.AddBlock(block); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StartCheck::CheckLogs() {
  last_sequence_ = manifest_.state().last_sequence;
  const Log* before = nullptr;
  for (const Log& log : logs_) {
    if (absl::Status status = CheckGap(log); !status.ok()) return status;
    if (!log.tail.first_sequence().has_value()) continue;
    const uint64_t begin = *log.tail.first_sequence();
    if (before == nullptr) {
      if (absl::Status status = CheckFirstLog(log); !status.ok()) return status;
    } else if (begin != last_sequence_ + 1) {
      return absl::DataLossError(
          absl::StrCat("write-ahead log ", before->path, " ends at sequence ", last_sequence_,
                       ", but the next one, ", log.path, ", begins at ", begin,
                       ": one of them is cut short, damaged or not the right file"));
    }
    last_sequence_ = *log.tail.next_sequence() - 1;
    before = &log;
  }
  return absl::OkStatus();
}

// The first log with a record. The tables must hold everything before it.
absl::Status StartCheck::CheckFirstLog(const Log& log) const {
  const ManifestState& state = manifest_.state();
  const uint64_t previous = log.tail.previous_log().value_or(0);
  if (previous != 0 && previous >= state.first_log()) {
    return absl::DataLossError(absl::StrCat("write-ahead log ", LogPath(previous),
                                            " is missing or empty: ", log.path,
                                            " continues it, and ", manifest_path_, " needs it"));
  }
  if (*log.tail.first_sequence() > state.last_sequence + 1) {
    return absl::DataLossError(absl::StrCat("records are missing between the tables in ",
                                            manifest_path_, ", which end at sequence ",
                                            state.last_sequence, ", and write-ahead log ", log.path,
                                            ", which begins at ", *log.tail.first_sequence()));
  }
  return absl::OkStatus();
}

// Decides about a log that does not end with a whole write.
absl::Status StartCheck::CheckGap(const Log& log) {
  if (!log.tail.broken()) return absl::OkStatus();
  // Everything in a log was synced before the next log began. If the next log has a record,
  // CheckLogs finds out whether it continues the part before the gap.
  const bool continued = std::any_of(logs_.begin(), logs_.end(), [&log](const Log& later) {
    return later.number > log.number && later.tail.first_sequence().has_value();
  });
  const bool last = log.number == last_log_;
  if (continued ? !log.tail.next_sequence().has_value() : !last || log.tail.lost_synced_records()) {
    return absl::DataLossError(absl::StrCat(
        "write-ahead log ", log.path, " is damaged after byte ", log.tail.whole_bytes(),
        ", and later records show that the damaged part had been "
        "acknowledged"));
  }
  return Cut(log.path, log.tail.whole_bytes(), /*perhaps_acknowledged=*/!continued);
}

absl::Status StartCheck::Cut(const std::string& path, uint64_t bytes, bool perhaps_acknowledged) {
  uint64_t size = 0;
  const rocksdb::Status status = env_->GetFileSize(path, &size);
  if (!status.ok()) return FromRocksDb(status, absl::StrCat("get the size of ", path));
  trims_.push_back({.path = path,
                    .bytes = bytes,
                    .dropped = size - bytes,
                    .perhaps_acknowledged = perhaps_acknowledged});
  return absl::OkStatus();
}

absl::Status StartCheck::CheckEnd(uint64_t durable_sequence) const {
  const ManifestState& state = manifest_.state();
  // A flush begins a new log first. Its number is greater than that of the manifest, unless the
  // manifest is newer; then it may be the number of a log that a start replayed.
  std::vector<uint64_t> needed = {state.first_log()};
  for (const auto& [family, log] : state.family_logs) needed.push_back(log);
  for (const uint64_t number : needed) {
    if (number < state.first_log() || number <= manifest_number_) continue;
    const bool found = std::any_of(logs_.begin(), logs_.end(),
                                   [number](const Log& log) { return log.number == number; });
    if (!found) {
      return absl::DataLossError(absl::StrCat("write-ahead log ", LogPath(number),
                                              " is missing: it was durable before ", manifest_path_,
                                              " began to need it"));
    }
  }
  const std::string last = logs_.empty() ? LogPath(last_log_) : logs_.back().path;
  if (last_sequence_ < state.last_sequence) {
    return absl::DataLossError(absl::StrCat("write-ahead log ", last, " ends at sequence ",
                                            last_sequence_, ", but the tables in ", manifest_path_,
                                            " go on to ", state.last_sequence));
  }
  if (last_sequence_ < durable_sequence) {
    return absl::DataLossError(absl::StrCat(
        "database ", db_path_, " ends at sequence ", last_sequence_, ", but ", durable_sequence,
        " was durable: a write-ahead log was deleted or cut "
        "short, or an old copy was put in place (the last log is ",
        last, ")"));
  }
  return absl::OkStatus();
}

}  // namespace duetime::storage
