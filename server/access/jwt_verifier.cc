// SPDX-License-Identifier: Apache-2.0
#include "server/access/jwt_verifier.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <jwt.h>
#include <nlohmann/json.hpp>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sstream>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "server/base/list_directory.h"

namespace duetime::access {
namespace {

using Json = nlohmann::json;

constexpr size_t kTokenBytesMax = 8 << 10;
constexpr size_t kKeyBytesMax = 64 << 10;
constexpr size_t kGroupsMax = 100;
// It is repeated in errors and logs.
constexpr size_t kSubjectBytesMax = 512;

absl::Status Refused(absl::string_view why) {
  return absl::UnauthenticatedError(absl::StrCat("the JWT ", why));
}

// A part of a token: the JSON of its header, or of its claims. Null if it is none.
Json DecodePart(absl::string_view part) {
  std::string text;
  if (!absl::WebSafeBase64Unescape(part, &text)) return nullptr;
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

std::string TextOf(const Json& json, const std::string& name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

// A NumericDate in milliseconds. -1: absent, or no number.
int64_t MillisOf(const Json& claims, const char* name) {
  const auto found = claims.find(name);
  if (found == claims.end() || !found->is_number()) return -1;
  constexpr double kMillis = 1'000;
  constexpr double kMax = 1e15;
  const double value = found->get<double>() * kMillis;
  return value >= 0 && value < kMax ? static_cast<int64_t>(value) : -1;
}

bool HasAudience(const Json& claims, const std::string& wanted) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return false;
  if (found->is_string()) return found->get<std::string>() == wanted;
  return found->is_array() && std::any_of(found->begin(), found->end(), [&](const Json& one) {
           return one.is_string() && one.get<std::string>() == wanted;
         });
}

// True if libjwt accepts the signature with this key, by this algorithm.
bool SignatureFits(const std::string& token, const std::string& key, jwt_alg_t algorithm) {
  jwt_t* decoded = nullptr;
  const int error =
      jwt_decode(&decoded, token.c_str(), reinterpret_cast<const unsigned char*>(key.data()),
                 static_cast<int>(key.size()));
  const bool fits = error == 0 && decoded != nullptr && jwt_get_alg(decoded) == algorithm;
  jwt_free(decoded);
  ERR_clear_error();  // or gRPC would take the error for its own
  return fits;
}

bool IsPublicKey(const std::string& pem) {
  BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  EVP_PKEY* const key = PEM_read_bio_PUBKEY(bio, nullptr, nullptr, nullptr);
  const bool ok = key != nullptr;
  EVP_PKEY_free(key);
  BIO_free(bio);
  ERR_clear_error();
  return ok;
}

absl::StatusOr<std::string> ReadKey(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf()) || content.str().size() > kKeyBytesMax ||
      !IsPublicKey(content.str())) {
    return absl::FailedPreconditionError(
        absl::StrCat(path.string(), ": is no readable PEM file with a public key"));
  }
  return content.str();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const JwtVerifier>> JwtVerifier::Load(const JwtSettings& settings) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(settings.keys, error)) {
    for (const auto& entry : base::ListDirectory(settings.keys, &error)) {
      // Kubernetes keeps the former content of a mounted secret in hidden entries.
      const bool hidden = absl::StartsWith(entry.path().filename().string(), ".");
      std::error_code gone;
      if (!hidden && entry.is_regular_file(gone)) files.push_back(entry.path());
    }
    if (error) {
      return absl::FailedPreconditionError(absl::StrCat(settings.keys, ": cannot be read"));
    }
    std::sort(files.begin(), files.end());
  } else {
    files.emplace_back(settings.keys);
  }
  Keys keys;
  for (const std::filesystem::path& file : files) {
    absl::StatusOr<std::string> key = ReadKey(file);
    if (!key.ok()) return key.status();
    keys.emplace_back(file.stem().string(), *std::move(key));
  }
  if (keys.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(settings.keys, ": holds no key"));
  }
  return std::make_shared<const JwtVerifier>(settings, std::move(keys));
}

absl::StatusOr<Identity> JwtVerifier::Verify(absl::string_view token, uint64_t now_ms) const {
  if (token.size() > kTokenBytesMax) return Refused("is too long");
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused("does not have three parts");
  const Json header = DecodePart(parts[0]);
  const Json claims = DecodePart(parts[1]);
  if (!header.is_object() || !claims.is_object()) return Refused("holds no JSON");
  // Only these: with HS256, the public key would be the secret, and "none" needs no key at all.
  const std::string name = TextOf(header, "alg");
  const jwt_alg_t algorithm = name == "RS256"   ? JWT_ALG_RS256
                              : name == "ES256" ? JWT_ALG_ES256
                                                : JWT_ALG_NONE;
  if (algorithm == JWT_ALG_NONE) return Refused("is signed with neither RS256 nor ES256");
  // A key id selects one key, but a single key needs none.
  const std::string key_id = TextOf(header, "kid");
  const std::string text(token);
  const bool fits = std::any_of(keys_.begin(), keys_.end(), [&](const auto& key) {
    const bool wanted = key_id.empty() || keys_.size() == 1 || key.first == key_id;
    return wanted && SignatureFits(text, key.second, algorithm);
  });
  if (!fits) return Refused("is signed with no key that is known here");

  if (TextOf(claims, "iss") != settings_.issuer) return Refused("has another issuer");
  if (!HasAudience(claims, settings_.audience)) return Refused("has another audience");
  const int64_t now = static_cast<int64_t>(now_ms);
  const int64_t skew = static_cast<int64_t>(settings_.clock_skew_ms);
  const int64_t end = MillisOf(claims, "exp");
  if (end < 0) return Refused("has no end (exp)");
  if (now >= end + skew) return Refused("has expired");
  if (MillisOf(claims, "nbf") > now + skew) return Refused("is not valid yet");
  const std::string subject = TextOf(claims, "sub");
  if (subject.empty()) return Refused("has no subject (sub)");
  if (subject.size() > kSubjectBytesMax) return Refused("has a subject that is too long");

  Identity identity;
  identity.principal = absl::StrCat("jwt:", subject);
  identity.expires_ms = static_cast<uint64_t>(end + skew);
  const auto groups = claims.find(settings_.groups_claim);
  if (groups != claims.end() && groups->is_array()) {
    for (const Json& group : *groups) {
      if (!group.is_string() || identity.groups.size() >= kGroupsMax) continue;
      identity.groups.push_back(absl::StrCat("jwt:", group.get<std::string>()));
    }
  }
  return identity;
}

}  // namespace duetime::access
