// SPDX-License-Identifier: Apache-2.0
//
// Takes the readable writes out of damaged write-ahead logs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "storage/rocksdb/log_fragment.h"

namespace duetime::storage {

// Reads logs block by block, in the order of their numbers, and passes on each whole write. Goes on
// behind damage, and lists the sequence numbers that are missing. Leaves out a write whose sequence
// number is not greater than all before it: for example an older copy of the file was appended, and
// RocksDB would abort the process.
//
// Thread safety: confined.
class LogSalvage {
 public:
  // The first and the last of a run of sequence numbers.
  using Gap = std::pair<uint64_t, uint64_t>;

  // The tables hold all records up to `covered`; nullopt if that is not known.
  LogSalvage(std::optional<uint64_t> covered, std::function<void(absl::string_view)> take)
      : covered_(covered), take_(std::move(take)) {}

  void BeginLog();
  // Reads the next block of the log. REQUIRES: every block but the last has kLogBlockBytes.
  void AddBlock(absl::string_view block);
  // Call after the last log. Everything up to `durable` was synced.
  void Finish(uint64_t durable);

  // The first gaps, at most kGapsMax.
  const std::vector<Gap>& gaps() const { return gaps_; }
  // How many sequence numbers are missing. Each is one change of one record.
  uint64_t missing() const { return missing_; }
  // The greatest sequence number that was found; 0 if there is none.
  uint64_t last_sequence() const { return last_.value_or(covered_.value_or(0)); }

 private:
  static constexpr size_t kGapsMax = 100;

  void AddFragment(const LogFragment& fragment);
  void NoteWrite();
  void NoteGap(uint64_t first, uint64_t last);

  const std::optional<uint64_t> covered_;
  const std::function<void(absl::string_view)> take_;
  std::optional<uint64_t> last_;
  // True between the first and the last fragment of a write.
  bool in_write_ = false;
  std::string write_;
  std::vector<Gap> gaps_;
  uint64_t missing_ = 0;
};

}  // namespace duetime::storage
