// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/metrics.h"

#include <atomic>
#include <cmath>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <prometheus/text_serializer.h>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/config/knobs.h"
#include "server/config/version.h"
#include "server/metrics/core_metrics.h"
#include "server/metrics/exporter.h"
#include "tests/support/http_get.h"
#include "tests/support/paths.h"

namespace duetime::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using test::HttpGet;
using ::testing::HasSubstr;
using ::testing::Not;

// Numbers of two shards and of the committer, of which no two are the same.
struct Numbers {
  static constexpr uint64_t kFirst = 1'001;

  Numbers() {
    for (int shard = 0; shard < 2; ++shard) {
      protocol::ShardStats stats;
      for (uint64_t* field : {&stats.accepted,
                              &stats.cancelled,
                              &stats.fired,
                              &stats.delivered,
                              &stats.redelivered,
                              &stats.acked,
                              &stats.nacked,
                              &stats.extended,
                              &stats.leases_lost,
                              &stats.settle_refused,
                              &stats.spilled,
                              &stats.read_back,
                              &stats.loaded,
                              &stats.claims,
                              &stats.wheel_timers,
                              &stats.wheel_bytes,
                              &stats.recent_bytes,
                              &stats.cancelled_unread,
                              &stats.due_ready,
                              &stats.in_flight,
                              &stats.delayed,
                              &stats.streams,
                              &stats.topics_behind,
                              &stats.uncommitted_batches,
                              &stats.timer_next_ms,
                              &stats.low_watermark_ms,
                              &stats.claim_ms,
                              &stats.load_ms,
                              &stats.dead_letters_refused,
                              &stats.dead_letter_hops_refused}) {
        *field = end++;
      }
      stats.lateness[0] = 5;
      stats.lateness[2] = 7;
      stats.lateness.back() = 1;
      stats.lateness_sum_ms = 12'345;
      shards.push_back(stats);
    }
    // The last one is the catalog's.
    for (int i = 0; i < 3; ++i) {
      mailboxes.push_back({.commands = end++, .bytes = end++, .refused = end++});
    }
    for (uint64_t* field : {&commit.groups, &commit.syncs, &commit.batches, &commit.records,
                            &commit.bytes, &commit.queue_batches}) {
      *field = end++;
    }
  }

  Registry::Families Collect() const {
    Registry::Families families;
    AddShards(shards, &families);
    AddMailboxes(mailboxes, &families);
    AddCommit(commit, &families);
    return families;
  }

  std::vector<protocol::ShardStats> shards;
  std::vector<runtime::MailboxStats> mailboxes;
  runtime::CommitStats commit;
  uint64_t end = kFirst;
};

MetricFamily FindIn(const Registry::Families& families, const std::string& name) {
  for (const MetricFamily& family : families) {
    if (family.name == name) return family;
  }
  ADD_FAILURE() << "no metric " << name;
  return {};
}

class SteppedClock final : public base::Clock {
 public:
  base::Now Read() override { return {}; }
  base::ClockState state() override { return base::ClockState::kAhead; }
  uint64_t steps_back() override { return 3; }
};

std::string TypeName(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    case MetricType::Summary:
    case MetricType::Untyped:
      break;
  }
  return "?";
}

// The unit in the metric's name, by the conventions for names.
std::string UnitOf(const std::string& name) {
  if (absl::StrContains(name, "timestamp_seconds")) return "seconds since 1970";
  if (absl::StrContains(name, "seconds")) return "seconds";
  if (absl::StrContains(name, "bytes")) return "bytes";
  return "";
}

// All metrics of a process that has none of the parts that it may lack.
class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() { RegisterMetrics({}, {.rpc = &rpc_, .clock = &clock_}, registry_.get()); }

  Registry::Families Collect() { return registry_->Collect(); }
  std::string Text() { return prometheus::TextSerializer().Serialize(Collect()); }
  MetricFamily Find(const std::string& name) { return FindIn(Collect(), name); }

  RpcStats rpc_{{"Schedule", "Cancel"}};
  SteppedClock clock_;
  std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
};

