// SPDX-License-Identifier: Apache-2.0
#include "storage/value_codec.h"

#include "absl/strings/str_cat.h"

#include "storage/attempts.h"
#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kPlaceValueBytes = 24;
// version u8, flags u8, attempts u32, bytes u32, due_ms u64
constexpr uint8_t kBacklogEntryVersion = 2;
constexpr size_t kBacklogEntryBytes = 18;
constexpr uint8_t kMaybeDelivered = 1;

// version u8, state u8, flags u8, attempts u32, retry_ms u64, reason u8; with kProgressSpared:
// spared u32; with kProgressLettered: the id of a dead letter; with kProgressAttempts: the last
// attempts, to the end
constexpr size_t kProgressBytes = 16;
constexpr size_t kProgressSparedBytes = 4;
constexpr size_t kProgressIdBytes = 16;
constexpr uint8_t kProgressVersion = 1;
constexpr uint8_t kProgressListed = 1;
constexpr uint8_t kProgressSpared = 2;
constexpr uint8_t kProgressLettered = 4;
constexpr uint8_t kProgressAttempts = 8;

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

bool IsSound(const Progress& progress) {
  const bool failed = progress.state == Progress::State::kFailed;
  if (!failed && progress.state != Progress::State::kSettled) return false;
  if (progress.spared > 2 * uint64_t{progress.attempts}) return false;
  if (failed && progress.dead_letter != MessageId{}) return false;
  if (progress.last_attempts.empty()) return true;
  const auto attempts = DecodeAttempts(progress.last_attempts);
  return failed && attempts.has_value() && attempts->back().number <= progress.attempts;
}

std::string EncodeProgress(const Progress& progress) {
  const bool spared = progress.spared != 0;
  const bool lettered = progress.dead_letter != MessageId{};
  const bool attempts = !progress.last_attempts.empty();
  std::string bytes(kProgressBytes, '\0');
  bytes[0] = static_cast<char>(kProgressVersion);
  bytes[1] = static_cast<char>(progress.state);
  bytes[2] =
      static_cast<char>((progress.listed ? kProgressListed : 0) | (spared ? kProgressSpared : 0) |
                        (lettered ? kProgressLettered : 0) | (attempts ? kProgressAttempts : 0));
  StoreLittleEndian(progress.attempts, &bytes[3]);
  StoreLittleEndian(progress.retry_ms, &bytes[7]);
  bytes[15] = static_cast<char>(progress.reason);
  if (spared) {
    bytes.resize(bytes.size() + kProgressSparedBytes);
    StoreLittleEndian(progress.spared, &bytes[bytes.size() - kProgressSparedBytes]);
  }
  if (lettered) {
    bytes.resize(bytes.size() + kProgressIdBytes);
    StoreBigEndian(progress.dead_letter.high, &bytes[bytes.size() - kProgressIdBytes]);
    StoreBigEndian(progress.dead_letter.low, &bytes[bytes.size() - kProgressIdBytes / 2]);
  }
  return bytes + progress.last_attempts;
}

std::optional<Progress> DecodeProgress(absl::string_view bytes) {
  if (bytes.size() < kProgressBytes) return std::nullopt;
  const auto state = Progress::State{static_cast<uint8_t>(bytes[1])};
  const uint8_t flags = static_cast<uint8_t>(bytes[2]);
  if (static_cast<uint8_t>(bytes[0]) != kProgressVersion ||
      (flags & ~(kProgressListed | kProgressSpared | kProgressLettered | kProgressAttempts)) != 0) {
    return std::nullopt;
  }
  Progress progress{.state = state,
                    .listed = (flags & kProgressListed) != 0,
                    .attempts = LoadLittleEndian<uint32_t>(&bytes[3]),
                    .retry_ms = LoadLittleEndian<uint64_t>(&bytes[7]),
                    .reason = static_cast<uint8_t>(bytes[15])};
  bytes.remove_prefix(kProgressBytes);
  if ((flags & kProgressSpared) != 0) {
    if (bytes.size() < kProgressSparedBytes) return std::nullopt;
    progress.spared = LoadLittleEndian<uint32_t>(bytes.data());
    if (progress.spared == 0) return std::nullopt;
    bytes.remove_prefix(kProgressSparedBytes);
  }
  if ((flags & kProgressLettered) != 0) {
    if (bytes.size() < kProgressIdBytes) return std::nullopt;
    progress.dead_letter = {.high = LoadBigEndian<uint64_t>(bytes.data()),
                            .low = LoadBigEndian<uint64_t>(&bytes[kProgressIdBytes / 2])};
    if (progress.dead_letter == MessageId{}) return std::nullopt;
    bytes.remove_prefix(kProgressIdBytes);
  }
  if (((flags & kProgressAttempts) != 0) == bytes.empty()) return std::nullopt;
  progress.last_attempts = std::string(bytes);
  if (!IsSound(progress)) return std::nullopt;
  return progress;
}

}  // namespace duetime::storage
