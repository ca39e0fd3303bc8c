// SPDX-License-Identifier: Apache-2.0
//
// Runs the command line tool against the built daemon, as a person and as a script would.
#include <algorithm>
#include <fstream>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"

#include "tests/integration/cli_fixture.h"

namespace duetime::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

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
  const RunResult ended = Cli({"get", id});
  EXPECT_EQ(ended.exit.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("state         acked\n"));
  const RunResult nothing = Cli({"get", "--topic", "t", "--key", "nobody's"});
  EXPECT_EQ(nothing.exit.code, 3);
  EXPECT_THAT(nothing.err, StartsWith("duetime: MESSAGE_NOT_FOUND: "));
}

TEST_F(CliTest, TimesAsPeopleWriteThem) {
  const auto deliver_time = [&](const std::vector<std::string>& when) {
    std::vector<std::string> words = {"schedule", "t"};
    words.insert(words.end(), when.begin(), when.end());
    const std::vector<Json> lines = CliJson(words);
    return lines.empty() ? "" : lines[0]["message"].value("deliver_time", "");
  };
  EXPECT_EQ(deliver_time({"--at", "2030-12-24 18:00", "--tz", "Europe/Berlin"}),
            "2030-12-24T17:00:00Z");
  EXPECT_EQ(deliver_time({"--at", "2030-12-24T18:00:00.5-05:00"}), "2030-12-24T23:00:00.500Z");
  // In the machine's time zone, which the test sets.
  EXPECT_EQ(deliver_time({"--at", "2030-12-24 18:00"}), "2030-12-24T10:00:00Z");
  EXPECT_EQ(deliver_time({"--at", "2030-12-24 18:00", "--utc"}), "2030-12-24T18:00:00Z");
  EXPECT_THAT(Cli({"list", "t"}).out, HasSubstr("2030-12-25T02:00:00.000+08:00"));
  EXPECT_THAT(Cli({"list", "t", "--utc"}).out, HasSubstr("2030-12-24T18:00:00.000+00:00"));
  const RunResult gap = Cli({"schedule", "t", "--at", "2030-03-31 02:30", "--tz", "Europe/Berlin"});
  EXPECT_EQ(gap.exit.code, 2);
  EXPECT_THAT(gap.err, HasSubstr("does not exist in Europe/Berlin"));
  EXPECT_THAT(gap.err, HasSubstr("2030-03-31T01:30:00.000+01:00"));
  EXPECT_THAT(gap.err, HasSubstr("2030-03-31T03:30:00.000+02:00"));
}

TEST_F(CliTest, PayloadsFromArgumentFileAndStandardInput) {
  const auto payload_of = [&](const std::string& id) {
    const std::vector<Json> lines = CliJson({"get", id, "--full"});
    return lines.empty() ? Json() : lines[0]["message"];
  };
  EXPECT_EQ(payload_of(ScheduleId({"t", "text", "--in", "1h"}))["payload"], "dGV4dA==");
  const TempDirectory directory;
  const std::string file = directory.Join("payload");
  std::ofstream(file, std::ios::binary) << std::string("\xff\0\n", 3);
  EXPECT_EQ(payload_of(ScheduleId({"t", "--file", file, "--in", "1h"}))["payload"], "/wAK");
  const RunResult piped = Cli({"schedule", "t", "-", "--in", "1h", "--json"}, "from\na pipe");
  ASSERT_EQ(piped.exit.code, 0) << piped.err;
  EXPECT_EQ(payload_of(Json::parse(piped.out)["message"]["id"])["payload"], "ZnJvbQphIHBpcGU=");
  const Json none = payload_of(ScheduleId({"t", "--in", "1h"}));
  EXPECT_EQ(none["payload_bytes"], "0");
  const Json attributes = payload_of(
      ScheduleId({"t", "p", "--in", "1h", "--attr", "a=1", "--attr", "b=x=y"}))["attributes"];
  EXPECT_EQ(attributes, Json({{"a", "1"}, {"b", "x=y"}}));
}

