// SPDX-License-Identifier: Apache-2.0
//
// The command line tool against the built daemon, as a person and as a script use it.
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tests/integration/daemon_fixture.h"

namespace duetime::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

class CliTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon(); }

  RunResult Cli(std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), DUETIME_CLI);
    return RunProgram(words, input, Millis(60'000),
                      {{"DUETIME_SERVER", server_->target()}, {"TZ", "Asia/Shanghai"}});
  }

  // A run that prints JSON, a line each.
  std::vector<Json> CliJson(std::vector<std::string> words) {
    words.push_back("--json");
    const RunResult result = Cli(words);
    EXPECT_EQ(result.exit.code, 0) << result.err;
    std::vector<Json> lines;
    std::istringstream text(result.out);
    for (std::string line; std::getline(text, line);) {
      lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
      EXPECT_FALSE(lines.back().is_discarded()) << line;
    }
    return lines;
  }

  std::string ScheduleId(std::vector<std::string> words) {
    words.insert(words.begin(), "schedule");
    const std::vector<Json> lines = CliJson(words);
    EXPECT_EQ(lines.size(), 1u);
    return lines.empty() ? "" : lines[0].value("id", "");
  }
};

TEST_F(CliTest, ScheduleSubscribeAck) {
  const RunResult scheduled = Cli({"schedule", "t", "hello", "--in", "200ms"});
  EXPECT_EQ(scheduled.exit.code, 0) << scheduled.err;
  EXPECT_THAT(scheduled.out, StartsWith("scheduled "));
  EXPECT_THAT(scheduled.out, HasSubstr("+08:00 (in 200ms)"));
  const std::string id = scheduled.out.substr(10, 26);
  const RunResult received = Cli({"subscribe", "t", "--max", "1", "--for", "20s"});
  EXPECT_EQ(received.exit.code, 0) << received.err;
  EXPECT_THAT(received.out, HasSubstr(id + "  attempt 1  late "));
  EXPECT_THAT(received.out, HasSubstr("  hello\n"));
  EXPECT_THAT(received.err, HasSubstr("received 1, acked 1"));
  const RunResult gone = Cli({"get", id});
  EXPECT_EQ(gone.exit.code, 3);
  EXPECT_THAT(gone.err, StartsWith("duetime: MESSAGE_NOT_FOUND: "));
}

TEST_F(CliTest, TimesAsPeopleWriteThem) {
  const auto deliver_time = [&](const std::vector<std::string>& when) {
    std::vector<std::string> words = {"schedule", "t"};
    words.insert(words.end(), when.begin(), when.end());
    const std::vector<Json> lines = CliJson(words);
    return lines.empty() ? "" : lines[0].value("deliver_time", "");
  };
  EXPECT_EQ(deliver_time({"--at", "2030-12-24 18:00", "--tz", "Europe/Berlin"}),
            "2030-12-24T17:00:00.000+00:00");
  EXPECT_EQ(deliver_time({"--at", "2030-12-24T18:00:00.5-05:00"}), "2030-12-24T23:00:00.500+00:00");
  // The machine's zone, which is set for this run.
  EXPECT_EQ(deliver_time({"--at", "2030-12-24 18:00"}), "2030-12-24T10:00:00.000+00:00");
  const RunResult gap = Cli({"schedule", "t", "--at", "2030-03-31 02:30", "--tz", "Europe/Berlin"});
  EXPECT_EQ(gap.exit.code, 2);
  EXPECT_THAT(gap.err, HasSubstr("does not exist in Europe/Berlin"));
  EXPECT_THAT(gap.err, HasSubstr("2030-03-31T01:30:00.000+01:00"));
  EXPECT_THAT(gap.err, HasSubstr("2030-03-31T03:30:00.000+02:00"));
}

