// SPDX-License-Identifier: Apache-2.0
//
// The parts of `duetime console` that need no browser, and of `duetime dev` that need no server.
// client/console/test and tests/integration/dev_test.py have the others.
#include <cmath>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "client/cli/console/console_address.h"
#include "client/cli/console/history.h"
#include "client/cli/console/login.h"
#include "client/cli/console/metrics.h"
#include "client/cli/dev/event_counter.h"
#include "client/cpp/convert.h"

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

constexpr char kPage[] = R"(# HELP x y
acks_total{shard="0"} 3
acks_total{shard="1",name="a}b"} 4
acks_total_more 100
late_bucket{shard="0",le="0.01"} 5
late_bucket{shard="1",le="0.01"} 1
late_bucket{shard="0",le="1"} 9
late_bucket{shard="0",le="+Inf"} 10
)";

TEST(ConsoleMetricsTest, SumsOverLabels) {
  EXPECT_EQ(SumOf(kPage, "acks_total"), 7);
  EXPECT_EQ(SumOf(kPage, "none"), 0);
  const Buckets buckets = BucketsOf(kPage, "late");
  EXPECT_EQ(buckets, (Buckets{{0.01, 6}, {1, 9}, {HUGE_VAL, 10}}));
}

TEST(ConsoleMetricsTest, QuantilesAreThoseSinceTheReadingBefore) {
  const Buckets before = {{0.01, 100}, {1, 100}, {HUGE_VAL, 100}};
  struct Case {
    const char* name;
    Buckets now;
    double half;
    double most;
  };
  for (const Case& one :
       {Case{"two thirds are quick", {{0.01, 120}, {1, 130}, {HUGE_VAL, 130}}, 0.01, 1},
        Case{"some are beyond all bounds", {{0.01, 110}, {1, 110}, {HUGE_VAL, 200}}, 1, 1},
        Case{"a new run of the server", {{0.01, 0}, {1, 10}, {HUGE_VAL, 10}}, 1, 1}}) {
    EXPECT_EQ(QuantileOf(before, one.now, 0.5), one.half) << one.name;
    EXPECT_EQ(QuantileOf(before, one.now, 0.99), one.most) << one.name;
  }
  EXPECT_TRUE(std::isnan(QuantileOf(before, before, 0.5))) << "nothing happened";
  EXPECT_TRUE(std::isnan(QuantileOf(before, {}, 0.5)));
}

class HistoryTest : public testing::Test {
 protected:
  // A sample with one topic, of which one subscription has settled as much as the server.
  static Sample At(int64_t second, int64_t acked, const std::string& topic) {
    Sample sample;
    *sample.info.mutable_server_time() = client::ToProto(absl::FromUnixSeconds(second));
    sample.info.mutable_counts()->set_acked(acked);
    TopicSample& one = sample.topics.emplace_back();
    one.topic.set_name(topic);
    one.topic.mutable_counts()->set_pending(acked + 1);
    v1::Subscription& subscription = one.subscriptions.emplace_back();
    subscription.mutable_counts()->set_acked(acked);
    *subscription.mutable_backlog()->mutable_oldest_due_time() =
        client::ToProto(absl::FromUnixSeconds(second - 2));
    return sample;
  }

  nlohmann::json Server() const { return nlohmann::json::parse(history_.ServerJson()); }
  nlohmann::json Topic(const std::string& name) const {
    return nlohmann::json::parse(history_.TopicJson(name));
  }

  const Lateness lateness_ = {.half_ms = 1, .most_ms = std::nan("")};
  History history_;
};

