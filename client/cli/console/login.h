// SPDX-License-Identifier: Apache-2.0
//
// Login: passwords and sessions of the people who use a console over the network.
#pragma once

#include <httplib.h>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "duetime/v1/access.pb.h"
#include "server/base/mutex.h"

namespace grpc {
class Channel;
}

namespace duetime::cli {

// The token of a request: "Authorization: Bearer TOKEN". UNAUTHENTICATED with LOGIN_REQUIRED if it
// has none, or none that could be a token.
absl::StatusOr<std::string> TokenOf(const httplib::Request& request);

// Counts refused tokens by the address of the browser. All calls of a console reach the server from
// one address, and the server limits the refused JWTs of an address: without this limit, one
// browser could use up what the others need to log in. Thread-safe.
class RefusedTokens {
 public:
  static constexpr int kMaxPerWindow = 10;
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  static constexpr size_t kAddressesMax = 10'000;

  // False once this address has shown kMaxPerWindow bad tokens within the window.
  bool MayTry(const std::string& address, absl::Time now);
  void Add(const std::string& address, absl::Time now);

 private:
  struct Window {
    absl::Time begin;
    int count = 0;
  };

  base::Mutex mutex_;
  std::map<std::string, Window> windows_ ABSL_GUARDED_BY(mutex_);
};

// Each person shows a token of the server with each request, and the console passes it on: it keeps
// no sessions, and has no rights of its own. The server decides what a token may do. Thread-safe.
class Login {
 public:
  Login(std::shared_ptr<grpc::Channel> channel, absl::Duration deadline)
      : channel_(std::move(channel)), deadline_(deadline) {}

  // Asks the server whether it has access control. A server without it would let everybody in.
  //
  //   FAILED_PRECONDITION   it has none
  //   other errors          the server cannot be asked
  absl::Status CheckServer();

  // Passes the token of a request, unless the server has lost its access control: asks it at most
  // every few seconds.
  //
  //   UNAUTHENTICATED      LOGIN_REQUIRED
  //   RESOURCE_EXHAUSTED   TOO_MANY_REFUSED_TOKENS   of this browser's address
  absl::StatusOr<std::string> TokenFor(const httplib::Request& request);

  // Asks the server about the token: whose it is, and whether its owner may operate the server.
  // Errors are those of TokenFor and of the call.
  absl::StatusOr<v1::CheckAccessResponse> Identify(const httplib::Request& request);

  // Call with the server's answer to each token, so that refused tokens count.
  void OnAnswer(const httplib::Request& request, const std::string& token,
                const absl::Status& answer);

 private:
  absl::StatusOr<v1::CheckAccessResponse> Ask(const std::string& token);
  bool IsKnown(const std::string& token);

  const std::shared_ptr<grpc::Channel> channel_;
  const absl::Duration deadline_;
  RefusedTokens refused_;
  base::Mutex mutex_;
  absl::Time checked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  // Hashes of the tokens that the server accepted. They pass even if their address must wait,
  // because all browsers behind a proxy share its address.
  std::set<std::string> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::cli
