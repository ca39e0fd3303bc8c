// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listen_address.h"

#include <sys/un.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "server/base/ip_address.h"

namespace duetime::rpc {
namespace {

constexpr size_t kUnixPathMax = sizeof(sockaddr_un{}.sun_path) - 1;

absl::Status Invalid(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" ", why));
}

}  // namespace

bool ListenAddress::IsLocal() const {
  if (!unix_path.empty() || host == "localhost") return true;
  return base::IsLoopback(host);
}

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text) {
  ListenAddress address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix:")) {
    if (!absl::StartsWith(rest, "/")) return Invalid(text, "needs an absolute path after unix:");
    if (rest.size() > kUnixPathMax) {
      return Invalid(
          text, absl::StrCat("is longer than a socket path may be (", kUnixPathMax, " bytes)"));
    }
    address.unix_path = std::string(rest);
    return address;
  }
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) {
    return Invalid(text, "is neither host:port nor unix:/path");
  }
  uint32_t port = 0;
  if (!absl::SimpleAtoi(rest.substr(colon + 1), &port) || port > 65'535) {
    return Invalid(text, "has no port from 0 to 65535 after the last colon");
  }
  absl::string_view host = rest.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return Invalid(text, "has no ] after its IPv6 address");
  } else if (absl::StrContains(host, ":")) {
    return Invalid(text, "needs [ ] around its IPv6 address");
  }
  if (host.empty()) {
    return Invalid(text, "has no host; write 0.0.0.0 or [::] to listen on every address");
  }
  address.host = std::string(host);
  address.port = static_cast<uint16_t>(port);
  return address;
}

}  // namespace duetime::rpc
