// SPDX-License-Identifier: Apache-2.0
//
// List and Forecast, through a socket.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class ListTest : public ServerTest {
 protected:
  std::vector<v1::Message> ListAll(v1::ListRequest request) {
    std::vector<v1::Message> messages;
    for (int pages = 0; pages < 1'000; ++pages) {
      const auto response = Must(&Messages::List, request);
      messages.insert(messages.end(), response.messages().begin(), response.messages().end());
      if (response.next_page_token().empty()) return messages;
      request.set_page_token(response.next_page_token());
    }
    ADD_FAILURE() << "does not end";
    return messages;
  }
};

TEST_F(ListTest, ListsEveryMessageOnceInOrderOfTime) {
  shards_ = 3;
  Start();
  for (int i = 0; i < 50; ++i) {
    v1::ScheduleRequest request = NewMessage("orders", "payload", 1'000 + (i * 37) % 50);
    if (i % 2 == 0) request.set_key("k" + std::to_string(i));
    if (i % 5 == 0) (*request.mutable_labels())["five"] = "yes";
    MustSchedule(request);
    MustSchedule(NewMessage("noise", "p", 1'000));
  }
  v1::ListRequest request;
  request.set_topic("orders");
  request.set_page_size(7);
  const std::vector<v1::Message> all = ListAll(request);
  ASSERT_EQ(all.size(), 50u);
  std::set<std::string> ids;
  for (size_t i = 0; i < all.size(); ++i) {
    ids.insert(all[i].id());
    EXPECT_EQ(all[i].topic(), "orders");
    EXPECT_EQ(all[i].state(), v1::Message::STATE_SCHEDULED);
    EXPECT_EQ(all[i].payload(), "");
    EXPECT_EQ(all[i].payload_bytes(), 7);
    if (i > 0) {
      EXPECT_GE(all[i].deliver_time().seconds(), all[i - 1].deliver_time().seconds());
    }
  }
  EXPECT_EQ(ids.size(), 50u);
  (*request.mutable_labels())["five"] = "yes";
  EXPECT_EQ(ListAll(request).size(), 10u);
  request.set_key_prefix("k1");
  EXPECT_EQ(ListAll(request).size(), 1u);  // k10
  request.clear_labels();
  const std::vector<v1::Message> named = ListAll(request);
  ASSERT_EQ(named.size(), 5u);
  EXPECT_EQ(named[0].key(), "k10");
  EXPECT_EQ(named[4].key(), "k18");
}

TEST_F(ListTest, TheFullViewHasPayloadsAndBoundsThePage) {
  shards_ = 2;
  Start();
  for (int i = 0; i < 12; ++i) {
    // Two of them fill a page.
    v1::ScheduleRequest request =
        NewMessage("orders", std::string(700'000, static_cast<char>('a' + i)), 1'000 + i);
    (*request.mutable_attributes())["number"] = std::to_string(i);
    request.set_key("k" + std::to_string(100 + i));
    MustSchedule(request);
  }
  for (const char* prefix : {"", "k"}) {
    v1::ListRequest request;
    request.set_topic("orders");
    request.set_key_prefix(prefix);
    request.set_view(v1::MESSAGE_VIEW_FULL);
    EXPECT_EQ(Must(&Messages::List, request).messages_size(), 2);
    const std::vector<v1::Message> all = ListAll(request);
    ASSERT_EQ(all.size(), 12u);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i].payload(), std::string(700'000, static_cast<char>('a' + i)));
      EXPECT_EQ(all[i].payload_bytes(), 700'000);
      EXPECT_EQ(all[i].attributes().at("number"), std::to_string(i));
    }
  }
}

TEST_F(ListTest, SaysHowMessagesStand) {
  Start();
  MustSchedule(NewMessage("orders", "due", 0));
  MustSchedule(NewMessage("orders", "later", 100));
  const std::string gone = MustSchedule(NewMessage("orders", "gone", 100));
  Must(&Messages::Cancel, "message_id: '" + gone + "'");
  using States = std::vector<v1::Message::State>;
  const States both = {v1::Message::STATE_DUE, v1::Message::STATE_SCHEDULED};
  const std::pair<States, States> cases[] = {
      {{}, both},
      {{v1::Message::STATE_DUE}, {v1::Message::STATE_DUE}},
      {{v1::Message::STATE_IN_FLIGHT}, {}},
      {{v1::Message::STATE_SCHEDULED}, {v1::Message::STATE_SCHEDULED}}};
  for (const auto& [asked, expected] : cases) {
    v1::ListRequest request;
    request.set_topic("orders");
    for (const v1::Message::State state : asked) request.add_states(state);
    States found;
    for (const v1::Message& message : ListAll(request)) found.push_back(message.state());
    EXPECT_EQ(found, expected) << request.ShortDebugString();
  }
}

TEST_F(ListTest, FindsMessagesThatMoved) {
  Start();
  v1::ScheduleRequest schedule = NewMessage("orders", "p", 100);
  schedule.set_key("k");
  const std::string id = MustSchedule(schedule);
  const auto moved =
      Must(&Messages::Reschedule, "message_id: '" + id + "' delay { seconds: 5000 }");
  v1::ListRequest request;
  request.set_topic("orders");
  for (const char* prefix : {"", "k"}) {
    request.set_key_prefix(prefix);
    const std::vector<v1::Message> found = ListAll(request);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].id(), id);
    EXPECT_EQ(found[0].deliver_time().seconds(), moved.message().deliver_time().seconds());
  }
}

TEST_F(ListTest, RefusesATopicThatIsNotThere) {
  Start();
  for (const grpc::Status& status :
       {Call(&Messages::List, "topic: 'nowhere'"), Call(&Admin::Forecast, "topic: 'nowhere'")}) {
    ExpectRefused(status, grpc::StatusCode::NOT_FOUND, "TOPIC_NOT_FOUND", {{"topic", "nowhere"}});
  }
}

TEST_F(ListTest, AFailedReadSaysSo) {
  Start();
  MustSchedule(NewMessage("orders", "p", 100));
  store().FailReads(absl::DataLossError("damaged"));
  EXPECT_EQ(Reason(&Messages::List, "topic: 'orders'"), "CHECKSUM_MISMATCH");
  EXPECT_EQ(Reason(&Admin::Forecast, ""), "CHECKSUM_MISMATCH");
  store().FailReads(absl::InternalError("disk"));
  EXPECT_EQ(Reason(&Messages::List, "topic: 'orders'"), "STORAGE_FAILED");
  store().FailReads(absl::OkStatus());
}

TEST_F(ListTest, ForecastsWhatIsToCome) {
  shards_ = 2;
  Start();
  const int64_t hour = 3'600;
  for (int i = 0; i < 10; ++i) MustSchedule(NewMessage("a", "p", 2 * hour));
  MustSchedule(NewMessage("b", "p", 200 * 24 * hour));
  MustSchedule(NewMessage("b", "p", 0));
  auto response = Must(&Admin::Forecast, "topic: 'a'");
  ASSERT_EQ(response.buckets_size(), 1);
  EXPECT_EQ(response.buckets(0).count().messages(), 10);
  EXPECT_GT(response.buckets(0).count().bytes(), 10);
  EXPECT_EQ(response.buckets(0).start_time().seconds() % hour, 0);
  EXPECT_EQ(response.total().messages(), 10);
  v1::ForecastRequest request;
  request.set_bucket(v1::ForecastRequest::BUCKET_DAY);
  request.mutable_start_time()->set_seconds(static_cast<int64_t>(clock_.Read().wall_ms / 1000) +
                                            24 * hour);
  response = Must(&Admin::Forecast, request);
  EXPECT_EQ(response.total().messages(), 12);
  EXPECT_EQ(response.later().messages(), 1);
  int64_t sum = response.overdue().messages() + response.later().messages();
  for (const auto& bucket : response.buckets()) sum += bucket.count().messages();
  EXPECT_EQ(sum, 12);
  EXPECT_EQ(response.end_time().seconds() - response.start_time().seconds(), 30 * 24 * hour);
}

}  // namespace
}  // namespace duetime::rpc
