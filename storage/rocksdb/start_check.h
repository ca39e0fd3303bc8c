// SPDX-License-Identifier: Apache-2.0
//
// Proves from the files of a database, before RocksDB opens them, that no acknowledged record that
// the witness covers is missing, and none before the end of the last log.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <rocksdb/env.h>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/rocksdb/log_tail.h"
#include "storage/rocksdb/manifest.h"

namespace duetime::storage {

// Reads a manifest or a log, and passes each of its blocks (kLogBlockBytes) to `add`. INTERNAL if
// the file cannot be read.
absl::Status ReadBlocks(rocksdb::Env* env, const std::string& path,
                        const std::function<void(absl::string_view)>& add);

// RocksDB opens what it finds: without an error it believes a manifest that was cut short, skips a
// log that was deleted, and drops the end of a log. StartCheck requires that the records continue
// without a gap: from the tables that the manifest names, through every log that is still needed,
// to the record that the witness knows. FORMAT.md ("Continuity") lists the rules and the reasons.
//
// Thread safety: confined.
class StartCheck {
 public:
  // A file with a torn or damaged end, which would make RocksDB refuse it.
  struct Trim {
    std::string path;
    // The size of the part before, and how much follows.
    uint64_t bytes = 0;
    uint64_t dropped = 0;
    // True at the end of the last log. Nothing tells what a power cut tore, which was never
    // acknowledged, from what was damaged after its acknowledgement. False: no acknowledged record
    // needs the end.
    bool perhaps_acknowledged = false;

    // "the last 20 bytes of FILE, from byte 4096 on, which ...", with what they may hold.
    // `witness_ms`: Witness::WrittenMs().
    std::string Text(uint64_t witness_ms) const;
  };

  // `families_exist`: the database was completely created, with every column family.
  StartCheck(rocksdb::Env* env, std::string db_path, bool families_exist);

  // Checks the files and changes none. DATA_LOSS names the file that is missing, cut short or
  // damaged, if acknowledged records are missing or may be; of the end of the last log, trims()
  // says that they may be. INTERNAL if a file cannot be read. REQUIRES: every record up to
  // `durable_sequence` was synced. Called once.
  absl::Status Run(uint64_t durable_sequence);

  // The four below REQUIRE that Run() returned OK.

  // The files that must be cut before RocksDB opens the database.
  const std::vector<Trim>& trims() const { return trims_; }
  // The size of each table of the database, by its number.
  const std::map<uint64_t, uint64_t>& tables() const { return manifest_.state().tables; }
  // The sequence number of the last record.
  uint64_t last_sequence() const { return last_sequence_; }
  // The greatest number of a log file; 0 if there is none.
  uint64_t last_log() const { return last_log_; }

 private:
  struct Log {
    uint64_t number = 0;
    std::string path;
    LogTail tail;
  };

  std::string LogPath(uint64_t number) const;

  // The steps of Run, in order.
  absl::Status ReadManifest();
  absl::Status CheckFamilies() const;
  absl::Status CheckTables() const;
  absl::Status ReadLogs();
  absl::Status CheckLogs();
  absl::Status CheckEnd(uint64_t durable_sequence) const;

  absl::Status CheckFirstLog(const Log& log) const;
  absl::Status CheckGap(const Log& log);
  absl::Status Cut(const std::string& path, uint64_t bytes, bool perhaps_acknowledged);

  rocksdb::Env* const env_;
  const std::string db_path_;
  const bool families_exist_;

  std::string manifest_path_;
  uint64_t manifest_number_ = 0;
  ManifestReader manifest_;
  // The logs that the database needs, in the order of their numbers.
  std::vector<Log> logs_;
  uint64_t last_log_ = 0;
  uint64_t last_sequence_ = 0;
  std::vector<Trim> trims_;
};

}  // namespace duetime::storage
