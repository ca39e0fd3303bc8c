// SPDX-License-Identifier: Apache-2.0
#include "client/cli/admin_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace duetime::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

const absl::TimeZone kUtc = absl::UTCTimeZone();

void AddBucket(int64_t second, int64_t messages, v1::ForecastResponse* response) {
  v1::ForecastBucket* bucket = response->add_buckets();
  bucket->mutable_start_time()->set_seconds(second);
  bucket->mutable_count()->set_messages(messages);
}

TEST(ForecastTextTest, DrawsBarsAndFoldsWhatIsEmpty) {
  v1::ForecastRequest request;
  request.set_bucket(v1::ForecastRequest::MINUTE);
  v1::ForecastResponse response;
  response.mutable_start_time()->set_seconds(0);
  response.mutable_end_time()->set_seconds(60 * 60);
  AddBucket(60, 5, &response);
  AddBucket(120, 10, &response);
  AddBucket(60 * 20, 1, &response);
  response.mutable_overdue()->set_messages(3);
  response.mutable_overdue()->set_bytes(300);
  response.mutable_later()->set_messages(4);
  response.mutable_total()->set_messages(23);
  response.mutable_total()->set_bytes(2048);
  EXPECT_EQ(ForecastText(request, response, kUtc),
            "1970-01-01 00:00   0\n"
            "1970-01-01 00:01   5  " +
                std::string(25, '#') +
                "\n"
                "1970-01-01 00:02  10  " +
                std::string(50, '#') +
                "\n"
                "... 17 empty ...\n"
                "1970-01-01 00:20   1  #####\n"
                "... 39 empty ...\n"
                "\n"
                "before        3 (300 B)\n"
                "in the chart  16\n"
                "later         4 (0 B)\n"
                "in all        23 (2.0 KiB)\n");
}

