// SPDX-License-Identifier: Apache-2.0
#include "server/access/policy_file.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace duetime::access {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(PolicyFileTest, AnErrorRefusesTheWholeFileWithItsPlace) {
  struct Row {
    const char* text;
    const char* place;
    const char* error;
  };
  const std::string rule = "[[rule]]\nwho = [\"a\"]\nmay = [\"read\"]\ntopics = [\"t\"]\n";
  for (const Row& row : {
           Row{"[[rule]\n", "5:", ""},
           Row{"[[rules]]\n", "5:3: ", "unknown key \"rules\""},
           Row{"rule = 3\n", "5:", "unknown key \"rule\""},
           Row{"[[rule]]\nwho = [\"a\"]\ntopics = [\"t\"]\nmay = [\"write\"]",
               "8:", "unknown verb \"write\""},
           Row{"[[rule]]\nwho = [\"a\"]\nmay = [\"read\"]\n", "5:", "needs \"topics\""},
           Row{"[[rule]]\nwho = []\nmay = [\"operate\"]\n", "6:", "list of texts"},
           Row{"[[rule]]\nmay = [\"operate\"]\n", "5:", "needs \"who\""},
           Row{"[[rule]]\nwho = [\"a\"]\n", "5:", "needs \"may\""},
           Row{"[[rule]]\nwho = \"a\"\nmay = [\"operate\"]\n", "6:", "list of texts"},
           Row{"[[rule]]\nwho = [3]\nmay = [\"operate\"]\n", "6:", "must be a text"},
           Row{"[groups]\ng = [\"group:h\"]\n", "6:", "holds principals"},
           Row{"[groups]\ng = [\"a\", \"*\"]\n", "6:", "holds principals"},
           Row{"[groups]\ng = [\"a\", \"jwt:*\"]\n", "6:11: ", "names have no patterns"},
           Row{"[[rule]]\nwho = [\"a\", \"jwt:*\"]\nmay = [\"operate\"]\n",
               "6:13: ", "names have no patterns"},
           Row{"[[rule]]\nwho = [\"user:a\"]\nmay = [\"operate\"]\n", "6:8: ", "with a colon"},
           Row{"[[rule]]\nwho = [\"group:\"]\nmay = [\"operate\"]\n", "6:8: ", "with a colon"},
           Row{"[[quota]]\nwho = [\"a*\"]\nstreams = 1\n", "6:8: ", "names have no patterns"},
           Row{"[[quota]]\ntopics = [\"t\", \"t#\"]\nbytes_per_second = 1\n",
               "6:16: ", "no topic is named like \"t#\""},
           Row{"[[rule]]\nwho = [\"a\"]\nmay = [\"read\"]\ntopics = [\"a?\"]\n",
               "8:11: ", "no topic is named like \"a?\""},
           Row{"[[quota]]\nwho = [\"a\"]\ntopics = [\"t\"]\n", "5:", "either"},
           Row{"[[quota]]\nwho = [\"a\"]\nmessages_per_second = 0\n", "7:", "whole number from 1"},
           Row{"[[quota]]\nwho = [\"a\"]\nmessages = 1\n", "7:", "unknown key \"messages\""},
           Row{"[[quota]]\ntopics = [\"a\"]\nstreams = 1\n", "5:", "limits of principals"},
           Row{"[jwt]\nkeys = \"k\"\nissuer = \"i\"\n", "5:", "needs"},
       }) {
    const auto policy = ParsePolicy(absl::StrCat(rule, row.text), "dir/access.toml");
    ASSERT_FALSE(policy.ok()) << row.text;
    EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(policy.status().message()),
                StartsWith(absl::StrCat("dir/access.toml:", row.place)))
        << row.text;
    EXPECT_THAT(std::string(policy.status().message()), HasSubstr(row.error)) << row.text;
  }
}

TEST(PolicyFileTest, TakesEveryKindOfName) {
  const auto policy = ParsePolicy(
      "[[rule]]\nwho = [\"a\", \"*\", \"jwt:a:b\", \"cert:spiffe://x/y\", \"unix:0\", "
      "\"group:jwt:g\"]\nmay = [\"read\"]\ntopics = [\"a*b\", \"A/b-c_d.e:0\"]\n"
      "[[quota]]\nwho = [\"*\"]\npending_messages = 3\npending_bytes = 4\n",
      "f");
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ((*policy)->rules[0].who.size(), 6u);
  EXPECT_EQ((*policy)->quotas[0].pending_messages, 3u);
  EXPECT_EQ((*policy)->quotas[0].pending_bytes, 4u);
}

TEST(PolicyFileTest, ReadsJwtSettings) {
  const auto policy = ParsePolicy(
      "[jwt]\nkeys = \"k\"\nissuer = \"i\"\naudience = \"d\"\nclock_skew_seconds = 0\n", "f");
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ((*policy)->jwt.keys, "k");
  EXPECT_EQ((*policy)->jwt.clock_skew_ms, 0u);
  EXPECT_EQ((*policy)->jwt.groups_claim, "groups");
}

std::string Entry(const std::string& name, const std::string& token, const std::string& more) {
  const TokenHash hash = HashToken(token);
  const std::string bytes(reinterpret_cast<const char*>(hash.data()), hash.size());
  return absl::StrCat("[[token]]\nname = \"", name, "\"\nid = \"x\"\nsha256 = \"",
                      absl::BytesToHexString(bytes), "\"\n", more);
}

TEST(TokenFileTest, FindsTokensByTheirHash) {
  const auto tokens =
      ParseTokens(absl::StrCat(Entry("a", "one", ""), Entry("a", "two", "groups = [\"g\"]\n"),
                               Entry("b", "three", "expires = 1970-01-01T01:00:01+01:00\n")),
                  "tokens.toml");
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->size(), 3u);
  EXPECT_EQ((*tokens)->at(HashToken("one")).principal, "a");
  EXPECT_EQ((*tokens)->at(HashToken("two")).groups, std::vector<std::string>{"g"});
  EXPECT_EQ((*tokens)->at(HashToken("three")).expires_ms, 1'000u);
  EXPECT_FALSE((*tokens)->contains(HashToken("four")));
}

TEST(TokenFileTest, RefusesWhatIsNoToken) {
  for (const std::string& text :
       {Entry("a:b", "t", ""), Entry("anonymous", "t", ""), Entry("*", "t", ""),
        Entry("a", "t", "expires = 2027-01-01\n"), Entry("a", "t", "expire = 3\n"),
        std::string("[[token]]\nname = \"a\"\nsha256 = \"00\"\n"),
        std::string("[[token]]\nname = \"a\"\n")}) {
    EXPECT_FALSE(ParseTokens(text, "f").ok()) << text;
  }
}

}  // namespace
}  // namespace duetime::access