TEST_F(MetricsTest, NamesTypesAndTextsFollowTheConventions) {
  std::set<std::string> names;
  for (const MetricFamily& family : Collect()) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name << " twice";
    EXPECT_THAT(family.name, ::testing::StartsWith("duetime_"));
    EXPECT_THAT(family.help, ::testing::EndsWith(".")) << family.name;
    EXPECT_THAT(family.help, Not(HasSubstr("|"))) << "breaks the table in METRICS.md";
    EXPECT_EQ(family.type == MetricType::Counter, absl::EndsWith(family.name, "_total"))
        << family.name;
    for (const prometheus::ClientMetric& metric : family.metric) {
      EXPECT_LE(metric.label.size(), 2u) << family.name;
    }
  }
  EXPECT_GE(names.size(), 50u);
}

// Each number is exported exactly once.
TEST(NodeMetricsTest, EveryNumberIsExported) {
  const Numbers numbers;
  std::multiset<double> values;
  for (const MetricFamily& family : numbers.Collect()) {
    EXPECT_FALSE(family.metric.empty()) << family.name;
    const double scale = absl::StrContains(family.name, "timestamp_seconds") ? 1'000 : 1;
    for (const prometheus::ClientMetric& metric : family.metric) {
      values.insert(std::round(scale * (family.type == MetricType::Counter ? metric.counter.value
                                                                           : metric.gauge.value)));
    }
  }
  for (uint64_t value = Numbers::kFirst; value < numbers.end; ++value) {
    EXPECT_EQ(values.count(static_cast<double>(value)), 1u) << value;
  }
}

TEST(NodeMetricsTest, HistogramsAreCumulativeAndInSeconds) {
  const MetricFamily lateness = FindIn(Numbers().Collect(), "duetime_delivery_lateness_seconds");
  ASSERT_EQ(lateness.metric.size(), 2u);
  const prometheus::ClientMetric::Histogram& histogram = lateness.metric[1].histogram;
  EXPECT_EQ(histogram.sample_count, 13u);
  EXPECT_DOUBLE_EQ(histogram.sample_sum, 12.345);
  ASSERT_EQ(histogram.bucket.size(), protocol::kLatenessBoundsMs.size() + 1);
  EXPECT_EQ(histogram.bucket[0].cumulative_count, 5u);
  EXPECT_DOUBLE_EQ(histogram.bucket[2].upper_bound, 0.002);
  EXPECT_EQ(histogram.bucket[2].cumulative_count, 12u);
  EXPECT_TRUE(std::isinf(histogram.bucket.back().upper_bound));
  EXPECT_EQ(histogram.bucket.back().cumulative_count, 13u);
}

TEST_F(MetricsTest, RpcCallsAreCountedByMethodAndCode) {
  RpcMethodStats& schedule = rpc_.of(RpcMethod{0});
  for (int i = 0; i < 5; ++i) schedule.Start();
  schedule.EndTimed(0, 90);
  schedule.EndTimed(0, 50'000'000);
  schedule.End(8);
  schedule.End(99);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("duetime_rpc_started_total{method=\"Schedule\"} 5"));
  EXPECT_THAT(text, HasSubstr("duetime_rpc_ended_total{method=\"Schedule\",code=\"0\"} 2"));
  EXPECT_THAT(text, HasSubstr("duetime_rpc_ended_total{method=\"Schedule\",code=\"8\"} 1"));
  EXPECT_THAT(text, HasSubstr("duetime_rpc_ended_total{method=\"Schedule\",code=\"2\"} 1"));
  EXPECT_THAT(text, HasSubstr("duetime_rpc_in_flight{method=\"Schedule\"} 1"));
  EXPECT_THAT(text, HasSubstr("duetime_rpc_latency_seconds_count{method=\"Schedule\"} 2"));
  EXPECT_THAT(text,
              HasSubstr("duetime_rpc_latency_seconds_bucket{method=\"Schedule\",le=\"0.0001\"} 1"));
  EXPECT_THAT(text, HasSubstr("duetime_rpc_in_flight{method=\"Cancel\"} 0"));
}