TEST_F(HistoryTest, HasRatesFromTheSecondSampleOn) {
  const Sample first = At(100, 10, "t");
  const Sample second = At(130, 25, "t");
  history_.Add(nullptr, first, lateness_);
  history_.Add(&first, second, lateness_);
  history_.AddGap(absl::FromUnixSeconds(160));
  const nlohmann::json server = Server();
  EXPECT_EQ(server["period_ms"], 30'000);
  EXPECT_EQ(server["times"], nlohmann::json({100'000, 130'000, 160'000}));
  EXPECT_EQ(server["values"]["acked"], nlohmann::json({nullptr, 0.5, nullptr}));
  EXPECT_EQ(server["values"]["late_half_ms"], nlohmann::json({1.0, 1.0, nullptr}));
  EXPECT_EQ(server["values"]["late_most_ms"], nlohmann::json({nullptr, nullptr, nullptr}));
  const nlohmann::json topic = Topic("t");
  EXPECT_EQ(topic["times"], server["times"]);
  EXPECT_EQ(topic["values"]["pending"], nlohmann::json({11.0, 26.0, nullptr}));
  EXPECT_EQ(topic["values"]["acked"], nlohmann::json({nullptr, 0.5, nullptr}));
  EXPECT_EQ(topic["values"]["late_ms"], nlohmann::json({2'000.0, 2'000.0, nullptr}));
}

TEST_F(HistoryTest, KnowsNoRatesWithoutTheRightToThem) {
  Sample first = At(100, 10, "t");
  Sample second = At(130, 25, "t");
  second.info.clear_counts();
  history_.Add(&first, second, lateness_);
  EXPECT_EQ(Server()["values"]["acked"], nlohmann::json({nullptr}));
}

TEST_F(HistoryTest, IsBoundedAndForgetsDeletedTopics) {
  for (size_t i = 0; i < History::kRowsMax + 5; ++i) {
    history_.Add(nullptr, At(static_cast<int64_t>(30 * i), 0, "t"), lateness_);
  }
  EXPECT_EQ(Server()["times"].size(), History::kRowsMax);
  EXPECT_EQ(Server()["times"][0], 5 * 30'000);
  EXPECT_EQ(Topic("t")["times"].size(), History::kRowsMax);
  history_.Add(nullptr, At(1'000'000, 0, "other"), lateness_);
  EXPECT_TRUE(Topic("t")["times"].empty());
  EXPECT_EQ(Topic("other")["times"].size(), 1u);
  EXPECT_TRUE(Topic("<script>")["times"].empty());
}

TEST(ConsoleMetricsTest, FindsLabels) {
  for (const auto& [labels, name, value] :
       {std::tuple{R"(topic="a:b/c",subscription="w")", "topic", "a:b/c"},
        {R"(topic="a",subscription="w")", "subscription", "w"},
        {R"(topic="a",subscription="")", "subscription", ""},
        {R"(a_topic="a")", "topic", ""},
        {"", "topic", ""}}) {
    EXPECT_EQ(LabelOf(labels, name), value) << labels;
  }
}

// ---- duetime dev

TEST(EventCounterTest, TellsWhatHasChanged) {
  EventCounter counter;
  const std::string first = R"(duetime_topic_accepted_total{topic="a"} 2
duetime_topic_accepted_total{topic="b"} 0
duetime_subscription_acked_total{topic="a",subscription="w"} 1
duetime_subscription_backlog{topic="a",subscription="w"} 1
duetime_subscription_delivered_total{topic="a",subscription="w"} 1
)";
  using Events = std::vector<DevEvent>;
  EXPECT_EQ(counter.Take(first), (Events{{"scheduled", "a", "", 2},
                                         {"due", "a", "w", 1},
                                         {"delivered", "a", "w", 1},
                                         {"acked", "a", "w", 1}}));
  EXPECT_EQ(counter.Take(first), Events{});
  // A server that does not answer.
  EXPECT_EQ(counter.Take(""), Events{});
  EXPECT_EQ(
      counter.Take(R"(duetime_topic_accepted_total{topic="a"} 2
duetime_topic_cancelled_total{topic="a"} 1
duetime_subscription_failed_total{topic="a",subscription="w"} 1
duetime_subscription_dead_lettered_total{topic="a",subscription="w"} 1
duetime_subscription_backlog{topic="a",subscription="w"} 0
)"),
      (Events{{"cancelled", "a", "", 1}, {"failed", "a", "w", 1}, {"dead-lettered", "a", "w", 1}}));
  // Of a gauge, only rises are events.
  EXPECT_EQ(counter.Take(R"(duetime_subscription_backlog{topic="a",subscription="w"} 3)"),
            (Events{{"due", "a", "w", 3}}));
}

}  // namespace
}  // namespace duetime::cli
