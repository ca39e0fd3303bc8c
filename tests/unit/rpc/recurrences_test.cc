// SPDX-License-Identifier: Apache-2.0
//
// Recurrences, and their counts in topics, through a socket.
#include <string>
#include <vector>

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class RecurrencesTest : public ServerTest {
 protected:
  static v1::CreateRecurrenceRequest NewRecurrence(const std::string& name,
                                                   const std::string& topic,
                                                   const std::string& payload) {
    v1::CreateRecurrenceRequest request;
    request.mutable_recurrence()->set_name(name);
    request.mutable_recurrence()->set_topic(topic);
    request.mutable_recurrence()->mutable_template_()->set_payload(payload);
    request.mutable_recurrence()->mutable_schedule()->mutable_interval()->set_seconds(3'600);
    return request;
  }
  grpc::Status Create(const v1::CreateRecurrenceRequest& request, v1::Recurrence* recurrence) {
    v1::CreateRecurrenceResponse response;
    const grpc::Status status = messages_->CreateRecurrence(NewContext().get(), request, &response);
    *recurrence = response.recurrence();
    return status;
  }
  grpc::Status Update(const v1::UpdateRecurrenceRequest& request, v1::Recurrence* recurrence) {
    v1::UpdateRecurrenceResponse response;
    const grpc::Status status = messages_->UpdateRecurrence(NewContext().get(), request, &response);
    *recurrence = response.recurrence();
    return status;
  }
  void SetTopic(const std::string& name, int64_t max_payload_bytes, int64_t ttl_seconds) {
    v1::CreateTopicRequest create;
    create.mutable_topic()->set_name(name);
    v1::TopicSettings* settings = create.mutable_topic()->mutable_settings();
    settings->set_max_payload_bytes(max_payload_bytes);
    settings->mutable_default_ttl()->set_seconds(ttl_seconds);
    v1::CreateTopicResponse created;
    if (admin_->CreateTopic(NewContext().get(), create, &created).ok()) return;
    v1::UpdateTopicRequest update;
    *update.mutable_topic() = create.topic();
    update.mutable_update_mask()->add_paths("settings.max_payload_bytes");
    update.mutable_update_mask()->add_paths("settings.default_ttl");
    v1::UpdateTopicResponse updated;
    ASSERT_TRUE(admin_->UpdateTopic(NewContext().get(), update, &updated).ok());
  }
  std::vector<std::string> Topics() {
    v1::ListTopicsResponse response;
    EXPECT_TRUE(admin_->ListTopics(NewContext().get(), {}, &response).ok());
    std::vector<std::string> names;
    for (const auto& topic : response.topics()) names.push_back(topic.name());
    return names;
  }
};

TEST_F(RecurrencesTest, ATopicsSettingsHoldForTemplates) {
  Start();
  SetTopic("a", 4, 60);
  v1::Recurrence made;
  const grpc::Status large = Create(NewRecurrence("r", "a", "12345"), &made);
  EXPECT_EQ(ReasonOf(large), "PAYLOAD_TOO_LARGE");
  EXPECT_EQ(MetadataOf(large).at("limit"), "4");
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "1234"), &made).ok());
  EXPECT_EQ(made.template_().ttl().seconds(), 60);
  v1::GetRequest get;
  get.set_message_id(made.next_message_id());
  v1::GetResponse got;
  ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
  EXPECT_EQ(got.message().ttl().seconds(), 60);

  v1::UpdateRecurrenceRequest update;
  update.mutable_recurrence()->set_name("r");
  update.mutable_recurrence()->mutable_template_()->set_payload("54321");
  update.mutable_update_mask()->add_paths("template");
  EXPECT_EQ(ReasonOf(Update(update, &made)), "PAYLOAD_TOO_LARGE");
  update.mutable_recurrence()->mutable_template_()->set_payload("4321");
  ASSERT_TRUE(Update(update, &made).ok());
  EXPECT_EQ(made.template_().payload(), "4321");
  EXPECT_EQ(made.template_().ttl().seconds(), 60);
  update.mutable_recurrence()->mutable_template_()->mutable_ttl()->set_seconds(7);
  ASSERT_TRUE(Update(update, &made).ok());
  EXPECT_EQ(made.template_().ttl().seconds(), 7);
  update.mutable_recurrence()->set_name("missing");
  EXPECT_EQ(ReasonOf(Update(update, &made)), "RECURRENCE_NOT_FOUND");
}

TEST_F(RecurrencesTest, ARepeatIsTheSameThoughTheTopicHasChanged) {
  Start();
  SetTopic("a", 0, 60);
  v1::Recurrence first;
  v1::Recurrence second;
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "p"), &first).ok());
  SetTopic("a", 0, 30);
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "p"), &second).ok());
  EXPECT_EQ(second.next_message_id(), first.next_message_id());
  EXPECT_EQ(second.template_().ttl().seconds(), 60);
  EXPECT_EQ(ReasonOf(Create(NewRecurrence("r", "a", "other"), &second)), "CONTENT_MISMATCH");
}

