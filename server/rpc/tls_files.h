// SPDX-License-Identifier: Apache-2.0
//
// TlsFiles: the server's certificate, its key and the client authorities, which may change.
#pragma once

#include <atomic>
#include <cstdint>
#include <grpcpp/security/server_credentials.h>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/rpc/grpc_server_options.h"

namespace duetime::rpc {

// New connections use the newest files that fit together; open connections go on.
//
// gRPC can watch files, but takes what it finds, and would then refuse all connections because of
// one bad file. So the files are checked here first. gRPC watches copies in memory (memfd), which
// have no name in a file system. Thread safety: one thread calls Reload; any thread the rest.
class TlsFiles {
 public:
  // INVALID_ARGUMENT names the knob and the file if a file cannot be read or does not fit.
  // REQUIRES: options.tls_cert is set.
  static absl::StatusOr<std::unique_ptr<TlsFiles>> Load(const GrpcServerOptions& options);
  ~TlsFiles();
  TlsFiles(const TlsFiles&) = delete;
  TlsFiles& operator=(const TlsFiles&) = delete;

  // With a client CA, TLS verifies client certificates, and requires them if tls_client_auth is
  // "require".
  std::shared_ptr<grpc::ServerCredentials> Credentials() const;
  // Reads the files again. After an error, what was read before stays in force. gRPC takes new
  // files within a second.
  absl::Status Reload();
  // True while the newest files are refused, and older ones are in force.
  bool stale() const { return stale_.load(std::memory_order_relaxed); }
  // When the certificate ends, in seconds since 1970.
  int64_t not_after() const { return not_after_.load(std::memory_order_relaxed); }

 private:
  struct Content {
    // The certificate chain and its key, as one text. gRPC opens it twice, so a change in between
    // can give it halves of two pairs; then new connections fail until it looks again.
    std::string identity;
    std::string client_ca;
    int64_t not_after = 0;
  };

  explicit TlsFiles(const GrpcServerOptions& options) : options_(options) {}
  absl::StatusOr<Content> Read() const;
  absl::Status Publish(const Content& content);

  const GrpcServerOptions options_;
  int identity_fd_ = -1;
  int client_ca_fd_ = -1;
  // The content in force.
  std::string identity_;
  std::string client_ca_;
  std::atomic<int64_t> not_after_{0};
  std::atomic<bool> stale_{false};
};

}  // namespace duetime::rpc
