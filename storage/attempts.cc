// SPDX-License-Identifier: Apache-2.0
#include "storage/attempts.h"

#include <algorithm>
#include <array>
#include <limits>

#include "storage/varint.h"

namespace duetime::storage {
namespace {

// Longer texts are cut. Names of Kubernetes pods are shorter than the first.
constexpr size_t kAttemptClientIdBytes = 64;
constexpr size_t kAttemptReasonBytes = 128;
// The reasons of earlier attempts are cut to this much, if that makes room.
constexpr size_t kOldAttemptReasonBytes = 24;
// At least the bytes of an attempt without its texts.
constexpr size_t kAttemptNumbersBytes = 40;

// Cuts within the limit, and not within a character.
absl::string_view CutText(size_t bytes_max, absl::string_view text) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<uint8_t>(text[bytes_max]) & 0xC0) == 0x80) --bytes_max;
  return text.substr(0, bytes_max);
}

void AppendAttemptText(absl::string_view text, std::string* bytes) {
  AppendVarint(text.size(), bytes);
  bytes->append(text.data(), text.size());
}

bool TakeAttemptText(size_t bytes_max, absl::string_view* bytes, absl::string_view* text) {
  const std::optional<uint64_t> size = TakeVarint(bytes);
  if (!size.has_value() || *size > bytes_max || *size > bytes->size()) return false;
  *text = bytes->substr(0, *size);
  bytes->remove_prefix(*size);
  return true;
}

// end u8, then varints: number, end_ms, held_ms, delay_ms; the two texts, each after its length.
std::string EncodeAttempts(const Attempts& attempts) {
  std::string bytes;
  size_t room = 0;
  for (const Attempt& attempt : attempts) {
    room += kAttemptNumbersBytes + attempt.client_id.size() + attempt.reason.size();
  }
  bytes.reserve(room);
  for (const Attempt& attempt : attempts) {
    bytes.push_back(static_cast<char>(attempt.end));
    for (const uint64_t number :
         {uint64_t{attempt.number}, attempt.end_ms, attempt.held_ms, attempt.delay_ms}) {
      AppendVarint(number, &bytes);
    }
    AppendAttemptText(attempt.client_id, &bytes);
    AppendAttemptText(attempt.reason, &bytes);
  }
  return bytes;
}

bool TakeAttempt(absl::string_view* bytes, Attempt* attempt) {
  attempt->end = AttemptEnd{static_cast<uint8_t>(bytes->front())};
  bytes->remove_prefix(1);
  if (attempt->end < AttemptEnd::kNacked || attempt->end > AttemptEnd::kBegunStreamEnded) {
    return false;
  }
  std::array<uint64_t, 4> numbers{};
  for (uint64_t& number : numbers) {
    const std::optional<uint64_t> taken = TakeVarint(bytes);
    if (!taken.has_value()) return false;
    number = *taken;
  }
  if (numbers[0] > std::numeric_limits<uint32_t>::max()) return false;
  attempt->number = static_cast<uint32_t>(numbers[0]);
  attempt->end_ms = numbers[1];
  attempt->held_ms = numbers[2];
  attempt->delay_ms = numbers[3];
  return TakeAttemptText(kAttemptClientIdBytes, bytes, &attempt->client_id) &&
         TakeAttemptText(kAttemptReasonBytes, bytes, &attempt->reason);
}

}  // namespace

std::string AddAttempt(absl::string_view last_attempts, const Attempt& attempt) {
  Attempts attempts = DecodeAttempts(last_attempts).value_or(Attempts());
  // After a repair, a record may be of a message that has been delivered less often since.
  const auto later = [&](const Attempt& one) { return one.number >= attempt.number; };
  attempts.erase(std::find_if(attempts.begin(), attempts.end(), later), attempts.end());
  Attempt& added = attempts.emplace_back(attempt);
  added.client_id = CutText(kAttemptClientIdBytes, added.client_id);
  added.reason = CutText(kAttemptReasonBytes, added.reason);
  if (attempts.size() > kLastAttemptsMax) attempts.erase(attempts.begin());
  std::string bytes = EncodeAttempts(attempts);
  for (size_t i = 0; bytes.size() > kLastAttemptsBytesMax && i + 1 < attempts.size(); ++i) {
    attempts[i].reason = CutText(kOldAttemptReasonBytes, attempts[i].reason);
    bytes = EncodeAttempts(attempts);
  }
  while (bytes.size() > kLastAttemptsBytesMax) {
    attempts.erase(attempts.begin());
    bytes = EncodeAttempts(attempts);
  }
  return bytes;
}

std::optional<Attempts> DecodeAttempts(absl::string_view bytes) {
  if (bytes.size() > kLastAttemptsBytesMax) return std::nullopt;
  Attempts attempts;
  uint32_t before = 0;
  while (!bytes.empty()) {
    Attempt& attempt = attempts.emplace_back();
    if (!TakeAttempt(&bytes, &attempt) || attempt.number <= before) return std::nullopt;
    before = attempt.number;
  }
  if (attempts.size() > kLastAttemptsMax) return std::nullopt;
  return attempts;
}

}  // namespace duetime::storage
