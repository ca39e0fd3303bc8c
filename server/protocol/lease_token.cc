// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/lease_token.h"

#include "storage/base32.h"

namespace duetime::protocol {

void WriteLease(LeaseToken token, std::string* text) {
  text->resize(kLeaseTextSize);
  auto rest = static_cast<uint64_t>(token);
  for (size_t i = kLeaseTextSize; i-- > 0; rest >>= 5) {
    (*text)[i] = storage::kBase32Alphabet[rest & 31];
  }
}

std::optional<LeaseToken> ParseLease(absl::string_view text) {
  if (text.size() != kLeaseTextSize) return std::nullopt;
  uint64_t token = 0;
  for (const char c : text) {
    const int8_t digit = storage::kBase32Digits[static_cast<unsigned char>(c)];
    if (digit < 0 || (token >> 59) != 0) return std::nullopt;  // 13 digits hold 65 bits
    token = (token << 5) | static_cast<uint64_t>(digit);
  }
  return LeaseToken{token};
}

}  // namespace duetime::protocol
