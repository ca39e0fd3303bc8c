// SPDX-License-Identifier: Apache-2.0
#include "storage/value_codec.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kPlaceBytes = 24;
constexpr size_t kBacklogEntryBytes = 10;  // version u8, flags u8, attempts u32, bytes u32
constexpr uint8_t kBacklogEntryVersion = 1;
constexpr uint8_t kMaybeDelivered = 1;

}  // namespace

std::string EncodeNumber(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  StoreLittleEndian(value, bytes.data());
  return bytes;
}

std::optional<uint64_t> DecodeNumber(absl::string_view bytes) {
  if (bytes.size() != sizeof(uint64_t)) return std::nullopt;
  return LoadLittleEndian<uint64_t>(bytes.data());
}

std::string EncodePlace(const MessageKey& key) {
  std::string bytes(kPlaceBytes, '\0');
  StoreBigEndian(key.due_ms, &bytes[0]);
  StoreBigEndian(key.id.high, &bytes[8]);
  StoreBigEndian(key.id.low, &bytes[16]);
  return bytes;
}

std::optional<MessageKey> DecodePlace(absl::string_view bytes) {
  if (bytes.size() != kPlaceBytes) return std::nullopt;
  return MessageKey{
      LoadBigEndian<uint64_t>(&bytes[0]),
      MessageId{LoadBigEndian<uint64_t>(&bytes[8]), LoadBigEndian<uint64_t>(&bytes[16])}};
}

std::array<char, 16> EncodeCountDelta(const CountDelta& delta) {
  std::array<char, 16> bytes;
  StoreLittleEndian(static_cast<uint64_t>(delta.messages), &bytes[0]);
  StoreLittleEndian(static_cast<uint64_t>(delta.bytes), &bytes[8]);
  return bytes;
}

std::optional<CountDelta> DecodeCountDelta(absl::string_view bytes) {
  if (bytes.size() != 2 * sizeof(uint64_t)) return std::nullopt;
  return CountDelta{.messages = static_cast<int64_t>(LoadLittleEndian<uint64_t>(&bytes[0])),
                    .bytes = static_cast<int64_t>(LoadLittleEndian<uint64_t>(&bytes[8]))};
}

CountDelta Sum(const CountDelta& a, const CountDelta& b) {
  const auto add = [](int64_t x, int64_t y) {
    return static_cast<int64_t>(static_cast<uint64_t>(x) + static_cast<uint64_t>(y));
  };
  return {.messages = add(a.messages, b.messages), .bytes = add(a.bytes, b.bytes)};
}

std::string EncodeBacklogEntry(const BacklogEntry& entry) {
  std::string bytes(kBacklogEntryBytes, '\0');
  bytes[0] = static_cast<char>(kBacklogEntryVersion);
  bytes[1] = static_cast<char>(entry.maybe_delivered ? kMaybeDelivered : 0);
  StoreLittleEndian(entry.attempts, &bytes[2]);
  StoreLittleEndian(entry.bytes, &bytes[6]);
  return bytes;
}

std::optional<BacklogEntry> DecodeBacklogEntry(absl::string_view bytes) {
  if (bytes.size() != kBacklogEntryBytes) return std::nullopt;
  if (static_cast<uint8_t>(bytes[0]) != kBacklogEntryVersion) return std::nullopt;
  const uint8_t flags = static_cast<uint8_t>(bytes[1]);
  if ((flags & ~kMaybeDelivered) != 0) return std::nullopt;
  return BacklogEntry{.attempts = LoadLittleEndian<uint32_t>(&bytes[2]),
                      .bytes = LoadLittleEndian<uint32_t>(&bytes[6]),
                      .maybe_delivered = flags != 0};
}

}  // namespace duetime::storage
