// SPDX-License-Identifier: Apache-2.0
//
// The command lines of what receives and settles, of subscriptions and of dead letters.
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "client/convert.h"
#include "tests/unit/client/command_line.h"

namespace duetime::cli {
namespace {

using client::FromProto;
using client::Settlement;

TEST(ReceiveArgumentsTest, Subscribe) {
  const auto bare = ReadAs<SubscribeArguments>({"subscribe", "t"});
  EXPECT_EQ(bare.topic, "t");
  EXPECT_EQ(bare.subscription, "");
  EXPECT_EQ(bare.settlement.kind, Settlement::Kind::kAck);
  EXPECT_EQ(bare.workers, 1);
  EXPECT_EQ(bare.extend_max, absl::Hours(1));
  EXPECT_FALSE(bare.messages_max.has_value());
  EXPECT_FALSE(bare.time_max.has_value());
  const auto full = ReadAs<SubscribeArguments>(
      {"subscribe", "t",     "-s",        "billing", "--nack",  "10s",          "--reason",
       "busy",      "--max", "5",         "--for",   "1m",      "--credit",     "9",
       "--lease",   "5s",    "--workers", "8",       "--quiet", "--extend-max", "2m"});
  EXPECT_EQ(full.subscription, "billing");
  EXPECT_EQ(full.settlement.kind, Settlement::Kind::kNack);
  EXPECT_EQ(full.settlement.delay, absl::Seconds(10));
  EXPECT_EQ(full.settlement.reason, "busy");
  EXPECT_EQ(full.messages_max, 5);
  EXPECT_EQ(full.time_max, absl::Minutes(1));
  EXPECT_EQ(full.credit, 9);
  EXPECT_EQ(full.lease, absl::Seconds(5));
  EXPECT_EQ(full.extend_max, absl::Minutes(2));
  EXPECT_EQ(full.workers, 8);
  EXPECT_TRUE(full.quiet);
  const auto settlement = [](const Words& words) {
    Words all = {"subscribe", "t"};
    all.insert(all.end(), words.begin(), words.end());
    return ReadAs<SubscribeArguments>(all).settlement;
  };
  EXPECT_EQ(settlement({"--no-ack"}).kind, Settlement::Kind::kLeave);
  EXPECT_EQ(settlement({"--nack", "policy"}).kind, Settlement::Kind::kNack);
  EXPECT_EQ(settlement({"--nack", "policy"}).delay, std::nullopt);
  EXPECT_EQ(settlement({"--nack", "0s"}).delay, absl::ZeroDuration());
  EXPECT_EQ(settlement({"--dead-letter", "--reason", "r"}).kind, Settlement::Kind::kDeadLetter);
  EXPECT_EQ(settlement({"--dead-letter", "--reason", "r"}).reason, "r");
}

TEST(ReceiveArgumentsTest, Pull) {
  const auto bare = ReadAs<PullArguments>({"pull", "t"});
  EXPECT_EQ(bare.request.topic(), "t");
  EXPECT_EQ(bare.request.max_messages(), 1);
  EXPECT_FALSE(bare.request.has_wait());
  EXPECT_FALSE(bare.request.has_lease_duration());
  EXPECT_FALSE(bare.ack);
  const auto full = ReadAs<PullArguments>({"pull", "t", "--subscription", "s", "--max", "7",
                                           "--wait", "30s", "--lease", "5s", "--ack"});
  EXPECT_EQ(full.request.subscription(), "s");
  EXPECT_EQ(full.request.max_messages(), 7);
  EXPECT_EQ(full.request.wait().seconds(), 30);
  EXPECT_EQ(full.request.lease_duration().seconds(), 5);
  EXPECT_TRUE(full.ack);
}

TEST(ReceiveArgumentsTest, Settle) {
  const auto acked = ReadAs<SettleArguments>({"settle", "00a1", "ffffffffffffffff", "--ack"});
  EXPECT_EQ(acked.tokens, (std::vector<uint64_t>{0xA1, UINT64_MAX}));
  ASSERT_EQ(acked.request.ack_size(), 2);
  EXPECT_EQ(acked.request.ack(0), 0xA1u);
  const auto nacked =
      ReadAs<SettleArguments>({"settle", "a", "--nack", "10s", "--reason", "busy"}).request;
  EXPECT_EQ(nacked.nack(0).lease_token(), 10u);
  EXPECT_EQ(nacked.nack(0).delay().seconds(), 10);
  EXPECT_EQ(nacked.nack(0).reason(), "busy");
  EXPECT_FALSE(
      ReadAs<SettleArguments>({"settle", "a", "--nack", "policy"}).request.nack(0).has_delay());
  const auto extended = ReadAs<SettleArguments>({"settle", "a", "--extend", "5m"}).request;
  EXPECT_EQ(extended.extend(0).lease_token(), 10u);
  EXPECT_EQ(extended.extend(0).duration().seconds(), 300);
  const auto dead =
      ReadAs<SettleArguments>({"settle", "a", "--dead-letter", "--topic", "t", "--reason", "r"})
          .request;
  EXPECT_EQ(dead.dead_letter(0).lease_token(), 10u);
  EXPECT_EQ(dead.dead_letter(0).reason(), "r");
  EXPECT_EQ(dead.topic(), "t");
}

TEST(ReceiveArgumentsTest, SubscriptionSettings) {
  const auto bare = ReadAs<v1::CreateSubscriptionRequest>({"subscription", "create", "t"});
  EXPECT_EQ(bare.subscription().topic(), "t");
  EXPECT_EQ(bare.subscription().name(), "") << "the server's default";
  EXPECT_EQ(bare.start(), v1::CreateSubscriptionRequest::START_UNSPECIFIED);
  const auto full = ReadAs<v1::CreateSubscriptionRequest>({"subscription",
                                                           "create",
                                                           "t",
                                                           "s",
                                                           "--lease",
                                                           "1m",
                                                           "--min-backoff",
                                                           "5s",
                                                           "--max-backoff",
                                                           "10m",
                                                           "--multiplier",
                                                           "1.5",
                                                           "--jitter",
                                                           "0.2",
                                                           "--max-attempts",
                                                           "8",
                                                           "--dead-letter-topic",
                                                           "d",
                                                           "--retention",
                                                           "2d",
                                                           "--retention-max",
                                                           "5000000000",
                                                           "--retention-policy",
                                                           "dead-letter",
                                                           "--start",
                                                           "all"});
  EXPECT_EQ(full.subscription().name(), "s");
  EXPECT_EQ(full.start(), v1::CreateSubscriptionRequest::ALL);
  const v1::SubscriptionSettings& settings = full.subscription().settings();
  EXPECT_EQ(settings.lease_duration().seconds(), 60);
  EXPECT_EQ(settings.retry().min_backoff().seconds(), 5);
  EXPECT_EQ(settings.retry().max_backoff().seconds(), 600);
  EXPECT_EQ(settings.retry().multiplier(), 1.5);
  EXPECT_EQ(settings.retry().jitter(), 0.2);
  EXPECT_EQ(settings.retry().max_attempts(), 8);
  EXPECT_EQ(settings.dead_letter_topic(), "d");
  EXPECT_EQ(settings.retention().seconds(), 2 * 86'400);
  EXPECT_EQ(settings.retention_max_messages(), 5'000'000'000);
  EXPECT_EQ(settings.retention_policy(), v1::RETENTION_DEAD_LETTER);
}

TEST(ReceiveArgumentsTest, SubscriptionUpdateNamesWhatWasGiven) {
  const auto one = ReadAs<v1::UpdateSubscriptionRequest>(
      {"subscription", "update", "t", "s", "--max-attempts", "0"});
  EXPECT_EQ(one.subscription().topic(), "t");
  EXPECT_EQ(one.subscription().name(), "s");
  EXPECT_EQ(PathsOf(one.update_mask()), std::vector<std::string>{"settings.retry.max_attempts"});
  const auto many = ReadAs<v1::UpdateSubscriptionRequest>({"subscription",
                                                           "update",
                                                           "t",
                                                           "s",
                                                           "--lease",
                                                           "default",
                                                           "--min-backoff",
                                                           "none",
                                                           "--max-backoff",
                                                           "default",
                                                           "--multiplier",
                                                           "2",
                                                           "--jitter",
                                                           "0",
                                                           "--dead-letter-topic",
                                                           "",
                                                           "--retention",
                                                           "none",
                                                           "--retention-max",
                                                           "0",
                                                           "--retention-policy",
                                                           "drop"});
  EXPECT_EQ(
      PathsOf(many.update_mask()),
      (std::vector<std::string>{
          "settings.retry.multiplier", "settings.retry.jitter", "settings.dead_letter_topic",
          "settings.retention_max_messages", "settings.retention_policy", "settings.lease_duration",
          "settings.retry.min_backoff", "settings.retry.max_backoff", "settings.retention"}));
  EXPECT_FALSE(many.subscription().settings().has_lease_duration());
  EXPECT_FALSE(many.subscription().settings().retry().has_min_backoff());
  EXPECT_FALSE(many.subscription().settings().has_retention());
  const auto paused = ReadAs<v1::UpdateSubscriptionRequest>({"subscription", "pause", "t", "s"});
  EXPECT_EQ(paused.subscription().name(), "s");
  EXPECT_TRUE(paused.subscription().settings().paused());
  EXPECT_EQ(PathsOf(paused.update_mask()), std::vector<std::string>{"settings.paused"});
  const auto resumed = ReadAs<v1::UpdateSubscriptionRequest>({"subscription", "resume", "t"});
  EXPECT_FALSE(resumed.subscription().settings().paused());
  EXPECT_EQ(PathsOf(resumed.update_mask()), std::vector<std::string>{"settings.paused"});
}

TEST(ReceiveArgumentsTest, TheOtherSubscriptionCommands) {
  EXPECT_EQ(ReadAs<v1::GetSubscriptionRequest>({"subscription", "get", "t", "s"}).name(), "s");
  EXPECT_EQ(ReadAs<v1::DeleteSubscriptionRequest>({"subscription", "delete", "t", "s"}).topic(),
            "t");
  const auto list = ReadAs<ListArguments<v1::ListSubscriptionsRequest>>(
      {"subscription", "list", "t", "--page-size", "7"});
  EXPECT_EQ(list.request.topic(), "t");
  EXPECT_EQ(list.request.page_size(), 7);
}

TEST(ReceiveArgumentsTest, DeadLetters) {
  const auto list = ReadAs<DeadLetterListArguments>(
      {"dlq", "list", "t", "-s", "billing", "--label", "a=1", "--all"});
  EXPECT_EQ(list.where.topic, "t");
  EXPECT_EQ(list.where.subscription, "billing");
  EXPECT_EQ(list.list.request.labels().at("a"), "1");
  EXPECT_TRUE(list.list.all);
  const auto redrive = ReadAs<DeadLetterBulkArguments>(
      {"dlq", "redrive", "t", "--dead-letter-topic", "d", "--all", "--wait", "--name", "n"});
  EXPECT_EQ(redrive.where.topic, "t");
  EXPECT_EQ(redrive.where.dead_letter_topic, "d");
  EXPECT_EQ(redrive.bulk.request.action(), v1::BULK_REDRIVE);
  EXPECT_EQ(redrive.bulk.request.name(), "n");
  EXPECT_TRUE(redrive.bulk.wait);
  EXPECT_EQ(
      ReadAs<DeadLetterBulkArguments>({"dlq", "purge", "t", "--from", "-1h"}).bulk.request.action(),
      v1::BULK_PURGE);
}

TEST(ReceiveArgumentsTest, RefusesWhatIsWrong) {
  ExpectBadUsage({
      {"subscribe"},
      {"subscribe", "t", "--ack", "--no-ack"},
      {"subscribe", "t", "--no-ack", "--nack", "1s"},
      {"subscribe", "t", "--dead-letter", "--nack", "1s"},
      {"subscribe", "t", "--nack", "soon"},
      {"subscribe", "t", "--nack", ""},
      {"subscribe", "t", "--reason", "r"},
      {"subscribe", "t", "--max", "0"},
      {"subscribe", "t", "--max", "-1"},
      {"subscribe", "t", "--for", "5"},
      {"subscribe", "t", "--credit", "0"},
      {"subscribe", "t", "--workers", "0"},
      {"subscribe", "t", "--lease", "x"},
      {"subscribe", "t", "--extend-max", "x"},
      {"pull"},
      {"pull", "t", "--max", "0"},
      {"pull", "t", "--max", "1001"},
      {"pull", "t", "--wait", "long"},
      {"settle"},
      {"settle", "a"},
      {"settle", "--ack"},
      {"settle", "xyz", "--ack"},
      {"settle", "a1x", "--ack"},
      {"settle", "", "--ack"},
      {"settle", "10000000000000000", "--ack"},
      {"settle", "a", "--ack", "--nack", "1s"},
      {"settle", "a", "--ack", "--reason", "r"},
      {"settle", "a", "--extend", ""},
      {"settle", "a", "--dead-letter"},
      {"settle", "a", "--ack", "--topic", "t"},
      {"subscription"},
      {"subscription", "create"},
      {"subscription", "update", "t", "s"},
      {"subscription", "create", "t", "s", "--multiplier", "0.5"},
      {"subscription", "create", "t", "s", "--jitter", "2"},
      {"subscription", "create", "t", "s", "--max-attempts", "-1"},
      {"subscription", "create", "t", "s", "--retention-policy", "keep"},
      {"subscription", "create", "t", "s", "--retention-max", "-1"},
      {"subscription", "create", "t", "s", "--start", "never"},
      {"subscription", "update", "t", "s", "--start", "all"},
      {"subscription", "create", "t", "s", "--min-backoff", "soon"},
      {"subscription", "pause"},
      {"dlq"},
      {"dlq", "list"},
      {"dlq", "list", "t", "-s", "s", "--dead-letter-topic", "d"},
      // Without a filter it would be everything.
      {"dlq", "redrive", "t"},
      {"dlq", "purge", "t", "--wait"},
      {"dlq", "purge", "t", "--all", "--key-prefix", "k"},
  });
}

}  // namespace
}  // namespace duetime::cli
