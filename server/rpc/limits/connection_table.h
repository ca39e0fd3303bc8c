// SPDX-License-Identifier: Apache-2.0
//
// ConnectionTable: limits the open connections.
#pragma once

#include <cstddef>
#include <string>
#include <sys/types.h>

#include "absl/container/flat_hash_map.h"

namespace duetime::rpc {

// Counts the open connections, in all and for each peer. gRPC owns the connections and does not say
// when it closes one. The table remembers which socket was behind each descriptor, and Sweep looks
// if it still is. Between two sweeps the table may count connections that are closed, never too
// few.
//
// Confined to one thread.
class ConnectionTable {
 public:
  struct Limits {
    size_t connections_max = 0;
    size_t per_peer_max = 0;
  };

  explicit ConnectionTable(const Limits& limits) : limits_(limits) {}

  // Returns true and counts the connection if it may stay. `fd` was just accepted and is open.
  // Connections with an empty `peer` have no limit of their own.
  bool Admit(int fd, const std::string& peer);

  // Forgets the connections that are closed.
  void Sweep();

  size_t size() const { return open_.size(); }

 private:
  struct Entry {
    // The socket.
    dev_t device = 0;
    ino_t inode = 0;
    std::string peer;
  };
  using Entries = absl::flat_hash_map<int, Entry>;

  void Leave(const std::string& peer);

  const Limits limits_;
  Entries open_;
  absl::flat_hash_map<std::string, size_t> by_peer_;
};

}  // namespace duetime::rpc