TEST_F(RecurrencesTest, ACheckLeavesNoTopicBehind) {
  Start();
  v1::CreateRecurrenceRequest create = NewRecurrence("r", "a", "p");
  create.set_validate_only(true);
  v1::Recurrence checked;
  ASSERT_TRUE(Create(create, &checked).ok());
  EXPECT_EQ(checked.topic(), "a");
  v1::ScheduleRequest schedule = NewMessage("b", "p", 10);
  schedule.set_validate_only(true);
  v1::ScheduleResponse response;
  ASSERT_TRUE(Schedule(schedule, &response).ok());
  EXPECT_EQ(response.message().topic(), "b");
  EXPECT_EQ(response.outcome(), v1::CREATED);
  schedule.set_key("k");
  schedule.set_only_if_exists(true);
  schedule.set_on_conflict(v1::ScheduleRequest::REPLACE);
  const grpc::Status missing = Schedule(schedule, &response);
  EXPECT_EQ(ReasonOf(missing), "MESSAGE_NOT_FOUND");
  EXPECT_EQ(MetadataOf(missing).at("topic"), "b");
  EXPECT_TRUE(Topics().empty());
  // Nor does validate_only revive a deleted topic.
  SetTopic("b", 3, 0);
  v1::DeleteTopicRequest remove;
  remove.set_name("b");
  v1::DeleteTopicResponse removed;
  ASSERT_TRUE(admin_->DeleteTopic(NewContext().get(), remove, &removed).ok());
  schedule = NewMessage("b", "four", 10);
  schedule.set_validate_only(true);
  ASSERT_TRUE(Schedule(schedule, &response).ok());
  EXPECT_TRUE(Topics().empty());
  MustSchedule(NewMessage("b", "four", 10));
  EXPECT_EQ(Topics(), (std::vector<std::string>{"b"}));
}

TEST_F(RecurrencesTest, ADeletedTopicNeedsNoRoomInAFullCatalog) {
  node_options_.catalog.topics_max = 1;
  Start();
  SetTopic("a", 0, 60);
  v1::DeleteTopicRequest remove;
  remove.set_name("a");
  v1::DeleteTopicResponse removed;
  ASSERT_TRUE(admin_->DeleteTopic(NewContext().get(), remove, &removed).ok());
  v1::ScheduleRequest check = NewMessage("a", "p", 10);
  check.set_validate_only(true);
  v1::ScheduleResponse response;
  EXPECT_TRUE(Schedule(check, &response).ok());
  v1::Recurrence made;
  EXPECT_EQ(ReasonOf(Create(NewRecurrence("r", "b", "p"), &made)), "TOPIC_LIMIT");
  const grpc::Status status = Create(NewRecurrence("r", "a", "p"), &made);
  EXPECT_TRUE(status.ok()) << ReasonOf(status);
  EXPECT_EQ(Topics(), (std::vector<std::string>{"a"}));
}

TEST_F(RecurrencesTest, ARefusedRequestLeavesNoTopicBehind) {
  node_options_.limits.recurrences_max = 1;
  Start();
  v1::Recurrence made;
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "p"), &made).ok());
  EXPECT_EQ(ReasonOf(Create(NewRecurrence("r", "b", "p"), &made)), "CONTENT_MISMATCH");
  EXPECT_EQ(ReasonOf(Create(NewRecurrence("s", "b", "p"), &made)), "RECURRENCE_LIMIT");
  v1::CreateRecurrenceRequest past = NewRecurrence("s", "b", "p");
  past.mutable_recurrence()->mutable_schedule()->mutable_start_time()->set_seconds(1);
  past.mutable_recurrence()->mutable_schedule()->mutable_end_time()->set_seconds(7'200);
  EXPECT_FALSE(Create(past, &made).ok());
  v1::ScheduleRequest schedule = NewMessage("b", "p", 10);
  schedule.set_key("k");
  schedule.set_only_if_exists(true);
  schedule.set_on_conflict(v1::ScheduleRequest::REPLACE);
  v1::ScheduleResponse response;
  EXPECT_EQ(ReasonOf(Schedule(schedule, &response)), "MESSAGE_NOT_FOUND");
  EXPECT_EQ(Topics(), (std::vector<std::string>{"a"}));
}

