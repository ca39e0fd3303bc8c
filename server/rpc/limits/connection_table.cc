// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/connection_table.h"

#include <sys/stat.h>

namespace duetime::rpc {

bool ConnectionTable::Admit(int fd, const std::string& peer) {
  // The descriptor is free again, so its last connection is closed.
  if (const auto closed = open_.find(fd); closed != open_.end()) {
    Leave(closed->second.peer);
    open_.erase(closed);
  }
  if (open_.size() >= limits_.connections_max) return false;
  const auto of_peer = by_peer_.find(peer);
  if (!peer.empty() && of_peer != by_peer_.end() && of_peer->second >= limits_.per_peer_max) {
    return false;
  }
  struct stat socket {};
  if (fstat(fd, &socket) != 0) return false;
  open_[fd] = Entry{.device = socket.st_dev, .inode = socket.st_ino, .peer = peer};
  ++by_peer_[peer];
  return true;
}

void ConnectionTable::Sweep() {
  for (auto entry = open_.begin(); entry != open_.end();) {
    struct stat now {};
    const Entry& then = entry->second;
    if (fstat(entry->first, &now) == 0 && now.st_dev == then.device && now.st_ino == then.inode) {
      ++entry;
      continue;
    }
    Leave(then.peer);
    open_.erase(entry++);
  }
}

void ConnectionTable::Leave(const std::string& peer) {
  const auto of_peer = by_peer_.find(peer);
  if (--of_peer->second == 0) by_peer_.erase(of_peer);
}

}  // namespace duetime::rpc
