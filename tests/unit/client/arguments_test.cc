// SPDX-License-Identifier: Apache-2.0
//
// The request for each command line, and the command lines that are refused.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"

#include "client/cli/commands/commands.h"
#include "client/cli/options.h"
#include "client/cli/show.h"
#include "client/cpp/convert.h"
#include "tests/support/proto_text.h"
#include "tests/unit/client/command_line.h"

namespace duetime::cli {
namespace {

using client::FromProto;
using client::Settlement;
using Values = std::map<std::string, Names>;

struct RequestCase {
  const char* line;
  // The expected request, in text format.
  const char* request;
  // The expected options that have no field in the request.
  Values values{};
};

void ExpectRequests(const std::vector<RequestCase>& cases) {
  for (const RequestCase& c : cases) {
    const Input input = Read(c.line);
    ASSERT_NE(input.request, nullptr) << c.line;
    EXPECT_TRUE(IsProto(*input.request, c.request)) << c.line;
    EXPECT_EQ(input.values, c.values) << c.line;
  }
}

TEST(ArgumentsTest, Messages) {
  const Values once = {{"--count", {"1"}}};
  ExpectRequests({
      {"schedule t hello --in 90s", "topic: 't' payload: 'hello' delay { seconds: 90 }", once},
      {"schedule --attr a=1 t --attr b=x=y --allow-past --at '2026-12-24 18:00' --tz Asia/Shanghai "
       "--count 7 "
       "--attr empty=",
       "topic: 't' deliver_time { seconds: 1798106400 } attributes { key: 'a' value: '1' } "
       "attributes { key: 'b' value: 'x=y' } attributes { key: 'empty' value: '' }",
       {{"--count", {"7"}},
        {"--at", {"2026-12-24 18:00"}},
        {"--tz", {"Asia/Shanghai"}},
        {"--allow-past", {""}}}},
      {"schedule t --in 10m --key k --on-conflict push-back --max-wait 1h --only-if-exists "
       "--request-id r --dry-run",
       "topic: 't' delay { seconds: 600 } key: 'k' on_conflict: ON_CONFLICT_PUSH_BACK max_wait { "
       "seconds: 3600 "
       "} only_if_exists: true request_id: 'r' validate_only: true",
       once},
      {"schedule t --in 1s --key k --on-conflict once",
       "topic: 't' delay { seconds: 1 } key: 'k' on_conflict: ON_CONFLICT_ONCE", once},
      {"schedule t --in 1s --key k --on-conflict keep-time",
       "topic: 't' delay { seconds: 1 } key: 'k' on_conflict: ON_CONFLICT_KEEP_TIME", once},
      {"schedule t --allow-past --local '2026-12-24 18:00' --tz Europe/Berlin --label a=1 --label "
       "b=2 --ttl 5m "
       "--late drop --spread 15m --ordering-key o",
       "topic: 't' civil_time { local: '2026-12-24T18:00' time_zone: 'Europe/Berlin' } labels { "
       "key: 'a' value: '1' } labels { key: 'b' value: '2' } ttl { seconds: 300 } late_policy: "
       "LATE_POLICY_DROP spread { seconds: 900 } ordering_key: 'o'",
       {{"--count", {"1"}}, {"--tz", {"Europe/Berlin"}}, {"--allow-past", {""}}}},
      {"schedule t --in 1s --expire-at 1970-01-01T00:01:00Z --late dead-letter",
       "topic: 't' delay { seconds: 1 } expire_time { seconds: 60 } late_policy: "
       "LATE_POLICY_DEAD_LETTER",
       once},
      {"reschedule x --in 2h --etag e", "message_id: 'x' delay { seconds: 7200 } etag: 'e'"},
      {"reschedule --topic t --key k --allow-past --at 1970-01-01T00:01:00Z",
       "key { topic: 't' key: 'k' } deliver_time { seconds: 60 }",
       {{"--at", {"1970-01-01T00:01:00Z"}}, {"--allow-past", {""}}}},
      {"get x --full", "message_id: 'x' view: MESSAGE_VIEW_FULL", {{"--full", {""}}}},
      {"get --topic t --key k", "key { topic: 't' key: 'k' } view: MESSAGE_VIEW_BASIC"},
      {"explain x", "message_id: 'x'"},
      // A topic may have the name of a command.
      {"list list", "topic: 'list'"},
      {"list t --key-prefix k --label a=1 --label b=2 --from 1970-01-01T00:01:00Z --to "
       "1970-01-01T00:02:00Z --state scheduled,in-flight --state due --page-size 7 --page-token p "
       "--all",
       "topic: 't' key_prefix: 'k' labels { key: 'a' value: '1' } labels { key: 'b' value: '2' } "
       "start_time { seconds: 60 } end_time { seconds: 120 } states: [STATE_SCHEDULED, "
       "STATE_IN_FLIGHT, STATE_DUE] "
       "page_size: 7 page_token: 'p'",
       {{"--all", {""}}}},
      {"forecast", "bucket: BUCKET_HOUR"},
      {"forecast t --bucket day --buckets 9 --from 1970-01-01T00:01:00Z",
       "topic: 't' bucket: BUCKET_DAY buckets: 9 start_time { seconds: 60 }"},
      {"info", ""},
  });
  EXPECT_EQ(Read("cancel x y --stop-redelivery z").values,
            (Values{{"ID", {"x", "y", "z"}}, {"--stop-redelivery", {""}}}));
  EXPECT_EQ(Read("cancel --topic t --key k --key l").values,
            (Values{{"--topic", {"t"}}, {"--key", {"k", "l"}}}));
}

TEST(ArgumentsTest, TimesFromNow) {
  const auto list = Read("list t --from -1h --to +1h").As<v1::ListRequest>();
  EXPECT_LE(FromProto(list.start_time()), absl::Now() - absl::Hours(1));
  EXPECT_GT(FromProto(list.start_time()), absl::Now() - absl::Minutes(61));
  EXPECT_LE(FromProto(list.end_time()), absl::Now() + absl::Hours(1));
  EXPECT_GT(FromProto(list.end_time()), absl::Now() + absl::Minutes(59));
}

// Every option for a time knows the same words, and reads them in UTC with --utc.
TEST(ArgumentsTest, TimesAreReadAlikeEverywhere) {
  const std::vector<std::pair<const char*, const char*>> options = {
      {"schedule t --at", "deliver_time"},
      {"reschedule x --at", "deliver_time"},
      {"schedule t --in 1s --expire-at", "expire_time"},
      {"list t --from", "start_time"},
      {"list t --to", "end_time"},
      {"bulk cancel t --from", "filter.start_time"},
      {"dlq list t --to", "end_time"},
      {"forecast --from", "start_time"},
      {"recur create n t --every 1s --start", "recurrence.schedule.start_time"},
      {"recur preview n --after", "after_time"},
  };
  for (const auto& [line, path] : options) {
    const auto time = [words = line, p = path](const std::string& text) {
      const Input input = Read(std::string(words) + " '" + text + "' --utc");
      const Message* parent = ParentOf(*input.request, p);
      const auto* field = FieldOf(input.request->GetDescriptor(), p);
      return FromProto(static_cast<const google::protobuf::Timestamp&>(
          parent->GetReflection()->GetMessage(*parent, field)));
    };
    EXPECT_EQ(time("2030-01-02 3:04"), time("2030-01-02T03:04:00+00:00")) << line;
    EXPECT_EQ(time("tomorrow 9:00") - time("today 9:00"), absl::Hours(24)) << line;
    const absl::Time now = time("now");
    const absl::Duration ahead = time("+30m") - now;
    EXPECT_TRUE(ahead >= absl::Minutes(30) && ahead < absl::Minutes(31)) << line << ": " << ahead;
    const absl::Duration ago = now - time("-1h");
    EXPECT_TRUE(ago <= absl::Hours(1) && ago > absl::Minutes(59)) << line << ": " << ago;
  }
}

TEST(ArgumentsTest, Operations) {
  const Values all = {{"--all", {""}}};
  ExpectRequests({
      {"bulk cancel t --label a=1 --from 1970-01-01T00:01:00Z --name n --wait",
       "topic: 't' action: BULK_ACTION_CANCEL filter { labels { key: 'a' value: '1' } start_time { "
       "seconds: 60 } } name: 'n'",
       {{"--wait", {""}}}},
      {"bulk shift t --all --by 1h",
       "topic: 't' action: BULK_ACTION_SHIFT shift_by { seconds: 3600 }", all},
      {"bulk shift t --all --by +1h",
       "topic: 't' action: BULK_ACTION_SHIFT shift_by { seconds: 3600 }", all},
      {"bulk shift t --all --by -1h30m",
       "topic: 't' action: BULK_ACTION_SHIFT shift_by { seconds: -5400 }", all},
      {"bulk release t --dry-run", "topic: 't' action: BULK_ACTION_RELEASE dry_run: true"},
      {"bulk purge t --all", "topic: 't' action: BULK_ACTION_PURGE", all},
      {"bulk redrive t --all", "topic: 't' action: BULK_ACTION_REDRIVE", all},
      {"bulk list t", "topic: 't'"},
      {"bulk get n", "name: 'n'"},
      {"bulk stop n", "name: 'n'"},
      {"topic drain t --wait --dry-run",
       "topic: 't' action: BULK_ACTION_RELEASE dry_run: true",
       {{"--wait", {""}}}},
      {"dlq list t -s billing --label a=1 --all",
       "labels { key: 'a' value: '1' }",
       {{"TOPIC", {"t"}}, {"-s,--subscription", {"billing"}}, {"--all", {""}}}},
      {"dlq redrive t --dead-letter-topic d --all --wait --name n",
       "action: BULK_ACTION_REDRIVE name: 'n'",
       {{"TOPIC", {"t"}}, {"--dead-letter-topic", {"d"}}, {"--all", {""}}, {"--wait", {""}}}},
      {"dlq purge t --key-prefix k",
       "action: BULK_ACTION_PURGE filter { key_prefix: 'k' }",
       {{"TOPIC", {"t"}}}},
  });
}

TEST(ArgumentsTest, Recurrences) {
  ExpectRequests({
      {"recur create n t p --cron '0 9 * * *' --tz UTC --attr a=1 --label l=2 --ttl 5m --late drop "
       "--ordering-key o --start 1970-01-01T00:01:00Z --max-count 3 --jitter 10s --overlap skip "
       "--misfire all --dry-run",
       "recurrence { name: 'n' topic: 't' template { payload: 'p' attributes { key: 'a' value: '1' "
       "} labels { key: 'l' value: '2' } ordering_key: 'o' ttl { seconds: 300 } late_policy: "
       "LATE_POLICY_DROP "
       "} schedule { cron: '0 9 * * *' time_zone: 'UTC' start_time { seconds: 60 } max_count: 3 "
       "jitter { seconds: 10 } } overlap: OVERLAP_SKIP misfire: MISFIRE_FIRE_ALL } validate_only: "
       "true"},
      {"recur create n t --every 30s",
       "recurrence { name: 'n' topic: 't' schedule { interval { seconds: 30 } } }"},
      {"recur update n --every 30s",
       "recurrence { name: 'n' schedule { interval { seconds: 30 } } } "
       "update_mask { paths: 'schedule.interval' }"},
      {"recur update n --tz UTC",
       "recurrence { name: 'n' schedule { time_zone: 'UTC' } } "
       "update_mask { paths: 'schedule.time_zone' }"},
      {"recur update n p --label l=2 --ttl none --cron @daily --end none --max-count 0 --overlap "
       "allow --misfire once",
       "recurrence { name: 'n' template { payload: 'p' labels { key: 'l' value: '2' } } schedule { "
       "cron: '@daily' } overlap: OVERLAP_ALLOW misfire: MISFIRE_FIRE_ONCE } "
       "update_mask { paths: ['template.labels', 'template.ttl', 'template.payload', "
       "'schedule.cron', 'schedule.end_time', 'schedule.max_count', 'overlap', 'misfire'] }"},
      {"recur get n", "name: 'n'"},
      {"recur pause n", "name: 'n'"},
      {"recur resume n", "name: 'n'"},
      {"recur delete n", "name: 'n'"},
      {"recur list t --all", "topic: 't'", {{"--all", {""}}}},
      {"recur preview n --count 3", "name: 'n' count: 3"},
      {"recur preview --cron @daily --after 1970-01-01T00:01:00Z",
       "schedule { cron: '@daily' } after_time { seconds: 60 }"},
  });
}

TEST(ArgumentsTest, Topics) {
  ExpectRequests({
      {"topic create t --max-pending 9 --max-payload-bytes 9007199254740993 --default-ttl 1h "
       "--tombstone-retention 7d",
       "topic { name: 't' settings { max_pending: 9 max_payload_bytes: 9007199254740993 "
       "default_ttl "
       "{ seconds: 3600 } tombstone_retention { seconds: 604800 } } }"},
      {"topic create t --rate 500 --burst 50 --minute-limit 9 --minute-policy spread --spread-max "
       "1h --dead-letter-topic d",
       "topic { name: 't' settings { rate { messages_per_second: 500 burst: 50 } minute_limit { "
       "messages: 9 policy: POLICY_SPREAD spread_max { seconds: 3600 } } dead_letter_topic: 'd' } "
       "}"},
      {"topic update t --max-pending 0 --default-ttl none --tombstone-retention default",
       "topic { name: 't' settings { } } update_mask { paths: ['settings.max_pending', "
       "'settings.default_ttl', 'settings.tombstone_retention'] }"},
      {"topic update t --rate none --minute-limit 0 --dead-letter-topic ''",
       "topic { name: 't' settings { } } update_mask { paths: ['settings.rate', "
       "'settings.minute_limit', 'settings.dead_letter_topic'] }"},
      {"topic update t --rate 7 --burst 8 --default-ttl ''",
       "topic { name: 't' settings { rate { messages_per_second: 7 burst: 8 } } } "
       "update_mask { paths: 'settings.rate' }"},
      {"topic get t", "name: 't'"},
      {"topic list shop/", "name_prefix: 'shop/'"},
      {"topic delete t --force", "name: 't' force: true"},
      {"topic pause t",
       "topic { name: 't' settings { paused: true } } update_mask { paths: 'settings.paused' }"},
      {"topic resume t",
       "topic { name: 't' settings { } } update_mask { paths: 'settings.paused' }"},
      {"topic rate t 500",
       "topic { name: 't' settings { rate { messages_per_second: 500 } } } "
       "update_mask { paths: 'settings.rate' }"},
      {"topic rate t none", "topic { name: 't' } update_mask { paths: 'settings.rate' }"},
  });
}

// A row as a new setting would have: set, cleared and shown without other code.
TEST(ArgumentsTest, ASettingThatIsTrueOrFalseIsOneRow) {
  const Rows settings = {Row("name", "TOPIC", "", {Required(), Key()}),
                         Row("settings.paused", "--quiet", "", {YesNo(), Line("quiet", "no")})};
  const Command command = {.words = "topic try",
                           .help = "",
                           .note = "",
                           .examples = {},
                           .rows = OptionsBelow("topic", settings),
                           .action = {.request = &v1::UpdateTopicRequest::default_instance()}};
  struct Case {
    std::string line;
    // Empty: refused.
    std::string request;
    std::string mask = {};
  };
  const std::vector<Case> cases = {
      {"t --quiet yes", "topic { name: 't' settings { paused: true } }", "topic.settings.paused"},
      {"t --quiet no", "topic { name: 't' settings { paused: false } }", "topic.settings.paused"},
      {"t", "topic { name: 't' }"},
      {"t --quiet", ""},
      {"t --quiet maybe", ""},
  };
  for (const Case& c : cases) {
    CLI::App app;
    Options options(command, &app, /*environment=*/false);
    Names words = SplitWords(c.line);
    std::reverse(words.begin(), words.end());
    Input input;
    input.request.reset(command.action.request->New());
    bool read = true;
    try {
      app.parse(words);
      read = options.Read(LocalZone{}, &input).ok();
    } catch (const CLI::ParseError&) {
      read = false;
    }
    EXPECT_EQ(read, !c.request.empty()) << c.line;
    if (!read) continue;
    EXPECT_TRUE(IsProto(*input.request, c.request)) << c.line;
    EXPECT_EQ(absl::StrJoin(input.given.paths(), ","), c.mask) << c.line;
  }
  EXPECT_EQ(ShapeOf(command, command.rows[1]).words, (Names{"yes", "no"}));
  v1::Topic topic;
  EXPECT_EQ(LinesText(settings, topic, absl::UTCTimeZone()), "quiet         no\n");
  topic.mutable_settings()->set_paused(true);
  EXPECT_EQ(LinesText(settings, topic, absl::UTCTimeZone()), "quiet         yes\n");
}

// A flag could set the field of an update, and never clear it.
TEST(ArgumentsTest, NoSettingIsAFlag) {
  int settings = 0;
  for (const Command& command : AllCommands()) {
    for (const Row& row : command.rows) {
      if (row.option.empty() || row.path.find("settings.") == std::string::npos) continue;
      ++settings;
      EXPECT_NE(ShapeOf(command, row).type, Row::Type::kFlag) << command.words << row.option;
    }
  }
  EXPECT_GE(settings, 40);
}

TEST(ArgumentsTest, Subscriptions) {
  ExpectRequests({
      {"subscription create t", "subscription { topic: 't' }"},
      {"subscription create t s --lease 1m --min-backoff 5s --max-backoff 10m --multiplier 1.5 "
       "--jitter 0.2 --max-attempts 8 --dead-letter-topic d --retention 2d --retention-max "
       "5000000000 --retention-policy dead-letter --start all",
       "subscription { topic: 't' name: 's' settings { lease_duration { seconds: 60 } retry { "
       "min_backoff { seconds: 5 } max_backoff { seconds: 600 } multiplier: 1.5 jitter: 0.2 "
       "max_attempts: 8 } dead_letter_topic: 'd' retention { seconds: 172800 } "
       "retention_max_messages: 5000000000 retention_policy: RETENTION_POLICY_DEAD_LETTER } } "
       "start: START_ALL"},
      {"subscription update t s --max-attempts 0",
       "subscription { topic: 't' name: 's' settings { retry { } } } "
       "update_mask { paths: 'settings.retry.max_attempts' }"},
      {"subscription update t s --lease default --min-backoff default --max-backoff default "
       "--multiplier 2 --jitter 0 --dead-letter-topic '' --retention none --retention-max 0 "
       "--retention-policy drop",
       "subscription { topic: 't' name: 's' settings { retry { multiplier: 2 jitter: 0 } "
       "retention_policy: "
       "RETENTION_POLICY_DROP } } update_mask { paths: ['settings.lease_duration', "
       "'settings.retry.min_backoff', 'settings.retry.max_backoff', 'settings.retry.multiplier', "
       "'settings.retry.jitter', 'settings.dead_letter_topic', 'settings.retention', "
       "'settings.retention_max_messages', 'settings.retention_policy'] }"},
      {"subscription update t s --min-backoff 0s",
       "subscription { topic: 't' name: 's' settings { retry { min_backoff { } } } } "
       "update_mask { paths: 'settings.retry.min_backoff' }"},
      {"subscription pause t s",
       "subscription { topic: 't' name: 's' settings { paused: true } } "
       "update_mask { paths: 'settings.paused' }"},
      {"subscription resume t",
       "subscription { topic: 't' settings { } } update_mask { paths: 'settings.paused' }"},
      {"subscription get t s", "topic: 't' name: 's'"},
      {"subscription delete t s", "topic: 't' name: 's'"},
      {"subscription list t --page-size 7", "topic: 't' page_size: 7"},
  });
}

TEST(ArgumentsTest, ReceivingAndSettling) {
  ExpectRequests({
      {"pull t", "topic: 't' max_messages: 1 client_id: 'duetime pull'"},
      {"pull t -s s --max 7 --wait 30s --lease 5s --ack",
       "topic: 't' subscription: 's' max_messages: 7 wait { seconds: 30 } lease_duration { "
       "seconds: 5 } client_id: 'duetime pull'",
       {{"--ack", {""}}}},
      {"settle a b --ack",
       "settlements { lease_token: 'a' } settlements { lease_token: 'b' }",
       {{"TOKEN", {"a", "b"}}, {"--ack", {""}}}},
      {"settle a --nack 10s --reason busy",
       "settlements { lease_token: 'a' nack { delay { seconds: 10 } reason: 'busy' } }",
       {{"TOKEN", {"a"}}, {"--nack", {"10s"}}, {"--reason", {"busy"}}}},
      {"settle a --nack policy",
       "settlements { lease_token: 'a' nack {} }",
       {{"TOKEN", {"a"}}, {"--nack", {"policy"}}}},
      {"settle a --extend 5m",
       "settlements { lease_token: 'a' extend { duration { seconds: 300 } } }",
       {{"TOKEN", {"a"}}, {"--extend", {"5m"}}}},
      {"settle a --dead-letter --reason r",
       "settlements { lease_token: 'a' dead_letter { reason: 'r' } }",
       {{"TOKEN", {"a"}}, {"--dead-letter", {""}}, {"--reason", {"r"}}}},
  });
  EXPECT_EQ(Read("subscribe t").values, (Values{{"TOPIC", {"t"}}, {"--workers", {"1"}}}));
  const Input full = Read(
      "subscribe t -s billing --nack 10s --reason busy --max 5 --for 1m --credit 9 --lease 5s "
      "--workers 8 --quiet --extend-max 2m");
  EXPECT_EQ(full.Number("--max"), 5);
  EXPECT_EQ(full.Number("--workers"), 8);
  EXPECT_EQ(full.Duration("--for"), absl::Minutes(1));
  EXPECT_EQ(full.Duration("--lease"), absl::Seconds(5));
  EXPECT_TRUE(full.Has("--quiet"));
}

TEST(ArgumentsTest, TheSettlementOfASubscriber) {
  struct SettlementCase {
    const char* options;
    Settlement::Kind kind;
    std::optional<absl::Duration> delay{};
    const char* reason = "";
  };
  const std::vector<SettlementCase> cases = {
      {"", Settlement::Kind::kAck},
      {"--ack", Settlement::Kind::kAck},
      {"--no-ack", Settlement::Kind::kLeave},
      {"--nack policy", Settlement::Kind::kNack},
      {"--nack 0s", Settlement::Kind::kNack, absl::ZeroDuration()},
      {"--nack 10s --reason busy", Settlement::Kind::kNack, absl::Seconds(10), "busy"},
      {"--dead-letter --reason r", Settlement::Kind::kDeadLetter, std::nullopt, "r"},
  };
  for (const SettlementCase& c : cases) {
    const auto settlement = ReadSettlement(Read(std::string("subscribe t ") + c.options));
    ASSERT_TRUE(settlement.ok()) << c.options;
    EXPECT_EQ(settlement->kind, c.kind) << c.options;
    EXPECT_EQ(settlement->delay, c.delay) << c.options;
    EXPECT_EQ(settlement->reason, c.reason) << c.options;
  }
}

TEST(ArgumentsTest, SettleReleases) {
  const auto settlement = ReadSettlement(Read("settle 00a1000000000007 --release"));
  ASSERT_TRUE(settlement.ok());
  EXPECT_EQ(settlement->kind, Settlement::Kind::kRelease);
}

TEST(ArgumentsTest, APayloadFromAFile) {
  const std::string path = testing::TempDir() + "/duetime-arguments-test-payload";
  const auto payload = [&] {
    return Read("schedule t --in 0s --file " + path).As<v1::ScheduleRequest>().payload();
  };
  std::ofstream(path, std::ios::binary) << std::string("\0\xff\n", 3);
  EXPECT_EQ(payload(), std::string("\0\xff\n", 3));
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_EQ(payload(), "");
  std::remove(path.c_str());
}

TEST(ArgumentsTest, GlobalOptionsStandBeforeOrAfterTheCommand) {
  for (const char* line :
       {"--server h:1 --json --timeout 2s info", "info --server h:1 --json --timeout 2s"}) {
    const auto parsed = Parse(line);
    ASSERT_TRUE(std::holds_alternative<Invocation>(parsed));
    const Settings& settings = std::get<Invocation>(parsed).settings;
    EXPECT_EQ(settings.server.target, "h:1");
    EXPECT_TRUE(settings.json);
    EXPECT_EQ(settings.deadline, absl::Seconds(2));
  }
}

TEST(ArgumentsTest, RefusesBadLines) {
  // The first words of a line, and its possible endings.
  const std::vector<std::pair<std::string, std::vector<const char*>>> cases = {
      {"", {""}},
      {"frobnicate", {""}},
      {"schedule t p --in 1s",
       {"--at '2026-12-24 18:00'", "--tz UTC", "--attr novalue", "--attr =v",
        "--attr a=1 --attr a=2", "--file /etc/hostname", "--count 0", "--count x"}},
      {"schedule t --in 1s",
       {"--file /no/such/file", "--file /", "--on-conflict replace", "--key k --on-conflict maybe",
        "--max-wait 1h", "--only-if-exists", "--key k --count 2", "--request-id r --count 2",
        "--ttl 5m --expire-at +1h", "--ttl long", "--late bury", "--label x"}},
      {"schedule t p",
       {"--in", "--in ''", "--in 90", "--at tomorrow", "--at '2026-12-24 18:00' --tz Nowhere",
        "q --in 1s"}},
      {"schedule",
       {"", "t", "t p", "t --local '2026-12-24 18:00'", "t --at 2025-12-24T18:00Z", "t --at -25h",
        "t --local '2025-12-24 18:00' --tz UTC", "t --at 'tomorrow 13pm'",
        "t --local '2026-12-24 18:00' --tz UTC --in 1s"}},
      {"cancel", {"", "--key k", "--topic t", "--topic t --key k x"}},
      {"get", {"", "a b", "--topic t --key k --key l"}},
      {"explain", {""}},
      {"reschedule", {"x", "--in 1s"}},
      {"info", {"--timeout fast", "extra", "cancel x"}},
      {"list",
       {"", "t --state acked", "t --from soon", "t --from +soon", "t --label x", "t --page-size 0",
        "t --page-size 1001"}},
      {"forecast", {"t u", "--bucket week", "--buckets 10001"}},
      {"bulk", {""}},
      {"bulk cancel", {"", "t --all --key-prefix k", "t"}},
      {"bulk shift", {"t --all", "t --all --by ''", "t --all --by -", "t --all --by much"}},
      {"bulk get", {""}},
      // Without a filter these lines would change all messages.
      {"bulk purge", {"t --wait", "t --key-prefix ''"}},
      {"dlq redrive", {"t"}},
      {"dlq purge", {"t --wait", "t --all --key-prefix k"}},
      {"dlq", {""}},
      {"dlq list", {"", "t -s s --dead-letter-topic d"}},
      {"recur", {""}},
      {"recur create",
       {"n t", "n --every 1s", "n t --every 1s --cron @daily", "n t --every 1s --tz UTC",
        "n t --every 1s --overlap maybe", "n t --every 1s --max-count -1"}},
      {"recur update", {"n"}},
      {"recur preview", {"", "n --every 1s", "--every 1s --tz UTC"}},
      {"recur pause", {""}},
      {"topic create t",
       {"--max-pending -1", "--max-pending 9223372036854775808", "--default-ttl long", "--rate 0",
        "--rate fast", "--burst 5", "--minute-policy warn",
        "--minute-limit 5 --minute-policy spread", "--minute-limit 5 --spread-max 1h",
        "--minute-limit 0 --minute-policy warn"}},
      {"topic create", {""}},
      {"topic update", {"t"}},
      {"topic pause", {""}},
      {"topic rate", {"t", "t none --burst 5"}},
      {"topic drain", {""}},
      {"subscription", {""}},
      {"subscription create t s",
       {"--multiplier 0.5", "--jitter 2", "--max-attempts -1", "--retention-policy keep",
        "--retention-max -1", "--start never", "--min-backoff soon"}},
      {"subscription create", {""}},
      {"subscription update", {"t s", "t s --start all"}},
      {"subscription pause", {""}},
      {"subscribe t",
       {"--ack --no-ack", "--no-ack --nack 1s", "--dead-letter --nack 1s", "--nack soon",
        "--nack ''", "--nack 721m", "--reason r", "--max 0", "--max -1", "--for 5", "--credit 0",
        "--workers 0", "--lease x", "--extend-max x"}},
      {"subscribe", {""}},
      {"pull", {"", "t --max 0", "t --max 1001", "t --wait long"}},
      {"context", {"", "add", "add none", "add x --server https://h", "use", "remove"}},
      {"settle",
       {"", "a", "--ack", "a --ack --nack 1s", "a --ack --reason r", "a --extend ''",
        "a --nack 12h1ms", "a --extend 999ms", "a --extend 13h", "a --ack --topic t"}},
  };
  int lines = 0;
  for (const auto& [command, ends] : cases) {
    for (const char* end : ends) {
      const auto parsed = Parse(command + " " + end);
      ASSERT_TRUE(std::holds_alternative<ExitCode>(parsed)) << command << " " << end;
      EXPECT_EQ(std::get<ExitCode>(parsed), kBadUsage) << command << " " << end;
      ++lines;
    }
  }
  EXPECT_EQ(lines, 152);
}

TEST(ArgumentsTest, AReasonIsShortBeforeItIsSent) {
  const std::string line = "subscribe t --dead-letter --reason ";
  EXPECT_TRUE(std::holds_alternative<Invocation>(Parse(line + std::string(255, 'r'))));
  EXPECT_TRUE(std::holds_alternative<ExitCode>(Parse(line + std::string(256, 'r'))));
}

TEST(ArgumentsTest, ErrorsAreJsonWithJson) {
  for (const char* line : {"frobnicate --json", "schedule t --json", "--json get"}) {
    testing::internal::CaptureStderr();
    Parse(line);
    EXPECT_EQ(testing::internal::GetCapturedStderr().rfind("{\"error\":", 0), 0u) << line;
  }
}

TEST(ArgumentsTest, VersionIsAWord) {
  testing::internal::CaptureStdout();
  const auto parsed = Parse("version");
  EXPECT_EQ(std::get<ExitCode>(parsed), kDone);
  EXPECT_NE(testing::internal::GetCapturedStdout(), "");
}

// The help of each command has an example that begins with the command.
TEST(ArgumentsTest, HelpIsNoErrorAndHasAnExample) {
  ASSERT_GE(AllCommands().size(), 67u);
  for (const Command& command : AllCommands()) {
    for (const std::string& line : {command.words + " --help", "help " + command.words}) {
      testing::internal::CaptureStdout();
      const auto parsed = Parse(line);
      const std::string help = testing::internal::GetCapturedStdout();
      ASSERT_TRUE(std::holds_alternative<ExitCode>(parsed)) << line;
      EXPECT_EQ(std::get<ExitCode>(parsed), kDone) << line;
      EXPECT_NE(help.find("\n  duetime " + command.words), std::string::npos) << help;
    }
  }
}

}  // namespace
}  // namespace duetime::cli
