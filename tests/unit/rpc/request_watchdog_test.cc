// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/limits/request_watchdog.h"

#include <array>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace duetime::rpc {
namespace {

// A connection whose other end sees if it is closed.
class Pair {
 public:
  explicit Pair(const std::shared_ptr<RequestWatchdog>& watchdog) {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds_.data()), 0);
    connection_.emplace(watchdog, fds_[0], CookieOf(fds_[0]).value_or(0));
  }
  ~Pair() {
    Close();
    close(fds_[1]);
  }
  void Close() {
    if (fds_[0] >= 0) close(fds_[0]);
    fds_[0] = -1;
  }
  bool open() const {
    char byte = 0;
    return recv(fds_[1], &byte, 1, 0) < 0;
  }
  RequestWatchdog::Connection* operator->() { return &*connection_; }
  void Forget() { connection_.reset(); }

 private:
  std::array<int, 2> fds_{};
  std::optional<RequestWatchdog::Connection> connection_;
};

class RequestWatchdogTest : public ::testing::Test {
 protected:
  metrics::RpcStats stats_{{}};
  std::shared_ptr<RequestWatchdog> watchdog_ =
      std::make_shared<RequestWatchdog>(100, std::make_shared<ConnectionCuts>(&stats_));
  Pair a_{watchdog_};
  Pair b_{watchdog_};
  Pair c_{watchdog_};
};

TEST_F(RequestWatchdogTest, ClosesTheConnectionWithTheMost) {
  a_->Set(30);
  b_->Set(60);
  c_->Set(10);
  EXPECT_TRUE(a_.open() && b_.open() && c_.open());
  c_->Set(11);
  EXPECT_TRUE(a_.open() && c_.open());
  EXPECT_FALSE(b_.open());
  EXPECT_EQ(stats_.connections_cut.load(), 1u);
  // What still arrives on a closed connection does not count.
  b_->Set(90);
  EXPECT_TRUE(a_.open() && c_.open());
}

TEST_F(RequestWatchdogTest, FinishedRequestsAndEndedConnectionsDoNotCount) {
  a_->Set(100);
  a_->Set(50);
  b_->Set(50);
  b_.Forget();
  c_->Set(50);
  EXPECT_TRUE(a_.open() && c_.open());
  EXPECT_EQ(stats_.connections_cut.load(), 0u);
}

TEST_F(RequestWatchdogTest, ClosedSocketsDoNotCount) {
  a_->Set(30);
  a_.Close();
  b_->Set(80);
  EXPECT_TRUE(b_.open());
  EXPECT_EQ(stats_.connections_cut.load(), 0u);
  // Nor does what is taken late.
  a_->Set(30);
  EXPECT_TRUE(b_.open());
  c_->Set(21);
  EXPECT_FALSE(b_.open());
  EXPECT_TRUE(c_.open());
}

TEST_F(RequestWatchdogTest, ADescriptorThatIsAnotherSocketNowStaysOpen) {
  a_->Set(90);
  a_.Close();
  Pair later(watchdog_);  // takes the descriptor
  b_->Set(20);
  EXPECT_TRUE(later.open() && b_.open());
  EXPECT_EQ(stats_.connections_cut.load(), 0u);
}

}  // namespace
}  // namespace duetime::rpc