TEST_F(RecurrencesTest, ARefusedRequestLeavesNoDeadLetterTopicBehind) {
  node_options_.catalog.topics_max = 2;
  Start();
  v1::Recurrence made;
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "p"), &made).ok());
  const std::string old_etag = made.etag();
  v1::UpdateRecurrenceRequest update;
  update.mutable_recurrence()->set_name("r");
  v1::MessageTemplate* const message = update.mutable_recurrence()->mutable_template_();
  message->set_payload("new");
  update.mutable_update_mask()->add_paths("template");
  ASSERT_TRUE(Update(update, &made).ok());
  struct Case {
    std::string name;
    std::string topic;
    std::string reason;
  };
  for (const Case& one : {Case{"s", std::string(255, 'x'), "NO_DEAD_LETTER_TOPIC"},
                          Case{"s", "b", "TOPIC_LIMIT"}, Case{"r", "a", "CONTENT_MISMATCH"}}) {
    v1::CreateRecurrenceRequest request = NewRecurrence(one.name, one.topic, "p");
    request.mutable_recurrence()->mutable_template_()->mutable_ttl()->set_seconds(60);
    request.mutable_recurrence()->mutable_template_()->set_late_policy(v1::Message::DEAD_LETTER);
    EXPECT_EQ(ReasonOf(Create(request, &made)), one.reason);
    EXPECT_EQ(Topics(), (std::vector<std::string>{"a"})) << one.reason;
  }
  message->mutable_ttl()->set_seconds(60);
  message->set_late_policy(v1::Message::DEAD_LETTER);
  update.set_etag(old_etag);
  EXPECT_EQ(ReasonOf(Update(update, &made)), "ETAG_MISMATCH");
  EXPECT_EQ(Topics(), (std::vector<std::string>{"a"}));
  update.clear_etag();
  EXPECT_TRUE(Update(update, &made).ok());
  EXPECT_EQ(Topics(), (std::vector<std::string>{"a", "a.dlq"}));
}

TEST_F(RecurrencesTest, APreviewNumbersOccurrencesAndEndsWithTheLastOne) {
  Start();
  struct Case {
    const char* cron;  // null: hourly
    int64_t max_count;
    int64_t after_hours;
    std::vector<int64_t> numbers;
  };
  for (const Case& one :
       {Case{nullptr, 20'000, 19'997, {19'999, 20'000}}, Case{nullptr, 20'000, 30'000, {}},
        Case{nullptr, 0, 30'000, {30'002, 30'003, 30'004}}, Case{"0 * * * *", 5'000, 30'000, {}},
        Case{"0 * * * *", 5'000, 4'997, {4'999, 5'000}}, Case{"0 * * * *", 0, 30'000, {0, 0, 0}}}) {
    v1::PreviewRecurrenceRequest request;
    v1::RecurrenceSchedule* const schedule = request.mutable_schedule();
    if (one.cron != nullptr) {
      schedule->set_cron(one.cron);
    } else {
      schedule->mutable_interval()->set_seconds(3'600);
    }
    schedule->set_max_count(one.max_count);
    schedule->mutable_start_time()->set_seconds(0);
    request.mutable_after_time()->set_seconds(one.after_hours * 3'600);
    request.set_count(3);
    v1::PreviewRecurrenceResponse response;
    const grpc::Status status =
        messages_->PreviewRecurrence(NewContext().get(), request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    std::vector<int64_t> numbers;
    for (const auto& occurrence : response.occurrences()) numbers.push_back(occurrence.number());
    EXPECT_EQ(numbers, one.numbers) << one.after_hours << " " << one.max_count;
  }
}

// Large templates make short pages. Together the pages list every recurrence, in the order of
// names.
TEST_F(RecurrencesTest, ListsAPageOfBoundedBytes) {
  shards_ = 2;
  Start();
  constexpr int kCount = 40;
  const std::string payload(512 << 10, 'p');
  std::vector<std::string> names;
  for (int i = 0; i < kCount; ++i) {
    names.push_back("r" + std::to_string(100 + i));
    v1::Recurrence made;
    ASSERT_TRUE(Create(NewRecurrence(names.back(), i % 2 == 0 ? "a" : "b", payload), &made).ok());
  }
  for (const std::string topic : {"", "a"}) {
    SCOPED_TRACE(topic);
    v1::ListRecurrencesRequest request;
    request.set_topic(topic);
    std::vector<std::string> listed;
    int pages = 0;
    do {
      v1::ListRecurrencesResponse response;
      ASSERT_TRUE(messages_->ListRecurrences(NewContext().get(), request, &response).ok());
      for (const auto& recurrence : response.recurrences()) listed.push_back(recurrence.name());
      request.set_page_token(response.next_page_token());
      ++pages;
    } while (!request.page_token().empty());
    std::vector<std::string> expected;
    const size_t step = topic.empty() ? 1 : 2;
    for (size_t i = 0; i < names.size(); i += step) expected.push_back(names[i]);
    EXPECT_EQ(listed, expected);
    EXPECT_EQ(pages, 2);
  }
}

}  // namespace
}  // namespace duetime::rpc
