// SPDX-License-Identifier: Apache-2.0
#include "storage/value_codec.h"

#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kPlaceValueBytes = 24;
// version u8, flags u8, attempts u32, bytes u32, due_ms u64
constexpr uint8_t kBacklogEntryVersion = 2;
constexpr size_t kBacklogEntryBytes = 18;
constexpr uint8_t kMaybeDelivered = 1;

// version u8, state u8, flags u8, attempts u32, retry_ms u64, reason u8; with kSpared: spared u32
constexpr size_t kProgressBytes = 16;
constexpr size_t kSparedProgressBytes = kProgressBytes + 4;
constexpr uint8_t kProgressVersion = 1;
constexpr uint8_t kListed = 1;
constexpr uint8_t kSpared = 2;

// claim_ms u64; after a clean stop also until_ms u64, epoch u64
constexpr size_t kReturnedClaimBytes = 24;

}  // namespace

absl::Status Undecodable(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the store holds ", what, " that cannot be decoded"));
}

std::string EncodeNumber(uint64_t value) {
  std::string bytes(sizeof(value), '\0');
  StoreLittleEndian(value, bytes.data());
  return bytes;
}

std::optional<uint64_t> DecodeNumber(absl::string_view bytes) {
  if (bytes.size() != sizeof(uint64_t)) return std::nullopt;
  return LoadLittleEndian<uint64_t>(bytes.data());
}

std::string EncodeClaim(uint64_t claim_ms, const std::optional<ClaimReturn>& claim_return) {
  std::string bytes = EncodeNumber(claim_ms);
  if (!claim_return.has_value()) return bytes;
  bytes += EncodeNumber(claim_return->until_ms);
  bytes += EncodeNumber(claim_return->epoch);
  return bytes;
}

std::optional<ClaimValue> DecodeClaim(absl::string_view bytes) {
  if (bytes.size() != sizeof(uint64_t) && bytes.size() != kReturnedClaimBytes) return std::nullopt;
  ClaimValue value(LoadLittleEndian<uint64_t>(bytes.data()), std::nullopt);
  if (bytes.size() == kReturnedClaimBytes) {
    value.second = ClaimReturn{.until_ms = LoadLittleEndian<uint64_t>(&bytes[8]),
                               .epoch = LoadLittleEndian<uint64_t>(&bytes[16])};
  }
  return value;
}

std::string EncodePlace(const MessageKey& key) {
  std::string bytes(kPlaceValueBytes, '\0');
  StoreBigEndian(key.due_ms, &bytes[0]);
  StoreBigEndian(key.id.high, &bytes[8]);
  StoreBigEndian(key.id.low, &bytes[16]);
  return bytes;
}

std::optional<MessageKey> DecodePlace(absl::string_view bytes) {
  if (bytes.size() != kPlaceValueBytes) return std::nullopt;
  return MessageKey{
      LoadBigEndian<uint64_t>(&bytes[0]),
      MessageId{LoadBigEndian<uint64_t>(&bytes[8]), LoadBigEndian<uint64_t>(&bytes[16])}};
}

std::array<char, 16> EncodeCountDelta(const CountDelta& delta) {
  std::array<char, 16> bytes{};
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
  StoreLittleEndian(entry.due_ms, &bytes[10]);
  return bytes;
}

std::optional<BacklogEntry> DecodeBacklogEntry(absl::string_view bytes) {
  if (bytes.size() != kBacklogEntryBytes) return std::nullopt;
  if (static_cast<uint8_t>(bytes[0]) != kBacklogEntryVersion) return std::nullopt;
  const uint8_t flags = static_cast<uint8_t>(bytes[1]);
  if ((flags & ~kMaybeDelivered) != 0) return std::nullopt;
  return BacklogEntry{.attempts = LoadLittleEndian<uint32_t>(&bytes[2]),
                      .bytes = LoadLittleEndian<uint32_t>(&bytes[6]),
                      .maybe_delivered = flags != 0,
                      .due_ms = LoadLittleEndian<uint64_t>(&bytes[10])};
}

// offset, epoch, groups, groups_before_epoch, log: u64 each
std::string EncodeLogPlace(const LogPlace& place) {
  return EncodeNumber(place.offset) + EncodeNumber(place.epoch) + EncodeNumber(place.groups) +
         EncodeNumber(place.groups_before_epoch) + EncodeNumber(place.log);
}

std::optional<LogPlace> DecodeLogPlace(absl::string_view bytes) {
  if (bytes.size() != sizeof(LogPlace)) return std::nullopt;
  return LogPlace{.offset = LoadLittleEndian<uint64_t>(&bytes[0]),
                  .epoch = LoadLittleEndian<uint64_t>(&bytes[8]),
                  .groups = LoadLittleEndian<uint64_t>(&bytes[16]),
                  .groups_before_epoch = LoadLittleEndian<uint64_t>(&bytes[24]),
                  .log = LoadLittleEndian<uint64_t>(&bytes[32])};
}

std::string EncodeProgress(const Progress& progress) {
  const bool spared = progress.spared != 0;
  std::string bytes(spared ? kSparedProgressBytes : kProgressBytes, '\0');
  bytes[0] = static_cast<char>(kProgressVersion);
  bytes[1] = static_cast<char>(progress.state);
  bytes[2] = static_cast<char>((progress.listed ? kListed : 0) | (spared ? kSpared : 0));
  StoreLittleEndian(progress.attempts, &bytes[3]);
  StoreLittleEndian(progress.retry_ms, &bytes[7]);
  bytes[15] = static_cast<char>(progress.reason);
  if (spared) StoreLittleEndian(progress.spared, &bytes[kProgressBytes]);
  return bytes;
}

std::optional<Progress> DecodeProgress(absl::string_view bytes) {
  if (bytes.size() != kProgressBytes && bytes.size() != kSparedProgressBytes) return std::nullopt;
  const auto state = Progress::State{static_cast<uint8_t>(bytes[1])};
  const uint8_t flags = static_cast<uint8_t>(bytes[2]);
  if (static_cast<uint8_t>(bytes[0]) != kProgressVersion ||
      (state != Progress::State::kSettled && state != Progress::State::kFailed) ||
      (flags & ~(kListed | kSpared)) != 0) {
    return std::nullopt;
  }
  const bool spares = (flags & kSpared) != 0;
  if (spares != (bytes.size() == kSparedProgressBytes)) return std::nullopt;
  const auto attempts = LoadLittleEndian<uint32_t>(&bytes[3]);
  const uint32_t spared = spares ? LoadLittleEndian<uint32_t>(&bytes[kProgressBytes]) : 0;
  if ((spares && spared == 0) || spared > 2 * uint64_t{attempts}) return std::nullopt;
  return Progress{.state = state,
                  .listed = (flags & kListed) != 0,
                  .attempts = attempts,
                  .spared = spared,
                  .retry_ms = LoadLittleEndian<uint64_t>(&bytes[7]),
                  .reason = static_cast<uint8_t>(bytes[15])};
}

}  // namespace duetime::storage
