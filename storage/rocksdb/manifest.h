// SPDX-License-Identifier: Apache-2.0
//
// Reads a RocksDB manifest before RocksDB does, to learn which files the database needs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"

#include "storage/rocksdb/log_fragment.h"

namespace duetime::storage {

// Where a live table belongs, and the least and the greatest key that it may hold.
struct ManifestTable {
  uint32_t family = 0;
  uint32_t level = 0;
  std::string first;
  std::string last;
};

// What the records of a manifest add up to.
struct ManifestState {
  // Every record up to this sequence number that RocksDB moved out of the logs is in a table. A
  // table of one column family can be ahead of the tables of another.
  uint64_t last_sequence = 0;
  // The number of every file is less than this.
  uint64_t next_file = 0;
  // Logs below this number are not needed, as the manifest says in so many words.
  uint64_t log_to_keep = 0;
  // For each column family: logs below this number are not needed for it.
  std::map<uint32_t, uint64_t> family_logs;
  // The size of each live table, by its number.
  std::map<uint64_t, uint64_t> tables;
  std::map<uint64_t, ManifestTable> table_places;
  // The names of the column families by their numbers, without the first one, which every database
  // has.
  std::map<uint32_t, std::string> family_names;

  // The database needs no log below this number.
  uint64_t first_log() const;
};

// Reads a manifest block by block, up to the end of the last whole record before any damage.
//
// RocksDB believes a manifest that was cut short at the end of a record, and skips a part that is
// zero. Both may be harmless, because an unsynced end may be lost: then every log that the shorter
// manifest needs still exists. StartCheck decides that. Format: RocksDB's "MANIFEST" and
// VersionEdit.
//
// Thread safety: confined.
class ManifestReader {
 public:
  // Reads the next block. REQUIRES: every block but the last has kLogBlockBytes.
  void AddBlock(absl::string_view block);

  // True if the file does not end with a whole record.
  bool broken() const { return broken_ || in_record_; }
  // True if a record has a right checksum and a content that this program does not know.
  bool unknown() const { return unknown_; }
  // The end of the last whole record.
  uint64_t whole_bytes() const { return whole_bytes_; }
  // The sum of the whole records.
  const ManifestState& state() const { return state_; }

 private:
  void AddFragment(const LogFragment& fragment, uint64_t end);

  // Offset of the next block.
  uint64_t block_begin_ = 0;
  bool broken_ = false;
  bool unknown_ = false;
  // True between the first and the last fragment of a record.
  bool in_record_ = false;
  std::string record_;
  uint64_t whole_bytes_ = 0;
  ManifestState state_;
};

// Records for a manifest. With them --repair describes to RocksDB the files that are left.
//
// The first record of a manifest, and the one that names a family other than 0, the default.
std::string FirstEdit();
std::string FamilyEdit(uint32_t family, absl::string_view name);
// Removes a table.
std::string TableLostEdit(uint64_t number, const ManifestTable& place);
// Adds a table of any keys at level 0. `sequence` orders the tables of that level.
std::string TableFoundEdit(uint32_t family, uint64_t number, uint64_t bytes, uint64_t sequence);
std::string LastEdit(uint64_t next_file, uint64_t last_sequence);

}  // namespace duetime::storage
