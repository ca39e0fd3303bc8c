// SPDX-License-Identifier: Apache-2.0
#include "client/cli/subscription_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace duetime::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

const absl::TimeZone kUtc = absl::UTCTimeZone();

v1::Subscription SomeSubscription() {
  v1::Subscription subscription;
  subscription.set_topic("orders");
  subscription.set_name("billing");
  return subscription;
}

TEST(SubscriptionTest, Text) {
  v1::Subscription subscription = SomeSubscription();
  EXPECT_EQ(SubscriptionText(subscription, kUtc),
            "topic         orders\n"
            "subscription  billing\n"
            "lease         30s\n"
            "retries       at once\n"
            "max attempts  no end\n"
            "dead letters  where the topic says\n"
            "keeps         for ever\n");
  v1::SubscriptionSettings* settings = subscription.mutable_settings();
  settings->set_paused(true);
  settings->mutable_lease_duration()->set_seconds(60);
  settings->mutable_retry()->mutable_min_backoff()->set_seconds(5);
  settings->mutable_retry()->set_max_attempts(8);
  settings->set_dead_letter_topic("failures");
  settings->mutable_retention()->set_seconds(2 * 86'400);
  subscription.mutable_create_time()->set_seconds(90);
  EXPECT_EQ(SubscriptionText(subscription, kUtc),
            "topic         orders\n"
            "subscription  billing\n"
            "paused        yes\n"
            "created       1970-01-01T00:01:30.000+00:00\n"
            "lease         1m\n"
            "retries       after 5s, then times 2\n"
            "max attempts  8\n"
            "dead letters  failures\n"
            "keeps         2d, then dropped\n");
  settings->mutable_retry()->set_multiplier(1.5);
  settings->mutable_retry()->mutable_max_backoff()->set_seconds(600);
  settings->mutable_retry()->set_jitter(0.2);
  settings->set_retention_policy(v1::RETENTION_DEAD_LETTER);
  const std::string text = SubscriptionText(subscription, kUtc);
  EXPECT_THAT(text, HasSubstr("after 5s, then times 1.5 up to 10m, longer by up to 20% at random"));
  EXPECT_THAT(text, HasSubstr("keeps         2d, then made dead letters\n"));
  settings->set_retention_max_messages(100);
  EXPECT_THAT(SubscriptionText(subscription, kUtc),
              HasSubstr("keeps         2d and up to 100 messages, then made dead letters\n"));
  settings->clear_retention();
  settings->clear_retention_policy();
  EXPECT_THAT(SubscriptionText(subscription, kUtc),
              HasSubstr("keeps         up to 100 messages, then dropped\n"));
}

TEST(SubscriptionTest, Counts) {
  v1::Subscription subscription = SomeSubscription();
  v1::SubscriptionCounts* counts = subscription.mutable_counts();
  counts->set_ready(1);
  counts->set_in_flight(2);
  counts->set_delayed(3);
  counts->set_blocked(4);
  counts->set_streams(5);
  counts->mutable_oldest_due_time()->set_seconds(90);
  counts->set_delivered(6);
  counts->set_acked(7);
  counts->set_dead_lettered(8);
  counts->set_dropped(9);
  EXPECT_THAT(SubscriptionText(subscription, kUtc),
              HasSubstr("subscribers   5\n"
                        "ready         1\n"
                        "in flight     2\n"
                        "to be retried 3\n"
                        "held in order 4\n"
                        "oldest due    1970-01-01T00:01:30.000+00:00\n"
                        "delivered     6\n"
                        "acked         7\n"
                        "dead letters  8\n"
                        "dropped       9\n"));
  counts->set_behind(true);
  EXPECT_THAT(SubscriptionText(subscription, kUtc), HasSubstr("ready         1, and more on disk"));
}

TEST(SubscriptionTest, Table) {
  google::protobuf::RepeatedPtrField<v1::Subscription> subscriptions;
  *subscriptions.Add() = SomeSubscription();
  v1::Subscription* other = subscriptions.Add();
  other->set_name("audit");
  other->mutable_settings()->set_paused(true);
  other->mutable_settings()->mutable_retry()->set_max_attempts(8);
  v1::SubscriptionSettings* bounded = subscriptions.Add()->mutable_settings();
  bounded->set_retention_max_messages(5);
  v1::SubscriptionSettings* both = subscriptions.Add()->mutable_settings();
  both->mutable_retention()->set_seconds(60);
  both->set_retention_max_messages(5);
  EXPECT_EQ(SubscriptionTable(subscriptions),
            "NAME     STATE   LEASE  MAX ATTEMPTS  DEAD LETTERS  KEEPS  RETRIES\n"
            "billing  active  -      no end        -             -      at once\n"
            "audit    paused  -      8             -             -      at once\n"
            "         active  -      no end        -             5      at once\n"
            "         active  -      no end        -             1m, 5  at once\n");
}

TEST(DeadLetterTableTest, SaysWhatTheyWereAndWhy) {
  google::protobuf::RepeatedPtrField<v1::Message> messages;
  v1::Message* message = messages.Add();
  message->set_id("id1");
  message->mutable_accept_time()->set_seconds(90);
  v1::DeadLetter* was = message->mutable_dead_letter();
  was->set_subscription("billing");
  was->set_attempts(5);
  was->set_message_id("id0");
  was->set_key("k");
  was->set_reason(v1::DeadLetter::MAX_ATTEMPTS);
  was->set_reason_text("busy");
  *messages.Add() = *message;
  messages.Mutable(1)->mutable_dead_letter()->set_reason(v1::DeadLetter::EXPIRED);
  messages.Mutable(1)->mutable_dead_letter()->clear_reason_text();
  messages.Add()->set_id("id2");
  messages.Mutable(2)->mutable_accept_time()->set_seconds(90);
  EXPECT_EQ(
      DeadLetterTable(messages, kUtc),
      "SINCE                          ID   SUBSCRIPTION  ATTEMPTS  WAS  KEY  REASON\n"
      "1970-01-01T00:01:30.000+00:00  id1  billing       5         id0  k    max attempts: busy\n"
      "1970-01-01T00:01:30.000+00:00  id1  billing       5         id0  k    expired\n"
      "1970-01-01T00:01:30.000+00:00  id2                0                   (no dead letter)\n");
}

TEST(PulledTest, BeginsWithTheToken) {
  v1::Delivery proto;
  proto.set_message_id("id1");
  proto.set_lease_token(0xA1);
  EXPECT_EQ(PulledText(client::Delivery(proto), absl::UnixEpoch(), kUtc).substr(0, 47),
            "00000000000000a1  1970-01-01T00:00:00.000+00:00");
}

TEST(SettledTest, OneLineForEachLease) {
  client::SettleResult result;
  result.answer.add_settled(1);
  result.answer.add_extended(2);
  result.answer.add_refused()->set_lease_token(3);
  EXPECT_EQ(SettledText(1, result), "0000000000000001  settled\n");
  EXPECT_EQ(SettledText(2, result), "0000000000000002  extended\n");
  EXPECT_EQ(SettledText(4, result), "0000000000000004  the server did not answer for it\n");
  EXPECT_FALSE(WasRefused(1, result));
  EXPECT_FALSE(WasRefused(2, result));
  EXPECT_TRUE(WasRefused(3, result));
  EXPECT_TRUE(WasRefused(4, result));
  const std::vector<std::pair<v1::SettleRefusal::Reason, const char*>> reasons = {
      {v1::SettleRefusal::LEASE_LOST, "its lease is over, and the message may come again\n"},
      {v1::SettleRefusal::OUT_OF_RANGE, "the lease goes on\n"},
      {v1::SettleRefusal::NO_DEAD_LETTER_TOPIC, "none can be made"},
      {static_cast<v1::SettleRefusal::Reason>(9), "for reason 9"}};
  for (const auto& [reason, words] : reasons) {
    result.answer.mutable_refused(0)->set_reason(reason);
    EXPECT_THAT(SettledText(3, result), HasSubstr(words));
  }
  result.answer.mutable_refused(0)->set_reason(v1::SettleRefusal::LEASE_LOST);
  EXPECT_EQ(SettledJson(3, result).dump(),
            R"({"lease_token":"0000000000000003","settled":false,"extended":false,)"
            R"("refused":"LEASE_LOST","tried_before":false})");
  EXPECT_EQ(SettledJson(1, result)["settled"], true);
  EXPECT_THAT(SettledText(3, result), Not(HasSubstr("perhaps")));
  result.tried_before = true;
  EXPECT_THAT(SettledText(3, result), HasSubstr("perhaps by this call"));
}

}  // namespace
}  // namespace duetime::cli
