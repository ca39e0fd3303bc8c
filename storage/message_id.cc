// SPDX-License-Identifier: Apache-2.0
#include "storage/message_id.h"

#include "storage/base32.h"

namespace duetime::storage {

MessageId MessageId::Make(uint64_t epoch, uint64_t sequence, uint32_t slot, uint64_t due_ms) {
  MessageId id;
  id.high = (uint64_t{kVersion} << 60) | (epoch << 34) | (sequence >> 6);
  id.low = ((sequence & 63) << 58) | (uint64_t{slot} << 44) | due_ms;
  return id;
}

std::optional<MessageId> MessageId::Parse(absl::string_view text) {
  if (text.size() != kTextSize) return std::nullopt;
  MessageId id;
  for (const char c : text) {
    const int8_t digit = kBase32Digits[static_cast<unsigned char>(c)];
    if (digit < 0 || (id.high >> 59) != 0) return std::nullopt;  // 26 digits hold 130 bits
    id.high = (id.high << 5) | (id.low >> 59);
    id.low = (id.low << 5) | static_cast<uint64_t>(digit);
  }
  if (id.version() != kVersion) return std::nullopt;
  return id;
}

std::string MessageId::ToString() const {
  std::string text(kTextSize, '0');
  uint64_t rest_high = high;
  uint64_t rest_low = low;
  for (size_t i = kTextSize; i-- > 0;) {
    text[i] = kBase32Alphabet[rest_low & 31];
    rest_low = (rest_low >> 5) | (rest_high << 59);
    rest_high >>= 5;
  }
  return text;
}

}  // namespace duetime::storage