TEST_F(CliTest, AnImportAfterACancelSaysThatNothingIsPending) {
  const std::string lines = "{\"delay\": \"3600s\"}\n{\"delay\": \"3600s\", \"key\": \"k\"}\n";
  const auto import = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"import", "-", "--topic", "t"};
    words.insert(words.end(), more.begin(), more.end());
    return Cli(words, lines).out;
  };
  EXPECT_THAT(import({}), StartsWith("scheduled 2 messages, 0 lines"));
  EXPECT_EQ(Cli({"cancel", "--topic", "t", "--key", "k"}).exit.code, 0);
  const std::string repeat = import({});
  EXPECT_THAT(repeat, StartsWith("scheduled 0 messages, 2 were there already (of these have "
                                 "ended: 1 cancelled), 0 lines refused"));
  EXPECT_THAT(repeat, HasSubstr("\nnothing is pending for a message that has ended; --again"));
  EXPECT_EQ(import({"--json"}),
            "{\"scheduled\":0,\"unchanged\":2,\"ended\":{\"STATE_CANCELLED\":1},\"refused\":0}\n");
  EXPECT_EQ(Cli({"bulk", "cancel", "t", "--all", "--wait"}).exit.code, 0);
  for (int round = 1; round <= 2; ++round) {
    // The second round finds the key.
    EXPECT_THAT(import({"--again"}), StartsWith(round == 1 ? "scheduled 2 messages, 0 lines"
                                                           : "scheduled 1 messages, 1 were there"));
    EXPECT_EQ(CliJson({"list", "t", "--all"}).size(), static_cast<size_t>(round + 1));
  }
}

TEST_F(CliTest, ImportSchedulesEachLineOnce) {
  const std::string lines =
      "{\"topic\": \"t\", \"payload\": \"aGVsbG8=\", \"delay\": \"3600s\"}\n\n"
      "{\"delay\": \"3600s\", \"key\": \"k\", \"labels\": {\"a\": \"1\"}}\n"
      "{\"delay\": \"-1s\"}\n"
      "{\"no_such_field\": 1}\n";
  const auto pending = [this] { return CliJson({"list", "t", "--all"}).size(); };
  const RunResult dry = Cli({"import", "-", "--topic", "t", "--dry-run"}, lines);
  EXPECT_EQ(dry.exit.code, 3) << dry.err;
  EXPECT_EQ(Cli({"list", "t"}).exit.code, 3) << "nothing is changed";
  for (int round = 0; round < 2; ++round) {
    const RunResult imported = Cli({"import", "-", "--topic", "t"}, lines);
    EXPECT_EQ(imported.exit.code, 3);
    EXPECT_THAT(imported.out,
                StartsWith(round == 0 ? "scheduled 2 messages, 2 lines refused"
                                      : "scheduled 0 messages, 2 were there already, 2 lines"));
    EXPECT_THAT(imported.err, StartsWith("-:4: DELIVER_TIME_OUT_OF_RANGE: "));
    EXPECT_THAT(imported.err, HasSubstr("\n-:5: no_such_field: "));
    EXPECT_EQ(pending(), 2u) << "a repeat makes no second message";
  }
  const RunResult repeat = Cli({"import", "-", "--topic", "t", "--json"}, lines);
  EXPECT_EQ(repeat.out, "{\"scheduled\":0,\"unchanged\":2,\"ended\":{},\"refused\":2}\n");
  const RunResult json = Cli({"import", "-", "--topic", "t", "--json"}, "{\"delay\": \"-1s\"}\n");
  EXPECT_EQ(Json::parse(json.err)["error"]["reason"], "DELIVER_TIME_OUT_OF_RANGE") << json.err;
  EXPECT_EQ(Json::parse(json.out)["refused"], 1);
  const TempDirectory directory;
  const std::string file = directory.Join("many.ndjson");
  std::ofstream many(file);
  for (int i = 0; i < 5'000; ++i) {
    many << "{\"topic\": \"many\", \"payload\": \"text " << i << "\", \"delay\": \"1s\"}\n";
  }
  many.close();
  const RunResult imported = Cli({"import", file, "--text", "--from-line", "3"});
  EXPECT_EQ(imported.exit.code, 0) << imported.err;
  EXPECT_THAT(imported.out, StartsWith("scheduled 4998 messages, 0 lines refused"));
  const RunResult received =
      Cli({"subscribe", "many", "--max", "4998", "--for", "50s", "--credit", "10000"});
  EXPECT_EQ(received.exit.code, 0) << received.err;
  EXPECT_THAT(received.out, HasSubstr("  text 2\n"));
  EXPECT_THAT(received.out, Not(HasSubstr("  text 1\n")));
}

