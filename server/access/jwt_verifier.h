// SPDX-License-Identifier: Apache-2.0
//
// JwtVerifier: JSON Web Tokens (RFC 7519) as proofs of identity.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/access/policy.h"

namespace duetime::access {

// Verifies tokens signed with RS256 or ES256 by one of some public keys. Immutable, so any thread
// may use it. libjwt does the parsing and the cryptography. Cost of a verification: about 0.1 ms.
class JwtVerifier {
 public:
  // A public key as PEM, and the key id that tokens name.
  using Keys = std::vector<std::pair<std::string, std::string>>;

  // Reads the keys that the settings name. FAILED_PRECONDITION names a file that cannot be read or
  // holds no public key. REQUIRES: settings.keys is not empty.
  static absl::StatusOr<std::shared_ptr<const JwtVerifier>> Load(const JwtSettings& settings);

  JwtVerifier(JwtSettings settings, Keys keys)
      : settings_(std::move(settings)), keys_(std::move(keys)) {}

  // The client that `token` proves: principal "jwt:SUBJECT", groups "jwt:GROUP". UNAUTHENTICATED
  // with the reason if the signature, the algorithm, the issuer, the audience or a time does not
  // fit. The token must have an end (exp).
  absl::StatusOr<Identity> Verify(absl::string_view token, uint64_t now_ms) const;

  const Keys& keys() const { return keys_; }

 private:
  const JwtSettings settings_;
  const Keys keys_;
};

}  // namespace duetime::access
