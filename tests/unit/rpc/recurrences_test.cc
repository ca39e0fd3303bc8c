// SPDX-License-Identifier: Apache-2.0
//
// Recurrences, and their counts in topics, through a socket. refused_topics_test has the topics
// that a refused recurrence does not create.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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
  v1::Recurrence Create(const v1::CreateRecurrenceRequest& request) {
    return Must(&Messages::CreateRecurrence, request).recurrence();
  }
  // A preview's occurrences: number and time in seconds.
  using Numbered = std::vector<std::pair<int64_t, int64_t>>;
  Numbered Preview(const v1::PreviewRecurrenceRequest& request) {
    Numbered numbered;
    const auto preview = Must(&Messages::PreviewRecurrence, request);
    for (const auto& one : preview.occurrences()) {
      numbered.emplace_back(one.number(), one.time().seconds());
    }
    return numbered;
  }
  int64_t NowSeconds() { return static_cast<int64_t>(clock_.Read().wall_ms / 1'000); }
};

TEST_F(RecurrencesTest, ATopicsSettingsHoldForTemplates) {
  Start();
  Must(&Admin::CreateTopic,
       "topic { name: 'a' settings { max_payload_bytes: 4 default_ttl { seconds: 60 } } }");
  ExpectRefused(Call(&Messages::CreateRecurrence, NewRecurrence("r", "a", "12345")),
                grpc::StatusCode::INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE", {{"limit", "4"}});
  const v1::Recurrence made = Create(NewRecurrence("r", "a", "1234"));
  EXPECT_EQ(made.template_().ttl().seconds(), 60);
  const auto got = Must(&Messages::Get, "message_id: '" + made.next_message_id() + "'");
  EXPECT_EQ(got.message().ttl().seconds(), 60);

  const auto update = [](const std::string& name, const std::string& message) {
    return absl::StrCat("recurrence { name: '", name, "' template { ", message,
                        " } } update_mask { paths: 'template' }");
  };
  EXPECT_EQ(Reason(&Messages::UpdateRecurrence, update("r", "payload: '54321'")),
            "PAYLOAD_TOO_LARGE");
  const std::pair<const char*, int64_t> templates[] = {{"payload: '4321'", 60},
                                                       {"payload: '4321' ttl { seconds: 7 }", 7}};
  for (const auto& [message, ttl_s] : templates) {
    const auto after = Must(&Messages::UpdateRecurrence, update("r", message)).recurrence();
    EXPECT_EQ(after.template_().payload(), "4321");
    EXPECT_EQ(after.template_().ttl().seconds(), ttl_s);
  }
  EXPECT_EQ(Reason(&Messages::UpdateRecurrence, update("missing", "")), "RECURRENCE_NOT_FOUND");
}

TEST_F(RecurrencesTest, ACompletedRecurrenceEndsWithItsTopic) {
  Start();
  v1::CreateRecurrenceRequest once = NewRecurrence("once", "a", "p");
  once.mutable_recurrence()->mutable_schedule()->set_max_count(1);
  const std::string next = Create(once).next_message_id();
  EXPECT_EQ(Reason(&Admin::DeleteTopic, "name: 'a'"), "TOPIC_NOT_EMPTY");
  Must(&Messages::Cancel, "message_id: '" + next + "'");
  EXPECT_EQ(Must(&Messages::GetRecurrence, "name: 'once'").recurrence().state(),
            v1::Recurrence::STATE_COMPLETED);
  Must(&Admin::DeleteTopic, "name: 'a'");
  EXPECT_EQ(Reason(&Messages::GetRecurrence, "name: 'once'"), "RECURRENCE_NOT_FOUND");
}

TEST_F(RecurrencesTest, ARepeatIsTheSameThoughTheTopicHasChanged) {
  Start();
  const std::string topic = "topic { name: 'a' settings { default_ttl { seconds: ";
  Must(&Admin::CreateTopic, topic + "60 } } }");
  v1::CreateRecurrenceRequest create = NewRecurrence("r", "a", "p");
  // Later, so that the first occurrence stays the next one.
  create.mutable_recurrence()->mutable_schedule()->mutable_start_time()->set_seconds(
      absl::ToUnixSeconds(absl::Now() + absl::Hours(1)));
  const v1::Recurrence first = Create(create);
  Must(&Admin::UpdateTopic, topic + "30 } } } update_mask { paths: 'settings' }");
  const v1::Recurrence second = Create(create);
  EXPECT_EQ(second.next_message_id(), first.next_message_id());
  EXPECT_EQ(second.template_().ttl().seconds(), 60);
  EXPECT_EQ(Reason(&Messages::CreateRecurrence, NewRecurrence("r", "a", "other")),
            "CONTENT_MISMATCH");
}

TEST_F(RecurrencesTest, ACheckNeedsRoomForATopicAndLeavesNoneBehind) {
  node_options_.catalog.topics_max = 1;
  Start();
  v1::CreateRecurrenceRequest create = NewRecurrence("r", "a", "p");
  create.set_validate_only(true);
  EXPECT_EQ(Create(create).topic(), "a");
  v1::ScheduleRequest check = NewMessage("b", "four", 10);
  check.set_validate_only(true);
  const auto checked = Must(&Messages::Schedule, check);
  EXPECT_EQ(checked.message().topic(), "b");
  EXPECT_EQ(checked.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_TRUE(TopicNames().empty());
  // Nor does a check revive a deleted topic, which has lost its settings and takes no room.
  Must(&Admin::CreateTopic, "topic { name: 'b' settings { max_payload_bytes: 3 } }");
  Must(&Admin::DeleteTopic, "name: 'b'");
  Must(&Messages::Schedule, check);
  EXPECT_TRUE(TopicNames().empty());
  create.set_validate_only(false);
  Create(create);
  EXPECT_EQ(Reason(&Messages::Schedule, check), "TOPIC_LIMIT");
  EXPECT_EQ(Reason(&Messages::CreateRecurrence, NewRecurrence("s", "b", "p")), "TOPIC_LIMIT");
  EXPECT_EQ(TopicNames(), std::vector<std::string>{"a"});
}

TEST_F(RecurrencesTest, AnEarlierRecurrenceOfTheNameHasOtherEtags) {
  Start();
  const std::string first = Create(NewRecurrence("r", "a", "one")).etag();
  Must(&Messages::DeleteRecurrence, "name: 'r'");
  const std::string second = Create(NewRecurrence("r", "a", "two")).etag();
  const std::string update = "recurrence { name: 'r' } update_mask { paths: 'template' } etag: '";
  ExpectRefused(Call(&Messages::UpdateRecurrence, update + first + "'"), grpc::StatusCode::ABORTED,
                "ETAG_MISMATCH", {{"etag", second}});
  Must(&Messages::UpdateRecurrence, update + second + "'");
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
    std::vector<int64_t> numbers;
    for (const auto& [number, time] : Preview(request)) numbers.push_back(number);
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
    Numbered expected = Preview(preview);
    ASSERT_EQ(expected.size(), 3u);
    if (one.first != 0) {
      EXPECT_EQ(expected[0].second, one.first);
    }
    const v1::Recurrence made = Create(create);
    EXPECT_EQ(made.occurrences(), 1);
    EXPECT_EQ(made.next_deliver_time().seconds(), expected[0].second);
    preview.set_name(name);
    Numbered pending;
    const bool due = expected[0].second <= NowSeconds();
    do {
      pending = Preview(preview);
    } while (due && pending.size() == 3);  // the first occurrence is still pending
    if (due) expected.erase(expected.begin());
    EXPECT_EQ(pending, expected);
    for (const int64_t after : {now - 99 * kHour, expected[0].second, expected[1].second}) {
      preview.mutable_after_time()->set_seconds(after);
      pending = Preview(preview);
      while (!expected.empty() && expected[0].second <= after) expected.erase(expected.begin());
      EXPECT_EQ(pending, expected) << after;
    }
  }
}

TEST_F(RecurrencesTest, AnIntervalWithoutAStartBeginsAtOnce) {
  Start();
  const v1::Recurrence made = Create(NewRecurrence("r", "a", "p"));
  const google::protobuf::Timestamp& start = made.schedule().start_time();
  EXPECT_EQ(made.next_deliver_time().seconds(), start.seconds());
  EXPECT_EQ(made.next_deliver_time().nanos(), start.nanos());
  v1::PreviewRecurrenceRequest preview;
  preview.mutable_schedule()->mutable_interval()->set_seconds(3'600);
  const int64_t before = NowSeconds();
  const Numbered numbered = Preview(preview);
  ASSERT_EQ(numbered.size(), 10u);
  EXPECT_EQ(numbered[0].first, 1);
  EXPECT_GE(numbered[0].second, before);
  EXPECT_LE(numbered[0].second, NowSeconds());
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
    Create(NewRecurrence(names.back(), i % 2 == 0 ? "a" : "b", payload));
  }
  for (const std::string topic : {"", "a"}) {
    SCOPED_TRACE(topic);
    v1::ListRecurrencesRequest request;
    request.set_topic(topic);
    std::vector<std::string> listed;
    int pages = 0;
    do {
      const auto response = Must(&Messages::ListRecurrences, request);
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
