// SPDX-License-Identifier: Apache-2.0
#include "server/access/access_control.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <pwd.h>
#include <set>
#include <sys/stat.h>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/base/list_directory.h"

namespace duetime::access {
namespace {

constexpr size_t kFileBytesMax = 8 << 20;
constexpr size_t kCallersMax = 10'000;
constexpr size_t kMetersMax = 100'000;
constexpr size_t kPeersMax = 10'000;
constexpr uint64_t kSecondMs = 1'000;
// For an entry of the user database.
constexpr size_t kPasswdBytes = 16 << 10;

// A client can use any address of its IPv6 network.
std::string NetworkOf(const std::string& peer) {
  constexpr size_t kNetworkBytes = 8;
  in6_addr address = {};
  // "fe80::1%eth0" has a zone.
  const std::string text = peer.substr(0, peer.find('%'));
  if (inet_pton(AF_INET6, text.c_str(), &address) != 1) return peer;
  const auto* const bytes = reinterpret_cast<const char*>(&address);
  return std::string(bytes, IN6_IS_ADDR_V4MAPPED(&address) ? sizeof(address) : kNetworkBytes);
}

// The name under which the refused credentials of a peer are counted.
std::string CredentialsOf(const std::string& peer) {
  return absl::StrCat("credentials ", NetworkOf(peer));
}

// The end of a certificate, in milliseconds since 1970. 0: it cannot be read.
uint64_t EndOf(const std::string& pem) {
  const std::unique_ptr<BIO, decltype(&BIO_free)> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
  ERR_clear_error();  // or gRPC would take our error for its own
  tm end = {};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return 0;
  }
  return static_cast<uint64_t>(std::max<time_t>(timegm(&end), 0)) * kSecondMs;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  // An end before the maximum is no error. A directory opens, but cannot be read: it is bad.
  if (!file.is_open() || file.bad()) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": cannot be read"));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": is larger than ", kFileBytesMax, " bytes"));
  }
  return text;
}

// Changes when the file, or a file of the directory, is replaced or written.
void AddFingerprint(const std::string& path, std::string* fingerprint) {
  if (path.empty()) return;
  std::vector<std::string> paths = {path};
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const auto& entry : base::ListDirectory(path, &error)) {
      paths.push_back(entry.path().string());
    }
  }
  for (const std::string& each : paths) {
    struct stat facts = {};
    if (stat(each.c_str(), &facts) != 0) {
      absl::StrAppend(fingerprint, each, " missing\n");
    } else {
      absl::StrAppend(fingerprint, each, " ", facts.st_ino, " ", facts.st_size, " ",
                      facts.st_mtim.tv_sec, ".", facts.st_mtim.tv_nsec, "\n");
    }
  }
}

absl::Status InvalidCredentialsError(absl::string_view text) {
  return base::MakeError(
      absl::StatusCode::kUnauthenticated, text,
      {.reason = "INVALID_CREDENTIALS", .field = "", .metadata = {}, .retry_after_ms = 0});
}

// JWTs have two dots, and the tokens of a token file none.
bool LooksLikeJwt(absl::string_view token) { return token.find('.') != absl::string_view::npos; }

