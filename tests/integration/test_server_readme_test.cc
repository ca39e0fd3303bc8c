// SPDX-License-Identifier: Apache-2.0
//
// The tests that the README of the C++ library shows.
#include <string>

#include "client/cpp/testing/test_server_fixture.h"

using duetime::client::NewMessage;
using duetime::client::Settlement;
using duetime::client::Target;

class TimersTest : public duetime::client::TestServerTest {};

TEST_F(TimersTest, AnOrderTimesOutUnlessItIsPaid) {
  ASSERT_TRUE(server().Subscribe("orders", [](const auto&) { return Settlement::Ack(); }).ok());
  for (const std::string key : {"paid", "unpaid"}) {
    const NewMessage message{.topic = "orders", .when = absl::Hours(48), .key = key};
    ASSERT_TRUE(server().client().Schedule(message).ok());
  }
  EXPECT_EQ(server().clock().Advance(absl::Hours(47))->acked(), 0);
  ASSERT_TRUE(server().client().Cancel(Target::Key("orders", "paid")).ok());
  EXPECT_EQ(server().clock().Advance(absl::Hours(1))->acked(), 1);
}

TEST_F(TimersTest, ADigestComesAtNineOnTheNightOfTheChange) {
  StartServer({.at = absl::FromCivil(absl::CivilHour(2027, 3, 26, 12), absl::UTCTimeZone())});
  duetime::v1::CreateRecurrenceRequest request;
  request.mutable_recurrence()->set_name("digest");
  request.mutable_recurrence()->set_topic("digests");
  request.mutable_recurrence()->mutable_schedule()->set_cron("0 9 * * *");
  request.mutable_recurrence()->mutable_schedule()->set_time_zone("Europe/Berlin");
  ASSERT_TRUE(server().admin().CreateRecurrence(request).ok());
  ASSERT_TRUE(server().Subscribe("digests", [](const auto&) { return Settlement::Ack(); }).ok());
  ASSERT_TRUE(server().clock().Advance(absl::Hours(48)).ok());
  const auto got = server().Deliveries("digests");
  ASSERT_EQ(got.size(), 2);
  EXPECT_EQ(got[0].time().seconds() / 3'600 % 24, 8);  // 9:00 in winter
  EXPECT_EQ(got[1].time().seconds() / 3'600 % 24, 7);  // 9:00 in summer
}

TEST_F(TimersTest, AMailThatAlwaysFailsBecomesADeadLetter) {
  duetime::v1::Topic topic;
  topic.set_name("mails");
  ASSERT_TRUE(server().admin().CreateTopic(topic).ok());
  duetime::v1::CreateSubscriptionRequest request;
  request.mutable_subscription()->set_topic("mails");
  request.mutable_subscription()->set_name("default");
  request.mutable_subscription()->mutable_settings()->set_dead_letter_topic("failed");
  request.mutable_subscription()->mutable_settings()->mutable_retry()->set_max_attempts(3);
  ASSERT_TRUE(server().admin().CreateSubscription(request).ok());
  const auto fail = [](const auto&) { return Settlement::Nack("no such address"); };
  ASSERT_TRUE(server().Subscribe("mails", fail).ok());
  const NewMessage mail{.topic = "mails", .when = absl::Minutes(5)};
  ASSERT_TRUE(server().client().Schedule(mail).ok());
  EXPECT_EQ(server().clock().Advance(absl::Hours(1))->dead_lettered(), 1);
  EXPECT_EQ(server().Deliveries("mails").size(), 3);
}