TEST_F(CliTest, AnImportOfAnExportLosesNothing) {
  const TempDirectory directory;
  const std::string binary = directory.Join("payload");
  std::ofstream(binary, std::ios::binary) << std::string("\xff\0\n", 3);
  const std::vector<std::vector<std::string>> messages = {
      {"--file", binary, "--in", "1h", "--key", "user/1", "--label", "city=Rome", "--attr",
       "a=x=y"},
      {"plain", "--at", "2030-12-24 18:00", "--tz", "Europe/Berlin", "--ttl", "2d", "--late",
       "drop"},
      {"--in", "30d", "--ordering-key", "o", "--spread", "1h"},
      {"due", "--in", "0s"},
  };
  for (std::vector<std::string> words : messages) {
    words.insert(words.begin(), "old");
    ScheduleId(words);
  }
  // What the messages are, without what a new message has of its own.
  const auto all = [&](const std::string& topic) {
    std::vector<Json> found;
    for (const Json& row : CliJson({"list", topic, "--all"})) {
      Json message = CliJson({"get", row.value("id", ""), "--full"}).at(0)["message"];
      for (const char* own : {"id", "etag", "accept_time", "topic", "spread"}) message.erase(own);
      found.push_back(message);
    }
    return found;
  };
  const std::string file = directory.Join("f");
  EXPECT_THAT(Cli({"export", "old", "--output", file}).out, StartsWith("exported 4 messages"));
  std::ostringstream lines;
  lines << std::ifstream(file).rdbuf();
  const std::string renamed =
      std::regex_replace(lines.str(), std::regex("\"topic\":\"old\""), "\"topic\":\"new\"");
  EXPECT_THAT(Cli({"import", "-"}, renamed).out,
              StartsWith("scheduled 4 messages, 0 lines refused"));
  ASSERT_EQ(all("old").size(), 4u);
  EXPECT_EQ(all("new"), all("old"));
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
  EXPECT_THAT(result.out, HasSubstr(" had been cancelled at "));

  const std::string due = ScheduleId({"t", "p", "--in", "0s"});
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  ASSERT_TRUE(subscription.Next().has_value());
  result = Cli({"cancel", due});
  EXPECT_EQ(result.exit.code, 3);
  EXPECT_THAT(result.out, HasSubstr("is not cancelled"));
  result = Cli({"cancel", due, "--stop-redelivery", "--json"});
  EXPECT_EQ(result.exit.code, 3);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json["outcome"], "OUTCOME_IN_FLIGHT");
  EXPECT_EQ(json["redelivery_stopped"], true);
}

TEST_F(CliTest, CancelManyAtOnce) {
  const std::string first = ScheduleId({"t", "p", "--in", "1h"});
  const std::string second = ScheduleId({"t", "p", "--in", "1h"});
  const RunResult both = Cli({"cancel", first, second});
  EXPECT_EQ(both.exit.code, 0) << both.err;
  EXPECT_EQ(std::count(both.out.begin(), both.out.end(), '\n'), 2) << both.out;
  ScheduleId({"t", "p", "--in", "1h", "--key", "k"});
  const RunResult mixed = Cli({"cancel", "--topic", "t", "--key", "k", "--key", "nobody's"});
  EXPECT_EQ(mixed.exit.code, 3);
  EXPECT_THAT(mixed.out, HasSubstr("k is cancelled"));
  EXPECT_THAT(mixed.out, HasSubstr("nobody's is not there"));
}

