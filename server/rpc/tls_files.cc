// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/tls_files.h"

#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "absl/strings/str_cat.h"

namespace duetime::rpc {
namespace {

// How often gRPC looks for a new content.
constexpr unsigned kLookSeconds = 1;

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
// Sets `not_after` to the end of the certificate, in seconds since 1970.
absl::Status CheckKeyFits(const GrpcServerOptions& options, const std::string& cert,
                          const std::string& key, int64_t* not_after) {
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
  tm end = {};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) == 1) *not_after = timegm(&end);
  return absl::OkStatus();
}

// OK if the text holds certificates, and nothing that is none.
absl::Status CheckAuthorities(const std::string& path, const std::string& text) {
  using BioPtr = std::unique_ptr<BIO, decltype(&BIO_free)>;
  const BioPtr bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  ERR_clear_error();
  size_t found = 0;
  while (X509* const certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    X509_free(certificate);
    ++found;
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (found > 0 && at_end) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tls_client_ca: ", path, " is no list of certificates"));
}

// Makes a file in memory with this content. -1 if the machine has no room.
int MemoryFile(const char* name, const std::string& text) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) return fd;
  close(fd);
  return -1;
}

// Puts a new file into the place of `*fd`, in one step: gRPC reads the former one or the new one.
bool Replace(const char* name, const std::string& text, int* fd) {
  const int made = MemoryFile(name, text);
  if (made < 0) return false;
  if (*fd < 0) {
    *fd = made;
    return true;
  }
  const bool replaced = dup3(made, *fd, O_CLOEXEC) == *fd;
  close(made);
  return replaced;
}

std::string PathOf(int fd) { return absl::StrCat("/proc/self/fd/", fd); }

}  // namespace

absl::StatusOr<std::unique_ptr<TlsFiles>> TlsFiles::Load(const GrpcServerOptions& options) {
  std::unique_ptr<TlsFiles> files(new TlsFiles(options));
  const absl::StatusOr<Content> content = files->Read();
  if (!content.ok()) return content.status();
  if (absl::Status status = files->Publish(*content); !status.ok()) return status;
  return files;
}

TlsFiles::~TlsFiles() {
  if (identity_fd_ >= 0) close(identity_fd_);
  if (client_ca_fd_ >= 0) close(client_ca_fd_);
}

absl::StatusOr<TlsFiles::Content> TlsFiles::Read() const {
  Content content;
  const absl::StatusOr<std::string> cert = ReadPem("tls_cert", options_.tls_cert);
  if (!cert.ok()) return cert.status();
  const absl::StatusOr<std::string> key = ReadPem("tls_key", options_.tls_key);
  if (!key.ok()) return key.status();
  absl::Status status = CheckKeyFits(options_, *cert, *key, &content.not_after);
  if (!status.ok()) return status;
  content.identity = absl::StrCat(*cert, "\n", *key);
  if (options_.tls_client_ca.empty()) return content;
  absl::StatusOr<std::string> authorities = ReadPem("tls_client_ca", options_.tls_client_ca);
  if (!authorities.ok()) return authorities.status();
  status = CheckAuthorities(options_.tls_client_ca, *authorities);
  if (!status.ok()) return status;
  content.client_ca = *std::move(authorities);
  return content;
}

absl::Status TlsFiles::Publish(const Content& content) {
  if ((content.identity != identity_ &&
       !Replace("duetime-tls-identity", content.identity, &identity_fd_)) ||
      (content.client_ca != client_ca_ &&
       !Replace("duetime-tls-client-ca", content.client_ca, &client_ca_fd_))) {
    return absl::UnavailableError("there is no memory for the TLS files");
  }
  if (!identity_.empty() && (content.identity != identity_ || content.client_ca != client_ca_)) {
    spdlog::info("the TLS files have changed; new connections use them");
  }
  identity_ = content.identity;
  client_ca_ = content.client_ca;
  not_after_.store(content.not_after, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status TlsFiles::Reload() {
  const absl::StatusOr<Content> content = Read();
  const absl::Status status = content.ok() ? Publish(*content) : content.status();
  stale_.store(!status.ok(), std::memory_order_relaxed);
  return status;
}

std::shared_ptr<grpc::ServerCredentials> TlsFiles::Credentials() const {
  using grpc::experimental::FileWatcherCertificateProvider;
  const std::string identity = PathOf(identity_fd_);
  const bool verifies = !options_.tls_client_ca.empty();
  grpc::experimental::TlsServerCredentialsOptions tls(
      verifies
          ? std::make_shared<FileWatcherCertificateProvider>(identity, identity,
                                                             PathOf(client_ca_fd_), kLookSeconds)
          : std::make_shared<FileWatcherCertificateProvider>(identity, identity, kLookSeconds));
  tls.watch_identity_key_cert_pairs();
  if (verifies) {
    tls.watch_root_certs();
    tls.set_cert_request_type(options_.tls_client_auth == "request"
                                  ? GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY
                                  : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(tls);
}

}  // namespace duetime::rpc