std::string CacheKey(const Credentials& credentials) {
  if (!credentials.token.empty()) {
    const TokenHash hash = HashToken(credentials.token);
    return absl::StrCat("t",
                        absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
  }
  if (!credentials.certificate.empty()) {
    // A name may hold any byte, so its length ends it.
    std::string key = "c";
    for (const std::string& name : credentials.certificate) {
      absl::StrAppend(&key, name.size(), ":", name);
    }
    // The next certificate of a client has the same names.
    const TokenHash hash = HashToken(credentials.certificate_pem);
    absl::StrAppend(&key,
                    absl::string_view(reinterpret_cast<const char*>(hash.data()), hash.size()));
    return key;
  }
  return credentials.unix_user.has_value() ? absl::StrCat("u", *credentials.unix_user) : "";
}

// "unix:NAME", if the user has a name, and "unix:NUMBER".
std::vector<std::string> UnixNames(uint32_t user) {
  std::vector<std::string> names;
  std::array<char, kPasswdBytes> buffer = {};
  passwd entry = {};
  passwd* found = nullptr;
  if (getpwuid_r(user, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    names.push_back(absl::StrCat("unix:", found->pw_name));
  }
  names.push_back(absl::StrCat("unix:", user));
  return names;
}

// The user of "unix:NAME" or "unix:NUMBER". nullopt if there is no such user.
std::optional<uint32_t> UnixUser(absl::string_view principal) {
  if (!absl::ConsumePrefix(&principal, "unix:")) return std::nullopt;
  uint32_t user = 0;
  if (absl::SimpleAtoi(principal, &user)) return user;
  std::array<char, kPasswdBytes> buffer = {};
  passwd entry = {};
  passwd* found = nullptr;
  const std::string name(principal);
  if (getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return std::nullopt;
  }
  return found->pw_uid;
}

Identity FromNames(const std::vector<std::string>& names) {
  Identity identity;
  identity.principal = names.front();
  identity.aliases.assign(names.begin() + 1, names.end());
  return identity;
}

}  // namespace

absl::StatusOr<AccessControl::Files> AccessControl::ReadFiles() const {
  Files files;
  files.policy = std::make_shared<const Policy>();
  files.tokens = std::make_shared<const TokenTable>();
  if (!options_.access_file.empty()) {
    const absl::StatusOr<std::string> text = ReadText(options_.access_file);
    if (!text.ok()) return text.status();
    auto policy = ParsePolicy(*text, options_.access_file);
    if (!policy.ok()) return policy.status();
    files.policy = *std::move(policy);
  }
  if (!options_.tokens_file.empty()) {
    const absl::StatusOr<std::string> text = ReadText(options_.tokens_file);
    if (!text.ok()) return text.status();
    auto tokens = ParseTokens(*text, options_.tokens_file);
    if (!tokens.ok()) return tokens.status();
    files.tokens = *std::move(tokens);
  }
  if (!files.policy->jwt.keys.empty()) {
    auto jwt = JwtVerifier::Load(files.policy->jwt);
    if (!jwt.ok()) return jwt.status();
    files.jwt = *std::move(jwt);
  }
  return files;
}

absl::Status AccessControl::Reload() {
  if (!on()) return absl::OkStatus();
  std::string fingerprint;
  AddFingerprint(options_.access_file, &fingerprint);
  AddFingerprint(options_.tokens_file, &fingerprint);
  {
    const base::MutexLock lock(&mutex_);
    if (files_.policy != nullptr) AddFingerprint(files_.policy->jwt.keys, &fingerprint);
  }
  // After an error, the next attempt comes with the next change.
  if (fingerprint == fingerprint_) return last_read_;
  fingerprint_ = std::move(fingerprint);
  absl::StatusOr<Files> files = ReadFiles();
  last_read_ = files.status();
  if (files.ok() && files->policy->rules.empty() && HasRules()) {
    // An editor that writes in place may have got no further.
    last_read_ = absl::FailedPreconditionError(
        absl::StrCat(options_.access_file,
                     ": has no rules any more. Without rules, every client that authenticates may "
                     "do everything; that needs a restart"));
    files = last_read_;
  }
  stale_.store(!files.ok(), std::memory_order_relaxed);
  if (!files.ok()) return last_read_;
  const base::MutexLock lock(&mutex_);
  files_ = *std::move(files);
  callers_.clear();
  generation_.fetch_add(1, std::memory_order_release);
  return absl::OkStatus();
}

bool AccessControl::HasRules() {
  const base::MutexLock lock(&mutex_);
  return files_.policy != nullptr && !files_.policy->rules.empty();
}

absl::StatusOr<Identity> AccessControl::Identify(const Credentials& credentials, const Files& files,
                                                 const base::Now& now) const {
  if (credentials.token.empty()) {
    if (!credentials.certificate.empty()) {
      Identity identity = FromNames(credentials.certificate);
      if (!credentials.certificate_pem.empty()) {
        identity.expires_ms = EndOf(credentials.certificate_pem);
        if (identity.expires_ms == 0) {
          return InvalidCredentialsError("the end of the client certificate cannot be read");
        }
      }
      return identity;
    }
    if (credentials.unix_user.has_value()) return FromNames(UnixNames(*credentials.unix_user));
    return Identity{};
  }
  // The table is looked up by hash, so the time of a look-up tells nothing about a token.
  const auto found = files.tokens->find(HashToken(credentials.token));
  if (found != files.tokens->end()) return found->second;
  if (files.jwt == nullptr || !LooksLikeJwt(credentials.token)) {
    return InvalidCredentialsError("the token is unknown: it was never made, or it is revoked");
  }
  absl::StatusOr<Identity> identity = files.jwt->Verify(credentials.token, now.wall_ms);
  if (!identity.ok()) return InvalidCredentialsError(identity.status().message());
  return identity;
}

absl::StatusOr<CallerPtr> AccessControl::Authenticate(const Credentials& credentials,
                                                      const base::Now& now) {
  return Authenticate(credentials, now, /*capped=*/true);
}

absl::StatusOr<CallerPtr> AccessControl::AuthenticateAgain(const Credentials& credentials,
                                                           const base::Now& now) {
  return Authenticate(credentials, now, /*capped=*/false);
}

absl::StatusOr<CallerPtr> AccessControl::Authenticate(const Credentials& credentials,
                                                      const base::Now& now, bool capped) {
  DT_CHECK(on());
  const std::string key = CacheKey(credentials);
  Files files;
  {
    const base::MutexLock lock(&mutex_);
    const auto found = callers_.find(key);
    if (found != callers_.end()) {
      if (!found->second->Expired(now.wall_ms)) return found->second;
      callers_.erase(found);
    }
    if (capped && LooksLikeJwt(credentials.token) &&
        !MayFail(CredentialsOf(credentials.peer), now.mono_ms)) {
      return base::MakeError(absl::StatusCode::kResourceExhausted,
                             "too many refused credentials from this address",
                             {.reason = "TOO_MANY_REFUSED_CREDENTIALS",
                              .field = "",
                              .metadata = {{"limit", absl::StrCat(options_.auth_failures_max)}},
                              .retry_after_ms = kSecondMs});
    }
    files = files_;
  }
  // Without the lock, because the verification of a JWT takes long.
  absl::StatusOr<Identity> identity = Identify(credentials, files, now);
  if (!identity.ok()) return identity.status();
  if (identity->expires_ms != 0 && now.wall_ms >= identity->expires_ms) {
    return InvalidCredentialsError(credentials.token.empty() ? "the client certificate has expired"
                                                             : "the token has expired");
  }
  const base::MutexLock lock(&mutex_);
  const bool limited = files_.policy->QuotaOf(*identity) != nullptr;
  auto counts = limited ? quota_counts_.Of(identity->principal) : nullptr;
  CallerPtr caller = MakeLocked(*std::move(identity), std::move(counts));
  if (callers_.size() >= kCallersMax) callers_.clear();
  // The files may have changed since the token was looked up: the next call looks again.
  if (files.tokens == files_.tokens) callers_[key] = caller;
  return caller;
}

std::vector<CallerPtr> AccessControl::Imagine(Identity asked, const base::Now& now) {
  if (const std::optional<uint32_t> user = UnixUser(asked.principal)) {
    Identity known = FromNames(UnixNames(*user));
    known.groups = std::move(asked.groups);
    asked = std::move(known);
  }
  std::shared_ptr<const TokenTable> tokens;
  {
    const base::MutexLock lock(&mutex_);
    tokens = files_.tokens;
  }
  std::set<std::vector<std::string>> groups;
  // Without the lock, because the table may be long.
  for (const auto& [hash, identity] : *tokens) {
    const bool expired = identity.expires_ms != 0 && now.wall_ms >= identity.expires_ms;
    if (asked.groups.empty() && identity.principal == asked.principal && !expired) {
      groups.insert(identity.groups);
    }
  }
  if (groups.empty()) groups.insert(asked.groups);
  std::vector<CallerPtr> callers;
  const base::MutexLock lock(&mutex_);
  for (const std::vector<std::string>& each : groups) {
    asked.groups = each;
    callers.push_back(MakeLocked(asked, nullptr));
  }
  return callers;
}

CallerPtr AccessControl::MakeLocked(Identity identity, std::shared_ptr<QuotaCounts> counts) {
  const std::string principal = identity.principal;
  return std::make_shared<const Caller>(files_.policy, std::move(identity), MeterLocked(principal),
                                        generation_.load(std::memory_order_relaxed),
                                        std::move(counts));
}

std::shared_ptr<Meter> AccessControl::MeterLocked(const std::string& name) {
  // Forgets the meters that no call and no cached caller uses.
  if (meters_.size() >= kMetersMax) {
    absl::erase_if(meters_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  std::shared_ptr<Meter>& meter = meters_[name];
  if (meter == nullptr) meter = std::make_shared<Meter>();
  return meter;
}

std::shared_ptr<Meter> AccessControl::MeterOfTopic(const std::string& topic) {
  const base::MutexLock lock(&mutex_);
  return MeterLocked(absl::StrCat("topic:", topic));
}

uint64_t AccessControl::PaceRefusal(const std::string& peer, uint64_t mono_ms) {
  std::shared_ptr<Meter> meter;
  {
    const base::MutexLock lock(&mutex_);
    meter = MeterLocked(absl::StrCat("network:", NetworkOf(peer)));
  }
  return meter->PaceRefusal(mono_ms);
}

bool AccessControl::MayFail(const std::string& what, uint64_t mono_ms) {
  const auto found = failures_.find(what);
  return found == failures_.end() || found->second.second != mono_ms / kSecondMs ||
         found->second.count < options_.auth_failures_max;
}

bool AccessControl::CountFailure(const std::string& what, uint64_t mono_ms) {
  const bool may = MayFail(what, mono_ms);
  const uint64_t second = mono_ms / kSecondMs;
  if (failures_.size() >= kPeersMax) {
    absl::erase_if(failures_,
                   [second](const auto& entry) { return entry.second.second != second; });
    if (failures_.size() >= kPeersMax) failures_.clear();
  }
  Failures& failures = failures_[what];
  if (failures.second != second) failures = {.second = second};
  ++failures.count;
  return may;
}

bool AccessControl::CountRefusal(const std::string& peer, uint64_t mono_ms, bool bad_credentials) {
  const base::MutexLock lock(&mutex_);
  // A client without a right has valid credentials, and its neighbours' new ones are verified as
  // before.
  if (bad_credentials) CountFailure(CredentialsOf(peer), mono_ms);
  return CountFailure(NetworkOf(peer), mono_ms);
}

}  // namespace duetime::access
