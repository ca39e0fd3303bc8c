// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/bench_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace duetime::cli {
namespace {

using testing::HasSubstr;

// 1 ms, 2 ms, ... `count` ms, the largest first.
std::vector<absl::Duration> UpTo(int count) {
  std::vector<absl::Duration> all;
  for (int i = count; i > 0; --i) all.push_back(absl::Milliseconds(i));
  return all;
}

TEST(BenchFiguresTest, Percentiles) {
  struct Case {
    int values;
    double part;
    int ms;
  };
  for (const Case& c : {Case{0, 0.5, 0}, Case{1, 0.5, 1}, Case{1, 0.99, 1}, Case{2, 0.5, 1},
                        Case{3, 0.5, 2}, Case{100, 0.5, 50}, Case{100, 0.99, 99},
                        Case{200, 0.99, 198}, Case{99, 0.99, 99}, Case{5, 0, 1}, Case{5, 1, 5}}) {
    EXPECT_EQ(Percentile(UpTo(c.values), c.part), absl::Milliseconds(c.ms))
        << c.values << " values, " << c.part;
  }
}

TEST(BenchFiguresTest, TextAndJson) {
  Figures figures = {.payload_bytes = 10,
                     .schedule = {.messages = 500, .time = absl::Milliseconds(250)}};
  figures.lateness = UpTo(100);
  const std::string text = FiguresText(figures);
  EXPECT_THAT(text, HasSubstr("schedule      2000 messages/s (500 in 0.25 s)\n"));
  EXPECT_THAT(text, HasSubstr("lateness      p50 50.0 ms, p99 99.0 ms (100 messages"));
  EXPECT_THAT(text, HasSubstr("deliver, ack  not measured\n"));
  EXPECT_EQ(nlohmann::json::parse(FiguresJson(figures)),
            (nlohmann::json{{"payload_bytes", 10},
                            {"schedule_per_second", 2000.0},
                            {"lateness_p50_ms", 50.0},
                            {"lateness_p99_ms", 99.0}}));
  EXPECT_EQ((Throughput{.messages = 5}).PerSecond(), 0);
}

}  // namespace
}  // namespace duetime::cli
