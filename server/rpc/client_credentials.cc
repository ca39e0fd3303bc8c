// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/client_credentials.h"

#include <algorithm>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_context.h>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "server/rpc/limits/unix_peer.h"

namespace duetime::rpc {
namespace {

// The auth properties of gRPC that have the names of a certificate. Some names are in two of them.
constexpr const char* kNameProperties[] = {"peer_uri", "peer_dns", "peer_email",
                                           "x509_subject_alternative_name", "x509_common_name"};

std::vector<std::string> CertificateNames(const grpc::AuthContext& context) {
  std::vector<std::string> names;
  if (!context.IsPeerAuthenticated()) return names;
  for (const char* const property : kNameProperties) {
    for (const grpc::string_ref& value : context.FindPropertyValues(property)) {
      std::string name = absl::StrCat("cert:", absl::string_view(value.data(), value.size()));
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(std::move(name));
      }
    }
  }
  return names;
}

std::string BearerToken(const grpc::ServerContext& context) {
  constexpr size_t kPrefixBytes = 7;
  const auto found = context.client_metadata().find("authorization");
  if (found == context.client_metadata().end()) return "";
  const absl::string_view header(found->second.data(), found->second.size());
  if (!absl::StartsWithIgnoreCase(header, "bearer ")) return "";
  return std::string(absl::StripAsciiWhitespace(header.substr(kPrefixBytes)));
}

}  // namespace

std::string PeerHost(const grpc::ServerContext& context) {
  // "ipv4:10.0.0.7:50321", "ipv6:%5B::1%5D:50321", "unix:..."
  const std::string peer = context.peer();
  if (absl::StartsWith(peer, "unix")) return "unix";
  const size_t begin = peer.find(':') + 1;
  absl::string_view host = absl::string_view(peer).substr(begin, peer.rfind(':') - begin);
  if (absl::ConsumePrefix(&host, "%5B")) absl::ConsumeSuffix(&host, "%5D");
  return std::string(host);
}

std::string PeerAddress(const grpc::ServerContext& context) {
  const std::string peer = context.peer();
  if (absl::StartsWith(peer, "unix")) return "unix";
  return absl::StrReplaceAll(peer.substr(peer.find(':') + 1), {{"%5B", "["}, {"%5D", "]"}});
}

access::Credentials CredentialsOf(const grpc::ServerContext& context) {
  access::Credentials credentials;
  credentials.token = BearerToken(context);
  credentials.peer = PeerHost(context);
  if (const std::shared_ptr<const grpc::AuthContext> auth = context.auth_context()) {
    credentials.certificate = CertificateNames(*auth);
    if (!credentials.certificate.empty()) {
      for (const grpc::string_ref& pem :
           auth->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME)) {
        credentials.certificate_pem.assign(pem.data(), pem.size());
      }
    }
  }
  credentials.unix_user = UnixUserOf(context.peer());
  return credentials;
}

}  // namespace duetime::rpc