TEST_F(CliTest, AKeyFindsMovesAndReplaces) {
  const std::vector<std::string> schedule = {"schedule", "t", "pay", "--in", "1h", "--key", "k"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), schedule.begin(), schedule.end());
    return more;
  };
  const std::vector<Json> first = CliJson(with({}));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0]["outcome"], "SCHEDULE_OUTCOME_CREATED");
  EXPECT_THAT(Cli(with({})).out, StartsWith("unchanged: "));
  const RunResult other = Cli(with({"--label", "a=1"}));
  EXPECT_EQ(other.exit.code, 1);
  EXPECT_THAT(other.err, StartsWith("duetime: CONTENT_MISMATCH: "));
  const std::vector<Json> dry =
      CliJson(with({"--label", "a=1", "--on-conflict", "replace", "--dry-run"}));
  ASSERT_EQ(dry.size(), 1u);
  EXPECT_EQ(dry[0]["outcome"], "SCHEDULE_OUTCOME_REPLACED");
  EXPECT_THAT(Cli(with({"--label", "a=1", "--on-conflict", "replace"})).out,
              StartsWith("replaced " + first[0]["message"].value("id", "")));
  RunResult moved = Cli({"reschedule", "--topic", "t", "--key", "k", "--in", "2h"});
  EXPECT_EQ(moved.exit.code, 0) << moved.err;
  EXPECT_THAT(moved.out, HasSubstr("k is moved to "));
  EXPECT_THAT(moved.out, HasSubstr("(in 2h)"));
  const RunResult got = Cli({"get", "--topic", "t", "--key", "k"});
  EXPECT_THAT(got.out, HasSubstr("labels        a=1\n"));
  moved = Cli({"reschedule", "--topic", "t", "--key", "k", "--in", "3h", "--etag", "stale"});
  EXPECT_EQ(moved.exit.code, 1);
  EXPECT_EQ(Cli({"cancel", "--topic", "t", "--key", "k"}).exit.code, 0);
  moved = Cli({"reschedule", "--topic", "t", "--key", "k", "--in", "3h"});
  EXPECT_EQ(moved.exit.code, 3);
  EXPECT_THAT(moved.out, HasSubstr("it was cancelled at "));
}

TEST_F(CliTest, ARequestIdMakesARepeatSafeAndALocalTimeIsKept) {
  const std::vector<std::string> words = {
      "t", "p", "--local", "2030-03-31 02:30", "--tz", "Europe/Berlin", "--request-id", "r"};
  const std::string id = ScheduleId(words);
  EXPECT_EQ(ScheduleId(words), id);
  const std::vector<Json> got = CliJson({"get", id});
  ASSERT_EQ(got.size(), 1u);
  // The clocks skip this local time. The message keeps its distance from midnight.
  EXPECT_EQ(got[0]["message"]["deliver_time"], "2030-03-31T01:30:00Z");
  EXPECT_EQ(got[0]["message"]["civil_time"]["local"], "2030-03-31T02:30");
}

