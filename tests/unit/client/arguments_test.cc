// SPDX-License-Identifier: Apache-2.0
#include "client/cli/arguments.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/unit/client/command_line.h"

namespace duetime::cli {
namespace {

TEST(ArgumentsTest, Schedule) {
  const auto plain = ReadAs<ScheduleArguments>({"schedule", "t", "hello", "--in", "90s"});
  EXPECT_EQ(plain.message.topic, "t");
  EXPECT_EQ(plain.message.payload, "hello");
  EXPECT_EQ(std::get<absl::Duration>(plain.message.when), absl::Seconds(90));
  EXPECT_EQ(plain.count, 1);
  const auto full = ReadAs<ScheduleArguments>({"schedule", "--attr", "a=1", "t", "--attr", "b=x=y",
                                               "--at", "2026-12-24 18:00", "--tz", "Asia/Shanghai",
                                               "--count", "7", "--attr", "empty="});
  EXPECT_EQ(full.message.topic, "t");
  EXPECT_EQ(full.message.payload, "");
  EXPECT_EQ(full.message.attributes,
            (std::map<std::string, std::string>{{"a", "1"}, {"b", "x=y"}, {"empty", ""}}));
  EXPECT_EQ(absl::ToUnixSeconds(std::get<absl::Time>(full.message.when)), 1'798'106'400);
  EXPECT_EQ(full.count, 7);
}

TEST(ArgumentsTest, ScheduleWithAName) {
  const client::NewMessage message =
      ReadAs<ScheduleArguments>({"schedule", "t", "--in", "10m", "--key", "k", "--on-conflict",
                                 "push-back", "--max-wait", "1h", "--only-if-exists",
                                 "--request-id", "r", "--dry-run"})
          .message;
  EXPECT_EQ(message.key, "k");
  EXPECT_EQ(message.on_conflict, v1::ScheduleRequest::PUSH_BACK);
  EXPECT_EQ(message.max_wait, absl::Hours(1));
  EXPECT_TRUE(message.only_if_exists);
  EXPECT_EQ(message.request_id, "r");
  EXPECT_TRUE(message.validate_only);
  const auto conflict = [](const char* word) {
    return ReadAs<ScheduleArguments>(
               {"schedule", "t", "--in", "1s", "--key", "k", "--on-conflict", word})
        .message.on_conflict;
  };
  EXPECT_EQ(conflict("fail"), v1::ScheduleRequest::FAIL);
  EXPECT_EQ(conflict("replace"), v1::ScheduleRequest::REPLACE);
  EXPECT_EQ(conflict("keep-time"), v1::ScheduleRequest::KEEP_TIME);
}

TEST(ArgumentsTest, ScheduleWithProperties) {
  const client::NewMessage message =
      ReadAs<ScheduleArguments>({"schedule", "t", "--local", "2026-12-24 18:00", "--tz",
                                 "Europe/Berlin", "--label", "a=1", "--label", "b=2", "--ttl", "5m",
                                 "--late", "drop", "--spread", "15m", "--ordering-key", "o"})
          .message;
  const auto& civil = std::get<client::CivilTime>(message.when);
  EXPECT_EQ(civil.local, "2026-12-24T18:00");
  EXPECT_EQ(civil.time_zone, "Europe/Berlin");
  EXPECT_EQ(message.labels, (std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(std::get<absl::Duration>(message.lifetime), absl::Minutes(5));
  EXPECT_EQ(message.late_policy, v1::Message::DROP);
  EXPECT_EQ(ReadAs<ScheduleArguments>(
                {"schedule", "t", "--in", "1s", "--ttl", "5m", "--late", "dead-letter"})
                .message.late_policy,
            v1::Message::DEAD_LETTER);
  EXPECT_EQ(message.spread, absl::Minutes(15));
  EXPECT_EQ(message.ordering_key, "o");
  EXPECT_EQ(std::get<absl::Time>(ReadAs<ScheduleArguments>({"schedule", "t", "--in", "1s",
                                                            "--expire-at", "1970-01-01T00:01:00Z"})
                                     .message.lifetime),
            absl::FromUnixSeconds(60));
}

TEST(ArgumentsTest, Reschedule) {
  const auto by_id = ReadAs<RescheduleArguments>({"reschedule", "x", "--in", "2h", "--etag", "e"});
  EXPECT_EQ(by_id.target.name(), "x");
  EXPECT_EQ(std::get<absl::Duration>(by_id.when), absl::Hours(2));
  EXPECT_EQ(by_id.etag, "e");
  const auto by_key = ReadAs<RescheduleArguments>(
      {"reschedule", "--topic", "t", "--key", "k", "--at", "1970-01-01T00:01:00Z"});
  v1::RescheduleRequest request;
  by_key.target.FillIn(&request);
  EXPECT_EQ(request.key().topic(), "t");
  EXPECT_EQ(request.key().key(), "k");
}

TEST(ArgumentsTest, ScheduleReadsAFile) {
  const std::string path = testing::TempDir() + "/duetime-arguments-test-payload";
  std::ofstream(path, std::ios::binary) << std::string("\0\xff\n", 3);
  EXPECT_EQ(ReadAs<ScheduleArguments>({"schedule", "t", "--file", path.c_str(), "--in", "0s"})
                .message.payload,
            std::string("\0\xff\n", 3));
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_EQ(ReadAs<ScheduleArguments>({"schedule", "t", "--file", path.c_str(), "--in", "0s"})
                .message.payload,
            "");
  std::remove(path.c_str());
}

TEST(ArgumentsTest, TargetsAreIdsOrKeys) {
  const auto names = [](const std::vector<client::Target>& targets) {
    std::vector<std::string> all;
    for (const client::Target& target : targets) all.push_back(target.name());
    return all;
  };
  const auto ids = ReadAs<CancelArguments>({"cancel", "x", "y", "--stop-redelivery", "z"});
  EXPECT_EQ(names(ids.targets), (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_TRUE(ids.stop_redelivery);
  const auto keys = ReadAs<CancelArguments>({"cancel", "--topic", "t", "--key", "k", "--key", "l"});
  EXPECT_EQ(names(keys.targets), (std::vector<std::string>{"k", "l"}));
  EXPECT_FALSE(keys.stop_redelivery);
  EXPECT_TRUE(ReadAs<GetArguments>({"get", "x", "--full"}).full);
  EXPECT_EQ(ReadAs<GetArguments>({"get", "--topic", "t", "--key", "k"}).target.name(), "k");
  EXPECT_EQ(ReadAs<ExplainArguments>({"explain", "x"}).target.name(), "x");
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
      {"cancel", "--key", "k"},
      {"cancel", "--topic", "t"},
      {"cancel", "--topic", "t", "--key", "k", "x"},
      {"get"},
      {"get", "a", "b"},
      {"get", "--topic", "t", "--key", "k", "--key", "l"},
      {"explain"},
      {"reschedule", "x"},
      {"reschedule", "--in", "1s"},
      {"schedule", "t", "--in", "1s", "--on-conflict", "replace"},
      {"schedule", "t", "--in", "1s", "--key", "k", "--on-conflict", "maybe"},
      {"schedule", "t", "--in", "1s", "--max-wait", "1h"},
      {"schedule", "t", "--in", "1s", "--only-if-exists"},
      {"schedule", "t", "--in", "1s", "--key", "k", "--count", "2"},
      {"schedule", "t", "--in", "1s", "--request-id", "r", "--count", "2"},
      {"schedule", "t", "--in", "1s", "--ttl", "5m", "--expire-at", "+1h"},
      {"schedule", "t", "--in", "1s", "--ttl", "long"},
      {"schedule", "t", "--in", "1s", "--late", "bury"},
      {"schedule", "t", "--in", "1s", "--label", "x"},
      {"schedule", "t", "--local", "2026-12-24 18:00"},
      {"schedule", "t", "--local", "2026-12-24 18:00", "--tz", "UTC", "--in", "1s"},
      {"info", "--timeout", "fast"},
      {"info", "extra"},
      {"info", "cancel", "x"},
  };
  ExpectBadUsage(cases);
}

// Every command, subcommands included, explains itself with an example that can be read.
TEST(ArgumentsTest, HelpIsNoErrorAndHasAnExample) {
  const std::vector<std::vector<const char*>> commands = {{"schedule"},
                                                          {"reschedule"},
                                                          {"cancel"},
                                                          {"get"},
                                                          {"explain"},
                                                          {"list"},
                                                          {"forecast"},
                                                          {"info"},
                                                          {"bulk", "cancel"},
                                                          {"bulk", "shift"},
                                                          {"bulk", "release"},
                                                          {"bulk", "purge"},
                                                          {"bulk", "redrive"},
                                                          {"bulk", "list"},
                                                          {"bulk", "get"},
                                                          {"bulk", "stop"},
                                                          {"recur", "create"},
                                                          {"recur", "update"},
                                                          {"recur", "get"},
                                                          {"recur", "list"},
                                                          {"recur", "pause"},
                                                          {"recur", "resume"},
                                                          {"recur", "delete"},
                                                          {"recur", "preview"},
                                                          {"topic", "create"},
                                                          {"topic", "get"},
                                                          {"topic", "list"},
                                                          {"topic", "update"},
                                                          {"topic", "delete"},
                                                          {"topic", "pause"},
                                                          {"topic", "resume"},
                                                          {"topic", "drain"},
                                                          {"topic", "rate"},
                                                          {"subscription", "create"},
                                                          {"subscription", "get"},
                                                          {"subscription", "list"},
                                                          {"subscription", "update"},
                                                          {"subscription", "delete"},
                                                          {"subscription", "pause"},
                                                          {"subscription", "resume"},
                                                          {"dlq", "list"},
                                                          {"dlq", "redrive"},
                                                          {"dlq", "purge"},
                                                          {"subscription"},
                                                          {"dlq"},
                                                          {"bulk"},
                                                          {"recur"},
                                                          {"topic"}};
  for (std::vector<const char*> words : commands) {
    std::string call = "\n  duetime";
    for (const char* word : words) call += std::string(" ") + word;
    words.push_back("--help");
    testing::internal::CaptureStdout();
    const auto parsed = Parse(words);
    const std::string help = testing::internal::GetCapturedStdout();
    ASSERT_TRUE(std::holds_alternative<ExitCode>(parsed)) << call;
    EXPECT_EQ(std::get<ExitCode>(parsed), kDone) << call;
    EXPECT_NE(help.find(call), std::string::npos) << help;
  }
}

}  // namespace
}  // namespace duetime::cli
