// SPDX-License-Identifier: Apache-2.0
//
// The parts of `duetime console` that need no browser. client/console/test has the others.
#include <gtest/gtest.h>

#include "client/cli/console/console_address.h"
#include "client/cli/console/login.h"

namespace duetime::cli {
namespace {

TEST(ConsoleAddressTest, ReadsAddresses) {
  struct Case {
    const char* text;
    const char* shown;  // null: refused
    bool loopback = false;
    bool wildcard = false;
  };
  for (const Case& one : {Case{"127.0.0.1:7790", "127.0.0.1:7790", true},
                          {"localhost:0", "localhost:0", true},
                          {"[::1]:80", "[::1]:80", true},
                          {"127.1.2.3:80", "127.1.2.3:80", true},
                          {"10.0.0.7:443", "10.0.0.7:443"},
                          {"0.0.0.0:443", "0.0.0.0:443", false, true},
                          {"[::]:443", "[::]:443", false, true},
                          {"127.0.0.1.example.com:80", "127.0.0.1.example.com:80"},
                          {"7790", nullptr},
                          {"127.0.0.1:", nullptr},
                          {"127.0.0.1:65536", nullptr}}) {
    const absl::StatusOr<ConsoleAddress> address = ReadConsoleAddress("--listen", one.text);
    ASSERT_EQ(address.ok(), one.shown != nullptr) << one.text;
    if (!address.ok()) continue;
    EXPECT_EQ(address->Text(), one.shown);
    EXPECT_EQ(address->IsLoopback(), one.loopback) << one.text;
    EXPECT_EQ(address->IsWildcard(), one.wildcard) << one.text;
  }
}

TEST(ConsoleAddressTest, TokensTakeAPrivateWayOnly) {
  for (const auto& [target, is_private] : {std::pair{"127.0.0.1:7788", true},
                                           {"[::1]:7788", true},
                                           {"unix:/run/duetime.sock", true},
                                           {"10.0.0.1:7788", false},
                                           {"duetime:7788", false},
                                           {"dns:///duetime:7788", false}}) {
    EXPECT_EQ(IsPrivateWay({.target = target}), is_private) << target;
    EXPECT_TRUE(IsPrivateWay({.target = target, .tls_ca_file = "ca.pem"})) << target;
  }
}

TEST(ConsoleAddressTest, PublicHostsAreNames) {
  for (const char* good : {"duetime.example.com", "10.0.0.7:7790", "[fd00::7]:443"}) {
    EXPECT_EQ(*ReadPublicHost("--public-host", good), good);
  }
  for (const char* bad : {"", "https://duetime", "a/b", "a b", "*"}) {
    EXPECT_FALSE(ReadPublicHost("--public-host", bad).ok()) << bad;
  }
}

TEST(LoginTest, TakesATokenOfOneHeader) {
  const auto with = [](const httplib::Headers& headers) {
    httplib::Request request;
    request.headers = headers;
    return TokenOf(request).value_or("");
  };
  EXPECT_EQ(with({{"Authorization", "Bearer dt_x.y-z"}}), "dt_x.y-z");
  EXPECT_EQ(with({}), "");
  EXPECT_EQ(with({{"Authorization", "Basic abc"}}), "");
  EXPECT_EQ(with({{"Authorization", "Bearer "}}), "");
  EXPECT_EQ(with({{"Authorization", "Bearer a b"}}), "");
  EXPECT_EQ(with({{"Authorization", "Bearer a\nb"}}), "");
  EXPECT_EQ(with({{"Authorization", "Bearer a\x80"}}), "");
  EXPECT_EQ(with({{"Authorization", "Bearer " + std::string(6'001, 'x')}}), "");
  EXPECT_EQ(with({{"Authorization", "Bearer a"}, {"Authorization", "Bearer b"}}), "");
}

TEST(LoginTest, AnAddressWithManyRefusedTokensWaits) {
  RefusedTokens refused;
  const absl::Time now = absl::FromUnixSeconds(1'000);
  for (int i = 0; i < RefusedTokens::kMaxPerWindow; ++i) {
    EXPECT_TRUE(refused.MayTry("a", now));
    refused.Add("a", now);
  }
  EXPECT_FALSE(refused.MayTry("a", now));
  EXPECT_TRUE(refused.MayTry("b", now)) << "another address";
  EXPECT_TRUE(refused.MayTry("a", now + RefusedTokens::kWindow));
  refused.Add("a", now + RefusedTokens::kWindow);
  EXPECT_TRUE(refused.MayTry("a", now + RefusedTokens::kWindow)) << "a new window";
}

}  // namespace
}  // namespace duetime::cli
