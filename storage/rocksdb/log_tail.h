// SPDX-License-Identifier: Apache-2.0
//
// Reads a RocksDB write-ahead log before RocksDB does, to tell a torn end from damage.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "storage/rocksdb/log_fragment.h"

namespace duetime::storage {

// The mark with which every write begins. It exists in the log only; the database does not store
// it.
struct LogMark {
  // The sequence number of the first record of this log.
  uint64_t log_begin = 0;
  // The sequence number up to which everything was synced when the write began.
  uint64_t synced = 0;
  // The number of the log before this one: of the same run, or the last one that the start found. 0
  // if there was none.
  uint64_t previous_log = 0;
};

std::array<char, 24> EncodeLogMark(const LogMark& mark);

// Reads a log file block by block, finds the end of its last whole write, and examines the writes
// after the gap.
//
// A disk that loses power during a large write may have stored later pages and not earlier ones.
// RocksDB treats that as damage and refuses to open. The gap is harmless if no later write began
// after the sync of the missing part: then the server acknowledged none of the missing records, and
// the log may end at the gap. The mark in each write shows whether that is so.
//
// Thread safety: confined.
class LogTail {
 public:
  // Reads the next block. REQUIRES: every block but the last has kLogBlockBytes.
  void AddBlock(absl::string_view block);

  // True if the file does not end with a whole write.
  bool broken() const { return broken_ || in_write_; }
  // The end of the last whole write before the gap.
  uint64_t whole_bytes() const { return whole_bytes_; }
  // True if the gap contains, or may contain, synced records. REQUIRES: broken().
  bool lost_synced_records() const;

  // The sequence number of the first record; nullopt if there is no whole write before the gap.
  std::optional<uint64_t> first_sequence() const { return first_sequence_; }
  // The sequence number after the last whole write before the gap; nullopt if there is none.
  std::optional<uint64_t> next_sequence() const { return next_sequence_; }
  // LogMark::previous_log; nullopt if the log does not say.
  std::optional<uint64_t> previous_log() const { return previous_log_; }

 private:
  void AddFragment(const LogFragment& fragment, uint64_t end);
  void NoteWrite(uint64_t end);
  void NoteWriteBehindGap();

  // Offset of the next block.
  uint64_t block_begin_ = 0;
  bool broken_ = false;
  // True between the first and the last fragment of a write. `head_` holds its first bytes.
  bool in_write_ = false;
  std::string head_;
  uint64_t whole_bytes_ = 0;
  std::optional<uint64_t> first_sequence_;
  std::optional<uint64_t> next_sequence_;
  std::optional<uint64_t> previous_log_;
  // The mark with the greatest `synced` among the writes after the gap.
  std::optional<LogMark> behind_;
};

}  // namespace duetime::storage
