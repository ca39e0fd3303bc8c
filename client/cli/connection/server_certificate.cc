// SPDX-License-Identifier: Apache-2.0
#include "client/cli/connection/server_certificate.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace duetime::cli {
namespace {

// gRPC's servers refuse a handshake without it.
constexpr std::array<unsigned char, 3> kHttp2 = {2, 'h', '2'};

}  // namespace

absl::StatusOr<absl::Time> ReadCertificateEnd(const std::string& target, absl::Duration timeout) {
  const absl::Status failed =
      absl::UnavailableError(absl::StrCat("no certificate could be read from ", target));
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  if (context == nullptr) return failed;
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> connection(BIO_new_ssl_connect(context.get()),
                                                                 BIO_free_all);
  SSL* tls = nullptr;
  if (connection == nullptr || BIO_get_ssl(connection.get(), &tls) != 1) return failed;
  // "dns:///host:port" has the address behind its last slash; "ipv4:address:port" has no slash.
  std::string address = target.substr(target.rfind('/') + 1);
  for (const char* prefix : {"dns:", "ipv4:", "ipv6:"}) {
    if (absl::StartsWith(address, prefix)) address.erase(0, absl::string_view(prefix).size());
  }
  std::string host = address.substr(0, address.rfind(':'));
  // The macros BIO_set_conn_hostname and SSL_set_tlsext_host_name have casts that the warnings
  // refuse.
  BIO_ctrl(connection.get(), BIO_C_SET_CONNECT, 0, address.data());
  SSL_ctrl(tls, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, host.data());
  SSL_set_alpn_protos(tls, kHttp2.data(), kHttp2.size());
  const auto seconds = static_cast<int>(absl::ToInt64Seconds(timeout));
  // A server that demands a client's certificate has shown its own before it refuses.
  BIO_do_connect_retry(connection.get(), std::max(seconds, 1), 0);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(tls),
                                                                X509_free);
  std::tm end = {};
  if (certificate == nullptr || ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) != 1) {
    return failed;
  }
  return absl::FromTimeT(timegm(&end));
}

}  // namespace duetime::cli
