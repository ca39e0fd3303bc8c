// SPDX-License-Identifier: Apache-2.0
//
// The command lines of lists, forecasts, operations, recurrences and topics.
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "client/convert.h"
#include "tests/unit/client/command_line.h"

namespace duetime::cli {
namespace {

TEST(AdminArgumentsTest, List) {
  const auto bare = ReadAs<ListArguments<v1::ListRequest>>({"list", "list"});
  EXPECT_EQ(bare.request.topic(), "list") << "a topic may be called like a command";
  EXPECT_FALSE(bare.all);
  const auto full = ReadAs<ListArguments<v1::ListRequest>>({"list",         "t",
                                                            "--key-prefix", "k",
                                                            "--label",      "a=1",
                                                            "--label",      "b=2",
                                                            "--from",       "1970-01-01T00:01:00Z",
                                                            "--to",         "+1h",
                                                            "--state",      "scheduled,in-flight",
                                                            "--state",      "due",
                                                            "--page-size",  "7",
                                                            "--page-token", "p",
                                                            "--all"});
  EXPECT_EQ(full.request.key_prefix(), "k");
  EXPECT_EQ(full.request.labels().at("a"), "1");
  EXPECT_EQ(full.request.labels().at("b"), "2");
  EXPECT_EQ(full.request.start_time().seconds(), 60);
  EXPECT_GT(client::FromProto(full.request.end_time()), absl::Now() + absl::Minutes(59));
  EXPECT_LE(client::FromProto(full.request.end_time()), absl::Now() + absl::Hours(1));
  EXPECT_EQ(std::vector<int>(full.request.states().begin(), full.request.states().end()),
            (std::vector<int>{v1::Message::SCHEDULED, v1::Message::IN_FLIGHT, v1::Message::DUE}));
  EXPECT_EQ(full.request.page_size(), 7);
  EXPECT_EQ(full.request.page_token(), "p");
  EXPECT_TRUE(full.all);
  const auto past =
      ReadAs<ListArguments<v1::ListRequest>>({"list", "t", "--from", "-1h", "--to", "now"});
  EXPECT_LT(client::FromProto(past.request.start_time()), absl::Now() - absl::Minutes(59));
  EXPECT_LE(client::FromProto(past.request.end_time()), absl::Now());
}

TEST(AdminArgumentsTest, Forecast) {
  const auto bare = ReadAs<v1::ForecastRequest>({"forecast"});
  EXPECT_EQ(bare.topic(), "");
  EXPECT_EQ(bare.bucket(), v1::ForecastRequest::HOUR);
  EXPECT_EQ(bare.buckets(), 0);
  EXPECT_FALSE(bare.has_start_time());
  const auto full = ReadAs<v1::ForecastRequest>(
      {"forecast", "t", "--bucket", "day", "--buckets", "9", "--from", "1970-01-01T00:01:00Z"});
  EXPECT_EQ(full.topic(), "t");
  EXPECT_EQ(full.bucket(), v1::ForecastRequest::DAY);
  EXPECT_EQ(full.buckets(), 9);
  EXPECT_EQ(full.start_time().seconds(), 60);
}

TEST(AdminArgumentsTest, Bulk) {
  const auto cancel = ReadAs<BulkArguments>({"bulk", "cancel", "t", "--label", "a=1", "--from",
                                             "1970-01-01T00:01:00Z", "--name", "n", "--wait"});
  EXPECT_EQ(cancel.request.topic(), "t");
  EXPECT_EQ(cancel.request.action(), v1::BULK_CANCEL);
  EXPECT_EQ(cancel.request.filter().labels().at("a"), "1");
  EXPECT_EQ(cancel.request.filter().start_time().seconds(), 60);
  EXPECT_EQ(cancel.request.name(), "n");
  EXPECT_FALSE(cancel.request.dry_run());
  EXPECT_TRUE(cancel.wait);
  const auto shift = [](const char* by) {
    return client::FromProto(
        ReadAs<BulkArguments>({"bulk", "shift", "t", "--all", "--by", by}).request.shift_by());
  };
  EXPECT_EQ(shift("1h"), absl::Hours(1));
  EXPECT_EQ(shift("+1h"), absl::Hours(1));
  EXPECT_EQ(shift("-1h30m"), -absl::Minutes(90));
  const auto release = ReadAs<BulkArguments>({"bulk", "release", "t", "--dry-run"});
  EXPECT_EQ(release.request.action(), v1::BULK_RELEASE);
  EXPECT_TRUE(release.request.dry_run());
  EXPECT_EQ(ReadAs<BulkArguments>({"bulk", "purge", "t", "--all"}).request.action(),
            v1::BULK_PURGE);
  EXPECT_EQ(ReadAs<BulkArguments>({"bulk", "redrive", "t", "--all"}).request.action(),
            v1::BULK_REDRIVE);
  EXPECT_EQ(ReadAs<ListArguments<v1::ListOperationsRequest>>({"bulk", "list", "t"}).request.topic(),
            "t");
  EXPECT_EQ(ReadAs<v1::GetOperationRequest>({"bulk", "get", "n"}).name(), "n");
  EXPECT_EQ(ReadAs<v1::CancelOperationRequest>({"bulk", "stop", "n"}).name(), "n");
}

TEST(AdminArgumentsTest, RecurCreate) {
  const auto request =
      ReadAs<v1::CreateRecurrenceRequest>({"recur",       "create",    "n",
                                           "t",           "p",         "--cron",
                                           "0 9 * * *",   "--tz",      "UTC",
                                           "--attr",      "a=1",       "--label",
                                           "l=2",         "--ttl",     "5m",
                                           "--late",      "drop",      "--ordering-key",
                                           "o",           "--start",   "1970-01-01T00:01:00Z",
                                           "--max-count", "3",         "--jitter",
                                           "10s",         "--overlap", "skip",
                                           "--misfire",   "all",       "--dry-run"});
  const v1::Recurrence& recurrence = request.recurrence();
  EXPECT_TRUE(request.validate_only());
  EXPECT_EQ(recurrence.name(), "n");
  EXPECT_EQ(recurrence.topic(), "t");
  EXPECT_EQ(recurrence.template_().payload(), "p");
  EXPECT_EQ(recurrence.template_().attributes().at("a"), "1");
  EXPECT_EQ(recurrence.template_().labels().at("l"), "2");
  EXPECT_EQ(recurrence.template_().ordering_key(), "o");
  EXPECT_EQ(recurrence.template_().ttl().seconds(), 300);
  EXPECT_EQ(recurrence.template_().late_policy(), v1::Message::DROP);
  EXPECT_EQ(recurrence.schedule().cron(), "0 9 * * *");
  EXPECT_EQ(recurrence.schedule().time_zone(), "UTC");
  EXPECT_EQ(recurrence.schedule().start_time().seconds(), 60);
  EXPECT_FALSE(recurrence.schedule().has_end_time());
  EXPECT_EQ(recurrence.schedule().max_count(), 3);
  EXPECT_EQ(recurrence.schedule().jitter().seconds(), 10);
  EXPECT_EQ(recurrence.overlap(), v1::Recurrence::SKIP);
  EXPECT_EQ(recurrence.misfire(), v1::Recurrence::FIRE_ALL);
  EXPECT_EQ(ReadAs<v1::CreateRecurrenceRequest>({"recur", "create", "n", "t", "--every", "30s"})
                .recurrence()
                .schedule()
                .interval()
                .seconds(),
            30);
}

TEST(AdminArgumentsTest, RecurUpdateNamesWhatWasGiven) {
  const auto one = ReadAs<RecurrenceUpdateArguments>({"recur", "update", "n", "--every", "30s"});
  EXPECT_EQ(one.changes.name(), "n");
  EXPECT_EQ(PathsOf(one.paths), std::vector<std::string>{"schedule.interval"});
  EXPECT_EQ(
      PathsOf(ReadAs<RecurrenceUpdateArguments>({"recur", "update", "n", "--tz", "UTC"}).paths),
      std::vector<std::string>{"schedule.time_zone"});
  const auto many = ReadAs<RecurrenceUpdateArguments>(
      {"recur", "update", "n", "p", "--label", "l=2", "--ttl", "none", "--cron", "@daily", "--tz",
       "UTC", "--end", "none", "--max-count", "0", "--overlap", "allow"});
  EXPECT_EQ(PathsOf(many.paths),
            (std::vector<std::string>{"overlap", "template.payload", "template.labels",
                                      "template.ttl", "schedule.cron", "schedule.time_zone",
                                      "schedule.max_count", "schedule.end_time"}));
  EXPECT_FALSE(many.changes.template_().has_ttl());
  EXPECT_FALSE(many.changes.schedule().has_end_time());
}

TEST(AdminArgumentsTest, TheOtherRecurCommands) {
  EXPECT_EQ(ReadAs<v1::GetRecurrenceRequest>({"recur", "get", "n"}).name(), "n");
  EXPECT_EQ(ReadAs<v1::PauseRecurrenceRequest>({"recur", "pause", "n"}).name(), "n");
  EXPECT_EQ(ReadAs<v1::ResumeRecurrenceRequest>({"recur", "resume", "n"}).name(), "n");
  EXPECT_EQ(ReadAs<v1::DeleteRecurrenceRequest>({"recur", "delete", "n"}).name(), "n");
  EXPECT_TRUE(
      ReadAs<ListArguments<v1::ListRecurrencesRequest>>({"recur", "list", "t", "--all"}).all);
  const auto named =
      ReadAs<v1::PreviewRecurrenceRequest>({"recur", "preview", "n", "--count", "3"});
  EXPECT_EQ(named.name(), "n");
  EXPECT_EQ(named.count(), 3);
  const auto tried = ReadAs<v1::PreviewRecurrenceRequest>(
      {"recur", "preview", "--cron", "@daily", "--after", "1970-01-01T00:01:00Z"});
  EXPECT_EQ(tried.schedule().cron(), "@daily");
  EXPECT_EQ(tried.after_time().seconds(), 60);
}

TEST(AdminArgumentsTest, Topic) {
  const auto create = ReadAs<v1::CreateTopicRequest>({"topic", "create", "t", "--max-pending", "9",
                                                      "--max-payload-bytes", "8", "--default-ttl",
                                                      "1h", "--fate-retention", "7d"});
  EXPECT_EQ(create.topic().name(), "t");
  EXPECT_EQ(create.topic().settings().max_pending(), 9);
  EXPECT_EQ(create.topic().settings().max_payload_bytes(), 8);
  EXPECT_EQ(create.topic().settings().default_ttl().seconds(), 3'600);
  EXPECT_EQ(create.topic().settings().fate_retention().seconds(), 7 * 86'400);
  const auto update =
      ReadAs<v1::UpdateTopicRequest>({"topic", "update", "t", "--max-pending", "0", "--default-ttl",
                                      "none", "--fate-retention", "default"});
  EXPECT_EQ(PathsOf(update.update_mask()),
            (std::vector<std::string>{"settings.max_pending", "settings.default_ttl",
                                      "settings.fate_retention"}));
  EXPECT_FALSE(update.topic().settings().has_default_ttl());
  EXPECT_FALSE(update.topic().settings().has_fate_retention());
  EXPECT_EQ(ReadAs<v1::GetTopicRequest>({"topic", "get", "t"}).name(), "t");
  EXPECT_EQ(ReadAs<ListArguments<v1::ListTopicsRequest>>({"topic", "list", "shop/"})
                .request.name_prefix(),
            "shop/");
  EXPECT_TRUE(ReadAs<v1::DeleteTopicRequest>({"topic", "delete", "t", "--force"}).force());
}

TEST(AdminArgumentsTest, TopicPace) {
  const v1::TopicSettings settings =
      ReadAs<v1::CreateTopicRequest>({"topic", "create", "t", "--rate", "500", "--burst", "50",
                                      "--minute-limit", "9", "--minute-policy", "spread",
                                      "--spread-max", "1h", "--dead-letter-topic", "d"})
          .topic()
          .settings();
  EXPECT_EQ(settings.rate().messages_per_second(), 500);
  EXPECT_EQ(settings.rate().burst(), 50);
  EXPECT_EQ(settings.minute_limit().messages(), 9);
  EXPECT_EQ(settings.minute_limit().policy(), v1::MinuteLimit::SPREAD);
  EXPECT_EQ(settings.minute_limit().spread_max().seconds(), 3'600);
  EXPECT_EQ(settings.dead_letter_topic(), "d");
  const auto update = ReadAs<v1::UpdateTopicRequest>(
      {"topic", "update", "t", "--rate", "none", "--minute-limit", "0", "--dead-letter-topic", ""});
  EXPECT_EQ(PathsOf(update.update_mask()),
            (std::vector<std::string>{"settings.dead_letter_topic", "settings.rate",
                                      "settings.minute_limit"}));
  EXPECT_FALSE(update.topic().settings().has_rate());
  EXPECT_FALSE(update.topic().settings().has_minute_limit());
  const auto rate = ReadAs<v1::UpdateTopicRequest>({"topic", "rate", "t", "500"});
  EXPECT_EQ(rate.topic().name(), "t");
  EXPECT_EQ(PathsOf(rate.update_mask()), std::vector<std::string>{"settings.rate"});
  EXPECT_EQ(rate.topic().settings().rate().messages_per_second(), 500);
  EXPECT_EQ(rate.topic().settings().rate().burst(), 0);
  EXPECT_FALSE(
      ReadAs<v1::UpdateTopicRequest>({"topic", "rate", "t", "none"}).topic().settings().has_rate());
  EXPECT_EQ(ReadAs<v1::PauseTopicRequest>({"topic", "pause", "t"}).name(), "t");
  EXPECT_EQ(ReadAs<v1::ResumeTopicRequest>({"topic", "resume", "t"}).name(), "t");
  const auto drain = ReadAs<BulkArguments>({"topic", "drain", "t", "--wait", "--dry-run"});
  EXPECT_EQ(drain.request.topic(), "t");
  EXPECT_EQ(drain.request.action(), v1::BULK_RELEASE);
  EXPECT_FALSE(drain.request.has_filter());
  EXPECT_TRUE(drain.request.dry_run());
  EXPECT_TRUE(drain.wait);
}

TEST(AdminArgumentsTest, RefusesWhatIsWrong) {
  const std::vector<Words> cases = {
      {"list"},
      {"list", "t", "--state", "acked"},
      {"list", "t", "--from", "soon"},
      {"list", "t", "--from", "+soon"},
      {"list", "t", "--label", "x"},
      {"list", "t", "--page-size", "0"},
      {"list", "t", "--page-size", "1001"},
      {"forecast", "t", "u"},
      {"forecast", "--bucket", "week"},
      {"forecast", "--buckets", "10001"},
      {"bulk"},
      {"bulk", "cancel"},
      // Without a filter it would be everything.
      {"bulk", "cancel", "t"},
      {"bulk", "purge", "t", "--wait"},
      {"bulk", "cancel", "t", "--all", "--key-prefix", "k"},
      {"bulk", "shift", "t", "--all"},
      {"bulk", "shift", "t", "--all", "--by", ""},
      {"bulk", "shift", "t", "--all", "--by", "-"},
      {"bulk", "shift", "t", "--all", "--by", "much"},
      {"bulk", "get"},
      {"recur"},
      {"recur", "create", "n", "t"},
      {"recur", "create", "n", "--every", "1s"},
      {"recur", "create", "n", "t", "--every", "1s", "--cron", "@daily"},
      {"recur", "create", "n", "t", "--every", "1s", "--tz", "UTC"},
      {"recur", "create", "n", "t", "--every", "1s", "--overlap", "maybe"},
      {"recur", "create", "n", "t", "--every", "1s", "--max-count", "-1"},
      {"recur", "update", "n"},
      {"recur", "preview"},
      {"recur", "preview", "n", "--every", "1s"},
      {"recur", "preview", "--every", "1s", "--tz", "UTC"},
      {"recur", "pause"},
      {"topic", "create"},
      {"topic", "update", "t"},
      {"topic", "create", "t", "--max-pending", "-1"},
      {"topic", "create", "t", "--default-ttl", "long"},
      {"topic", "create", "t", "--rate", "0"},
      {"topic", "create", "t", "--rate", "fast"},
      {"topic", "create", "t", "--burst", "5"},
      {"topic", "create", "t", "--minute-policy", "warn"},
      {"topic", "create", "t", "--minute-limit", "5", "--minute-policy", "spread"},
      {"topic", "create", "t", "--minute-limit", "5", "--spread-max", "1h"},
      {"topic", "create", "t", "--minute-limit", "0", "--minute-policy", "warn"},
      {"topic", "pause"},
      {"topic", "rate", "t"},
      {"topic", "rate", "t", "none", "--burst", "5"},
      {"topic", "drain"},
  };
  ExpectBadUsage(cases);
}

}  // namespace
}  // namespace duetime::cli
