// SPDX-License-Identifier: Apache-2.0
#include "server/access/access_control.h"

#include <fstream>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/base/error.h"
#include "tests/support/temp_directory.h"

namespace duetime::access {
namespace {

using ::testing::HasSubstr;

constexpr base::Now kNow = {.wall_ms = 1'000'000, .mono_ms = 50'000};

class AccessControlTest : public testing::Test {
 protected:
  AccessControlTest() { WriteRules("orders"); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.Join(name), std::ios::trunc) << text;
  }
  void WriteRules(const std::string& topic) {
    Write("access.toml", absl::StrCat("[[rule]]\nwho = [\"*\"]\nmay = [\"cancel\"]\ntopics = [\"",
                                      topic, "\"]\n[[quota]]\nwho = [\"*\"]\nstreams = 1\n"));
  }
  void WriteToken(const std::string& token, const std::string& more = "") {
    const TokenHash hash = HashToken(token);
    const std::string bytes(reinterpret_cast<const char*>(hash.data()), hash.size());
    Write("tokens.toml", absl::StrCat("[[token]]\nname = \"a\"\nsha256 = \"",
                                      absl::BytesToHexString(bytes), "\"\n", more));
  }
  AccessOptions Options() const {
    return {.access_file = directory_.Join("access.toml"),
            .tokens_file = directory_.Join("tokens.toml"),
            .auth_failures_max = 3};
  }

  const test::TempDirectory directory_;
};

std::string ReasonOf(const absl::Status& status) {
  const auto detail = base::GetErrorDetail(status);
  return detail.has_value() ? detail->reason : "";
}

TEST_F(AccessControlTest, TheCredentialsCountInTheirOrder) {
  WriteToken("secret");
  AccessControl access(Options());
  ASSERT_TRUE(access.Reload().ok());
  Credentials all = {.token = "secret", .certificate = {"cert:c", "cert:d"}, .unix_user = 0};
  EXPECT_EQ((*access.Authenticate(all, kNow))->principal(), "a");
  all.token = "wrong";
  EXPECT_EQ(ReasonOf(access.Authenticate(all, kNow).status()), "INVALID_CREDENTIALS");
  all.token = "";
  EXPECT_EQ((*access.Authenticate(all, kNow))->principal(), "cert:c");
  all.certificate = {};
  const CallerPtr root = *access.Authenticate(all, kNow);
  EXPECT_EQ(root->principal(), "unix:root");
  EXPECT_EQ(root->identity().aliases, std::vector<std::string>{"unix:0"});
  EXPECT_TRUE((*access.Authenticate({}, kNow))->identity().anonymous());
}

TEST_F(AccessControlTest, AnExpiredTokenIsRefusedAlsoIfItWasKnown) {
  WriteToken("secret", "expires = 1970-01-01T00:16:41Z\n");  // kNow and a second
  AccessControl access(Options());
  ASSERT_TRUE(access.Reload().ok());
  EXPECT_TRUE(access.Authenticate({.token = "secret"}, kNow).ok());
  const base::Now later = {.wall_ms = kNow.wall_ms + 1'000, .mono_ms = 51'000};
  EXPECT_EQ(ReasonOf(access.Authenticate({.token = "secret"}, later).status()),
            "INVALID_CREDENTIALS");
}

// What CheckAccess is asked about: a name, with the groups of its tokens.
TEST_F(AccessControlTest, ANameStandsForTheTokensOfThisName) {
  const auto entry = [](const std::string& name, char digit, const std::string& more) {
    return absl::StrCat("[[token]]\nname = \"", name, "\"\nsha256 = \"", std::string(64, digit),
                        "\"\n", more, "\n");
  };
  Write("tokens.toml",
        absl::StrCat(entry("one", '1', "groups = [\"g\", \"h\"]"),
                     entry("two", '2', "groups = [\"g\"]"), entry("two", '3', "groups = [\"g\"]"),
                     entry("two", '4', ""),
                     // It ends with kNow.
                     entry("old", '5', "groups = [\"g\"]\nexpires = 1970-01-01T00:16:40Z")));
  AccessControl access(Options());
  ASSERT_TRUE(access.Reload().ok());
  using Groups = std::vector<std::vector<std::string>>;
  const auto groups_of = [&](Identity asked) {
    Groups groups;
    for (const CallerPtr& caller : access.Imagine(std::move(asked), kNow)) {
      groups.push_back(caller->identity().groups);
    }
    return groups;
  };
  EXPECT_EQ(groups_of({.principal = "one"}), (Groups{{"g", "h"}}));
  EXPECT_EQ(groups_of({.principal = "two"}), (Groups{{}, {"g"}}));
  EXPECT_EQ(groups_of({.principal = "old"}), (Groups{{}}));
  EXPECT_EQ(groups_of({.principal = "jwt:one"}), (Groups{{}}));
  EXPECT_EQ(groups_of({.principal = "one", .groups = {"i"}}), (Groups{{"i"}}));
  EXPECT_EQ(access.Imagine({.principal = "unix:0"}, kNow)[0]->principal(), "unix:root");
  EXPECT_EQ(access.Imagine({.principal = "unix:root"}, kNow)[0]->identity().aliases,
            std::vector<std::string>{"unix:0"});
  EXPECT_EQ(access.Imagine({.principal = "unix:no such"}, kNow)[0]->principal(), "unix:no such");
}

TEST_F(AccessControlTest, ChangesTakeEffectAndABadFileDoesNot) {
  WriteToken("secret");
  AccessControl access(Options());
  ASSERT_TRUE(access.Reload().ok());
  const CallerPtr before = *access.Authenticate({.token = "secret"}, kNow);
  EXPECT_TRUE(before->Allows(Verb::kCancel, "orders"));

  WriteRules("other");
  ASSERT_TRUE(access.Reload().ok());
  EXPECT_GT(access.generation(), before->generation());
  const CallerPtr after = *access.Authenticate({.token = "secret"}, kNow);
  EXPECT_FALSE(after->Allows(Verb::kCancel, "orders"));
  // The meter is the same, so that a change of the file resets no quota.
  EXPECT_EQ(after->meter(), before->meter());

  Write("access.toml", "[[rule]]\nwho = 3\n");
  const uint64_t generation = access.generation();
  for (int i = 0; i < 2; ++i) {
    const absl::Status status = access.Reload();
    EXPECT_THAT(std::string(status.message()), HasSubstr("access.toml:2:"));
    EXPECT_TRUE(access.stale());
  }
  EXPECT_EQ(access.generation(), generation);
  EXPECT_TRUE((*access.Authenticate({.token = "secret"}, kNow))->Allows(Verb::kCancel, "other"));

  WriteRules("orders");
  WriteToken("new");
  ASSERT_TRUE(access.Reload().ok());
  EXPECT_FALSE(access.stale());
  EXPECT_FALSE(access.Authenticate({.token = "secret"}, kNow).ok());
  EXPECT_TRUE(access.Authenticate({.token = "new"}, kNow).ok());
}

TEST_F(AccessControlTest, AMissingFileIsAnErrorAtTheStart) {
  AccessControl access(Options());
  const absl::Status status = access.Reload();
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokens.toml"));
}

TEST_F(AccessControlTest, ADirectoryIsNoEmptyFile) {
  WriteToken("secret");
  AccessOptions options = Options();
  options.access_file = directory_.path();
  AccessControl access(options);
  EXPECT_THAT(std::string(access.Reload().message()), HasSubstr("cannot be read"));
}

// An editor that writes in place first makes the file empty.
TEST_F(AccessControlTest, AFileThatLosesAllRulesOpensNothing) {
  WriteToken("secret");
  AccessControl access(Options());
  ASSERT_TRUE(access.Reload().ok());
  for (const char* text : {"", "[groups]\nx = [\"a\"]\n"}) {
    Write("access.toml", text);
    EXPECT_THAT(std::string(access.Reload().message()), HasSubstr("has no rules any more"));
    EXPECT_TRUE(access.stale());
    EXPECT_FALSE((*access.Authenticate({.token = "secret"}, kNow))->Allows(Verb::kAdmin, "orders"));
  }
  WriteRules("other");
  EXPECT_TRUE(access.Reload().ok());
}

TEST_F(AccessControlTest, ANewLineInTheNameOfACertificateSeparatesNothing) {
  WriteToken("secret");
  AccessControl access(Options());
  ASSERT_TRUE(access.Reload().ok());
  EXPECT_EQ((*access.Authenticate({.certificate = {"cert:a", "cert:b"}}, kNow))->principal(),
            "cert:a");
  EXPECT_EQ((*access.Authenticate({.certificate = {"cert:a\ncert:b"}}, kNow))->principal(),
            "cert:a\ncert:b");
}

TEST_F(AccessControlTest, APeerWithTooManyRefusalsHasNoJwtVerified) {
  WriteToken("secret");
  AccessControl access(Options());
  ASSERT_TRUE(access.Reload().ok());
  const Credentials jwt = {.token = "a.b.c", .peer = "10.0.0.7"};
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(access.Authenticate(jwt, kNow).status()), "INVALID_CREDENTIALS");
    EXPECT_TRUE(access.CountRefusal(jwt.peer, kNow.mono_ms, /*bad_credentials=*/true));
  }
  EXPECT_EQ(ReasonOf(access.Authenticate(jwt, kNow).status()), "TOO_MANY_REFUSED_CREDENTIALS");
  EXPECT_FALSE(access.CountRefusal(jwt.peer, kNow.mono_ms, /*bad_credentials=*/true));
  // A client without a right has shown valid credentials.
  const Credentials neighbour = {.token = "a.b.c", .peer = "10.0.0.9"};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(access.CountRefusal(neighbour.peer, kNow.mono_ms, /*bad_credentials=*/false), i < 3);
  }
  EXPECT_EQ(ReasonOf(access.Authenticate(neighbour, kNow).status()), "INVALID_CREDENTIALS");
  // A client has a whole IPv6 network.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(access.CountRefusal(absl::StrCat("2001:db8:0:1::", i + 1), kNow.mono_ms, true),
              i < 3);
  }
  EXPECT_TRUE(access.CountRefusal("2001:db8:0:2::1", kNow.mono_ms, true));
  EXPECT_EQ(
      ReasonOf(access.Authenticate({.token = "a.b.c", .peer = "2001:db8:0:1::9"}, kNow).status()),
      "TOO_MANY_REFUSED_CREDENTIALS");
  for (uint64_t i = 0; i <= Meter::kRefusalsPerSecond; ++i) {
    EXPECT_EQ(access.PaceRefusal("2001:db8:0:1::1", kNow.mono_ms), 0u);
  }
  EXPECT_EQ(access.PaceRefusal("2001:db8:0:1::2", kNow.mono_ms), 5u);
  EXPECT_EQ(access.PaceRefusal("2001:db8:0:2::1", kNow.mono_ms), 0u);
  // A stream that is open asks again, and must not end because of its neighbours.
  EXPECT_EQ(ReasonOf(access.AuthenticateAgain(jwt, kNow).status()), "INVALID_CREDENTIALS");
  // Others, and known tokens from the same address, are not concerned.
  EXPECT_TRUE(access.Authenticate({.token = "secret", .peer = jwt.peer}, kNow).ok());
  EXPECT_EQ(ReasonOf(access.Authenticate({.token = "a.b.c", .peer = "10.0.0.8"}, kNow).status()),
            "INVALID_CREDENTIALS");
  const base::Now later = {.wall_ms = kNow.wall_ms, .mono_ms = kNow.mono_ms + 1'000};
  EXPECT_EQ(ReasonOf(access.Authenticate(jwt, later).status()), "INVALID_CREDENTIALS");
}

}  // namespace
}  // namespace duetime::access
