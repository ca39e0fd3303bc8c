// SPDX-License-Identifier: Apache-2.0
//
// PageServer with readers that are slow, silent or many.
#include "server/metrics/page_server.h"

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/support/http_get.h"

namespace duetime::metrics {
namespace {

using test::HttpGet;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kRequest[] = "GET /page HTTP/1.1\r\nHost: x\r\n\r\n";

class PageServerTest : public ::testing::Test {
 protected:
  ~PageServerTest() override {
    for (const int fd : open_) close(fd);
  }

  void Start(PageServer::Options options) {
    options.address = "127.0.0.1:0";
    options.path = "/page";
    options.render = [this] {
      ++renders_;
      return page_;
    };
    options.on_cut = [this] { ++cuts_; };
    auto started = PageServer::Start(std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }

  // A connection that has sent `request` and does not read.
  int Open(const std::string& request) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 4096;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    const timeval patience = {.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    open_.push_back(fd);
    return fd;
  }
  // Reads until the server closes the connection.
  static std::string ReadAll(int fd) {
    std::string text;
    std::array<char, 65'536> buffer{};
    for (ssize_t size = 0; (size = read(fd, buffer.data(), buffer.size())) > 0;) {
      text.append(buffer.data(), static_cast<size_t>(size));
    }
    return text;
  }

  std::string page_ = "the page\n";
  std::atomic<int> renders_{0};
  std::atomic<int> cuts_{0};
  std::vector<int> open_;
  std::unique_ptr<PageServer> server_;
};

TEST_F(PageServerTest, AnswersOnlyItsPage) {
  Start({});
  const std::string page = HttpGet(server_->port(), "/page");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Length: 9\r\n"));
  EXPECT_THAT(page, EndsWith("\r\n\r\nthe page\n"));
  EXPECT_THAT(HttpGet(server_->port(), "/page?a=b"), EndsWith("the page\n"));
  EXPECT_THAT(HttpGet(server_->port(), "/pages"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ReadAll(Open("POST /page HTTP/1.1\r\n\r\n")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ReadAll(Open(std::string(8192, 'x'))), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(renders_, 2);
  EXPECT_EQ(cuts_, 0);
}

TEST_F(PageServerTest, ARequestMayComeInPieces) {
  Start({});
  const int fd = Open("GET /pa");
  EXPECT_EQ(send(fd, "ge HTTP/1.1\r\n\r\n", 15, MSG_NOSIGNAL), 15);
  EXPECT_THAT(ReadAll(fd), EndsWith("the page\n"));
}

TEST_F(PageServerTest, ReadersThatDoNotReadShutOutNobody) {
  page_ = std::string(8 << 20, 'x');
  Start({.connections_max = 8, .request_ms = 600'000, .answer_ms = 600'000});
  for (int i = 0; i < 300; ++i) Open(i % 2 == 0 ? kRequest : "");
  EXPECT_THAT(HttpGet(server_->port(), "/other"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(HttpGet(server_->port(), "/page"), EndsWith(page_));
  EXPECT_GE(cuts_, 300 - 8);
}

TEST_F(PageServerTest, SilentAndSlowConnectionsEnd) {
  page_ = std::string(16 << 20, 'x');
  Start({.request_ms = 1, .answer_ms = 600'000});
  EXPECT_EQ(ReadAll(Open("GET /page")), "") << "it never sent its request";
  ASSERT_EQ(cuts_, 1);
  Start({.request_ms = 600'000, .answer_ms = 1});
  const int slow = Open(kRequest);
  while (cuts_ < 2) std::this_thread::yield();
  EXPECT_LT(ReadAll(slow).size(), page_.size());
}

}  // namespace
}  // namespace duetime::metrics
