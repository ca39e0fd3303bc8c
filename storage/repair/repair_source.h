// SPDX-License-Identifier: Apache-2.0
//
// RepairSource: what can be read of a damaged data directory. RepairReport and RepairNames: what
// the repair collects from it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <rocksdb/db.h>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/key_codec.h"
#include "storage/message_id.h"
#include "storage/message_record.h"
#include "storage/rocksdb/file_system.h"
#include "storage/rocksdb/manifest.h"
#include "storage/rocksdb/rocksdb_source.h"
#include "storage/rocksdb/witness.h"
#include "storage/types.h"

namespace duetime::storage {

// Collects what a repair has to say. Confined to one thread.
class RepairReport {
 public:
  using Print = std::function<void(absl::string_view)>;

  // REQUIRES: `print` outlives the report.
  explicit RepairReport(const Print& print) : print_(print) {}

  void Say(absl::string_view text) { print_(text); }
  // A loss. Millions are only counted.
  void Lost(absl::string_view text) {
    ++losses_;
    if (losses_ <= kPrintedMax) print_(text);
    if (losses_ == kPrintedMax) print_("more losses are only counted");
  }
  bool lossless() const { return losses_ == 0; }

 private:
  static constexpr uint64_t kPrintedMax = 10'000;

  const Print& print_;
  uint64_t losses_ = 0;
};

// Collects what the records of a damaged store tell of topics, and gives names to topics that need
// one.
//
// A number can have had several names. If the record of its last name is lost, the record of the
// name before may be back, which can be the name of another topic by now.
//
// Guarantees: each number that a record names gets a name; no two numbers have one name. Confined
// to one thread.
class RepairNames {
 public:
  // A topic that gets a new name.
  struct Change {
    TopicId topic{};
    std::string name;
    // For the report. `loss`: the name of the topic was lost with its record, or is an old one.
    std::string text;
    bool loss = false;
  };

  // The store has this name.
  void Add(TopicId topic, absl::string_view name) { names_[Number(topic)] = std::string(name); }
  // The store has settings under this name. Settings without a topic must not apply to another one.
  void Reserve(absl::string_view name) { taken_.emplace(name); }
  // A record refers to the topic by number. If the topic had no name, a new topic could get the
  // number, and with it the records under the number.
  void Note(TopicId topic) { noted_.insert(Number(topic)); }
  // As Note, for the topic of a pending message. REQUIRES: all names are added.
  void NoteMessage(const MessageId& id, const MessageRecord& record);

  // Gives names. Of several topics with one name, at most one keeps it, by the majority of its
  // messages with keys. Such a message lies in the slot of the key and the topic's name. One
  // message is no proof: one of 16,384 lies by chance in the slot of any other name, and a loss can
  // bring back ended messages of an earlier name.
  //
  // 1. A topic with a name that does not fit the majority gives the name up.
  // 2. A topic with a name that fits the majority precedes one without messages with keys.
  // 3. If the name fits in several topics, they had it one after the other. The last one has the
  //    newest message that fits.
  // 4. Else the topic with the newest message keeps the name.
  std::vector<Change> Complete();

  // The topic's number, and its name if it has one.
  std::string TextOf(TopicId topic) const;

 private:
  // What a topic's pending messages say about its name.
  struct Evidence {
    // Of the messages with a key: those whose slot is that of the name, and the others.
    uint64_t fit = 0;
    uint64_t unfit = 0;
    MessageId newest{};
    MessageId newest_fit{};
  };

  static uint32_t Number(TopicId topic) { return static_cast<uint32_t>(topic); }
  Evidence EvidenceOf(uint32_t topic) const;
  // True if `topic` has more right to the name of both.
  bool Precedes(uint32_t topic, uint32_t other) const;
  // Gives the topic a name that no other topic and no settings have.
  const std::string& Recover(uint32_t topic);

  std::map<uint32_t, std::string> names_;
  std::set<std::string, std::less<>> taken_;
  std::set<uint32_t> noted_;
  // Of each topic with a pending message.
  std::map<uint32_t, Evidence> evidence_;
};

// Opens the readable part of a data directory, and changes nothing in it.
//
// RocksDB refuses a database if one file is missing, and believes a manifest that was cut short. So
// RocksDB gets a directory of its own, the scratch directory: symbolic links to the tables that can
// be opened, the readable writes of the logs, and a manifest that names these tables. RocksDB's own
// RepairDB would lose each column family that has no table yet, and would change the directory.
//
// If the files pass the checks of a start, the scratch directory holds what a start would use. If
// not, it holds every table and the logs from the first one that the manifest needs. A table that
// the manifest does not name is added at level 0.
//
// Confined to one thread.
class RepairSource {
 public:
  struct LostTable {
    ColumnFamily family{};
    std::string first;
    std::string last;
  };

  RepairSource(std::string data_dir, std::string scratch_dir, RepairReport* report);
  ~RepairSource();
  RepairSource(const RepairSource&) = delete;
  RepairSource& operator=(const RepairSource&) = delete;

  // Reports the tables and the changes that are missing. Errors: as RepairDirectory.
  absl::Status Open();

  // REQUIRES for all below: Open() returned OK.
  KvSource* records() const { return records_.get(); }
  // Empty if the witness cannot be read.
  const std::optional<WitnessRecord>& witness() const { return witness_; }
  // Reads a record; nullopt if it is absent or cannot be read.
  absl::StatusOr<std::optional<std::string>> Get(const StoreKey& key) const;
  // True if the key, which Get() did not find, is of a damaged block or of a lost table.
  bool InDamage(const StoreKey& key) const;
  // True if the files pass the checks of a start: no file and no change is missing.
  bool sound() const { return sound_; }
  // The bytes of the files.
  uint64_t bytes() const;

 private:
  // The steps of Open, in order.
  absl::Status ReadWitness();
  absl::Status CheckStart();
  absl::Status ReadManifest();
  absl::Status LinkTables();
  absl::Status WriteLogs();
  absl::Status WriteManifest();
  absl::Status OpenDb();

  absl::Status ReadManifestFile(const std::string& name);
  // True if the manifest describes all column families.
  bool has_manifest() const;
  std::optional<uint32_t> FamilyNumber(absl::string_view name) const;
  absl::Status LinkTable(uint64_t number);
  void LoseTable(uint64_t number, absl::string_view why);
  std::string Path(absl::string_view name) const;
  std::string ScratchPath(absl::string_view name) const;

  const std::string data_dir_;
  const std::string scratch_dir_;
  RepairReport* const report_;
  std::optional<DirectoryLock> lock_;
  std::optional<WitnessRecord> witness_;
  uint64_t witness_written_ms_ = 0;
  // The files pass the checks of a start.
  bool sound_ = false;
  // If they do: where a start would cut files, by their paths.
  std::map<std::string, uint64_t> trims_;
  // The numbers of all files in the directory, by their endings.
  std::set<uint64_t> table_files_;
  std::set<uint64_t> log_files_;
  uint64_t last_file_ = 0;

  std::string manifest_name_;
  // The readable beginning of the manifest.
  std::string manifest_bytes_;
  ManifestState manifest_;
  // Edits that follow it in the scratch directory.
  std::vector<std::string> edits_;
  uint64_t last_sequence_ = 0;
  uint64_t missing_changes_ = 0;
  std::vector<LostTable> lost_tables_;
  // There are tables that the manifest does not name.
  bool found_tables_ = false;

  std::unique_ptr<rocksdb::DB> db_;
  TableDamage::Handles handles_{};
  std::unique_ptr<RocksDbSource> records_;
};

}  // namespace duetime::storage
