// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/channel.h"

#include <algorithm>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace duetime::client {
namespace {

// gRPC's default pauses between connection attempts grow from 1 s to 2 minutes. Backoff decides
// when to try, so these pauses are short beside its waits.
constexpr int kReconnectFirstMs = 50;
constexpr int kReconnectMaxMs = 1'000;
constexpr int kConnectTimeoutMs = 5'000;

// To a cell. The server takes a ping each second.
constexpr int kKeepaliveTimeMs = 2'000;
constexpr int kKeepaliveTimeoutMs = 1'000;

// For several addresses, the members of a cell: calls go to the one whose health is SERVING, which
// is the leader. With one address there is no such check, because a server that drains still takes
// settlements.
constexpr char kFollowTheLeader[] =
    R"({"loadBalancingConfig": [{"round_robin": {}}],)"
    R"( "healthCheckConfig": {"serviceName": "duetime.v1.Messages"}})";

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  // An empty file is no error. A directory opens, but cannot be read.
  in.peek();
  if (!in.is_open() || in.bad() || (in.good() && !(text << in.rdbuf()))) {
    return absl::NotFoundError(absl::StrCat("cannot read the file ", path));
  }
  return text.str();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ServerAddress& address) {
  if (address.tls_cert_file.empty() != address.tls_key_file.empty()) {
    return absl::InvalidArgumentError("a TLS certificate and its key go together: one is missing");
  }
  const absl::StatusOr<std::string> token = ReadToken(address);
  if (!token.ok()) return token.status();
  if (address.tls_ca_file.empty() && address.tls_cert_file.empty()) {
    if (token->empty()) return grpc::InsecureChannelCredentials();
    return absl::InvalidArgumentError("a token requires TLS, so that nobody on the way reads it");
  }
  grpc::SslCredentialsOptions options;
  for (const auto& [path, text] : {std::pair{&address.tls_ca_file, &options.pem_root_certs},
                                   std::pair{&address.tls_cert_file, &options.pem_cert_chain},
                                   std::pair{&address.tls_key_file, &options.pem_private_key}}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> read = ReadFile(*path);
    if (!read.ok()) return read.status();
    *text = *std::move(read);
  }
  std::shared_ptr<grpc::ChannelCredentials> tls = grpc::SslCredentials(options);
  if (token->empty()) return tls;
  return grpc::CompositeChannelCredentials(tls, grpc::AccessTokenCredentials(*token));
}

}  // namespace

absl::StatusOr<std::string> ReadToken(const ServerAddress& address) {
  if (address.token_file.empty()) return address.token;
  if (!address.token.empty()) return absl::InvalidArgumentError("two tokens are given");
  absl::StatusOr<std::string> text = ReadFile(address.token_file);
  if (!text.ok()) return text;
  absl::string_view token = *text;
  // Editors write it in front of UTF-8, and it is no part of the token.
  absl::ConsumePrefix(&token, "\xEF\xBB\xBF");
  token = absl::StripAsciiWhitespace(token);
  if (token.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file of the token is empty: ", address.token_file));
  }
  // A header takes nothing else, and the server would only say that it does not know the token.
  if (!std::all_of(token.begin(), token.end(), absl::ascii_isgraph)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the file of the token holds more than a token, or is no ASCII text: ",
                     address.token_file));
  }
  return std::string(token);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const ServerAddress& address) {
  if (address.target.empty()) {
    return absl::InvalidArgumentError("no server given: need host:port or unix:/path");
  }
  auto credentials = MakeCredentials(address);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectFirstMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  // Ignores the proxy settings of the environment, because they are meant for the web.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // The server's configuration sets the limits of messages and batches. A limit here would refuse
  // answers and deliveries that the server allows, and a refused delivery ends its stream each
  // time.
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  if (address.members_by_dns || HasSeveralAddresses(address.target)) {
    arguments.SetServiceConfigJSON(kFollowTheLeader);
    // A leader whose machine is gone closes no connection. The health check is an open call.
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  }
  return grpc::CreateCustomChannel(address.target, *credentials, arguments);
}

}  // namespace duetime::client
