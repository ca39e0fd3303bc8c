// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/pair_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

namespace duetime::metrics {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

PairSample Sample(const std::string& topic, const std::string& name, uint32_t id,
                  uint64_t delivered) {
  return {.topic = topic,
          .subscription = name,
          .topic_id = storage::TopicId{id},
          .id = storage::SubscriptionId{id},
          .activity = {.in_flight = 1, .delivered = delivered, .lateness = {}}};
}

// The samples of one family, by "topic/subscription".
std::map<std::string, double> Values(const PairTable& table, const std::string& name) {
  Registry::Families families;
  table.AddFamilies(&families);
  std::map<std::string, double> values;
  for (const auto& family : families) {
    if (family.name != name) continue;
    for (const auto& metric : family.metric) {
      std::string labels;
      for (const auto& label : metric.label) absl::StrAppend(&labels, "/", label.value);
      values[labels] = metric.counter.value + metric.gauge.value;
    }
  }
  return values;
}
std::map<std::string, double> Delivered(const PairTable& table) {
  return Values(table, "duetime_subscription_delivered_total");
}

TEST(PairTableTest, TheGivenTopicsComeFirstThenTheBusiest) {
  PairTable table({.pairs_max = 2, .topics = {"wanted"}});
  PairSample idle = Sample("idle", "s", 1, 0);
  idle.activity.in_flight = 0;
  table.Update({.pairs = {idle, Sample("busy", "s", 2, 5), Sample("busier", "s", 3, 9),
                          Sample("wanted", "s", 4, 0)}});
  EXPECT_THAT(Delivered(table),
              UnorderedElementsAre(Pair("/busier/s", 9), Pair("/wanted/s", 0), Pair("/*/*", 5)));
  EXPECT_THAT(Values(table, "duetime_metrics_pairs"), ElementsAre(Pair("", 2)));
  // A chosen pair stays, also while others are busier.
  table.Update({.pairs = {Sample("busy", "s", 2, 50), Sample("busier", "s", 3, 9)}});
  EXPECT_THAT(Delivered(table),
              UnorderedElementsAre(Pair("/busier/s", 9), Pair("/wanted/s", 0), Pair("/*/*", 50)));
}

TEST(PairTableTest, NoCounterGoesBack) {
  PairTable table({.pairs_max = 2});
  PairSample idle = Sample("t", "late", 3, 0);
  idle.activity.in_flight = 0;
  table.Update({.pairs = {Sample("t", "a", 1, 7), idle, Sample("t", "b", 2, 4)}});
  EXPECT_THAT(Delivered(table),
              UnorderedElementsAre(Pair("/t/a", 7), Pair("/t/b", 4), Pair("/*/*", 0)));
  // `late` has no series of its own. `a` was deleted, and a new one has its name.
  table.Update(
      {.pairs = {Sample("t", "a", 4, 1), Sample("t", "b", 2, 5), Sample("t", "late", 3, 6)}});
  EXPECT_THAT(Delivered(table),
              UnorderedElementsAre(Pair("/t/a", 8), Pair("/t/b", 5), Pair("/*/*", 6)));
  // A shard has forgotten them already, because they are being deleted.
  table.Update({.pairs = {Sample("t", "b", 2, 2), Sample("t", "late", 3, 1)}});
  EXPECT_THAT(Delivered(table),
              UnorderedElementsAre(Pair("/t/a", 8), Pair("/t/b", 5), Pair("/*/*", 6)));
  EXPECT_THAT(Values(table, "duetime_subscription_in_flight"),
              UnorderedElementsAre(Pair("/t/a", 0), Pair("/t/b", 1), Pair("/*/*", 1)));
}

TEST(PairTableTest, WithoutNamesAllIsAddedUp) {
  PairTable table({.pairs_max = 0});
  table.Update({.topics = {{.name = "t", .id = storage::TopicId{1}, .activity = {5, 1}}},
                .pairs = {Sample("t", "a", 1, 7), Sample("t", "b", 2, 4)}});
  EXPECT_THAT(Delivered(table), ElementsAre(Pair("/*/*", 11)));
  EXPECT_THAT(Values(table, "duetime_topic_accepted_total"), ElementsAre(Pair("/*", 5)));
}

TEST(PairTableTest, BacklogsOfShownPairsAndLatenessSinceTheLastUpdate) {
  PairTable table({.pairs_max = 2});
  PairSample sample = Sample("t", "a", 1, 7);
  sample.activity.lateness[0] = 99;
  sample.activity.lateness[3] = 1;
  table.Update({.pairs = {sample}});
  const auto shown = table.shown();
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_THAT(Values(table, "duetime_subscription_backlog"), ElementsAre());
  table.SetBacklogs(shown, {{.messages = 3, .oldest_age_s = 1.5}});
  table.SetPending({{"t", 8}});
  EXPECT_THAT(Values(table, "duetime_subscription_backlog"), ElementsAre(Pair("/t/a", 3)));
  EXPECT_THAT(Values(table, "duetime_subscription_oldest_age_seconds"),
              ElementsAre(Pair("/t/a", 1.5)));
  EXPECT_THAT(Values(table, "duetime_topic_pending"), ElementsAre(Pair("/t", 8)));
  EXPECT_EQ(Values(table, "duetime_subscription_lateness_p50_seconds")["/t/a"], 0);
  EXPECT_EQ(Values(table, "duetime_subscription_lateness_p99_seconds")["/t/a"], 0);
  sample.activity.lateness[3] = 2;
  table.Update({.pairs = {sample}});
  EXPECT_EQ(Values(table, "duetime_subscription_lateness_p50_seconds")["/t/a"], 0.005);
  table.Update({.pairs = {sample}});
  EXPECT_THAT(Values(table, "duetime_subscription_lateness_p50_seconds"), ElementsAre());
  table.Update({});
  EXPECT_THAT(Values(table, "duetime_subscription_backlog"), ElementsAre());
  EXPECT_THAT(table.shown(), ElementsAre());
  const std::string complete = "duetime_metrics_pairs_timestamp_seconds";
  EXPECT_THAT(Values(table, complete), ElementsAre(Pair("", 0)));
  table.SetComplete(4'500);
  EXPECT_THAT(Values(table, complete), ElementsAre(Pair("", 4.5)));
}

}  // namespace
}  // namespace duetime::metrics
