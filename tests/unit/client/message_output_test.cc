// SPDX-License-Identifier: Apache-2.0
#include "client/cli/message_output.h"

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
using Json = nlohmann::json;

const absl::TimeZone kUtc = absl::UTCTimeZone();

v1::Message SomeMessage() {
  v1::Message message;
  message.set_id("id1");
  message.set_topic("t");
  message.mutable_deliver_time()->set_seconds(90);
  message.mutable_accept_time()->set_seconds(0);
  message.set_state(v1::Message::SCHEDULED);
  message.set_payload_bytes(3);
  return message;
}

std::string TextOf(const v1::Message& message) {
  v1::GetResponse response;
  *response.mutable_message() = message;
  return GetText(response, kUtc);
}

TEST(GetTest, ShowsWhatThereIs) {
  v1::Message message = SomeMessage();
  std::string text = TextOf(message);
  EXPECT_THAT(text, HasSubstr("state         scheduled\n"));
  EXPECT_THAT(text, HasSubstr("payload size  3 bytes\n"));
  for (const char* name : {"key", "ended", "labels", "expires", "recurrence", "payload  "}) {
    EXPECT_THAT(text, Not(HasSubstr(name))) << name;
  }
  message.set_state(v1::Message::IN_FLIGHT);
  message.set_key("order-\x1b[2J");
  message.set_etag("7");
  (*message.mutable_labels())["b"] = "2";
  (*message.mutable_labels())["a"] = "1";
  (*message.mutable_attributes())["k"] = "v";
  message.set_payload("\xff");
  message.mutable_civil_time()->set_local("2026-11-21T09:00");
  message.mutable_civil_time()->set_time_zone("Europe/Berlin");
  message.mutable_spread()->set_seconds(5);
  message.mutable_expire_time()->set_seconds(100);
  message.set_late_policy(v1::Message::DROP);
  message.set_recurrence("standup");
  message.set_occurrence(4);
  text = TextOf(message);
  EXPECT_THAT(text, HasSubstr("state         in flight\n"));
  EXPECT_THAT(text, HasSubstr("key           base64:"));
  EXPECT_THAT(text, HasSubstr("etag          7\n"));
  EXPECT_THAT(text, HasSubstr("labels        a=1 b=2\n"));
  EXPECT_THAT(text, HasSubstr("attribute     k=v\n"));
  EXPECT_THAT(text, HasSubstr("payload       base64:/w==\n"));
  EXPECT_THAT(text, HasSubstr("local time    2026-11-21T09:00 in Europe/Berlin\n"));
  EXPECT_THAT(text, HasSubstr("spread        5s\n"));
  EXPECT_THAT(text, HasSubstr("expires       1970-01-01T00:01:40.000+00:00, then dropped\n"));
  EXPECT_THAT(text, HasSubstr("recurrence    standup, number 4\n"));
  message = SomeMessage();
  message.set_state(v1::Message::ACKED);
  message.mutable_end_time()->set_seconds(91);
  EXPECT_THAT(TextOf(message), HasSubstr("ended         1970-01-01T00:01:31.000+00:00\n"));
}

// A dead letter, as Get and Explain answer for it.
v1::Message SomeDeadLetter() {
  v1::Message message = SomeMessage();
  message.set_topic("t.dlq");
  v1::DeadLetter* was = message.mutable_dead_letter();
  was->set_topic("t");
  was->set_subscription("billing");
  was->set_message_id("id0");
  was->set_key("order-17");
  was->set_attempts(5);
  was->set_reason(v1::DeadLetter::MAX_ATTEMPTS);
  was->set_reason_text("no such \x1b[2J customer");
  was->mutable_last_dispatch_time()->set_seconds(80);
  return message;
}

TEST(GetTest, ADeadLetterSaysWhatItWas) {
  v1::Message message = SomeDeadLetter();
  std::string text = TextOf(message);
  EXPECT_THAT(text, HasSubstr("dead letter   it failed as often as it may: base64:"));
  EXPECT_THAT(text, HasSubstr("it was        id0\n"));
  EXPECT_THAT(text, HasSubstr("of topic      t\n"));
  EXPECT_THAT(text, HasSubstr("with key      order-17\n"));
  EXPECT_THAT(text, HasSubstr("for           billing\n"));
  EXPECT_THAT(text, HasSubstr("delivered     5 times\n"));
  EXPECT_THAT(text, HasSubstr("last          1970-01-01T00:01:20.000+00:00\n"));
  EXPECT_THAT(text, Not(HasSubstr("first ")));
  v1::ExplainResponse story;
  *story.mutable_message() = message;
  EXPECT_THAT(ExplainText(story, absl::FromUnixSeconds(110), kUtc), HasSubstr("it was        id0"));
  const std::vector<std::pair<v1::DeadLetter::Reason, const char*>> reasons = {
      {v1::DeadLetter::REJECTED, "a subscriber gave it up\n"},
      {v1::DeadLetter::EXPIRED, "it was later than its time to live\n"},
      {v1::DeadLetter::RETENTION,
       "its subscription keeps messages for less long, or fewer of them\n"},
      {static_cast<v1::DeadLetter::Reason>(9), "for reason 9, which this version does not know\n"}};
  message.mutable_dead_letter()->clear_reason_text();
  for (const auto& [reason, words] : reasons) {
    message.mutable_dead_letter()->set_reason(reason);
    EXPECT_THAT(TextOf(message), HasSubstr(words));
  }
  EXPECT_THAT(TextOf(SomeMessage()), Not(HasSubstr("it was")));
  message = SomeMessage();
  message.mutable_expire_time()->set_seconds(100);
  message.set_late_policy(v1::Message::DEAD_LETTER);
  EXPECT_THAT(TextOf(message), HasSubstr(", then made a dead letter\n"));
}

