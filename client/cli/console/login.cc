// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/login.h"

#include <algorithm>
#include <chrono>
#include <grpcpp/grpcpp.h>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"

#include "client/cli/console/http_error.h"
#include "client/cli/sha256.h"
#include "client/cpp/error.h"
#include "duetime/v1/admin.grpc.pb.h"

namespace duetime::cli {
namespace {

using absl::StatusCode;

constexpr size_t kTokenBytesMax = 6'000;
constexpr size_t kKnownTokensMax = 10'000;
constexpr absl::Duration kCheckPeriod = absl::Seconds(5);
// Not a token of any server: those begin with dt_, or are JWTs.
constexpr char kNoToken[] = "duetime-console-asks-for-access-control";

absl::Status LoginRequired(absl::string_view message) {
  return MakeError(StatusCode::kUnauthenticated, "LOGIN_REQUIRED", message);
}

}  // namespace

absl::StatusOr<std::string> TokenOf(const httplib::Request& request) {
  if (request.get_header_value_count("Authorization") != 1) {
    return LoginRequired("log in with a token of the server");
  }
  const std::string header = request.get_header_value("Authorization");
  absl::string_view token = header;
  // A token becomes a header of the call to the server, so only what such a header may hold.
  const bool good =
      absl::ConsumePrefix(&token, "Bearer ") && !token.empty() && token.size() <= kTokenBytesMax &&
      std::all_of(token.begin(), token.end(),
                  [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
  if (!good) return LoginRequired("this is not a token");
  return std::string(token);
}

bool RefusedTokens::MayTry(const std::string& address, absl::Time now) {
  const base::MutexLock lock(&mutex_);
  const auto found = windows_.find(address);
  return found == windows_.end() || now >= found->second.begin + kWindow ||
         found->second.count < kMaxPerWindow;
}

void RefusedTokens::Add(const std::string& address, absl::Time now) {
  const base::MutexLock lock(&mutex_);
  if (windows_.size() >= kAddressesMax && windows_.count(address) == 0) windows_.clear();
  Window& window = windows_[address];
  if (now >= window.begin + kWindow) window = {.begin = now, .count = 0};
  ++window.count;
}

absl::StatusOr<v1::CheckAccessResponse> Login::Ask(const std::string& token) {
  v1::CheckAccessRequest request;
  request.set_verb(v1::ACCESS_VERB_OPERATE);
  v1::CheckAccessResponse response;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline_));
  context.AddMetadata("authorization", "Bearer " + token);
  const absl::Status status =
      client::ToAbslStatus(v1::Admin::NewStub(channel_)->CheckAccess(&context, request, &response));
  if (status.ok()) return response;
  return status;
}

absl::Status Login::CheckServer() {
  const absl::StatusOr<v1::CheckAccessResponse> answer = Ask(kNoToken);
  if (absl::IsUnauthenticated(answer.status())) {
    const base::MutexLock lock(&mutex_);
    checked_ = absl::Now();
    return absl::OkStatus();
  }
  if (answer.ok() || client::GetErrorInfo(answer.status()).reason == "ACCESS_CONTROL_OFF") {
    return MakeError(StatusCode::kFailedPrecondition, "ACCESS_CONTROL_OFF",
                     "the server has no access control, so every token would do: give it a "
                     "tokens_file or an access_file");
  }
  return answer.status();
}

absl::StatusOr<std::string> Login::TokenFor(const httplib::Request& request) {
  absl::StatusOr<std::string> token = TokenOf(request);
  if (!token.ok()) return token;
  const absl::Time now = absl::Now();
  if (!refused_.MayTry(request.remote_addr, now) && !IsKnown(*token)) {
    return MakeError(StatusCode::kResourceExhausted, "TOO_MANY_REFUSED_TOKENS",
                     "too many refused tokens from this address: wait ten seconds");
  }
  {
    const base::MutexLock lock(&mutex_);
    if (now - checked_ < kCheckPeriod) return token;
  }
  if (absl::Status status = CheckServer(); !status.ok()) return status;
  return token;
}

absl::StatusOr<v1::CheckAccessResponse> Login::Identify(const httplib::Request& request) {
  const absl::StatusOr<std::string> token = TokenFor(request);
  if (!token.ok()) return token.status();
  absl::StatusOr<v1::CheckAccessResponse> answer = Ask(*token);
  OnAnswer(request, *token, answer.status());
  return answer;
}

bool Login::IsKnown(const std::string& token) {
  const std::string hash = Sha256(token);
  const base::MutexLock lock(&mutex_);
  return known_.count(hash) > 0;
}

void Login::OnAnswer(const httplib::Request& request, const std::string& token,
                     const absl::Status& answer) {
  const std::string hash = Sha256(token);
  if (answer.ok()) {
    const base::MutexLock lock(&mutex_);
    if (known_.size() >= kKnownTokensMax) known_.clear();
    known_.insert(hash);
    return;
  }
  if (!absl::IsUnauthenticated(answer)) return;
  {
    const base::MutexLock lock(&mutex_);
    known_.erase(hash);
  }
  refused_.Add(request.remote_addr, absl::Now());
}

}  // namespace duetime::cli
