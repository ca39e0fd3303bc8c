// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/log_tail.h"

#include <algorithm>
#include <cstddef>

#include "storage/byte_order.h"
#include "storage/rocksdb/log_fragment.h"

namespace duetime::storage {
namespace {

// The head of a write: sequence u64, records u32, then the first entry, which is the mark: tag,
// length, bytes.
constexpr size_t kRecordsAt = 8;
constexpr size_t kEntriesAt = 12;
constexpr char kLogDataTag = 3;
constexpr size_t kMarkBytes = 24;
constexpr size_t kMarkAt = kEntriesAt + 2;
constexpr size_t kWriteHeadBytes = kMarkAt + kMarkBytes;

// The mark of a write with this head; nullopt if it has none.
std::optional<LogMark> MarkOf(absl::string_view head) {
  if (head.size() < kWriteHeadBytes || head[kEntriesAt] != kLogDataTag ||
      static_cast<unsigned char>(head[kEntriesAt + 1]) != kMarkBytes) {
    return std::nullopt;
  }
  const char* mark = &head[kMarkAt];
  return LogMark{.log_begin = LoadLittleEndian<uint64_t>(mark),
                 .synced = LoadLittleEndian<uint64_t>(mark + 8),
                 .previous_log = LoadLittleEndian<uint64_t>(mark + 16)};
}

}  // namespace

std::array<char, kMarkBytes> EncodeLogMark(const LogMark& mark) {
  std::array<char, kMarkBytes> bytes{};
  StoreLittleEndian(mark.log_begin, &bytes[0]);
  StoreLittleEndian(mark.synced, &bytes[8]);
  StoreLittleEndian(mark.previous_log, &bytes[16]);
  return bytes;
}

void LogTail::AddBlock(absl::string_view block) {
  const uint64_t block_end = block_begin_ + block.size();
  const bool last = block.size() < kLogBlockBytes;
  // A remainder shorter than a head is padding.
  while (block.size() >= LogFragment::kHeadBytes) {
    const std::optional<LogFragment> fragment = NextLogFragment(&block);
    if (!fragment.has_value()) {
      // The writes that follow decide whether the gap is harmless, so try every offset.
      broken_ = true;
      in_write_ = false;
      block.remove_prefix(1);
      continue;
    }
    AddFragment(*fragment, block_end - block.size());
  }
  // The end of the file cuts off a head.
  if (last && !block.empty()) broken_ = true;
  block_begin_ = block_end;
}

void LogTail::AddFragment(const LogFragment& fragment, uint64_t end) {
  if (fragment.begins_record() == in_write_) broken_ = true;  // A fragment is missing.
  if (fragment.begins_record()) {
    in_write_ = true;
    head_.clear();
  }
  if (!in_write_) return;
  // The first fragment can be short, even empty, at the end of a block.
  const absl::string_view head = fragment.body.substr(0, kWriteHeadBytes - head_.size());
  head_.append(head.data(), head.size());
  if (fragment.ends_record()) {
    in_write_ = false;
    if (head_.size() < kEntriesAt) broken_ = true;
  }
  if (!broken_ && fragment.ends_record()) NoteWrite(end);
  // After the gap, the beginning of a write is enough, even if its end is missing.
  if (broken_ && (fragment.ends_record() || head_.size() == kWriteHeadBytes)) NoteWriteBehindGap();
}

void LogTail::NoteWrite(uint64_t end) {
  const auto sequence = LoadLittleEndian<uint64_t>(head_.data());
  // A valid write that does not continue the one before it came here by another way than a write:
  // for example an older copy of the file was appended to it. RocksDB would abort the process.
  if (sequence != next_sequence_.value_or(sequence)) {
    broken_ = true;
    return;
  }
  whole_bytes_ = end;
  next_sequence_ = sequence + LoadLittleEndian<uint32_t>(&head_[kRecordsAt]);
  if (!first_sequence_.has_value()) first_sequence_ = sequence;
  // If RocksDB switched the log within a write, its first mark is that of the log before.
  const std::optional<LogMark> mark = MarkOf(head_);
  if (!previous_log_.has_value() && mark.has_value() && mark->log_begin == first_sequence_) {
    previous_log_ = mark->previous_log;
  }
}

void LogTail::NoteWriteBehindGap() {
  // A write without a mark counts as synced up to any number.
  const LogMark mark =
      MarkOf(head_).value_or(LogMark{.log_begin = 0, .synced = ~uint64_t{0}, .previous_log = 0});
  if (!behind_.has_value() || mark.synced > behind_->synced) behind_ = mark;
}

bool LogTail::lost_synced_records() const {
  if (!behind_.has_value()) return false;
  return behind_->synced >= next_sequence_.value_or(behind_->log_begin);
}

}  // namespace duetime::storage
