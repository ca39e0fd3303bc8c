// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/log_fragment.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

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
uint32_t Mask(uint32_t checksum) { return ((checksum >> 15) | (checksum << 17)) + 0xa282ead8u; }

}  // namespace

std::optional<LogFragment> NextLogFragment(absl::string_view* block) {
  const size_t length = LoadLittleEndian<uint16_t>(block->data() + 4);
  const uint8_t type = static_cast<uint8_t>((*block)[6]);
  if (type < LogFragment::kFull || type > LogFragment::kLast) return std::nullopt;
  if (LogFragment::kHeadBytes + length > block->size()) return std::nullopt;
  // The checksum covers the type and the body.
  const uint32_t checksum = Unmask(LoadLittleEndian<uint32_t>(block->data()));
  if (Crc32c(block->substr(6, 1 + length)) != checksum) return std::nullopt;
  const LogFragment fragment{type, block->substr(LogFragment::kHeadBytes, length)};
  block->remove_prefix(LogFragment::kHeadBytes + length);
  return fragment;
}

void SkipLogFragment(absl::string_view* block) {
  const size_t length = LoadLittleEndian<uint16_t>(block->data() + 4);
  const uint8_t type = static_cast<uint8_t>((*block)[6]);
  const bool likely = type >= LogFragment::kFull && type <= LogFragment::kLast;
  const size_t bytes = LogFragment::kHeadBytes + length;
  block->remove_prefix(likely && bytes <= block->size() ? bytes : block->size());
}

void AppendLogRecord(absl::string_view record, uint64_t file_bytes, std::string* out) {
  const uint64_t begin = file_bytes;
  const size_t before = out->size();
  bool begins = true;
  bool ends = false;
  while (!ends) {
    const size_t left = kLogBlockBytes - (begin + out->size() - before) % kLogBlockBytes;
    if (left < LogFragment::kHeadBytes) {
      out->append(left, '\0');
      continue;
    }
    const size_t length = std::min(record.size(), left - LogFragment::kHeadBytes);
    ends = length == record.size();
    const uint8_t type = begins ? (ends ? LogFragment::kFull : LogFragment::kFirst)
                                : (ends ? LogFragment::kLast : LogFragment::kMiddle);
    std::string body(1, static_cast<char>(type));
    body.append(record.data(), length);
    std::array<char, LogFragment::kHeadBytes - 1> head{};
    StoreLittleEndian(Mask(Crc32c(body)), &head[0]);
    StoreLittleEndian(static_cast<uint16_t>(length), &head[4]);
    out->append(head.data(), head.size());
    out->append(body);
    record.remove_prefix(length);
    begins = false;
  }
}

}  // namespace duetime::storage
