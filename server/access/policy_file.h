// SPDX-License-Identifier: Apache-2.0
//
// The text of access files and of token files, which are TOML.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/access/policy.h"

namespace duetime::access {

// Parses an access file. Refuses the whole file for one error. INVALID_ARGUMENT names the file, the
// line and the column: "access.toml:12:9: unknown verb \"write\"".
//
//   [groups]
//   payments = ["orders-service", "cert:pay.example"]
//
//   [[rule]]
//   who = ["group:payments", "unix:deploy"]    # or "*": everyone who authenticates, or "anonymous"
//   may = ["schedule", "cancel", "read"]       # the names of verb.h
//   topics = ["orders", "orders.*"]            # not for "operate" alone
//
//   [[quota]]
//   who = ["*"]                                # each of them; or: topics = ["marketing.*"]
//   messages_per_second = 500                  # bytes_per_second, streams, calls_in_flight
//
//   [jwt]
//   keys = "/etc/duetime/jwt"                  # issuer, audience, groups_claim, clock_skew_seconds
absl::StatusOr<std::shared_ptr<const Policy>> ParsePolicy(absl::string_view text,
                                                          absl::string_view path);

// The SHA-256 of a token.
using TokenHash = std::array<uint8_t, 32>;
TokenHash HashToken(absl::string_view token);

// The tokens of a token file, by their hashes. The file never holds a token itself.
//
//   [[token]]
//   name = "orders-service"     # the principal; several tokens may have one name, for rotation
//   id = "k3v9x2"               # names the token in `duetime token revoke`
//   sha256 = "9f86d0..."        # 64 hexadecimal digits
//   groups = ["payments"]       # optional
//   expires = 2027-01-01T00:00:00Z    # optional
using TokenTable = absl::flat_hash_map<TokenHash, Identity>;
absl::StatusOr<std::shared_ptr<const TokenTable>> ParseTokens(absl::string_view text,
                                                              absl::string_view path);

}  // namespace duetime::access
