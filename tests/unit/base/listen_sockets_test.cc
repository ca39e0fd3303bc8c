// SPDX-License-Identifier: Apache-2.0
#include "server/base/listen_sockets.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace {

// Names as /etc/hosts of other machines has them.
struct Name {
  const char* name;
  std::vector<const char*> addresses;
};
const Name kNames[] = {
    {"both", {"::1", "127.0.0.1", "::1", "127.0.0.1"}},
    {"partly.elsewhere", {"203.0.113.1", "127.0.0.1"}},
    {"all.elsewhere", {"203.0.113.1", "203.0.113.2"}},
};

}  // namespace

// In place of the function of the C library.
int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  static const auto real =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  for (const Name& name : kNames) {
    if (name.name != std::string(host)) continue;
    addrinfo** end = found;
    for (const char* const address : name.addresses) {
      if (const int error = real(address, service, hints, end); error != 0) return error;
      end = &(*end)->ai_next;
    }
    return 0;
  }
  return real(host, service, hints, found);
}

namespace duetime::base {
namespace {

using Sockets = std::vector<ListenSocket>;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBacklog = 8;
// Of no machine (RFC 5737).
constexpr char kElsewhere[] = "203.0.113.1";

class ListenSocketsTest : public ::testing::Test {
 protected:
  ~ListenSocketsTest() override {
    for (const int fd : fds_) close(fd);
  }

  // The test closes the sockets.
  template <typename Hosts>
  absl::StatusOr<Sockets> Listen(const Hosts& hosts, uint16_t port) {
    absl::StatusOr<Sockets> sockets = ListenOn(hosts, port, kBacklog);
    if (sockets.ok()) {
      for (const ListenSocket& socket : *sockets) fds_.push_back(socket.fd);
    }
    return sockets;
  }

  static bool HasIpv6() {
    const auto sockets = ListenOn("::1", 0, kBacklog);
    if (sockets.ok()) close(sockets->front().fd);
    return sockets.ok();
  }

  std::vector<int> fds_;
};

TEST_F(ListenSocketsTest, ANameStandsForAllItsAddresses) {
  const auto addresses_of = [](const char* host) { return *AddressesOf(host); };
  for (const char* const address : {"127.0.0.1", "::1", "0.0.0.0", kElsewhere}) {
    EXPECT_THAT(addresses_of(address), ElementsAre(address));
  }
  EXPECT_THAT(addresses_of("localhost"), Contains("127.0.0.1"));
  if (HasIpv6()) {
    EXPECT_THAT(addresses_of("both"), ElementsAre("::1", "127.0.0.1"));
    const absl::StatusOr<Sockets> sockets = Listen("both", 0);
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    EXPECT_EQ(sockets->size(), 2u);
  } else {
    EXPECT_THAT(addresses_of("both"), ElementsAre("127.0.0.1"));
  }
  EXPECT_THAT(addresses_of("partly.elsewhere"), ElementsAre("127.0.0.1"));
  EXPECT_THAT(addresses_of("all.elsewhere"), ElementsAre(kElsewhere, "203.0.113.2"));
}

TEST_F(ListenSocketsTest, AnUnknownNameIsAnError) {
  // A label has 63 bytes at most, so no server is asked.
  const std::string no_name(64, 'x');
  EXPECT_EQ(AddressesOf(no_name).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Listen(no_name, 0).status().message()), HasSubstr(no_name));
}

TEST_F(ListenSocketsTest, AllAddressesHaveOnePort) {
  std::vector<std::string> hosts = {"127.0.0.1", "127.0.0.2"};
  if (HasIpv6()) hosts.insert(hosts.begin(), "::1");
  const absl::StatusOr<Sockets> sockets = Listen(hosts, 0);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  ASSERT_EQ(sockets->size(), hosts.size());
  const uint16_t port = sockets->front().port;
  EXPECT_NE(port, 0);
  for (size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_EQ((*sockets)[i].address, HostAndPort(hosts[i], port));
    // Another server cannot have the port of any of them, and keeps none of the others.
    const absl::Status again =
        Listen(std::vector<std::string>{"127.0.0.3", hosts[i]}, port).status();
    EXPECT_EQ(again.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(again.message()), HasSubstr(HostAndPort(hosts[i], port)));
  }
  EXPECT_TRUE(Listen("127.0.0.3", port).ok());
}

TEST_F(ListenSocketsTest, AnAddressOfAnotherMachineIsAnError) {
  const absl::Status status = Listen(kElsewhere, 0).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("bind ", kElsewhere)));
}

TEST_F(ListenSocketsTest, TextsOfIpv6HaveBrackets) {
  EXPECT_EQ(HostAndPort("localhost", 1), "localhost:1");
  EXPECT_EQ(HostAndPort("::1", 1), "[::1]:1");
}

}  // namespace
}  // namespace duetime::base
