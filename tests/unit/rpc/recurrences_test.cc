// SPDX-License-Identifier: Apache-2.0
//
// Recurrences, and their counts in topics, through a socket.
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

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
  // A preview's occurrences: number and time in seconds.
  using Numbered = std::vector<std::pair<int64_t, int64_t>>;
  grpc::Status Preview(const v1::PreviewRecurrenceRequest& request, Numbered* numbered) {
    v1::PreviewRecurrenceResponse response;
    const grpc::Status status =
        messages_->PreviewRecurrence(NewContext().get(), request, &response);
    numbered->clear();
    for (const auto& one : response.occurrences()) {
      numbered->emplace_back(one.number(), one.time().seconds());
    }
    return status;
  }
  int64_t NowSeconds() { return static_cast<int64_t>(clock_.Read().wall_ms / 1'000); }
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

TEST_F(RecurrencesTest, ACompletedRecurrenceEndsWithItsTopic) {
  Start();
  v1::CreateRecurrenceRequest once = NewRecurrence("once", "a", "p");
  once.mutable_recurrence()->mutable_schedule()->set_max_count(1);
  v1::Recurrence made;
  ASSERT_TRUE(Create(once, &made).ok());
  v1::DeleteTopicRequest remove;
  remove.set_name("a");
  v1::DeleteTopicResponse removed;
  EXPECT_EQ(ReasonOf(admin_->DeleteTopic(NewContext().get(), remove, &removed)), "TOPIC_NOT_EMPTY");
  v1::CancelRequest cancel;
  cancel.set_message_id(made.next_message_id());
  v1::CancelResponse cancelled;
  ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
  v1::GetRecurrenceRequest get;
  get.set_name("once");
  v1::GetRecurrenceResponse got;
  ASSERT_TRUE(messages_->GetRecurrence(NewContext().get(), get, &got).ok());
  EXPECT_EQ(got.recurrence().state(), v1::Recurrence::STATE_COMPLETED);
  const grpc::Status deleted = admin_->DeleteTopic(NewContext().get(), remove, &removed);
  ASSERT_TRUE(deleted.ok()) << deleted.error_message();
  EXPECT_EQ(ReasonOf(messages_->GetRecurrence(NewContext().get(), get, &got)),
            "RECURRENCE_NOT_FOUND");
}

TEST_F(RecurrencesTest, ARepeatIsTheSameThoughTheTopicHasChanged) {
  Start();
  SetTopic("a", 0, 60);
  v1::Recurrence first;
  v1::Recurrence second;
  v1::CreateRecurrenceRequest create = NewRecurrence("r", "a", "p");
  // Later, so that the first occurrence stays the next one.
  create.mutable_recurrence()->mutable_schedule()->mutable_start_time()->set_seconds(
      absl::ToUnixSeconds(absl::Now() + absl::Hours(1)));
  ASSERT_TRUE(Create(create, &first).ok());
  SetTopic("a", 0, 30);
  ASSERT_TRUE(Create(create, &second).ok());
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
  EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  schedule.set_key("k");
  schedule.set_only_if_exists(true);
  schedule.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
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

TEST_F(RecurrencesTest, ADeletedTopicTakesNoRoomAndNeedsItLikeANewOne) {
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
  const grpc::Status status = Create(NewRecurrence("r", "b", "p"), &made);
  EXPECT_TRUE(status.ok()) << ReasonOf(status);
  EXPECT_EQ(ReasonOf(Schedule(check, &response)), "TOPIC_LIMIT");
  EXPECT_EQ(ReasonOf(Create(NewRecurrence("s", "a", "p"), &made)), "TOPIC_LIMIT");
  EXPECT_EQ(Topics(), (std::vector<std::string>{"b"}));
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
  schedule.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
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
    request.mutable_recurrence()->mutable_template_()->set_late_policy(
        v1::Message::LATE_POLICY_DEAD_LETTER);
    EXPECT_EQ(ReasonOf(Create(request, &made)), one.reason);
    EXPECT_EQ(Topics(), (std::vector<std::string>{"a"})) << one.reason;
  }
  message->mutable_ttl()->set_seconds(60);
  message->set_late_policy(v1::Message::LATE_POLICY_DEAD_LETTER);
  update.set_etag(old_etag);
  EXPECT_EQ(ReasonOf(Update(update, &made)), "ETAG_MISMATCH");
  EXPECT_EQ(Topics(), (std::vector<std::string>{"a"}));
  update.clear_etag();
  EXPECT_TRUE(Update(update, &made).ok());
  EXPECT_EQ(Topics(), (std::vector<std::string>{"a", "a.dlq"}));
}

TEST_F(RecurrencesTest, AnEarlierRecurrenceOfTheNameHasOtherEtags) {
  Start();
  v1::Recurrence first;
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "one"), &first).ok());
  v1::DeleteRecurrenceRequest erase;
  erase.set_name("r");
  v1::DeleteRecurrenceResponse erased;
  ASSERT_TRUE(messages_->DeleteRecurrence(NewContext().get(), erase, &erased).ok());
  v1::Recurrence second;
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "two"), &second).ok());
  v1::UpdateRecurrenceRequest update;
  update.mutable_recurrence()->set_name("r");
  update.mutable_recurrence()->mutable_template_()->set_payload("new");
  update.mutable_update_mask()->add_paths("template");
  update.set_etag(first.etag());
  const grpc::Status stale = Update(update, &first);
  EXPECT_EQ(ReasonOf(stale), "ETAG_MISMATCH");
  EXPECT_EQ(MetadataOf(stale).at("etag"), second.etag());
  update.set_etag(second.etag());
  EXPECT_TRUE(Update(update, &first).ok());
}