TEST(ForecastTextTest, ALabelForEachKindOfBucket) {
  v1::ForecastResponse response;
  response.mutable_start_time()->set_seconds(86'400);
  response.mutable_end_time()->set_seconds(2 * 86'400);
  AddBucket(86'400, 1, &response);
  v1::ForecastRequest request;
  request.set_bucket(v1::ForecastRequest::DAY);
  EXPECT_THAT(ForecastText(request, response, kUtc), HasSubstr("1970-01-02 00:00  1  #"));
  EXPECT_THAT(ForecastText(request, response, kUtc), Not(HasSubstr("empty")));
  request.set_bucket(v1::ForecastRequest::HOUR);
  EXPECT_THAT(ForecastText(request, response, kUtc), HasSubstr("... 23 empty ..."));
  request.set_bucket(v1::ForecastRequest::SECOND);
  EXPECT_THAT(ForecastText(request, response, kUtc), HasSubstr("1970-01-02 00:00:00  1  #"));
  EXPECT_THAT(ForecastText(request, v1::ForecastResponse(), kUtc), HasSubstr("in the chart  0\n"));
}

v1::Operation SomeOperation() {
  v1::Operation operation;
  operation.set_name("cleanup-7");
  operation.set_topic("orders");
  operation.set_action(v1::BULK_SHIFT);
  operation.mutable_shift_by()->set_seconds(-900);
  operation.set_state(v1::Operation::RUNNING);
  operation.mutable_create_time()->set_seconds(7);
  operation.mutable_progress_time()->set_seconds(8);
  operation.set_matched(10);
  operation.set_changed(8);
  operation.set_unchanged(2);
  return operation;
}

TEST(OperationTest, TextAndTable) {
  v1::Operation operation = SomeOperation();
  EXPECT_EQ(OperationText(operation, kUtc),
            "operation     cleanup-7\n"
            "topic         orders\n"
            "messages      all messages\n"
            "action        shift by -15m\n"
            "state         running\n"
            "started       1970-01-01T00:00:07.000+00:00\n"
            "decided up to 1970-01-01T00:00:08.000+00:00\n"
            "matched       10\n"
            "changed       8\n"
            "left alone    2\n");
  operation.mutable_filter()->set_key_prefix("order-");
  (*operation.mutable_filter()->mutable_labels())["a"] = "1";
  operation.mutable_filter()->mutable_start_time()->set_seconds(1);
  operation.mutable_filter()->mutable_end_time()->set_seconds(2);
  operation.set_state(v1::Operation::FAILED);
  operation.mutable_error()->set_message("disk");
  std::string text = OperationText(operation, kUtc);
  EXPECT_THAT(text, HasSubstr("messages      key prefix order-, labels a=1, from "
                              "1970-01-01T00:00:01.000+00:00, to 1970-01-01T00:00:02.000+00:00\n"));
  EXPECT_THAT(text, HasSubstr("error         disk\n"));
  EXPECT_THAT(text, Not(HasSubstr("decided up to")));
  google::protobuf::RepeatedPtrField<v1::Operation> operations;
  *operations.Add() = SomeOperation();
  EXPECT_EQ(OperationTable(operations, kUtc),
            "NAME       TOPIC   ACTION         STATE    MATCHED  CHANGED  STARTED\n"
            "cleanup-7  orders  shift by -15m  running  10       8        "
            "1970-01-01T00:00:07.000+00:00\n");
}

TEST(OperationTest, ADryRunShowsASampleAndNoChanges) {
  v1::Operation operation = SomeOperation();
  operation.set_dry_run(true);
  operation.set_state(v1::Operation::DONE);
  operation.add_sample()->set_id("id1");
  const std::string text = OperationText(operation, kUtc);
  EXPECT_THAT(text, HasSubstr("a dry run: nothing is changed\n"));
  EXPECT_THAT(text, HasSubstr("matched       10\n"));
  EXPECT_THAT(text, Not(HasSubstr("left alone")));
  EXPECT_THAT(text, HasSubstr("some of them\nDELIVER TIME"));
  EXPECT_THAT(text, HasSubstr("id1"));
}

TEST(RecurrenceTest, TextAndTable) {
  v1::Recurrence recurrence;
  recurrence.set_name("standup");
  recurrence.set_topic("chat");
  recurrence.set_state(v1::Recurrence::ACTIVE);
  recurrence.mutable_schedule()->set_cron("30 9 * * MON-FRI");
  recurrence.mutable_template_()->set_payload("talk\n");
  recurrence.mutable_next_deliver_time()->set_seconds(90);
  recurrence.set_occurrences(3);
  std::string text = RecurrenceText(recurrence, kUtc);
  EXPECT_THAT(text, HasSubstr("rule          30 9 * * MON-FRI in UTC\n"));
  EXPECT_THAT(text, HasSubstr("overlap       allow\n"));
  EXPECT_THAT(text, HasSubstr("misfire       fire once\n"));
  EXPECT_THAT(text, HasSubstr("next          1970-01-01T00:01:30.000+00:00\n"));
  EXPECT_THAT(text, HasSubstr("payload       talk\\n\n"));
  EXPECT_THAT(text, Not(HasSubstr("jitter")));
  google::protobuf::RepeatedPtrField<v1::Recurrence> recurrences;
  *recurrences.Add() = recurrence;
  EXPECT_EQ(RecurrenceTable(recurrences, kUtc),
            "NAME     TOPIC  STATE   NEXT                           MADE  RULE\n"
            "standup  chat   active  1970-01-01T00:01:30.000+00:00  3     30 9 * * MON-FRI in "
            "UTC\n");
  recurrence.mutable_schedule()->mutable_interval()->set_seconds(90);
  recurrence.mutable_schedule()->mutable_jitter()->set_seconds(5);
  recurrence.set_overlap(v1::Recurrence::SKIP);
  recurrence.set_misfire(v1::Recurrence::SKIP_MISSED);
  text = RecurrenceText(recurrence, kUtc);
  EXPECT_THAT(text, HasSubstr("rule          every 1m30s\n"));
  EXPECT_THAT(text, HasSubstr("jitter        5s\n"));
  EXPECT_THAT(text, HasSubstr("overlap       skip\n"));
  EXPECT_THAT(text, HasSubstr("misfire       skip missed\n"));
}

TEST(RecurrenceTest, Preview) {
  v1::PreviewRecurrenceResponse response;
  EXPECT_EQ(PreviewText(response, kUtc), "it does not come any more\n");
  auto* occurrence = response.add_occurrences();
  occurrence->set_number(4);
  occurrence->mutable_time()->set_seconds(90);
  occurrence->mutable_civil_time()->set_local("1970-01-01T01:01:30");
  occurrence->mutable_civil_time()->set_time_zone("Europe/Berlin");
  EXPECT_EQ(PreviewText(response, kUtc),
            "NUMBER  TIME                           LOCAL TIME\n"
            "4       1970-01-01T00:01:30.000+00:00  1970-01-01T01:01:30 Europe/Berlin\n");
}

TEST(TopicTest, TextAndTable) {
  v1::Topic topic;
  topic.set_name("orders");
  EXPECT_EQ(TopicText(topic),
            "topic         orders\n"
            "max pending   no limit\n"
            "max payload   the server's limit\n"
            "default ttl   none\n"
            "remembers     as long as the server's fate_retention\n"
            "rate          as fast as it can be\n"
            "per minute    no limit\n"
            "dead letters  orders.dlq\n");
  topic.mutable_settings()->set_max_pending(9);
  topic.mutable_settings()->set_max_payload_bytes(2048);
  topic.mutable_settings()->mutable_default_ttl()->set_seconds(60);
  topic.mutable_settings()->mutable_fate_retention()->set_seconds(0);
  topic.mutable_counts()->set_pending(7);
  topic.mutable_counts()->set_pending_bytes(1024);
  const std::string text = TopicText(topic);
  EXPECT_THAT(text, HasSubstr("remembers     0s\n"));
  EXPECT_THAT(text, HasSubstr("pending       7 (1.0 KiB)\n"));
  google::protobuf::RepeatedPtrField<v1::Topic> topics;
  *topics.Add() = topic;
  topics.Add()->set_name("t");
  EXPECT_EQ(TopicTable(topics),
            "NAME    STATE   RATE  MAX PENDING  MAX PAYLOAD  DEFAULT TTL  REMEMBERS\n"
            "orders  active  -     9            2.0 KiB      1m           0s\n"
            "t       active  -     -            -            -            -\n");
}

TEST(TopicTest, Pace) {
  v1::Topic topic;
  topic.set_name("orders");
  v1::TopicSettings* settings = topic.mutable_settings();
  settings->set_paused(true);
  settings->mutable_rate()->set_messages_per_second(500);
  settings->mutable_minute_limit()->set_messages(9);
  settings->set_dead_letter_topic("failures");
  std::string text = TopicText(topic);
  EXPECT_THAT(text, HasSubstr("paused        yes: messages are accepted and wait\n"));
  EXPECT_THAT(text, HasSubstr("rate          500 messages per second\n"));
  EXPECT_THAT(text, HasSubstr("per minute    9 messages; more are accepted with a warning\n"));
  EXPECT_THAT(text, HasSubstr("dead letters  failures\n"));
  settings->mutable_rate()->set_burst(50);
  settings->mutable_minute_limit()->set_policy(v1::MinuteLimit::REFUSE);
  text = TopicText(topic);
  EXPECT_THAT(text, HasSubstr("per second, 50 at once\n"));
  EXPECT_THAT(text, HasSubstr("more are refused\n"));
  settings->mutable_minute_limit()->set_policy(v1::MinuteLimit::SPREAD);
  settings->mutable_minute_limit()->mutable_spread_max()->set_seconds(3'600);
  EXPECT_THAT(TopicText(topic), HasSubstr("more are delivered up to 1h later\n"));
  google::protobuf::RepeatedPtrField<v1::Topic> topics;
  *topics.Add() = topic;
  EXPECT_THAT(TopicTable(topics), HasSubstr("\norders  paused  500/s  "));
}

}  // namespace
}  // namespace duetime::cli
