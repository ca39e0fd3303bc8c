// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/credentials.h"

#include <fstream>
#include <memory>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace duetime::rpc {
namespace {

// A PEM file's content. Errors name the knob and the file, never the content.
absl::StatusOr<std::string> ReadPem(absl::string_view knob, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (!file || !(content << file.rdbuf())) {
    return absl::InvalidArgumentError(absl::StrCat(knob, ": cannot read ", path));
  }
  if (content.str().find("-----BEGIN") == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(knob, ": ", path, " is not a PEM file"));
  }
  return content.str();
}

// Checks at the start that the key fits the certificate. gRPC would check at the first connection,
// and then refuse all connections.
absl::Status CheckKeyFits(const GrpcServerOptions& options, const std::string& cert,
                          const std::string& key) {
  using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
  // Without this, OpenSSL would ask for a passphrase on the terminal.
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  const BioPtr cert_bio(BIO_new_mem_buf(cert.data(), static_cast<int>(cert.size())), BIO_free);
  const BioPtr key_bio(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())), BIO_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(
      PEM_read_bio_X509(cert_bio.get(), nullptr, nullptr, nullptr), X509_free);
  if (certificate == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls_cert: ", options.tls_cert, " holds no certificate"));
  }
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> private_key(
      PEM_read_bio_PrivateKey(key_bio.get(), nullptr, no_passphrase, nullptr), EVP_PKEY_free);
  if (private_key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("tls_key: ", options.tls_key, " holds no private key without a passphrase"));
  }
  const bool fits = X509_check_private_key(certificate.get(), private_key.get()) == 1;
  ERR_clear_error();  // or gRPC would take our error for its own
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tls_key: ", options.tls_key, " is not the key of the certificate in ", options.tls_cert));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeTcpCredentials(
    const GrpcServerOptions& options) {
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("tls_cert and tls_key go together");
  }
  if (options.tls_cert.empty()) {
    if (!options.tls_client_ca.empty()) {
      return absl::InvalidArgumentError("tls_client_ca needs tls_cert and tls_key");
    }
    return grpc::InsecureServerCredentials();
  }
  const absl::StatusOr<std::string> cert = ReadPem("tls_cert", options.tls_cert);
  if (!cert.ok()) return cert.status();
  const absl::StatusOr<std::string> key = ReadPem("tls_key", options.tls_key);
  if (!key.ok()) return key.status();
  if (absl::Status status = CheckKeyFits(options, *cert, *key); !status.ok()) return status;
  grpc::SslServerCredentialsOptions ssl(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  ssl.pem_key_cert_pairs.push_back({.private_key = *key, .cert_chain = *cert});
  if (!options.tls_client_ca.empty()) {
    const absl::StatusOr<std::string> ca = ReadPem("tls_client_ca", options.tls_client_ca);
    if (!ca.ok()) return ca.status();
    ssl.pem_root_certs = *ca;
    ssl.client_certificate_request = GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
  }
  return grpc::SslServerCredentials(ssl);
}

}  // namespace duetime::rpc
