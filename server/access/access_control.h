// SPDX-License-Identifier: Apache-2.0
//
// AccessControl: who calls, and the access files behind the answer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/access/caller.h"
#include "server/access/jwt_verifier.h"
#include "server/access/policy_file.h"
#include "server/access/quota_counts.h"
#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace duetime::access {

struct AccessOptions {
  // The rules and quotas; see policy_file.h. Empty: no file.
  std::string access_file;
  // The tokens that `duetime token` makes. Empty: no file.
  std::string tokens_file;
  // Refused credentials per second and peer address, and as many at once. Beyond it, the server
  // verifies no JWT of that address, and neither logs nor audits its refusals.
  uint64_t auth_failures_max = 20;
};

// What a client showed, before it is believed.
struct Credentials {
  // The token of "authorization: Bearer TOKEN". Empty: none.
  std::string token = {};
  // The names of the verified client certificate, each "cert:NAME", the first one for logs.
  std::vector<std::string> certificate = {};
  // The certificate itself. Empty: its end is not known.
  std::string certificate_pem = {};
  // The user of a Unix socket's client.
  std::optional<uint32_t> unix_user = {};
  // The client's address without its port.
  std::string peer = {};
};

// Without access file and token file, access control is off, and every client may do everything.
//
// A credential counts in this order: token, certificate, Unix user. A wrong token is refused, even
// if the client has a certificate. A client without any is "anonymous". A connection outlives the
// handshake that verified its certificate, but the client's identity ends with the certificate.
//
// Refusals are counted by network: an IPv4 address, or the 64 bits before an IPv6 interface.
//
// Thread safety: any thread may call Authenticate and the accessors; one thread calls Reload. Cost
// of Authenticate: a SHA-256 of the token and a look-up, or a verification for a new JWT.
class AccessControl {
 public:
  explicit AccessControl(AccessOptions options) : options_(std::move(options)) {}
  AccessControl(const AccessControl&) = delete;
  AccessControl& operator=(const AccessControl&) = delete;

  bool on() const { return !options_.access_file.empty() || !options_.tokens_file.empty(); }

  // Reads the files again if they have changed. An error names file, line and column, and comes
  // again until the files change. The content before the error stays in force. An access file that
  // had rules and has none now is an error. Blocks for the reads.
  absl::Status Reload();

  // The client, or UNAUTHENTICATED. REQUIRES: on(), and Reload has succeeded once.
  absl::StatusOr<CallerPtr> Authenticate(const Credentials& credentials, const base::Now& now);
  // The same for a stream that is open: refusals of others at its address do not end it.
  absl::StatusOr<CallerPtr> AuthenticateAgain(const Credentials& credentials, const base::Now& now);
  // The clients that an identity without credentials may mean. Without groups, the name of a token
  // means the tokens of this name: one client for each list of groups that they have. Never empty.
  std::vector<CallerPtr> Imagine(Identity asked, const base::Now& now);
  // The meter of a topic's quota.
  std::shared_ptr<Meter> MeterOfTopic(const std::string& topic);

  // As Meter::PaceRefusal, for refused credentials of this peer.
  uint64_t PaceRefusal(const std::string& peer, uint64_t mono_ms);
  // Counts a refusal of this peer. False: it has had too many, so do not log this one.
  // `bad_credentials`: because of its credentials. After too many of these, Authenticate verifies
  // no JWT of this peer for the rest of the second.
  bool CountRefusal(const std::string& peer, uint64_t mono_ms, bool bad_credentials);

  // Increases with each change of the files.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }
  // True while the newest content of a file is refused, and an older one is in force.
  bool stale() const { return stale_.load(std::memory_order_relaxed); }

  // Counters for metrics, in relaxed order.
  std::atomic<uint64_t> unauthenticated{0};
  std::atomic<uint64_t> denied{0};
  std::atomic<uint64_t> over_quota{0};
  // The use of quotas, by principal.
  const QuotaCountTable& quota_counts() const { return quota_counts_; }

 private:
  // One version of the files.
  struct Files {
    std::shared_ptr<const Policy> policy;
    std::shared_ptr<const TokenTable> tokens;
    // Null: no JWT is accepted.
    std::shared_ptr<const JwtVerifier> jwt;
  };
  struct Failures {
    uint64_t second = 0;
    uint64_t count = 0;
  };

  absl::StatusOr<Files> ReadFiles() const;
  bool HasRules();
  absl::StatusOr<Identity> Identify(const Credentials& credentials, const Files& files,
                                    const base::Now& now) const;
  absl::StatusOr<CallerPtr> Authenticate(const Credentials& credentials, const base::Now& now,
                                         bool capped);
  CallerPtr MakeLocked(Identity identity, std::shared_ptr<QuotaCounts> counts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Meter> MeterLocked(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayFail(const std::string& what, uint64_t mono_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool CountFailure(const std::string& what, uint64_t mono_ms)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AccessOptions options_;
  // Of the thread that reloads: the state of all files at the last read.
  std::string fingerprint_;
  absl::Status last_read_;
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stale_{false};
  QuotaCountTable quota_counts_;

  base::Mutex mutex_;
  Files files_ ABSL_GUARDED_BY(mutex_);
  // By credential. Emptied when it is full, and with each change of the files.
  absl::flat_hash_map<std::string, CallerPtr> callers_ ABSL_GUARDED_BY(mutex_);
  // By principal, by "topic:NAME", and by "network:ADDRESS". They survive changes of the files.
  absl::flat_hash_map<std::string, std::shared_ptr<Meter>> meters_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, Failures> failures_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::access
