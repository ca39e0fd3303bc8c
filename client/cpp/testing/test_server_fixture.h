// SPDX-License-Identifier: Apache-2.0
//
// TestServerTest: a fixture for GoogleTest. Each test has a server of its own.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <utility>

#include "client/cpp/testing/test_server.h"

namespace duetime::client {

class TestServerTest : public testing::Test {
 protected:
  void SetUp() override { StartServer({}); }

  // Another server, for example at another time of its clock.
  void StartServer(const TestServer::Options& options) {
    auto server = TestServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  TestServer& server() { return *server_; }

 private:
  std::unique_ptr<TestServer> server_;
};

}  // namespace duetime::client