TEST_F(CliTest, PayloadsFromArgumentFileAndStandardInput) {
  const auto payload_of = [&](const std::string& id) {
    const std::vector<Json> lines = CliJson({"get", id, "--full"});
    return lines.empty() ? Json() : lines[0];
  };
  EXPECT_EQ(payload_of(ScheduleId({"t", "text", "--in", "1h"}))["payload"], "text");
  const TempDirectory directory;
  const std::string file = directory.Join("payload");
  std::ofstream(file, std::ios::binary) << std::string("\xff\0\n", 3);
  EXPECT_EQ(payload_of(ScheduleId({"t", "--file", file, "--in", "1h"}))["payload_base64"], "/wAK");
  const RunResult piped = Cli({"schedule", "t", "-", "--in", "1h", "--json"}, "from\na pipe");
  ASSERT_EQ(piped.exit.code, 0) << piped.err;
  EXPECT_EQ(payload_of(Json::parse(piped.out)["id"])["payload"], "from\na pipe");
  const Json none = payload_of(ScheduleId({"t", "--in", "1h"}));
  EXPECT_EQ(none["payload_bytes"], 0);
  const Json attributes = payload_of(
      ScheduleId({"t", "p", "--in", "1h", "--attr", "a=1", "--attr", "b=x=y"}))["attributes"];
  EXPECT_EQ(attributes, Json({{"a", "1"}, {"b", "x=y"}}));
}

TEST_F(CliTest, CountSchedulesManyInBatches) {
  const RunResult scheduled = Cli({"schedule", "t", "p", "--in", "0s", "--count", "12345"});
  EXPECT_EQ(scheduled.exit.code, 0) << scheduled.err;
  EXPECT_THAT(scheduled.out, StartsWith("scheduled 12345 messages"));
  const RunResult received =
      Cli({"subscribe", "t", "--max", "12345", "--for", "50s", "--quiet", "--json"});
  ASSERT_EQ(received.exit.code, 0) << received.err;
  const Json counts = Json::parse(received.out);
  EXPECT_EQ(counts["received"], 12'345);
  EXPECT_EQ(counts["acked"], 12'345);
  EXPECT_EQ(CliJson({"schedule", "t", "p", "--in", "1h", "--count", "7"}).size(), 7u);
}

TEST_F(CliTest, CancelSaysWhatBecameOfIt) {
  const std::string pending = ScheduleId({"t", "p", "--in", "1h"});
  RunResult result = Cli({"cancel", pending});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("is cancelled: it was never delivered"));
  result = Cli({"cancel", pending});
  EXPECT_EQ(result.exit.code, 3);
  EXPECT_THAT(result.out, HasSubstr("is not there"));

  const std::string due = ScheduleId({"t", "p", "--in", "0s"});
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  ASSERT_TRUE(subscription.Next().has_value());
  result = Cli({"cancel", due});
  EXPECT_EQ(result.exit.code, 3);
  EXPECT_THAT(result.out, HasSubstr("is not cancelled"));
  result = Cli({"cancel", due, "--stop-redelivery", "--json"});
  EXPECT_EQ(result.exit.code, 3);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["outcome"], "IN_FLIGHT");
  EXPECT_EQ(json["redelivery_stopped"], true);
}

TEST_F(CliTest, GetShowsAMessage) {
  const std::string id = ScheduleId({"t", "secret", "--in", "1h", "--attr", "k=v"});
  const RunResult basic = Cli({"get", id});
  EXPECT_EQ(basic.exit.code, 0) << basic.err;
  EXPECT_THAT(basic.out, HasSubstr("state         scheduled\n"));
  EXPECT_THAT(basic.out, HasSubstr("payload size  6 bytes\n"));
  EXPECT_THAT(basic.out, testing::Not(HasSubstr("secret")));
  const RunResult full = Cli({"get", id, "--full"});
  EXPECT_THAT(full.out, HasSubstr("payload       secret\n"));
  EXPECT_THAT(full.out, HasSubstr("attribute     k=v\n"));
  const std::vector<Json> lines = CliJson({"get", id});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["state"], "SCHEDULED");
}

