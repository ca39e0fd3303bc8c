// SPDX-License-Identifier: Apache-2.0
//
// The checks of `duetime doctor`, each with good and bad facts, and the command itself.
#include "client/cli/commands/findings.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <sys/timex.h>
#include <vector>

#include "client/cli/commands/host_facts.h"
#include "client/cpp/convert.h"
#include "tests/support/paths.h"
#include "tests/support/temp_directory.h"
#include "tests/unit/client/commands_fixture.h"

namespace duetime::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Level = Finding::Level;

std::string ReadAll(const std::string& path) {
  std::ifstream file(std::filesystem::path(test::kSourceRoot) / path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

// What the group of `pattern` matches.
std::set<std::string> AllOf(const std::string& pattern, const std::string& text) {
  const std::regex regex(pattern);
  std::set<std::string> all;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    all.insert((*match)[1]);
  }
  return all;
}

// The ids that the table of the runbook explains.
std::set<std::string> ListedIds() {
  std::string text = ReadAll("deploy/RUNBOOK.md");
  text.erase(0, text.find("## Findings of doctor"));
  text.erase(text.find("\n## ", 1));
  return AllOf("\n\\| `([a-z-]+)` \\| (?:warning|bad|warning, bad) \\|", text);
}

// The checks that are not OK, as "name: level".
std::vector<std::string> Remarks(const Findings& findings) {
  std::vector<std::string> remarks;
  for (const Finding& finding : findings) {
    EXPECT_FALSE(finding.text.empty()) << finding.check;
    EXPECT_EQ(finding.advice.empty(), finding.level == Level::kOk) << finding.check;
    EXPECT_EQ(finding.id.empty(), finding.level == Level::kOk) << finding.check;
    if (finding.level == Level::kOk) continue;
    EXPECT_TRUE(ListedIds().contains(finding.id)) << finding.id;
    remarks.push_back(finding.check + ": " + LevelText(finding.level));
  }
  return remarks;
}

TEST(FindingsTest, TheRunbookListsTheIdsOfTheCode) {
  const std::string code = ReadAll("client/cli/commands/findings.cc") +  //
                           ReadAll("client/cli/commands/doctor.cc");
  EXPECT_THAT(AllOf("(?:Warning|Bad)\\(\\s*\"[a-z ]+\",\\s*\"([^\"]*)\"", code),
              testing::ContainerEq(ListedIds()));
}

constexpr char kGoodInfo[] =
    "version: '1' state: SERVING_STATE_SERVING clock_state: CLOCK_STATE_NORMAL "
    "limits { topics_max: 10 streams_max: 10 request_retention { seconds: 1 } } "
    "counts { topics: 8 streams: 8 } ";

TEST(FindingsTest, MessagesThatNothingReads) {
  const std::vector<v1::Topic> topics = {
      ParseProto<v1::Topic>("name: 'idle' settings { paused: true }")};
  const auto finding = [&](const std::string& change, int64_t now_s = 160) {
    auto subscription = ParseProto<v1::Subscription>(
        "topic: 't' name: 's' backlog { messages: 3 oldest_due_time { seconds: 100 } } ");
    subscription.MergeFrom(ParseProto<v1::Subscription>(change));
    return CheckReaders(topics, {subscription}, absl::FromUnixSeconds(now_s));
  };
  EXPECT_THAT(Remarks(finding("")), ElementsAre("readers: warning"));
  EXPECT_THAT(finding("", 190)[0].text, HasSubstr("(t s) have no reader for 3 due messages, the "
                                                  "oldest of which has waited for 1m30s"));
  for (const char* good : {"topic: 'idle'", "settings { paused: true }", "counts { streams: 1 }",
                           "backlog { oldest_due_time { seconds: 101 } }"}) {
    EXPECT_THAT(finding(good), testing::IsEmpty()) << good;
  }
}

TEST(FindingsTest, TheServersOwnState) {
  struct Case {
    std::string change;
    std::vector<std::string> remarks;
  };
  for (const Case& c :
       std::vector<Case>{{"", {}},
                         {"state: SERVING_STATE_STARTING", {"server: warning"}},
                         {"state: SERVING_STATE_STORAGE_FAILED", {"server: bad"}},
                         {"version: '2'", {"version: warning"}},
                         {"clock_state: CLOCK_STATE_SET_BACK", {"clock: warning"}},
                         {"clock_state: CLOCK_STATE_AHEAD", {"clock: bad"}},
                         {"damage { blocks_total: 3 }", {"data: bad"}},
                         {"disk_low: true", {"space: bad"}},
                         {"counts { topics: 9 }", {"limits: warning"}},
                         {"counts { deleted_topics: 9 }", {}},
                         {"counts { deleted_topics: 10 }", {"limits: warning"}},
                         {"counts { streams: 9 }", {"limits: warning"}},
                         {"limits { request_retention { seconds: 0 } }", {"repeats: warning"}}}) {
    const auto info = ParseProto<v1::ServerInfoResponse>(kGoodInfo + c.change);
    EXPECT_EQ(Remarks(CheckServerInfo(info, "1")), c.remarks) << c.change;
  }
}

TEST(FindingsTest, OtherMachinesNeedTls) {
  struct Case {
    client::ServerAddress address;
    Level level;
  };
  for (const Case& c : std::vector<Case>{
           {{.target = "127.0.0.1:7788"}, Level::kOk},
           {{.target = "localhost:7788"}, Level::kOk},
           {{.target = "[::1]:7788"}, Level::kOk},
           {{.target = "unix:/run/duetime/s"}, Level::kOk},
           {{.target = "10.0.0.7:7788"}, Level::kBad},
           {{.target = "dns:///orders.example:7788"}, Level::kBad},
           {{.target = "10.0.0.7:7788", .tls_ca_file = "ca"}, Level::kWarning},
           {{.target = "10.0.0.7:7788", .tls_ca_file = "ca", .tls_cert_file = "c"}, Level::kOk}}) {
    EXPECT_EQ(CheckAddress(c.address).level, c.level) << c.address.target;
  }
}

TEST(FindingsTest, ClocksAgreeUpToThePrecision) {
  const auto level = [](int64_t offset_ms, int64_t precision_ms) {
    return CheckOffset(absl::Milliseconds(offset_ms), absl::Milliseconds(precision_ms)).level;
  };
  EXPECT_EQ(level(90, 1), Level::kOk);
  EXPECT_EQ(level(450, 400), Level::kOk);
  EXPECT_THAT(CheckOffset(absl::Seconds(5), absl::Seconds(5)).text,
              HasSubstr("is not known: its answer took 10000.0 ms"));
  EXPECT_EQ(level(200, 1), Level::kWarning);
  EXPECT_THAT(CheckOffset(absl::Seconds(-2), absl::ZeroDuration()).text, HasSubstr("2s behind"));
  EXPECT_EQ(CheckKernelClock({.synchronised = true}).level, Level::kOk);
  EXPECT_EQ(CheckKernelClock({.synchronised = false}).level, Level::kWarning);
}

TEST(FindingsTest, TopicsWithoutLimits) {
  const auto topic = [](const std::string& text) { return ParseProto<v1::Topic>(text); };
  const auto reader = [](const std::string& text) { return ParseProto<v1::Subscription>(text); };
  EXPECT_THAT(Remarks(CheckTopics({topic("name: 'a' settings { max_pending: 1 }")},
                                  {reader("settings { retry { max_attempts: 1 } }")})),
              ElementsAre());
  const Findings all =
      CheckTopics({topic("name: 'a'"), topic("name: 'b' settings { paused: true }")},
                  {reader("topic: 'a' name: 's'")});
  EXPECT_THAT(Remarks(all), ElementsAre("quotas: warning", "retries: warning", "paused: warning"));
  EXPECT_THAT(all[0].text, HasSubstr("2 of 2 topics (a, b)"));
  EXPECT_THAT(all[1].text, HasSubstr("(a s)"));
}

TEST(FindingsTest, DeadLettersThatStayInTheirLastTopic) {
  const Findings all = CheckTopics(
      {}, {ParseProto<v1::Subscription>("topic: 'a.dlq' name: 's' settings { retry { "
                                        "max_attempts: 1 } } counts { dead_letter_hops_refused: "
                                        "3 }")});
  EXPECT_THAT(Remarks(all), ElementsAre("dead letters: bad"));
  EXPECT_THAT(all.back().text, HasSubstr("1 of 1 subscriptions (a.dlq s)"));
}

TEST(FindingsTest, RecurrencesThatMakeNothing) {
  const auto info = [](const std::string& counts) {
    return ParseProto<v1::ServerInfoResponse>("counts { " + counts + " }");
  };
  EXPECT_THAT(Remarks(CheckRecurrences(info(""), {})), ElementsAre());
  const Findings all = CheckRecurrences(
      info("recurrences_stalled: 2 recurrences_made_anew: 3"),
      {ParseProto<v1::Recurrence>("name: 'daily' state_reason: 'its zone has gone'")});
  EXPECT_THAT(Remarks(all), ElementsAre("recurrences: bad", "recurrences: warning"));
  EXPECT_THAT(all[0].text, HasSubstr("2 recurrences make no messages: daily, because its zone"));
  EXPECT_THAT(all[1].text, HasSubstr("3 occurrences were made anew"));
}

TEST(FindingsTest, OperationsThatDoNotStartEverywhere) {
  const auto operation = [](const std::string& name, const std::string& rest) {
    return ParseProto<v1::Operation>("name: '" + name + "' create_time { seconds: 1000 } " + rest);
  };
  const v1::Operation runs = operation("a", "state: STATE_RUNNING");
  const v1::Operation starts =
      operation("b", "state: STATE_STARTING missing_places: 'cell b' missing_places: 'shard 1'");
  const v1::Operation lost = operation("c", "state: STATE_STARTING");
  struct Case {
    std::vector<v1::Operation> operations;
    int64_t second;
    std::string text;
  };
  for (const Case& c : std::vector<Case>{
           {{}, 1060, ""},
           {{runs}, 1060, ""},
           {{starts}, 1059, ""},
           {{runs, starts}, 1060, "the bulk operation b has not started in cell b, shard 1"},
           {{lost, starts}, 1060, "c has not started everywhere; 1 more like it"},
       }) {
    const Findings all = CheckOperations(c.operations, absl::FromUnixSeconds(c.second));
    ASSERT_EQ(all.size(), c.text.empty() ? 0u : 1u) << c.text;
    if (all.empty()) continue;
    EXPECT_THAT(Remarks(all), ElementsAre("operations: warning"));
    EXPECT_THAT(all[0].text, HasSubstr(c.text));
  }
}

TEST(FindingsTest, AnOrderingKeyThatManyWaitFor) {
  struct Case {
    std::string key;
    std::vector<std::string> remarks;
  };
  for (const Case& c : std::vector<Case>{
           {"", {}},
           {"waiting: 999", {}},
           {"waiting: 1000", {"order: warning"}},
           {"waiting: 3 on_disk: true", {"order: warning"}},
       }) {
    const Findings all = CheckHeldKeys({ParseProto<v1::Subscription>(
        "topic: 't' name: 's' counts { longest_key { ordering_key: 'k' message_id: 'm' " + c.key +
        " } }")});
    EXPECT_EQ(Remarks(all), c.remarks) << c.key;
    if (all.empty()) continue;
    EXPECT_THAT(all[0].text, HasSubstr("ordering_key \"k\" wait for message m"));
    EXPECT_THAT(all[0].advice, HasSubstr("duetime explain m"));
  }
}

TEST(FindingsTest, AMessageThatWasDeliveredOften) {
  const auto message = [](const std::string& fields) {
    return ParseProto<v1::Message>("topic: 't' " + fields);
  };
  const auto holding = [](const std::string& key) {
    return ParseProto<v1::Subscription>("topic: 't' name: 's' counts { longest_key { " + key +
                                        " } }");
  };
  struct Case {
    std::vector<v1::Message> messages;
    std::string key;
    // Empty: no finding.
    std::string text;
  };
  for (const Case& c : std::vector<Case>{
           {{}, "", ""},
           {{message("id: 'm' attempts: 9")}, "", ""},
           {{message("id: 'm' attempts: 10")},
            "",
            "message m of t was delivered 10 times and is not settled"},
           {{message("id: 'l' attempts: 12"), message("id: 'm' attempts: 14"),
             message("id: 'n' attempts: 9")},
            "",
            "message m of t was delivered 14 times and is not settled; 1 more like it"},
           {{message("id: 'm' attempts: 10 ordering_key: 'k'")},
            "message_id: 'l' waiting: 7",
            "message m of t was delivered 10 times and is not settled; it blocks its ordering_key "
            "\"k\""},
           {{message("id: 'm' attempts: 10 ordering_key: 'k'")},
            "message_id: 'm' waiting: 7",
            "message m of t was delivered 10 times and is not settled; it blocks its ordering_key "
            "\"k\", for which 7 messages wait"},
           {{message("id: 'm' attempts: 10 ordering_key: 'k'")},
            "message_id: 'm' waiting: 7 on_disk: true",
            "message m of t was delivered 10 times and is not settled; it blocks its ordering_key "
            "\"k\", for which more than 7 messages wait"},
       }) {
    const Findings all = CheckFailing(c.messages, {holding(c.key)});
    ASSERT_EQ(all.size(), c.text.empty() ? 0u : 1u);
    if (all.empty()) continue;
    EXPECT_EQ(all[0].text, c.text);
    EXPECT_EQ(Remarks(all), std::vector<std::string>{"failing: warning"});
    EXPECT_THAT(all[0].advice, HasSubstr("duetime explain m"));
  }
}

TEST(FindingsTest, TheDisk) {
  constexpr int64_t kGib = int64_t{1} << 30;
  const auto syncs = [](int64_t ms) {
    return std::vector<absl::Duration>(3, absl::Milliseconds(ms));
  };
  struct Case {
    DiskFacts disk;
    std::vector<std::string> remarks;
  };
  for (const Case& c : std::vector<Case>{
           {{.free_bytes = 50 * kGib, .size_bytes = 100 * kGib, .syncs = syncs(1)}, {}},
           {{.free_bytes = kGib, .size_bytes = 4 * kGib, .syncs = syncs(1)}, {"disk: warning"}},
           {{.free_bytes = 5 * kGib, .size_bytes = 100 * kGib, .syncs = syncs(1)},
            {"disk: warning"}},
           {{.free_bytes = 9 * kGib, .size_bytes = 9 * kGib, .syncs = syncs(50)},
            {"fsync: warning"}},
           {{.free_bytes = 9 * kGib, .size_bytes = 9 * kGib, .syncs = syncs(500)}, {"fsync: bad"}},
           {{.free_bytes = 9 * kGib, .size_bytes = 9 * kGib}, {"fsync: warning"}},
           {{.free_bytes = 9 * kGib, .size_bytes = 9 * kGib, .in_memory = true}, {"fsync: bad"}}}) {
    EXPECT_EQ(Remarks(CheckDisk(c.disk)), c.remarks);
  }
}

TEST(FindingsTest, TheProcess) {
  const auto remarks = [](ProcessFacts facts) { return Remarks(CheckProcess(facts, 0)); };
  EXPECT_THAT(remarks({.open_files_max = 65'536, .resident_bytes = 7, .memory_max = 10}),
              ElementsAre());
  EXPECT_THAT(remarks({.open_files_max = 1'024, .resident_bytes = 9, .memory_max = 10}),
              ElementsAre("open files: warning", "memory: warning"));
}

TEST(FindingsTest, TheThreadsOfTheProcess) {
  for (const auto& [shards, threads, cores, remarks] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, std::vector<std::string>>>{
           {4, 40, 1, {}},  // a member of a cell
           {5, 40, 1, {"cores: warning"}},
           {16, 80, 8, {}},
           {64, 177, 1, {"cores: warning"}},
           {1, 177, 1, {"cores: warning"}},
           {8, 177, 128, {}},
           {0, 30, 2, {}}}) {
    const ProcessFacts facts = {.open_files_max = 65'536, .threads = threads, .cores = cores};
    EXPECT_EQ(Remarks(CheckProcess(facts, shards)), remarks) << shards << " on " << cores;
  }
}

TEST(HostFactsTest, WhatLinuxTells) {
  const test::TempDirectory directory;
  const absl::StatusOr<DiskFacts> disk = ReadDisk(directory.path());
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_GE(disk->size_bytes, disk->free_bytes);
  EXPECT_EQ(disk->syncs.size(), 20u);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "the file of the check is gone";
  EXPECT_TRUE(absl::IsNotFound(ReadDisk(directory.Join("none")).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadProcess(directory.path()).status()));
  EXPECT_EQ(
      ReadOpenFilesMax("Max processes 1 2\nMax open files            20000    65536    files\n"),
      20'000);
  timex clock{};
  EXPECT_EQ(ReadKernelClock().synchronised, adjtimex(&clock) != TIME_ERROR);
}

TEST(FindingsTest, TheServersCertificate) {
  const absl::Time now = absl::FromUnixSeconds(1'800'000'000);
  const absl::Duration day = absl::Hours(24);
  const struct {
    absl::Duration left;
    Level level;
    std::string text;
  } cases[] = {
      {21 * day, Level::kOk, "ends in 21d"},
      {21 * day - absl::Seconds(1), Level::kWarning, "ends in 20d23h"},
      {3 * day, Level::kWarning, "ends in 3d"},
      {3 * day - absl::Seconds(1), Level::kBad, "ends in 2d23h"},
      {-30 * day, Level::kBad, "ended 30d ago"},
  };
  for (const auto& [left, level, text] : cases) {
    const Finding finding = CheckCertificate(now + left, now);
    EXPECT_EQ(finding.level, level) << finding.text;
    EXPECT_THAT(finding.text, HasSubstr(text));
    Remarks({finding});
  }
}

TEST(FindingsTest, TheIdentityOfTheClient) {
  v1::CheckAccessResponse answer;
  answer.set_principal("alice");
  EXPECT_THAT(CheckIdentity(answer).text, HasSubstr("as alice, which may not operate it"));
  answer.set_allowed(true);
  EXPECT_THAT(CheckIdentity(answer).text, HasSubstr("as alice, which may operate it"));
  EXPECT_THAT(Remarks({CheckIdentity(answer), CheckIdentity(absl::FailedPreconditionError("off")),
                       CheckIdentity(absl::UnauthenticatedError("the token is unknown")),
                       CheckIdentity(absl::UnimplementedError("an old server"))}),
              ElementsAre("identity: bad", "identity: warning"));
}

using DoctorTest = CommandsTest;

TEST_F(DoctorTest, LooksAtTheOldestMessagesOfTopicsThatDeliver) {
  server_.On<v1::ServerInfoRequest, v1::ServerInfoResponse>([](const auto&, auto* response) {
    *response = ParseProto<v1::ServerInfoResponse>(kGoodInfo);
    response->mutable_counts()->set_delayed(1);
    *response->mutable_server_time() = client::ToProto(absl::Now());
    return grpc::Status::OK;
  });
  Answer<v1::ListTopicsRequest, v1::ListTopicsResponse>(
      "topics { name: 'a' } topics { name: 'b' }");
  server_.On<v1::ListSubscriptionsRequest, v1::ListSubscriptionsResponse>(
      [](const auto& request, auto* response) {
        response->add_subscriptions()->set_topic(request.topic());
        return grpc::Status::OK;
      });
  server_.On<v1::GetSubscriptionRequest, v1::GetSubscriptionResponse>(
      [](const auto& request, auto* response) {
        response->mutable_subscription()->set_topic(request.topic());
        response->mutable_subscription()->mutable_counts()->set_delayed(request.topic() == "b");
        return grpc::Status::OK;
      });
  Answer<v1::ListRequest, v1::ListResponse>("messages { topic: 'b' id: 'm' attempts: 11 }");
  Answer<v1::ListOperationsRequest, v1::ListOperationsResponse>("");
  Refuse<v1::CheckAccessRequest>(grpc::StatusCode::FAILED_PRECONDITION, "ACCESS_CONTROL_OFF");
  EXPECT_THAT(Out("doctor"),
              HasSubstr("warning  failing     message m of b was delivered 11 times"));
  const auto lists = server_.Seen<v1::ListRequest>();
  ASSERT_EQ(lists.size(), 1u);
  EXPECT_EQ(lists[0].topic(), "b");
  EXPECT_THAT(lists[0].states(), ElementsAre(v1::Message::STATE_DUE, v1::Message::STATE_IN_FLIGHT));
}

TEST_F(DoctorTest, ExitCodes) {
  server_.On<v1::ServerInfoRequest, v1::ServerInfoResponse>([](const auto&, auto* response) {
    *response = ParseProto<v1::ServerInfoResponse>(kGoodInfo);
    *response->mutable_server_time() = client::ToProto(absl::Now());
    return grpc::Status::OK;
  });
  Answer<v1::ListTopicsRequest, v1::ListTopicsResponse>("topics { name: 'a' }");
  Answer<v1::ListSubscriptionsRequest, v1::ListSubscriptionsResponse>(
      "subscriptions { topic: 'a' name: 's' }");
  Answer<v1::ListOperationsRequest, v1::ListOperationsResponse>(
      "operations { name: 'n' state: STATE_STARTING }");
  Refuse<v1::CheckAccessRequest>(grpc::StatusCode::FAILED_PRECONDITION, "ACCESS_CONTROL_OFF");
  const std::string out = Out("doctor");
  EXPECT_THAT(out, HasSubstr("ok       identity    the server asks for no token"));
  EXPECT_THAT(out, HasSubstr("warning  operations  the bulk operation n has not started"));
  EXPECT_THAT(out, HasSubstr("warning  quotas      1 of 1 topics (a) accept"));
  EXPECT_THAT(out, HasSubstr("ok       access      unix:"));
  EXPECT_THAT(Out("doctor --json"),
              HasSubstr("{\"check\":\"clock\",\"id\":\"\",\"level\":\"ok\",\"text\":"));
  EXPECT_EQ(Cli("doctor --data-dir /no/such/directory").code, kNotAsWished);
  server_.Stop();
  const Result unreachable = Cli("doctor --timeout 1s");
  EXPECT_EQ(unreachable.code, kNoAnswer);
  EXPECT_THAT(unreachable.out, HasSubstr("bad      server      cannot reach the server at"));
}

TEST_F(DoctorTest, QuietPrintsFindingsOnlyAndExitsAsHealthChecksDo) {
  Answer<v1::ListTopicsRequest, v1::ListTopicsResponse>("");
  Answer<v1::ListOperationsRequest, v1::ListOperationsResponse>("");
  Refuse<v1::CheckAccessRequest>(grpc::StatusCode::FAILED_PRECONDITION, "ACCESS_CONTROL_OFF");
  const auto doctor = [&](const std::string& state, const std::string& options) {
    server_.On<v1::ServerInfoRequest, v1::ServerInfoResponse>(
        [state](const auto&, v1::ServerInfoResponse* response) {
          *response = ParseProto<v1::ServerInfoResponse>(kGoodInfo + state);
          *response->mutable_server_time() = client::ToProto(absl::Now());
          return grpc::Status::OK;
        });
    // What this machine's clock and this build add.
    const Result result =
        Cli("doctor --quiet --ignore clock-not-synchronised --ignore version-differs " + options);
    EXPECT_EQ(result.err, "");
    return std::pair(result.code, result.out);
  };
  using testing::Pair;
  EXPECT_THAT(doctor("", ""), Pair(0, ""));
  EXPECT_THAT(doctor("", "--json"), Pair(0, ""));
  EXPECT_THAT(
      doctor("clock_state: CLOCK_STATE_SET_BACK", ""),
      Pair(1, testing::MatchesRegex("clock-set-back warning the server's clock was [^\n]*\n")));
  EXPECT_THAT(doctor("clock_state: CLOCK_STATE_SET_BACK", "--json"),
              Pair(1, HasSubstr("{\"check\":\"clock\",\"id\":\"clock-set-back\",\"level\":")));
  EXPECT_THAT(doctor("disk_low: true clock_state: CLOCK_STATE_SET_BACK", ""),
              Pair(2, HasSubstr("disk-full bad the server's disk is nearly full")));
  Refuse<v1::ListTopicsRequest>(grpc::StatusCode::PERMISSION_DENIED, "ACCESS_DENIED");
  EXPECT_THAT(doctor("", ""), Pair(2, testing::StartsWith("call-failed bad ")));
  server_.Stop();
  EXPECT_THAT(doctor("", "--timeout 1s"),
              Pair(2, testing::MatchesRegex("server-unreachable bad cannot reach [^\n]*\n")));
}

}  // namespace
}  // namespace duetime::cli