// One of each kind.
void AddStandings(google::protobuf::RepeatedPtrField<v1::SubscriptionStanding>* standings) {
  standings->Add()->set_state(v1::Message::DUE);
  v1::SubscriptionStanding* leased = standings->Add();
  leased->set_subscription("audit");
  leased->set_state(v1::Message::IN_FLIGHT);
  leased->set_attempts(2);
  leased->mutable_lease_end_time()->set_seconds(100);
  v1::SubscriptionStanding* waits = standings->Add();
  waits->set_subscription("billing");
  waits->set_state(v1::Message::DUE);
  waits->set_attempts(3);
  waits->mutable_retry_time()->set_seconds(200);
  v1::SubscriptionStanding* done = standings->Add();
  done->set_subscription("mail");
  done->set_state(v1::Message::ACKED);
  done->set_attempts(1);
}

constexpr char kStandings[] =
    "\n"
    "SUBSCRIPTION  STATE      ATTEMPTS\n"
    "(nobody yet)  due        0\n"
    "audit         in flight  2         leased until 1970-01-01T00:01:40.000+00:00\n"
    "billing       due        3         again at 1970-01-01T00:03:20.000+00:00\n"
    "mail          done       1\n";

TEST(GetTest, ShowsHowFarEachSubscriptionIs) {
  v1::GetResponse response;
  *response.mutable_message() = SomeMessage();
  EXPECT_THAT(GetText(response, kUtc), Not(HasSubstr("SUBSCRIPTION")));
  AddStandings(response.mutable_subscriptions());
  EXPECT_THAT(GetText(response, kUtc), HasSubstr(kStandings));
  const Json json = Json::parse(GetJson(response));
  EXPECT_EQ(json["id"], "id1");
  EXPECT_FALSE(json.contains("message"));
  EXPECT_EQ(json["subscriptions"][1]["subscription"], "audit");
  v1::ExplainResponse story;
  AddStandings(story.mutable_subscriptions());
  EXPECT_THAT(ExplainText(story, absl::FromUnixSeconds(110), kUtc), HasSubstr(kStandings));
}

TEST(MessageTableTest, OneLineEach) {
  google::protobuf::RepeatedPtrField<v1::Message> messages;
  *messages.Add() = SomeMessage();
  messages.Add()->CopyFrom(SomeMessage());
  messages.at(1).set_key("k");
  (*messages.at(1).mutable_labels())["a"] = "1";
  EXPECT_EQ(MessageTable(messages, kUtc),
            "DELIVER TIME                   ID   STATE      ATTEMPTS  PAYLOAD  KEY  LABELS\n"
            "1970-01-01T00:01:30.000+00:00  id1  scheduled  0         3 B\n"
            "1970-01-01T00:01:30.000+00:00  id1  scheduled  0         3 B      k    a=1\n");
}

