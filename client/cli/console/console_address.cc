// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/console_address.h"

#include <algorithm>
#include <arpa/inet.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "server/base/ip_address.h"
#include "server/base/listen_sockets.h"

namespace duetime::cli {
namespace {

constexpr int kPortMax = 65'535;

}  // namespace

std::string ConsoleAddress::Text() const { return base::HostAndPort(host, port); }

bool ConsoleAddress::IsLoopback() const { return host == "localhost" || base::IsLoopback(host); }

bool ConsoleAddress::IsWildcard() const {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

absl::StatusOr<ConsoleAddress> ReadConsoleAddress(const std::string& option,
                                                  absl::string_view text) {
  const size_t colon = text.rfind(':');
  ConsoleAddress address;
  absl::string_view host = text.substr(0, colon);
  if (colon == absl::string_view::npos ||
      !absl::SimpleAtoi(text.substr(colon + 1), &address.port) || address.port < 0 ||
      address.port > kPortMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(option, " is host:port, such as 127.0.0.1:7790"));
  }
  if (absl::ConsumePrefix(&host, "[") && !absl::ConsumeSuffix(&host, "]")) host = "";
  address.host = std::string(host);
  return address;
}

absl::StatusOr<std::string> ReadPublicHost(const std::string& option, absl::string_view text) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == ':' ||
           c == '[' || c == ']';
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), allowed)) return std::string(text);
  return absl::InvalidArgumentError(
      absl::StrCat(option,
                   " is a name as browsers have it in the address, such as duetime.example.com or "
                   "10.0.0.7:7790"));
}

bool IsPrivateWay(const client::ServerAddress& server) {
  if (!server.tls_ca_file.empty() || !server.tls_cert_file.empty()) return true;
  if (absl::StartsWith(server.target, "unix:")) return true;
  const absl::StatusOr<ConsoleAddress> address = ReadConsoleAddress("", server.target);
  return address.ok() && address->IsLoopback();
}

}  // namespace duetime::cli
