// SPDX-License-Identifier: Apache-2.0
//
// RequestWatchdog: closes the connection with the most unfinished requests.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"

#include "server/base/mutex.h"
#include "server/rpc/connection_cuts.h"

namespace duetime::rpc {

// The kernel's number of a socket. No other socket of this machine ever has it, while the number of
// a descriptor is used again.
std::optional<uint64_t> CookieOf(int fd);

// Counts the calls of all connections whose first message has not arrived completely. Each one
// costs gRPC 11 KiB, and gRPC 1.51 limits only those of one connection. Beyond the limit, the
// watchdog forgets closed sockets, and then closes the connection with the most. Cost: a lock for
// each change, O(connections) for each closing. Thread-safe.
class RequestWatchdog {
 public:
  // One connection, whose socket is `fd` with this cookie. It may outlive its socket.
  class Connection {
   public:
    Connection(std::shared_ptr<RequestWatchdog> watchdog, int fd, uint64_t cookie);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    // The connection now has this many unfinished requests. May close it, or another one.
    void Set(uint64_t open);

   private:
    friend class RequestWatchdog;
    const std::shared_ptr<RequestWatchdog> watchdog_;
    const int fd_;
    const uint64_t cookie_;
    // Guarded by the watchdog's mutex.
    uint64_t open_ = 0;
    bool closed_ = false;
  };

  RequestWatchdog(uint64_t open_max, std::shared_ptr<ConnectionCuts> cuts)
      : open_max_(open_max), cuts_(std::move(cuts)) {}

 private:
  void CloseWorst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t open_max_;
  const std::shared_ptr<ConnectionCuts> cuts_;
  base::Mutex mutex_;
  absl::flat_hash_set<Connection*> connections_ ABSL_GUARDED_BY(mutex_);
  // Of all connections.
  uint64_t open_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::rpc
