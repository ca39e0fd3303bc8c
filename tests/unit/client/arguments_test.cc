// SPDX-License-Identifier: Apache-2.0
#include "client/cli/arguments.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace duetime::cli {
namespace {

std::variant<Arguments, ExitCode> Parse(std::vector<const char*> words) {
  words.insert(words.begin(), "duetime");
  return ParseArguments(static_cast<int>(words.size()), words.data());
}

template <typename T>
T Command(const std::vector<const char*>& words) {
  auto parsed = Parse(words);
  const auto* arguments = std::get_if<Arguments>(&parsed);
  if (arguments == nullptr || !std::holds_alternative<T>(arguments->command)) {
    ADD_FAILURE() << "not the command expected";
    return {};
  }
  return std::get<T>(arguments->command);
}

TEST(ArgumentsTest, Schedule) {
  const auto plain = Command<ScheduleArguments>({"schedule", "t", "hello", "--in", "90s"});
  EXPECT_EQ(plain.topic, "t");
  EXPECT_EQ(plain.payload, "hello");
  EXPECT_EQ(std::get<absl::Duration>(plain.when), absl::Seconds(90));
  EXPECT_EQ(plain.count, 1);
  const auto full = Command<ScheduleArguments>({"schedule", "--attr", "a=1", "t", "--attr", "b=x=y",
                                                "--at", "2026-12-24 18:00", "--tz", "Asia/Shanghai",
                                                "--count", "7", "--attr", "empty="});
  EXPECT_EQ(full.topic, "t");
  EXPECT_EQ(full.payload, "");
  EXPECT_EQ(full.attributes,
            (std::map<std::string, std::string>{{"a", "1"}, {"b", "x=y"}, {"empty", ""}}));
  EXPECT_EQ(absl::ToUnixSeconds(std::get<absl::Time>(full.when)), 1'798'106'400);
  EXPECT_EQ(full.count, 7);
}

TEST(ArgumentsTest, ScheduleReadsAFile) {
  const std::string path = testing::TempDir() + "/duetime-arguments-test-payload";
  std::ofstream(path, std::ios::binary) << std::string("\0\xff\n", 3);
  EXPECT_EQ(
      Command<ScheduleArguments>({"schedule", "t", "--file", path.c_str(), "--in", "0s"}).payload,
      std::string("\0\xff\n", 3));
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_EQ(
      Command<ScheduleArguments>({"schedule", "t", "--file", path.c_str(), "--in", "0s"}).payload,
      "");
  std::remove(path.c_str());
}

TEST(ArgumentsTest, TheOtherCommands) {
  const auto cancel = Command<CancelArguments>({"cancel", "x", "--stop-redelivery"});
  EXPECT_EQ(cancel.id, "x");
  EXPECT_TRUE(cancel.stop_redelivery);
  EXPECT_TRUE(Command<GetArguments>({"get", "x", "--full"}).full);
  const auto bare = Command<SubscribeArguments>({"subscribe", "t"});
  EXPECT_EQ(bare.settlement.kind, client::Settlement::Kind::kAck);
  EXPECT_FALSE(bare.messages_max.has_value());
  EXPECT_FALSE(bare.time_max.has_value());
  const auto full =
      Command<SubscribeArguments>({"subscribe", "t", "--nack", "10s", "--max", "5", "--for", "1m",
                                   "--credit", "9", "--lease", "5s", "--quiet"});
  EXPECT_EQ(full.settlement.kind, client::Settlement::Kind::kNack);
  EXPECT_EQ(full.settlement.delay, absl::Seconds(10));
  EXPECT_EQ(full.messages_max, 5);
  EXPECT_EQ(full.time_max, absl::Minutes(1));
  EXPECT_EQ(full.credit, 9);
  EXPECT_EQ(full.lease, absl::Seconds(5));
  EXPECT_TRUE(full.quiet);
  EXPECT_EQ(Command<SubscribeArguments>({"subscribe", "t", "--no-ack"}).settlement.kind,
            client::Settlement::Kind::kLeave);
}

TEST(ArgumentsTest, SettingsStandBeforeOrBehindTheCommand) {
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"--server", "h:1", "--json", "--timeout", "2s", "info"},
           {"info", "--server", "h:1", "--json", "--timeout", "2s"}}) {
    auto parsed = Parse(words);
    ASSERT_TRUE(std::holds_alternative<Arguments>(parsed));
    const Settings& settings = std::get<Arguments>(parsed).settings;
    EXPECT_EQ(settings.server.target, "h:1");
    EXPECT_TRUE(settings.json);
    EXPECT_EQ(settings.deadline, absl::Seconds(2));
  }
}

