// SPDX-License-Identifier: Apache-2.0
//
// Listener: the sockets on which connections arrive.
#pragma once

#include <atomic>
#include <cstdint>
#include <grpcpp/server_builder.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/rpc/limits/connection_table.h"
#include "server/rpc/listen_address.h"

namespace duetime::rpc {

// Accepts connections itself and hands them to gRPC.
//
// gRPC 1.51's own listener never accepts again once the process has run out of file descriptors
// (CVE-2023-4785). This listener waits a moment and goes on. It also refuses a port that another
// daemon uses, which gRPC would share, and replaces a Unix socket that a killed daemon left behind.
//
// A connection beyond the limits is closed at once. Half a second after connections are closed,
// others get their places. Thread safety: one thread calls Open, Start and Stop; any thread calls
// the accessors.
class Listener {
 public:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  // Binds and listens; a name stands for all its addresses. An error names the address and the
  // reason. An address that is not on this machine's loopback needs `allow_nonlocal`.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(const std::vector<std::string>& addresses,
                                                        bool allow_nonlocal,
                                                        const ConnectionTable::Limits& limits);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Begins to accept. TCP connections go to `tcp`, connections of Unix sockets to `local`.
  // REQUIRES: the gRPC server has been started.
  void Start(std::unique_ptr<Acceptor> tcp, std::unique_ptr<Acceptor> local);
  // Closes the sockets; connections live on. Idempotent.
  void Stop();

  // The bound addresses in the order of Open, with the port that the system chose for port 0. A
  // name is replaced by its addresses.
  const std::vector<std::string>& addresses() const { return bound_; }
  // The number of open connections, about half a second old.
  uint64_t connections() const { return connections_.load(std::memory_order_relaxed); }
  // The number of connections that the limits refused.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  struct Socket {
    int fd = -1;
    // The file that is removed at the end; empty for TCP.
    std::string unix_path;
  };

  explicit Listener(const ConnectionTable::Limits& limits) : table_(limits) {}
  absl::Status Add(const ListenAddress& address);
  absl::Status AddUnix(const std::string& path);
  absl::Status AddTcp(const std::string& host, uint16_t port);
  void Run();
  // Accepts some of the connections that wait on `socket`. Returns false if the process is out of
  // file descriptors or memory.
  bool AcceptSome(const Socket& socket);
  void OnTick();

  std::vector<Socket> sockets_;
  std::vector<std::string> bound_;
  std::unique_ptr<Acceptor> tcp_;
  std::unique_ptr<Acceptor> local_;
  // A pipe. The thread stops at its end of file.
  int stop_read_fd_ = -1;
  int stop_write_fd_ = -1;
  // Expires regularly, for OnTick.
  int timer_fd_ = -1;
  std::atomic<uint64_t> connections_{0};
  std::atomic<uint64_t> refused_{0};
  std::thread thread_;

  // Confined to the thread.
  ConnectionTable table_;
  uint64_t ticks_ = 0;
  uint64_t refused_logged_ = 0;
  std::string last_refused_;
};

}  // namespace duetime::rpc
