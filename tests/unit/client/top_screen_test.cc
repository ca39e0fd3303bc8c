// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/top_screen.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/support/proto_text.h"

namespace duetime::cli {
namespace {

using testing::HasSubstr;

TopicSample Topic(const std::string& topic, const std::vector<std::string>& subscriptions = {}) {
  TopicSample sample = {.topic = ParseProto<v1::Topic>(topic)};
  for (const std::string& text : subscriptions) {
    sample.subscriptions.push_back(ParseProto<v1::Subscription>(text));
  }
  return sample;
}

// A sample at this second of server time.
Sample At(int64_t second, std::vector<TopicSample> topics) {
  Sample sample;
  sample.info.mutable_server_time()->set_seconds(second);
  sample.topics = std::move(topics);
  return sample;
}

TEST(TopScreenTest, ALineSumsTheSubscriptionsOfATopic) {
  const Sample before = At(100, {Topic("name: 't'", {"counts { delivered: 50 acked: 5 }",
                                                     "counts { delivered: 900 acked: 90 }"})});
  const Sample now = At(
      104, {Topic("name: 't' counts { pending: 7 due: 6 }",
                  {"counts { delivered: 90 acked: 25 in_flight: 1 streams: 1 } "
                   "backlog { oldest_due_time { seconds: 101 } }",
                   // The counter of a subscription never goes back while a server runs.
                   "counts { delivered: 900 acked: 90 in_flight: 2 streams: 3 "
                   "  slowed: true behind: true } backlog { oldest_due_time { seconds: 92 } }"})});
  const std::vector<TopicLine> lines = MakeLines(&before, now, Order::kRate);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].pending, 7);
  EXPECT_EQ(lines[0].due, 6);
  EXPECT_EQ(lines[0].in_flight, 3);
  EXPECT_EQ(lines[0].streams, 4);
  EXPECT_EQ(lines[0].delivered_rate, 10.0);
  EXPECT_EQ(lines[0].acked_rate, 5.0);
  EXPECT_EQ(lines[0].late, absl::Seconds(12));
  EXPECT_EQ(lines[0].note, "slowed, behind");
}

TEST(TopScreenTest, RatesNeedAnEarlierSampleOfTheTopic) {
  const auto rate = [](const Sample* before, const Sample& now) {
    return MakeLines(before, now, Order::kRate)[0].delivered_rate;
  };
  const Sample now = At(110, {Topic("name: 't'", {"counts { delivered: 20 }"})});
  const Sample larger = At(100, {Topic("name: 't'", {"counts { delivered: 500 }"})});
  const Sample same_time = At(110, {Topic("name: 't'", {"counts { delivered: 10 }"})});
  const Sample other = At(100, {Topic("name: 'u'")});
  EXPECT_EQ(rate(nullptr, now), std::nullopt);
  EXPECT_EQ(rate(&other, now), std::nullopt);
  EXPECT_EQ(rate(&same_time, now), std::nullopt);
  EXPECT_EQ(rate(&larger, now), 2.0) << "a new run of the server counts from 0";
}

TEST(TopScreenTest, NotesSayWhyMessagesWait) {
  const auto note = [](const TopicSample& topic) {
    return MakeLines(nullptr, At(0, {topic}), Order::kName)[0].note;
  };
  EXPECT_EQ(note(Topic("name: 't' counts { due: 1 }", {"counts { streams: 1 }"})), "");
  EXPECT_EQ(note(Topic("name: 't' counts { due: 1 }", {"name: 's'"})), "no reader");
  EXPECT_EQ(note(Topic("name: 't' counts { due: 1 }")), "no subscription");
  EXPECT_EQ(note(Topic("name: 't' settings { paused: true }")), "paused");
  EXPECT_EQ(note(Topic("name: 't'", {"settings { paused: true }"})), "paused");
}

TEST(TopScreenTest, Orders) {
  const Sample before = At(0, {Topic("name: 'c'"), Topic("name: 'b'"), Topic("name: 'a'")});
  const Sample now = At(
      10, {Topic("name: 'c' counts { pending: 1 due: 5 }", {"counts { delivered: 9 }"}),
           Topic("name: 'b' counts { pending: 2 }", {"backlog { oldest_due_time { seconds: 3 } }"}),
           Topic("name: 'a' counts { pending: 2 due: 4 }")});
  const auto names = [&](Order order) {
    std::string all;
    for (const TopicLine& line : MakeLines(&before, now, order)) all += line.name;
    return all;
  };
  EXPECT_EQ(names(Order::kRate), "cab");
  EXPECT_EQ(names(Order::kLate), "bac");
  EXPECT_EQ(names(Order::kDue), "cab");
  EXPECT_EQ(names(Order::kPending), "abc");
  EXPECT_EQ(names(Order::kName), "abc");
  EXPECT_EQ(OrderOf("late"), Order::kLate);
  EXPECT_EQ(OrderOf("l"), Order::kLate);
  EXPECT_EQ(OrderOf("la"), std::nullopt);
  EXPECT_EQ(OrderOf(""), std::nullopt);
}

TEST(TopScreenTest, TheScreenFits) {
  std::vector<TopicSample> topics;
  for (int i = 10; i < 30; ++i)
    topics.push_back(Topic("name: '" + std::string(90, 'x') + std::to_string(i) + "'"));
  Sample now = At(0, topics);
  now.info.set_state(v1::SERVING_STATE_SERVING);
  const std::string text =
      ScreenText("here:1", nullptr, now, Order::kName, "", {.width = 100, .height = 12});
  // The line of keys is the twelfth.
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 11);
  EXPECT_THAT(text, HasSubstr("\nand 14 more topics\n"));
  EXPECT_THAT(text, HasSubstr("xxx~"));
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_THAT(ScreenText("here:1", nullptr, now, Order::kName, "no answer", {}),
              HasSubstr("\nno answer\n"));
  now.info.set_clock_state(v1::CLOCK_STATE_AHEAD);
  now.info.set_disk_low(true);
  EXPECT_THAT(ScreenText("here:1", nullptr, now, Order::kName, "", {}),
              HasSubstr("serving  up 0s  clock ahead  disk low\n"));
  EXPECT_THAT(ScreenText("here:1", nullptr, At(0, {}), Order::kName, "", {}),
              HasSubstr("no topics\n"));
}

}  // namespace
}  // namespace duetime::cli