TEST_F(CliTest, ListAndForecastShowWhatIsToCome) {
  for (int i = 1; i <= 5; ++i) {
    const std::string number = std::to_string(i);
    ScheduleId({"t", "p", "--in", number + "h", "--key", "k" + number, "--label",
                i % 2 == 0 ? "parity=even" : "parity=odd"});
  }
  ScheduleId({"other", "p", "--in", "1h"});
  const auto keys = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"list", "t"});
    std::vector<std::string> all;
    for (const Json& line : CliJson(words)) {
      all.push_back(line.contains("key") ? line["key"] : Json("more"));
    }
    return all;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys({}), (Keys{"k1", "k2", "k3", "k4", "k5"}));
  EXPECT_EQ(keys({"--page-size", "2"}), (Keys{"k1", "k2", "more"}));
  EXPECT_EQ(keys({"--page-size", "2", "--all"}), (Keys{"k1", "k2", "k3", "k4", "k5"}));
  EXPECT_EQ(keys({"--label", "parity=even"}), (Keys{"k2", "k4"}));
  EXPECT_EQ(keys({"--key-prefix", "k3"}), (Keys{"k3"}));
  EXPECT_EQ(keys({"--from", "+90m", "--to", "+210m"}), (Keys{"k2", "k3"}));
  EXPECT_EQ(keys({"--state", "due,in-flight"}), Keys{});
  const RunResult table = Cli({"list", "t", "--page-size", "2"});
  EXPECT_THAT(table.out, StartsWith("DELIVER TIME "));
  EXPECT_THAT(table.out, HasSubstr("k2   parity=even\n"));
  EXPECT_THAT(table.err, HasSubstr("there is more: "));
  EXPECT_EQ(Cli({"list", "nowhere"}).exit.code, 3);

  const std::vector<Json> forecast = CliJson({"forecast", "t"});
  ASSERT_EQ(forecast.size(), 1u);
  EXPECT_EQ(forecast[0]["total"]["messages"], "5");
  EXPECT_EQ(forecast[0]["buckets"].size(), 5u);
  const RunResult chart = Cli({"forecast", "t", "--bucket", "minute", "--buckets", "400"});
  EXPECT_EQ(chart.exit.code, 0) << chart.err;
  EXPECT_THAT(chart.out, HasSubstr("  1  #####"));
  EXPECT_THAT(chart.out, HasSubstr("in all        5 ("));
}

TEST_F(CliTest, ExplainTellsTheStory) {
  const std::string id = ScheduleId({"t", "p", "--in", "0s"});
  RunResult story = Cli({"explain", id});
  EXPECT_EQ(story.exit.code, 0) << story.err;
  EXPECT_THAT(story.out, HasSubstr("o  accepted\n"));
  EXPECT_THAT(story.out, HasSubstr("state         due\n"));
  ASSERT_EQ(Cli({"subscribe", "t", "--max", "1", "--for", "30s"}).exit.code, 0);
  story = Cli({"explain", id});
  EXPECT_EQ(story.exit.code, 0) << story.err;
  EXPECT_THAT(story.out, HasSubstr("o  acked\n"));
  const std::vector<Json> json = CliJson({"explain", id});
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["message"]["state"], "STATE_ACKED");
  EXPECT_TRUE(json[0]["timeline"].contains("end_time"));
}

TEST_F(CliTest, TopicsHaveSettings) {
  const RunResult made = Cli({"topic", "create", "small", "--max-pending", "1"});
  EXPECT_EQ(made.exit.code, 0) << made.err;
  ScheduleId({"small", "p", "--in", "1h"});
  const RunResult full = Cli({"schedule", "small", "p", "--in", "1h"});
  EXPECT_EQ(full.exit.code, 1);
  EXPECT_THAT(full.err, StartsWith("duetime: TOPIC_FULL: "));
  EXPECT_EQ(Cli({"topic", "update", "small", "--max-pending", "0"}).exit.code, 0);
  ScheduleId({"small", "p", "--in", "1h"});
  const std::vector<Json> topic = CliJson({"topic", "get", "small"});
  ASSERT_EQ(topic.size(), 1u);
  EXPECT_EQ(topic[0]["counts"]["pending"], "2");
  EXPECT_THAT(Cli({"topic", "list"}).out, HasSubstr("\nsmall "));
  const RunResult kept = Cli({"topic", "delete", "small"});
  EXPECT_EQ(kept.exit.code, 1);
  EXPECT_THAT(kept.err, StartsWith("duetime: TOPIC_NOT_EMPTY: "));
  EXPECT_EQ(Cli({"topic", "create", "empty"}).exit.code, 0);
  EXPECT_EQ(Cli({"topic", "delete", "empty"}).exit.code, 0);
  EXPECT_EQ(Cli({"topic", "get", "empty"}).exit.code, 3);
}

