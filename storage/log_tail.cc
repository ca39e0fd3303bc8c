// SPDX-License-Identifier: Apache-2.0
#include "storage/log_tail.h"

#include <algorithm>
#include <cstddef>

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

// The head of a fragment: checksum u32, length u16, type u8.
constexpr size_t kFragmentHeadBytes = 7;
enum FragmentType : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// The head of a write: sequence u64, records u32, then the first entry, which is the mark: tag,
// length, bytes.
constexpr size_t kRecordsAt = 8;
constexpr size_t kEntriesAt = 12;
constexpr char kLogDataTag = 3;
constexpr size_t kMarkBytes = 16;
constexpr size_t kWriteHeadBytes = kEntriesAt + 2 + kMarkBytes;

// CRC-32C with tables for eight bytes at a time.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

constexpr CrcTables MakeCrcTables() {
  CrcTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    tables[0][byte] = crc;
  }
  for (size_t table = 1; table < tables.size(); ++table) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr CrcTables kCrcTables = MakeCrcTables();

uint32_t Crc32c(absl::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    const uint64_t word = LoadLittleEndian<uint64_t>(bytes.data()) ^ crc;
    crc = 0;
    for (size_t i = 0; i < 8; ++i) crc ^= kCrcTables[7 - i][(word >> (8 * i)) & 0xff];
  }
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~crc;
}

// RocksDB stores checksums masked, because files may contain checksums as data.
uint32_t Unmask(uint32_t masked) {
  const uint32_t rotated = masked - 0xa282ead8u;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace

struct LogTail::Fragment {
  uint8_t type = 0;
  absl::string_view body;

  bool begins_write() const { return type == kFull || type == kFirst; }
  bool ends_write() const { return type == kFull || type == kLast; }
};

std::array<char, 16> EncodeLogMark(const LogMark& mark) {
  std::array<char, kMarkBytes> bytes{};
  StoreLittleEndian(mark.log_begin, &bytes[0]);
  StoreLittleEndian(mark.synced, &bytes[8]);
  return bytes;
}

std::optional<LogTail::Fragment> LogTail::NextFragment(absl::string_view* block) {
  const size_t length = LoadLittleEndian<uint16_t>(block->data() + 4);
  const uint8_t type = static_cast<uint8_t>((*block)[6]);
  if (type < kFull || type > kLast) return std::nullopt;
  if (kFragmentHeadBytes + length > block->size()) return std::nullopt;
  // The checksum covers the type and the body.
  const uint32_t checksum = Unmask(LoadLittleEndian<uint32_t>(block->data()));
  if (Crc32c(block->substr(6, 1 + length)) != checksum) return std::nullopt;
  const Fragment fragment{type, block->substr(kFragmentHeadBytes, length)};
  block->remove_prefix(kFragmentHeadBytes + length);
  return fragment;
}

void LogTail::AddBlock(absl::string_view block) {
  const uint64_t block_end = block_begin_ + block.size();
  const bool last = block.size() < kBlockBytes;
  // A remainder shorter than a head is padding.
  while (block.size() >= kFragmentHeadBytes) {
    const std::optional<Fragment> fragment = NextFragment(&block);
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

void LogTail::AddFragment(const Fragment& fragment, uint64_t end) {
  if (fragment.begins_write() == in_write_) broken_ = true;  // A fragment is missing.
  if (fragment.begins_write()) {
    in_write_ = true;
    head_.clear();
  }
  if (!in_write_) return;
  // The first fragment can be short, even empty, at the end of a block.
  const absl::string_view head = fragment.body.substr(0, kWriteHeadBytes - head_.size());
  head_.append(head.data(), head.size());
  if (fragment.ends_write()) {
    in_write_ = false;
    if (head_.size() < kEntriesAt) broken_ = true;
  }
  if (broken_) {
    // After the gap, the beginning of a write is enough, even if its end is missing.
    if (fragment.ends_write() || head_.size() == kWriteHeadBytes) NoteWriteBehindGap();
    return;
  }
  if (!fragment.ends_write()) return;
  whole_bytes_ = end;
  next_sequence_ =
      LoadLittleEndian<uint64_t>(head_.data()) + LoadLittleEndian<uint32_t>(&head_[kRecordsAt]);
}

void LogTail::NoteWriteBehindGap() {
  LogMark mark{0, ~uint64_t{0}};  // A write without a mark counts as synced up to any number.
  if (head_.size() == kWriteHeadBytes && head_[kEntriesAt] == kLogDataTag &&
      head_[kEntriesAt + 1] == static_cast<char>(kMarkBytes)) {
    const char* bytes = &head_[kEntriesAt + 2];
    mark = {LoadLittleEndian<uint64_t>(bytes), LoadLittleEndian<uint64_t>(bytes + 8)};
  }
  if (!behind_.has_value() || mark.synced > behind_->synced) behind_ = mark;
}

bool LogTail::lost_synced_records() const {
  if (!behind_.has_value()) return false;
  return behind_->synced >= next_sequence_.value_or(behind_->log_begin);
}

}  // namespace duetime::storage
