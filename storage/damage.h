// SPDX-License-Identifier: Apache-2.0
//
// Damage: what of the tables on disk cannot be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/mutex.h"

namespace duetime::storage {

// A block of a table file whose checksum is wrong. It concerns the keys from `first` to `last` of
// one column family. For another key of the family it has no meaning.
//
// When the list is full, a whole table stands for its further damaged blocks.
struct DamagedBlock {
  // The name of the file within db/, and where the block begins in it; 0 for a whole table.
  std::string file;
  uint64_t offset = 0;
  bool whole_table = false;
  std::string family;
  // The least and the greatest key that may lie in the block, as bytes and for people.
  std::string first;
  std::string last;
  std::string first_text;
  std::string last_text;
};

// What was found damaged since the store was opened.
struct DamageReport {
  // In the order in which they were found.
  std::vector<DamagedBlock> blocks;
  // Blocks that found no place in `blocks`.
  uint64_t unlisted = 0;
  // The families whose compactions are stopped, because a damaged block made one fail.
  std::vector<std::string> stopped_families;
};

// Names the block, or the table, in a sentence.
std::string PlaceText(const DamagedBlock& block);

// The error of a read that needs a damaged block: DATA_LOSS CHECKSUM_MISMATCH, with the block in
// the metadata. The error concerns the read alone: other reads, and writes, go on.
absl::Status DamageError(const DamagedBlock& block);

// True if `status` is a DamageError. Any other error of a read means that the store cannot be used.
bool IsDamage(const absl::Status& status);

// Collects a DamageReport. Thread-safe.
class DamageList {
 public:
  // Bounds the memory: at most about 1 MB, and 1 KB for each damaged table.
  static constexpr size_t kBlocksMax = 1000;

  // REQUIRES: blocks_max > 0.
  explicit DamageList(size_t blocks_max = kBlocksMax) : blocks_max_(blocks_max) {}

  // True if the block is new. A full list accepts only whole tables.
  bool Add(const DamagedBlock& block);
  // The block, or the whole table.
  std::optional<DamagedBlock> Find(absl::string_view file, uint64_t offset) const;
  bool full() const;
  // The number of blocks of the family, and of those that found no place.
  uint64_t CountOf(absl::string_view family) const;
  // True if a whole table of the family is listed.
  bool TableOf(absl::string_view family) const;
  // True if the compactions of the family were not stopped before.
  bool Stop(absl::string_view family);
  DamageReport report() const;

 private:
  const size_t blocks_max_;
  mutable base::Mutex mutex_;
  DamageReport report_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::storage