TEST_F(CliTest, RecurrencesComeAgainAndAgain) {
  const std::vector<std::string> create = {"recur",        "create", "standup",          "t",
                                           "talk",         "--cron", "30 9 * * MON-FRI", "--tz",
                                           "Europe/Berlin"};
  RunResult result = Cli(create);
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("state         active\n"));
  EXPECT_EQ(CliJson({"list", "t"}).size(), 1u);
  result = Cli({"recur", "update", "standup", "--cron", "0 10 * * *"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  const std::vector<Json> got = CliJson({"recur", "get", "standup"});
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0]["schedule"]["cron"], "0 10 * * *");
  EXPECT_EQ(got[0]["schedule"]["time_zone"], "Europe/Berlin");
  EXPECT_EQ(got[0]["template"]["payload"], "dGFsaw==");
  EXPECT_THAT(Cli({"recur", "pause", "standup"}).out, HasSubstr("state         paused\n"));
  EXPECT_EQ(CliJson({"list", "t"}).size(), 0u);
  EXPECT_THAT(Cli({"recur", "resume", "standup"}).out, HasSubstr("state         active\n"));
  EXPECT_THAT(Cli({"recur", "list"}).out, HasSubstr("\nstandup "));
  const std::vector<Json> preview =
      CliJson({"recur", "preview", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--after",
               "2027-03-27T00:00:00Z", "--count", "2"});
  ASSERT_EQ(preview.size(), 1u);
  ASSERT_EQ(preview[0]["occurrences"].size(), 2u);
  EXPECT_EQ(preview[0]["occurrences"][1]["time"], "2027-03-28T01:00:00Z");
  result = Cli({"recur", "delete", "standup"});
  EXPECT_EQ(result.exit.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("the message that was pending is cancelled"));
  EXPECT_EQ(Cli({"recur", "delete", "standup"}).exit.code, 3);
  EXPECT_EQ(Cli({"recur", "create", "beat", "b", "x", "--every", "1s"}).exit.code, 0);
  EXPECT_EQ(Cli({"subscribe", "b", "--max", "2", "--for", "30s"}).exit.code, 0);
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
  EXPECT_EQ(lines[0]["message"]["state"], "STATE_SCHEDULED");
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
    EXPECT_EQ(json["payload"], "cA==");
    EXPECT_TRUE(json["lateness"].is_string());
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

TEST_F(CliTest, MaxLeavesTheOthersUntouched) {
  ASSERT_EQ(Cli({"schedule", "t", "p", "--in", "0s", "--count", "3000"}).exit.code, 0);
  for (const char* words : {"1", "7", "1500"}) {
    const RunResult some = Cli({"subscribe", "t", "--max", words, "--for", "30s", "--quiet"});
    EXPECT_EQ(some.exit.code, 0) << some.err;
    EXPECT_EQ(some.out, std::string("received ") + words + ", acked " + words + "\n");
  }
  // Every other message comes for the first time.
  const std::vector<Json> rest = CliJson({"subscribe", "t", "--max", "1492", "--for", "30s"});
  EXPECT_EQ(rest.size(), 1492u);
  for (const Json& line : rest) ASSERT_EQ(line["attempt"], 1);
}