TEST(ScheduledTest, EveryOutcome) {
  v1::ScheduleResponse response;
  *response.mutable_message() = SomeMessage();
  response.set_outcome(v1::CREATED);
  EXPECT_EQ(ScheduledText(response, kUtc),
            "scheduled id1 for 1970-01-01T00:01:30.000+00:00 (in 1m30s)\n");
  response.set_previous_message_id("id0");
  EXPECT_THAT(ScheduledText(response, kUtc), HasSubstr("the key was that of id0"));
  response.clear_previous_message_id();
  response.set_bucket_over(true);
  EXPECT_THAT(ScheduledText(response, kUtc), HasSubstr("\nits minute has more messages"));
  response.set_bucket_over(false);
  response.mutable_message()->set_state(v1::Message::DUE);
  EXPECT_EQ(ScheduledText(response, kUtc),
            "scheduled id1 for 1970-01-01T00:01:30.000+00:00 (due now)\n");
  response.mutable_message()->set_state(v1::Message::SCHEDULED);
  response.mutable_message()->mutable_update_time()->set_seconds(60);
  response.set_outcome(v1::REPLACED);
  response.mutable_old_deliver_time()->set_seconds(80);
  EXPECT_EQ(ScheduledText(response, kUtc),
            "replaced id1: now for 1970-01-01T00:01:30.000+00:00 (in 30s), it was for "
            "1970-01-01T00:01:20.000+00:00\n");
  response.set_outcome(v1::UNCHANGED);
  response.mutable_message()->set_state(v1::Message::ACKED);
  EXPECT_EQ(ScheduledText(response, kUtc),
            "unchanged: id1 for 1970-01-01T00:01:30.000+00:00 is there already (acked)\n");
  response.set_outcome(v1::CREATED);
  response.mutable_message()->set_state(v1::Message::SCHEDULED);
  response.mutable_message()->mutable_update_time()->set_seconds(-3600);
  response.mutable_message()->mutable_update_time()->set_nanos(4'000'000);
  EXPECT_THAT(ScheduledText(response, kUtc), HasSubstr("(in 1h1m30s)\n"));
  response.mutable_message()->clear_id();
  EXPECT_THAT(ScheduledText(response, kUtc), HasSubstr("scheduled a message for "));
}

TEST(ScheduledTest, JsonIsOneObject) {
  v1::ScheduleResponse response;
  *response.mutable_message() = SomeMessage();
  response.set_outcome(v1::REPLACED);
  response.mutable_old_deliver_time()->set_seconds(80);
  const Json json = Json::parse(ScheduledJson(response));
  EXPECT_EQ(json["id"], "id1");
  EXPECT_EQ(json["outcome"], "REPLACED");
  EXPECT_EQ(json["old_deliver_time"], "1970-01-01T00:01:20.000+00:00");
  EXPECT_FALSE(json.contains("message"));
}

TEST(RescheduledTest, EveryOutcome) {
  v1::RescheduleResponse response;
  response.set_outcome(v1::RescheduleResponse::RESCHEDULED);
  *response.mutable_message() = SomeMessage();
  response.mutable_message()->mutable_update_time()->set_seconds(60);
  response.mutable_old_deliver_time()->set_seconds(80);
  EXPECT_EQ(RescheduledText("x", response, kUtc),
            "x is moved to 1970-01-01T00:01:30.000+00:00 (in 30s), it was for "
            "1970-01-01T00:01:20.000+00:00\n");
  response.set_outcome(v1::RescheduleResponse::IN_FLIGHT);
  EXPECT_EQ(RescheduledText("x", response, kUtc),
            "x is not moved: it has been delivered and is not settled yet\n");
  response.set_outcome(v1::RescheduleResponse::SETTLED);
  response.set_state(v1::Message::EXPIRED);
  response.mutable_end_time()->set_seconds(91);
  EXPECT_EQ(RescheduledText("x", response, kUtc),
            "x is not moved: it expired at 1970-01-01T00:01:31.000+00:00\n");
  response.set_outcome(v1::RescheduleResponse::ALREADY_CANCELLED);
  response.set_state(v1::Message::CANCELLED);
  EXPECT_EQ(RescheduledText("x", response, kUtc),
            "x is not moved: it was cancelled at 1970-01-01T00:01:31.000+00:00\n");
  response.set_outcome(v1::RescheduleResponse::NOT_FOUND);
  EXPECT_THAT(RescheduledText("x", response, kUtc), HasSubstr("x is not there: "));
}

TEST(CancelTest, EveryOutcomeInWords) {
  client::CancelResult result;
  result.answer.set_outcome(v1::CancelResponse::CANCELLED);
  EXPECT_EQ(CancelText("x", result, kUtc),
            "x is cancelled: it was never delivered and never will be\n");
  result.answer.set_outcome(v1::CancelResponse::IN_FLIGHT);
  EXPECT_EQ(CancelText("x", result, kUtc),
            "x is not cancelled: it has been delivered and is not settled yet; --stop-redelivery "
            "would end it\n");
  result.answer.set_redelivery_stopped(true);
  result.answer.set_delivery_uncertain(true);
  EXPECT_EQ(CancelText("x", result, kUtc),
            "x is not cancelled: it may have been delivered before the server last crashed; it is "
            "ended and will not be delivered again\n");
  result = {};
  result.answer.mutable_end_time()->set_seconds(91);
  result.answer.set_outcome(v1::CancelResponse::SETTLED);
  result.answer.set_state(v1::Message::ACKED);
  EXPECT_EQ(CancelText("x", result, kUtc),
            "x is not cancelled: it was acked at 1970-01-01T00:01:31.000+00:00\n");
  result.answer.set_outcome(v1::CancelResponse::ALREADY_CANCELLED);
  EXPECT_EQ(CancelText("x", result, kUtc),
            "x had been cancelled at 1970-01-01T00:01:31.000+00:00\n");
  result.tried_before = true;
  EXPECT_THAT(CancelText("x", result, kUtc), HasSubstr("perhaps by this call"));
  result = {};
  result.answer.set_outcome(v1::CancelResponse::NOT_FOUND);
  EXPECT_EQ(CancelText("x", result, kUtc),
            "x is not there: it never existed, or it ended longer ago than its topic remembers\n");
}