TEST_F(RecurrencesTest, APreviewNumbersOccurrencesAndEndsWithTheLastOne) {
  Start();
  // A full hour that is ahead.
  const int64_t start = (NowSeconds() / 3'600 + 2) * 3'600;
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
    schedule->mutable_start_time()->set_seconds(start);
    request.mutable_after_time()->set_seconds(start + one.after_hours * 3'600);
    request.set_count(3);
    Numbered numbered;
    const grpc::Status status = Preview(request, &numbered);
    ASSERT_TRUE(status.ok()) << status.error_message();
    std::vector<int64_t> numbers;
    for (const auto& [number, time] : numbered) numbers.push_back(number);
    EXPECT_EQ(numbers, one.numbers) << one.after_hours << " " << one.max_count;
  }
}

// What a preview shows of a schedule is what a recurrence with this schedule makes.
TEST_F(RecurrencesTest, APreviewCountsAsTheRecurrenceDoes) {
  Start();
  constexpr int64_t kHour = 3'600;
  const int64_t now = NowSeconds();
  struct Case {
    const char* cron;  // null: hourly
    int64_t start;
    // 0: unknown.
    int64_t first;
  };
  // A start counts until the second occurrence is due, too. Earlier ones do not count.
  for (const Case& one : {Case{nullptr, now, now}, Case{nullptr, now - kHour / 2, now - kHour / 2},
                          Case{nullptr, now - 5 * kHour / 2, now + kHour / 2},
                          Case{nullptr, now + kHour / 2, now + kHour / 2},
                          Case{"0 * * * *", now - 50 * kHour, 0}, Case{"0 * * * *", now, 0}}) {
    const std::string name = "r" + std::to_string(one.start) + (one.cron == nullptr ? "" : "c");
    SCOPED_TRACE(name);
    v1::CreateRecurrenceRequest create = NewRecurrence(name, "a", "p");
    v1::RecurrenceSchedule* const schedule = create.mutable_recurrence()->mutable_schedule();
    if (one.cron != nullptr) schedule->set_cron(one.cron);
    schedule->mutable_start_time()->set_seconds(one.start);
    schedule->set_max_count(3);
    v1::PreviewRecurrenceRequest preview;
    *preview.mutable_schedule() = *schedule;
    Numbered expected;
    ASSERT_TRUE(Preview(preview, &expected).ok());
    ASSERT_EQ(expected.size(), 3u);
    if (one.first != 0) {
      EXPECT_EQ(expected[0].second, one.first);
    }
    v1::Recurrence made;
    ASSERT_TRUE(Create(create, &made).ok());
    EXPECT_EQ(made.occurrences(), 1);
    EXPECT_EQ(made.next_deliver_time().seconds(), expected[0].second);
    preview.set_name(name);
    Numbered pending;
    const bool due = expected[0].second <= NowSeconds();
    do {
      ASSERT_TRUE(Preview(preview, &pending).ok());
    } while (due && pending.size() == 3);  // the first occurrence is still pending
    if (due) expected.erase(expected.begin());
    EXPECT_EQ(pending, expected);
    for (const int64_t after : {now - 99 * kHour, expected[0].second, expected[1].second}) {
      preview.mutable_after_time()->set_seconds(after);
      ASSERT_TRUE(Preview(preview, &pending).ok());
      while (!expected.empty() && expected[0].second <= after) expected.erase(expected.begin());
      EXPECT_EQ(pending, expected) << after;
    }
  }
}

TEST_F(RecurrencesTest, AnIntervalWithoutAStartBeginsAtOnce) {
  Start();
  v1::Recurrence made;
  ASSERT_TRUE(Create(NewRecurrence("r", "a", "p"), &made).ok());
  const v1::RecurrenceSchedule& schedule = made.schedule();
  EXPECT_EQ(made.next_deliver_time().seconds(), schedule.start_time().seconds());
  EXPECT_EQ(made.next_deliver_time().nanos(), schedule.start_time().nanos());
  v1::PreviewRecurrenceRequest preview;
  preview.mutable_schedule()->mutable_interval()->set_seconds(3'600);
  Numbered numbered;
  const int64_t before = NowSeconds();
  ASSERT_TRUE(Preview(preview, &numbered).ok());
  ASSERT_EQ(numbered.size(), 10u);
  EXPECT_EQ(numbered[0].first, 1);
  EXPECT_GE(numbered[0].second, before);
  EXPECT_LE(numbered[0].second, NowSeconds());
}

TEST_F(RecurrencesTest, SchedulesHaveTheLimitsThatTheApiStates) {
  Start();
  const auto horizon = static_cast<int64_t>(DefaultOptions().limits.horizon_ms / 1'000);
  const auto cron = [](size_t bytes) {
    v1::RecurrenceSchedule schedule;
    schedule.set_cron(std::string(bytes - 9, ' ') + "0 0 1 1 *");
    return schedule;
  };
  const auto interval = [](int64_t seconds) {
    v1::RecurrenceSchedule schedule;
    schedule.mutable_interval()->set_seconds(seconds);
    return schedule;
  };
  const auto start = [&](int64_t seconds) {
    v1::RecurrenceSchedule schedule = interval(60);
    schedule.mutable_start_time()->set_seconds(NowSeconds() + seconds);
    return schedule;
  };
  struct Case {
    v1::RecurrenceSchedule good;
    v1::RecurrenceSchedule bad;
    std::string reason;
    std::string field;
  };
  const Case cases[] = {
      {cron(255), cron(256), "INVALID_CRON", "schedule.cron"},
      {interval(horizon), interval(horizon + 1), "INVALID_RECURRENCE", "schedule.interval"},
      {start(horizon - 60), start(horizon + 60), "INVALID_RECURRENCE", "schedule.start_time"},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.field);
    const auto expect = [&](const grpc::Status& good, const grpc::Status& bad) {
      EXPECT_TRUE(good.ok()) << good.error_message();
      EXPECT_EQ(ReasonOf(bad), one.reason);
      EXPECT_NE(bad.error_message().find(one.field), std::string::npos) << bad.error_message();
    };
    v1::Recurrence made;
    v1::CreateRecurrenceRequest create = NewRecurrence(one.field, "a", "p");
    *create.mutable_recurrence()->mutable_schedule() = one.bad;
    const grpc::Status refused = Create(create, &made);
    *create.mutable_recurrence()->mutable_schedule() = one.good;
    expect(Create(create, &made), refused);
    v1::UpdateRecurrenceRequest update;
    update.mutable_recurrence()->set_name(one.field);
    update.mutable_update_mask()->add_paths("schedule");
    *update.mutable_recurrence()->mutable_schedule() = one.bad;
    const grpc::Status unchanged = Update(update, &made);
    *update.mutable_recurrence()->mutable_schedule() = one.good;
    expect(Update(update, &made), unchanged);
    v1::PreviewRecurrenceRequest preview;
    Numbered numbered;
    *preview.mutable_schedule() = one.bad;
    const grpc::Status unseen = Preview(preview, &numbered);
    *preview.mutable_schedule() = one.good;
    expect(Preview(preview, &numbered), unseen);
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