TEST_F(CliTest, SubscribeCanGiveBackOrSayNothing) {
  ScheduleId({"t", "p", "--in", "0s"});
  RunResult result =
      Cli({"subscribe", "t", "--nack", "0s", "--max", "3", "--for", "30s", "--json"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  std::istringstream text(result.out);
  int attempt = 0;
  for (std::string line; std::getline(text, line);) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json["attempt"], ++attempt);
    EXPECT_EQ(json["payload"], "p");
    EXPECT_TRUE(json["lateness_ms"].is_number());
  }
  EXPECT_EQ(attempt, 3);
  result = Cli({"subscribe", "t", "--no-ack", "--max", "1", "--for", "30s"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("(repeat?)"));
  result = Cli({"subscribe", "t", "--max", "1", "--for", "30s"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("acked 1"));
  result = Cli({"subscribe", "t", "--max", "1", "--for", "300ms"});
  EXPECT_EQ(result.exit.code, 3) << "fewer than --max";
  result = Cli({"subscribe", "t", "--for", "100ms"});
  EXPECT_EQ(result.exit.code, 0);
  EXPECT_THAT(result.err, HasSubstr("received 0"));
}

TEST_F(CliTest, SubscribeEndsWellOnASignal) {
  const std::string log = server_->directory().Join("cli-log");
  Subprocess process({DUETIME_CLI, "subscribe", "t", "--server", server_->target()}, log);
  // It is connected once the server counts its stream.
  const auto deadline = Clock::now() + Millis(20'000);
  while (Info().counts().streams() < 1 && Clock::now() < deadline) process.Wait(Millis(5));
  process.Signal(SIGINT);
  const auto exit = process.Wait(Millis(20'000));
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
  EXPECT_THAT(ReadWholeFile(log), HasSubstr("received 0, acked 0"));
}

TEST_F(CliTest, SubscribeComesBackAfterARestart) {
  const std::string log = server_->directory().Join("cli-log");
  Subprocess process({DUETIME_CLI, "subscribe", "t", "--server", server_->target(), "--max", "2"},
                     log);
  MustSchedule("t", Millis(0), "before");
  const auto deadline = Clock::now() + Millis(20'000);
  while (ReadWholeFile(log).find("before") == std::string::npos && Clock::now() < deadline) {
    process.Wait(Millis(5));
  }
  server_->Kill();
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  MustSchedule("t", Millis(0), "after");
  const auto exit = process.Wait(Millis(30'000));
  ASSERT_TRUE(exit.has_value()) << ReadWholeFile(log);
  EXPECT_EQ(exit->code, 0);
  EXPECT_THAT(ReadWholeFile(log), HasSubstr("cannot reach the server"));
}

TEST_F(CliTest, InfoForPeopleAndPrograms) {
  const RunResult text = Cli({"info"});
  EXPECT_EQ(text.exit.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("state         serving\n"));
  EXPECT_THAT(text.out, HasSubstr("payload_bytes_max"));
  const std::vector<Json> lines = CliJson({"info"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["state"], "SERVING");
  EXPECT_EQ(lines[0]["limits"]["payload_bytes_max"], 1 << 20);
}

TEST_F(CliTest, ErrorsAreOneLineWithTheReason) {
  const RunResult refused = Cli({"schedule", "no blanks", "p", "--in", "1s"});
  EXPECT_EQ(refused.exit.code, 1);
  EXPECT_THAT(refused.err, StartsWith("duetime: INVALID_TOPIC: topic"));
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_EQ(refused.out, "");
  const RunResult json = Cli({"schedule", "no blanks", "p", "--in", "1s", "--json"});
  EXPECT_EQ(json.exit.code, 1);
  EXPECT_EQ(Json::parse(json.err)["error"]["reason"], "INVALID_TOPIC");
  const RunResult subscribe = Cli({"subscribe", "no blanks"});
  EXPECT_EQ(subscribe.exit.code, 1);
  EXPECT_THAT(subscribe.err, HasSubstr("duetime: INVALID_TOPIC: "));
  const RunResult usage = Cli({"schedule", "t"});
  EXPECT_EQ(usage.exit.code, 2);
  EXPECT_EQ(std::count(usage.err.begin(), usage.err.end(), '\n'), 1) << usage.err;
  const RunResult nobody =
      Cli({"info", "--server", "unix:" + server_->directory().Join("nobody"), "--timeout", "2s"});
  EXPECT_EQ(nobody.exit.code, 4);
  EXPECT_THAT(nobody.err, StartsWith("duetime: cannot reach the server at unix:"));
}

TEST_F(CliTest, HelpShowsAnExampleForEachCommand) {
  const RunResult all = Cli({"--help"});
  EXPECT_EQ(all.exit.code, 0);
  EXPECT_THAT(all.out, HasSubstr("Exit codes:"));
  for (const char* command : {"schedule", "cancel", "get", "subscribe", "info"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const RunResult help = Cli({command, "--help"});
    EXPECT_EQ(help.exit.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("\n  duetime ") + command)) << command;
  }
  EXPECT_EQ(Cli({"--version"}).exit.code, 0);
}

}  // namespace
}  // namespace duetime::test
