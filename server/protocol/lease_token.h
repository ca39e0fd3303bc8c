// SPDX-License-Identifier: Apache-2.0
//
// Makes lease tokens, and their text for clients. tags.h documents the parts of a token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "server/base/sip_hash.h"
#include "server/protocol/tags.h"

namespace duetime::protocol {

inline constexpr int kLeaseHashBits = 58;

// The token of a shard's lease with the number `lease`. Two leases have the same token with a
// probability of 2^-58.
constexpr LeaseToken MakeToken(const base::SipKey& key, uint16_t shard, uint64_t epoch,
                               uint64_t lease) {
  const uint64_t place = uint64_t{shard} << kLeaseHashBits;
  const uint64_t hash = base::SipHash(key, place ^ epoch, lease);
  return static_cast<LeaseToken>(place | (hash & ((uint64_t{1} << kLeaseHashBits) - 1)));
}

// The length of a token's text, which is lower-case base32. It fits the buffer inside a
// std::string.
inline constexpr size_t kLeaseTextSize = 13;

// Overwrites `text` with the text of a token.
void WriteLease(LeaseToken token, std::string* text);

// Parses the text of a token. nullopt if `text` is not exactly what WriteLease writes.
std::optional<LeaseToken> ParseLease(absl::string_view text);

}  // namespace duetime::protocol
