// SPDX-License-Identifier: Apache-2.0
#include "server/access/policy.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "server/access/policy_file.h"

namespace duetime::access {
namespace {

TEST(MatchesTest, StarMatchesAnyBytes) {
  struct Row {
    const char* pattern;
    const char* text;
    bool matches;
  };
  for (const Row& row : {
           Row{"orders", "orders", true},
           Row{"orders", "order", false},
           Row{"orders", "orders2", false},
           Row{"orders.*", "orders.eu", true},
           Row{"orders.*", "orders.", true},
           Row{"orders.*", "orders", false},
           Row{"*", "", true},
           Row{"*", "any", true},
           Row{"", "", true},
           Row{"", "a", false},
           Row{"*.dlq", "orders.dlq", true},
           Row{"*.dlq", "orders.dlq.x", false},
           Row{"a*b*c", "aXbYbZc", true},
           Row{"a*b*c", "aXbYbZ", false},
           Row{"**", "x", true},
           Row{"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
       }) {
    EXPECT_EQ(Matches(row.pattern, row.text), row.matches) << row.pattern << " " << row.text;
  }
}

constexpr char kRules[] = R"(
[groups]
payments = ["orders-service", "cert:pay.example"]

[[rule]]
who = ["group:payments"]
may = ["schedule", "cancel"]
topics = ["orders", "orders.*"]

[[rule]]
who = ["*"]
may = ["read"]
topics = ["public"]

[[rule]]
who = ["group:jwt:ops"]
may = ["operate", "read_payloads"]
topics = ["*"]

[[rule]]
who = ["anonymous"]
may = ["schedule"]
topics = ["feedback"]
)";

std::shared_ptr<const Policy> Parse(const std::string& text) {
  auto policy = ParsePolicy(text, "access.toml");
  EXPECT_TRUE(policy.ok()) << policy.status();
  return *policy;
}

bool May(const Policy& policy, const Identity& who, Verb verb, const std::string& topic) {
  return policy.Decide(who, policy.RulesFor(who), verb, topic).allowed;
}

TEST(PolicyTest, AllowsWhatARuleSaysAndNothingElse) {
  const auto policy = Parse(kRules);
  const Identity token = {.principal = "orders-service"};
  const Identity other = {.principal = "other"};
  const Identity certificate = {.principal = "cert:spiffe://x", .aliases = {"cert:pay.example"}};
  const Identity operations = {.principal = "jwt:jo", .groups = {"jwt:ops"}};
  const Identity grouped = {.principal = "new", .groups = {"payments"}};
  const Identity anonymous;
  struct Row {
    const Identity& who;
    Verb verb;
    const char* topic;
    bool allowed;
  };
  for (const Row& row : {
           Row{token, Verb::kSchedule, "orders", true},
           Row{token, Verb::kSchedule, "orders.eu", true},
           Row{token, Verb::kSchedule, "orders2", false},
           Row{token, Verb::kRead, "orders", false},
           Row{token, Verb::kRead, "public", true},
           Row{token, Verb::kReadPayloads, "public", false},
           Row{token, Verb::kOperate, "", false},
           Row{certificate, Verb::kCancel, "orders", true},
           Row{grouped, Verb::kCancel, "orders", true},
           Row{other, Verb::kCancel, "orders", false},
           Row{operations, Verb::kOperate, "", true},
           Row{operations, Verb::kRead, "secret", true},
           Row{operations, Verb::kCancel, "secret", false},
           Row{anonymous, Verb::kSchedule, "feedback", true},
           Row{anonymous, Verb::kRead, "public", false},
           Row{other, Verb::kSchedule, "feedback", false},
       }) {
    EXPECT_EQ(May(*policy, row.who, row.verb, row.topic), row.allowed)
        << row.who.principal << " " << NameOf(row.verb) << " " << row.topic;
  }
}

TEST(PolicyTest, NamesTheRule) {
  const auto policy = Parse(kRules);
  const Identity who = {.principal = "orders-service"};
  const Decision decision = policy->Decide(who, policy->RulesFor(who), Verb::kSchedule, "orders");
  ASSERT_NE(decision.rule, nullptr);
  EXPECT_EQ(decision.rule->line, 5u);
}

TEST(PolicyTest, WithoutRulesEveryoneWhoAuthenticatesMayDoEverything) {
  const Policy policy;
  EXPECT_TRUE(May(policy, {.principal = "any"}, Verb::kAdmin, "t"));
  EXPECT_FALSE(May(policy, {}, Verb::kRead, "t"));
}

TEST(PolicyTest, EverywhereAndSomewhere) {
  const auto policy = Parse(kRules);
  const Identity token = {.principal = "orders-service"};
  const Identity operations = {.principal = "jwt:jo", .groups = {"jwt:ops"}};
  EXPECT_FALSE(policy->AllowsEverywhere(token, policy->RulesFor(token), Verb::kCancel));
  EXPECT_TRUE(policy->AllowsSomewhere(token, policy->RulesFor(token), Verb::kCancel));
  EXPECT_FALSE(policy->AllowsSomewhere(token, policy->RulesFor(token), Verb::kAdmin));
  EXPECT_TRUE(policy->AllowsEverywhere(operations, policy->RulesFor(operations), Verb::kRead));
}

TEST(PolicyTest, TheFirstQuotaCounts) {
  const auto policy = Parse(R"(
[[quota]]
who = ["big"]
messages_per_second = 1000
[[quota]]
who = ["*"]
messages_per_second = 10
[[quota]]
topics = ["m.*"]
bytes_per_second = 5
)");
  EXPECT_EQ(policy->QuotaOf({.principal = "big"})->messages_per_second, 1000u);
  EXPECT_EQ(policy->QuotaOf({.principal = "small"})->messages_per_second, 10u);
  EXPECT_EQ(policy->QuotaOf({}), nullptr);
  EXPECT_EQ(policy->QuotaOfTopic("m.1")->bytes_per_second, 5u);
  EXPECT_EQ(policy->QuotaOfTopic("x"), nullptr);
}

}  // namespace
}  // namespace duetime::access
