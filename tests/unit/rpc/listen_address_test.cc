// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/listen_address.h"

#include <gtest/gtest.h>
#include <string>

namespace duetime::rpc {
namespace {

TEST(ListenAddressTest, TellsLocalFromReachable) {
  for (const char* text : {"127.0.0.1:1", "127.8.9.10:7788", "[::1]:7788", "localhost:0",
                           "unix:/run/duetime/duetime.sock"}) {
    EXPECT_TRUE(ParseListenAddress(text).value().IsLocal()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:7788", "10.0.0.1:7788", "example.org:7788",
                           "localhost.example.org:1", "128.0.0.1:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(ParseListenAddress(text).value().IsLocal()) << text;
  }
}

TEST(ListenAddressTest, RefusesMalformedAddresses) {
  for (const std::string& text :
       {std::string(""), std::string("7788"), std::string(":7788"), std::string("host"),
        std::string("host:"), std::string("host:65536"), std::string("host:-1"),
        std::string("::1:7788"), std::string("[::1:7788"), std::string("unix:relative"),
        std::string("unix:"), "unix:/" + std::string(200, 'x')}) {
    EXPECT_FALSE(ParseListenAddress(text).ok()) << text;
  }
}

}  // namespace
}  // namespace duetime::rpc