TEST_F(MetricsTest, FlagsAreZeroOrOne) {
  EXPECT_EQ(Find("duetime_storage_failed").metric[0].gauge.value, 0);
  EXPECT_EQ(Find("duetime_disk_low").metric[0].gauge.value, 0);
  EXPECT_EQ(Find("duetime_clock_state").metric[0].gauge.value, 2);
  EXPECT_EQ(Find("duetime_clock_steps_back_total").metric[0].counter.value, 3);
  Numbers numbers;
  numbers.shards[1].failed = true;
  const MetricFamily failed = FindIn(numbers.Collect(), "duetime_shard_failed");
  EXPECT_EQ(failed.metric[0].gauge.value, 0);
  EXPECT_EQ(failed.metric[1].gauge.value, 1);
}

TEST(RegistryTest, ReadsAtEachScrapeAndIsZeroWithoutThePart) {
  struct Part {
    uint64_t number() const { return value; }
    std::atomic<uint64_t> value{5};
  };
  Part part;
  Registry registry;
  registry.Gauge("getter", "", &part, &Part::number);
  registry.Counter("member", "", &part, &Part::value);
  registry.Gauge("none", "", static_cast<const Part*>(nullptr), &Part::number);
  registry.Counter("function", "", [] { return 7.5; });
  const auto values = [&] {
    std::vector<double> all;
    for (const MetricFamily& family : registry.Collect()) {
      const prometheus::ClientMetric& metric = family.metric.at(0);
      all.push_back(family.type == MetricType::Gauge ? metric.gauge.value : metric.counter.value);
    }
    return all;
  };
  EXPECT_THAT(values(), ::testing::ElementsAre(5, 5, 0, 7.5));
  part.value = 6;
  EXPECT_THAT(values(), ::testing::ElementsAre(6, 6, 0, 7.5));
}

TEST_F(MetricsTest, EveryLimitIsExported) {
  const std::string text = Text();
  const auto numbers = config::Numbers({});
  EXPECT_EQ(Find("duetime_config").metric.size(), numbers.size());
  EXPECT_THAT(text, HasSubstr("duetime_config{knob=\"heartbeat_ms\"} 15000"));
  EXPECT_THAT(text,
              HasSubstr(absl::StrCat("duetime_build_info{version=\"", config::Version(), "\"} 1")));
}

// deploy/METRICS.md has one row per metric, and agrees with the code.
TEST_F(MetricsTest, TheDocumentListsExactlyWhatIsExported) {
  std::ifstream in(std::string(test::kSourceRoot) + "/deploy/METRICS.md");
  ASSERT_TRUE(in) << std::string(test::kSourceRoot) + "/deploy/METRICS.md";
  std::set<std::string> documented;
  for (std::string line; std::getline(in, line);) {
    if (absl::StartsWith(line, "| `duetime_")) documented.insert(line);
  }
  std::set<std::string> exported;
  for (const MetricFamily& family : Collect()) {
    exported.insert(absl::StrCat("| `", family.name, "` | ", TypeName(family.type), " | ",
                                 UnitOf(family.name), " | ", family.help, " |"));
  }
  for (const std::string& row : exported) EXPECT_TRUE(documented.contains(row)) << "add: " << row;
  for (const std::string& row : documented) EXPECT_TRUE(exported.contains(row)) << "drop: " << row;
}

TEST_F(MetricsTest, TheExporterAnswersOverHttp) {
  const auto exporter = Exporter::Start({.listen = "localhost:0"}, registry_);
  ASSERT_TRUE(exporter.ok()) << exporter.status();
  EXPECT_THAT((*exporter)->address(), HasSubstr(absl::StrCat("127.0.0.1:", (*exporter)->port())));
  const std::string response = HttpGet((*exporter)->port(), "/metrics");
  EXPECT_THAT(response, ::testing::StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(response, HasSubstr("# TYPE duetime_due_backlog gauge"));
  EXPECT_THAT(HttpGet((*exporter)->port(), "/other"), Not(HasSubstr("duetime_due_backlog")));
  // The port is already in use.
  const auto second =
      Exporter::Start({.listen = absl::StrCat("127.0.0.1:", (*exporter)->port())}, registry_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace duetime::metrics
