// SPDX-License-Identifier: Apache-2.0
//
// Reads a RocksDB write-ahead log file before RocksDB does, to tell a torn end from damage.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// What every write begins with, for LogTail. In the log only; the database does not keep it.
struct LogMark {
  // The sequence number of the first record of this log.
  uint64_t log_begin = 0;
  // The sequence number up to which everything was synced when the write was made.
  uint64_t synced = 0;
};

std::array<char, 16> EncodeLogMark(const LogMark& mark);

// Follows a log file from its beginning, block by block, and remembers where its unbroken part ends
// and what comes after.
//
// A disk that loses power in the middle of a large write may have stored its later pages and not
// the earlier ones. To RocksDB this looks like damage, and it refuses. It is harmless if nothing
// behind the gap was written after the gap had been synced: then nobody was told that the missing
// records are safe, and the log may end at the gap. Each write carries what it takes to know that.
// Format: RocksDB's "Write Ahead Log File Format", without recycling and compression.
//
// Thread safety: confined.
class LogTail {
 public:
  static constexpr size_t kBlockBytes = 32768;

  // Takes the next block. REQUIRES: every block but the last has kBlockBytes.
  void AddBlock(absl::string_view block);

  // True if the file does not end with a whole write.
  bool broken() const { return broken_ || in_write_; }
  // Where the last whole write of the unbroken part ends.
  uint64_t whole_bytes() const { return whole_bytes_; }
  // True if something that was synced lies in the gap, or may. REQUIRES: broken().
  bool lost_synced_records() const;

 private:
  struct Fragment;

  // Takes the next piece of a write from the block; nothing if it is damaged.
  static std::optional<Fragment> NextFragment(absl::string_view* block);
  void AddFragment(const Fragment& fragment, uint64_t end);
  void NoteWriteBehindGap();

  // Where the block that comes next begins.
  uint64_t block_begin_ = 0;
  bool broken_ = false;
  // Between the first and the last fragment of a write, and what it begins with.
  bool in_write_ = false;
  std::string head_;
  uint64_t whole_bytes_ = 0;
  // The sequence number after the last whole write of the unbroken part; nothing if there is none.
  std::optional<uint64_t> next_sequence_;
  // Of the writes behind the gap, with the greatest `synced`.
  std::optional<LogMark> behind_;
};

}  // namespace duetime::storage
