// SPDX-License-Identifier: Apache-2.0
//
// Listener: the sockets on which connections arrive.
#pragma once

#include <cstdint>
#include <grpcpp/server_builder.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/rpc/listen_address.h"

namespace duetime::rpc {

// Accepts connections itself and hands them to gRPC.
//
// gRPC 1.51's own listener never accepts again once the process has run out of file descriptors
// (CVE-2023-4785). This listener waits a moment and goes on. It also refuses a port that another
// daemon uses, which gRPC would share, and replaces a Unix socket that a killed daemon left behind.
// Thread safety: one thread calls all functions.
class Listener {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  // Binds and listens. An error names the address and the reason. An address that is not on this
  // machine's loopback needs `allow_nonlocal`.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::vector<std::string>& addresses,
                                                        bool allow_nonlocal);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Begins to accept. TCP connections go to `tcp`, connections of Unix sockets to `local`.
  // REQUIRES: the gRPC server has been started.
  void Start(std::unique_ptr<Acceptor> tcp, std::unique_ptr<Acceptor> local);
  // Closes the sockets; connections live on. Idempotent.
  void Stop();

  // The bound addresses in the order of Open, with the port that the system chose for port 0.
  const std::vector<std::string>& addresses() const { return bound_; }

 private:
  struct Socket {
    int fd = -1;
    // The file that is removed at the end; empty for TCP.
    std::string unix_path;
  };

  Listener() = default;
  absl::Status Add(const ListenAddress& address);
  absl::Status AddUnix(const std::string& path);
  absl::Status AddTcp(const std::string& host, uint16_t port);
  void Run();
  // Accepts the connections that wait on `socket`. Returns false if the process is out of file
  // descriptors or memory.
  bool AcceptAll(const Socket& socket);

  std::vector<Socket> sockets_;
  std::vector<std::string> bound_;
  std::unique_ptr<Acceptor> tcp_;
  std::unique_ptr<Acceptor> local_;
  // A pipe. The thread stops at its end of file.
  int stop_read_fd_ = -1;
  int stop_write_fd_ = -1;
  std::thread thread_;
};

}  // namespace duetime::rpc