TEST(CancelTest, Json) {
  client::CancelResult result;
  result.answer.set_outcome(v1::CancelResponse::NOT_FOUND);
  result.tried_before = true;
  Json json = Json::parse(CancelJson("order-17", result));
  EXPECT_EQ(json["id"], "order-17");
  EXPECT_EQ(json["outcome"], "NOT_FOUND");
  EXPECT_EQ(json["tried_before"], true);
  result.answer.set_outcome(v1::CancelResponse::CANCELLED);
  result.answer.set_message_id("id1");
  json = Json::parse(CancelJson("order-17", result));
  EXPECT_EQ(json["id"], "id1");
  EXPECT_FALSE(json.contains("message_id"));
}

TEST(ExplainTest, DrawsTheStory) {
  v1::ExplainResponse story;
  *story.mutable_message() = SomeMessage();
  story.mutable_message()->set_state(v1::Message::IN_FLIGHT);
  story.mutable_message()->set_attempts(1);
  story.set_summary("It is with a subscriber.");
  v1::Timeline* line = story.mutable_timeline();
  line->mutable_accept_time()->set_seconds(0);
  line->mutable_due_time()->set_seconds(90);
  line->mutable_fire_time()->set_seconds(90);
  line->mutable_fire_time()->set_nanos(2'000'000);
  line->mutable_first_dispatch_time()->set_seconds(103);
  line->mutable_lease_end_time()->set_seconds(133);
  line->set_loaded(true);
  line->set_subscribers(2);
  story.mutable_lateness()->mutable_total()->set_seconds(13);
  story.mutable_lateness()->mutable_server()->set_nanos(2'000'000);
  story.mutable_lateness()->mutable_waiting()->set_seconds(12);
  story.mutable_lateness()->mutable_waiting()->set_nanos(998'000'000);
  EXPECT_EQ(ExplainText(story, absl::FromUnixSeconds(110), kUtc),
            "It is with a subscriber.\n"
            "\n"
            "  1970-01-01T00:00:00.000+00:00  o  accepted\n"
            "                                 |  1m30s\n"
            "  1970-01-01T00:01:30.000+00:00  o  due\n"
            "                                 |  2ms\n"
            "  1970-01-01T00:01:30.002+00:00  o  fired: ready to be handed out\n"
            "                                 |  12s998ms\n"
            "  1970-01-01T00:01:43.000+00:00  o  handed to a subscriber for the first time\n"
            "                                 |  30s\n"
            "  1970-01-01T00:02:13.000+00:00  .  end of the lease (to come)\n"
            "\n"
            "id            id1\n"
            "topic         t\n"
            "state         in flight\n"
            "where         in memory\n"
            "attempts      1\n"
            "subscribers   2\n"
            "lateness      13s = 2ms by the server + 12s998ms waiting for a subscriber with "
            "credit\n");
}

TEST(ExplainTest, AnEndAndAMessageToCome) {
  v1::ExplainResponse story;
  *story.mutable_message() = SomeMessage();
  story.mutable_timeline()->mutable_due_time()->set_seconds(90);
  story.mutable_timeline()->mutable_update_time()->set_seconds(5);
  std::string text = ExplainText(story, absl::FromUnixSeconds(10), kUtc);
  EXPECT_THAT(text, HasSubstr("  .  due (to come)\n"));
  EXPECT_THAT(text, HasSubstr("  o  replaced or rescheduled\n"));
  EXPECT_THAT(text, HasSubstr("where         on disk, not loaded yet\n"));
  EXPECT_THAT(text, Not(HasSubstr("lateness")));
  story.mutable_timeline()->set_in_backlog(true);
  EXPECT_THAT(ExplainText(story, absl::FromUnixSeconds(10), kUtc), HasSubstr("in the backlog"));
  story.mutable_message()->set_state(v1::Message::ACKED);
  story.mutable_message()->mutable_end_time()->set_seconds(95);
  story.mutable_timeline()->mutable_end_time()->set_seconds(95);
  text = ExplainText(story, absl::FromUnixSeconds(100), kUtc);
  EXPECT_THAT(text, HasSubstr("  1970-01-01T00:01:35.000+00:00  o  acked\n"));
  EXPECT_THAT(text, Not(HasSubstr("where")));
}

}  // namespace
}  // namespace duetime::cli