TEST(ArgumentsTest, TheServerMayComeFromTheEnvironment) {
  // One thread here: nobody else reads the environment.
  setenv("DUETIME_SERVER", "unix:/run/x", 1);  // NOLINT(concurrency-mt-unsafe) single-threaded
  auto parsed = Parse({"info"});
  EXPECT_EQ(std::get<Arguments>(parsed).settings.server.target, "unix:/run/x");
  parsed = Parse({"info", "--server", "h:2"});
  EXPECT_EQ(std::get<Arguments>(parsed).settings.server.target, "h:2");
  unsetenv("DUETIME_SERVER");  // NOLINT(concurrency-mt-unsafe) single-threaded
  parsed = Parse({"info"});
  EXPECT_EQ(std::get<Arguments>(parsed).settings.server.target, "127.0.0.1:7788");
}

TEST(ArgumentsTest, RefusesWhatIsWrong) {
  const std::vector<std::vector<const char*>> cases = {
      {},
      {"frobnicate"},
      {"schedule"},
      {"schedule", "t"},
      {"schedule", "t", "p"},
      {"schedule", "t", "p", "--in"},
      {"schedule", "t", "p", "--in", "90"},
      {"schedule", "t", "p", "--in", "1s", "--at", "2026-12-24 18:00"},
      {"schedule", "t", "p", "--at", "tomorrow"},
      {"schedule", "t", "p", "--at", "2026-12-24 18:00", "--tz", "Nowhere"},
      {"schedule", "t", "p", "--in", "1s", "--tz", "UTC"},
      {"schedule", "t", "p", "--in", "1s", "--attr", "novalue"},
      {"schedule", "t", "p", "--in", "1s", "--attr", "=v"},
      {"schedule", "t", "p", "--in", "1s", "--attr", "a=1", "--attr", "a=2"},
      {"schedule", "t", "p", "--in", "1s", "--file", "/etc/hostname"},
      {"schedule", "t", "--in", "1s", "--file", "/no/such/file"},
      {"schedule", "t", "--in", "1s", "--file", "/"},
      {"schedule", "t", "p", "--in", "1s", "--count", "0"},
      {"schedule", "t", "p", "--in", "1s", "--count", "x"},
      {"schedule", "t", "p", "q", "--in", "1s"},
      {"cancel"},
      {"cancel", "a", "b"},
      {"get"},
      {"subscribe"},
      {"subscribe", "t", "--ack", "--no-ack"},
      {"subscribe", "t", "--no-ack", "--nack", "1s"},
      {"subscribe", "t", "--nack", "soon"},
      {"subscribe", "t", "--max", "0"},
      {"subscribe", "t", "--max", "-1"},
      {"subscribe", "t", "--for", "5"},
      {"subscribe", "t", "--credit", "0"},
      {"subscribe", "t", "--lease", "x"},
      {"info", "--timeout", "fast"},
      {"info", "extra"},
      {"info", "cancel", "x"},
  };
  ASSERT_EQ(cases.size(), 35u);
  for (const auto& words : cases) {
    std::string line;
    for (const char* word : words) line += std::string(word) + " ";
    const auto parsed = Parse(words);
    ASSERT_TRUE(std::holds_alternative<ExitCode>(parsed)) << line;
    EXPECT_EQ(std::get<ExitCode>(parsed), kBadUsage) << line;
  }
}

TEST(ArgumentsTest, HelpIsNoError) {
  for (const auto& words : std::vector<std::vector<const char*>>{
           {"--help"}, {"schedule", "--help"}, {"subscribe", "--help"}}) {
    const auto parsed = Parse(words);
    ASSERT_TRUE(std::holds_alternative<ExitCode>(parsed));
    EXPECT_EQ(std::get<ExitCode>(parsed), kDone);
  }
}

}  // namespace
}  // namespace duetime::cli