TEST_F(CliTest, NoCreateLeavesNothingBehind) {
  for (const char* command : {"subscribe", "pull"}) {
    const RunResult refused = Cli({command, "ordres", "--no-create"});
    EXPECT_EQ(refused.exit.code, 3) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("TOPIC_NOT_FOUND"));
  }
  EXPECT_EQ(Cli({"topic", "list", "--json"}).out, "");
  EXPECT_THAT(Cli({"subscribe", "orders", "--for", "1s"}).err,
              HasSubstr("; the topic and its subscription are new\n"));
  EXPECT_THAT(Cli({"subscribe", "ordes", "--for", "100ms"}).err,
              StartsWith("there is no topic ordes; did you mean orders?\n"));
  EXPECT_THAT(Cli({"pull", "oders"}).err,
              StartsWith("there is no topic oders; did you mean orders?\n"));
  ASSERT_EQ(Cli({"topic", "pause", "orders"}).exit.code, 0);
  EXPECT_THAT(Cli({"subscribe", "orders", "--no-create", "--for", "1s"}).err,
              HasSubstr("subscribed to orders/default at "));
  EXPECT_THAT(Cli({"pull", "orders", "--no-create"}).err, StartsWith("the topic is paused: "));
  EXPECT_THAT(Cli({"pull", "orders", "--subscription", "second"}).err,
              StartsWith("the subscription is new; the topic is paused: "));
}

TEST_F(CliTest, SubscribeEndsWellOnASignal) {
  const std::string log = server_->directory().Join("cli-log");
  Subprocess process({kTool, "subscribe", "t", "--server", server_->target()}, log);
  // The subscriber is connected once the server counts its stream.
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
  Subprocess process({kTool, "subscribe", "t", "--server", server_->target(), "--max", "2"}, log);
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

TEST_F(CliTest, ASubscriberComesBackAfterAnOperatorEndedItsStream) {
  const std::string log = server_->directory().Join("cli-log");
  Subprocess process({kTool, "subscribe", "t", "--server", server_->target(), "--max", "1"}, log);
  // Waits for a stream with another id.
  const auto next_stream = [&](const std::string& id) -> std::string {
    const auto deadline = Clock::now() + Millis(20'000);
    while (Clock::now() < deadline) {
      const std::vector<Json> streams = CliJson({"streams", "t"});
      if (streams.size() == 1 && streams[0]["id"] != id) return streams[0]["id"];
      process.Wait(Millis(5));
    }
    return "";
  };
  const std::string id = next_stream("");
  EXPECT_THAT(Cli({"streams"}).out, HasSubstr(id));
  EXPECT_EQ(Cli({"end-stream", id}).out,
            absl::StrCat("stream ", id, " is ended; its client may open a new one\n"));
  EXPECT_NE(next_stream(id), "");
  EXPECT_EQ(Cli({"end-stream", id}).exit.code, 3);
  MustSchedule("t", Millis(0));
  const auto exit = process.Wait(Millis(20'000));
  ASSERT_TRUE(exit.has_value()) << ReadWholeFile(log);
  EXPECT_EQ(exit->code, 0);
}

TEST_F(CliTest, InfoForPeopleAndPrograms) {
  const RunResult text = Cli({"info"});
  EXPECT_EQ(text.exit.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("state         serving\n"));
  EXPECT_LT(std::count(text.out.begin(), text.out.end(), '\n'), 24) << text.out;
  EXPECT_THAT(Cli({"info", "--all"}).out, HasSubstr("payload_bytes_max"));
  const std::vector<Json> lines = CliJson({"info"});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["state"], "SERVING_STATE_SERVING");
  EXPECT_EQ(lines[0]["limits"]["payload_bytes_max"], "1048576");
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
  EXPECT_THAT(Cli({"subscribe", "no blanks"}).err, HasSubstr("duetime: INVALID_TOPIC: "));
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
  for (const char* command : {"schedule", "reschedule", "cancel", "get", "explain", "list",
                              "subscribe", "forecast", "info"}) {
    EXPECT_THAT(all.out, HasSubstr(command));
    const RunResult help = Cli({command, "--help"});
    EXPECT_EQ(help.exit.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("\n  duetime ") + command)) << command;
  }
}

}  // namespace
}  // namespace duetime::test
