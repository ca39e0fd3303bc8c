// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/connection_table.h"

#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace duetime::rpc {
namespace {

class ConnectionTableTest : public ::testing::Test {
 protected:
  ~ConnectionTableTest() override {
    for (const int fd : open_) close(fd);
  }

  // Opens a socket, as accept would.
  int Open() {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_GE(fd, 0);
    open_.push_back(fd);
    return fd;
  }
  bool Connect(const std::string& peer) { return table_.Admit(Open(), peer); }
  void CloseAll() {
    for (const int fd : open_) close(fd);
    open_.clear();
  }

  ConnectionTable table_{{.connections_max = 5, .per_peer_max = 2}};
  std::vector<int> open_;
};

TEST_F(ConnectionTableTest, EachLimitHoldsAndEndsWithTheConnections) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(Connect("a"));
    EXPECT_TRUE(Connect("a"));
    EXPECT_FALSE(Connect("a")) << "the limit of one peer";
    EXPECT_TRUE(Connect("b"));
    EXPECT_TRUE(Connect(""));
    EXPECT_TRUE(Connect("")) << "a Unix socket has no peer";
    EXPECT_FALSE(Connect("c")) << "the limit of all";
    EXPECT_EQ(table_.size(), 5u);
    table_.Sweep();
    EXPECT_EQ(table_.size(), 5u) << "all are still open";
    CloseAll();
    table_.Sweep();
    EXPECT_EQ(table_.size(), 0u);
  }
}

TEST_F(ConnectionTableTest, ADescriptorThatIsUsedAgainIsAnotherConnection) {
  const int fd = Open();
  EXPECT_TRUE(table_.Admit(fd, "a"));
  EXPECT_TRUE(Connect("a"));
  EXPECT_FALSE(Connect("a"));
  const int other = Open();
  // Now `fd` is another socket. accept returned it first, then a file of the store.
  ASSERT_EQ(dup2(other, fd), fd);
  EXPECT_TRUE(table_.Admit(fd, "b"));
  EXPECT_EQ(table_.size(), 2u);
  EXPECT_TRUE(Connect("a")) << "its place was given back";
  ASSERT_EQ(dup2(STDIN_FILENO, fd), fd);
  table_.Sweep();
  EXPECT_EQ(table_.size(), 2u) << "a descriptor that is no longer the socket is no connection";
}

}  // namespace
}  // namespace duetime::rpc
