// SPDX-License-Identifier: Apache-2.0
//
// Topics as resources, through a socket. catalog_test has their changes and deletions.
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

using grpc::StatusCode;
using Names = std::vector<std::string>;

class TopicsTest : public ServerTest {
 protected:
  v1::Topic Get(const std::string& name) {
    return Must(&Admin::GetTopic, "name: '" + name + "'").topic();
  }
  Names ListAll(const std::string& prefix, int page_size) {
    Names names;
    std::string token;
    do {
      const auto page = Must(&Admin::ListTopics,
                             absl::StrCat("name_prefix: '", prefix, "' page_size: ", page_size,
                                          " page_token: '", token, "'"));
      for (const auto& topic : page.topics()) names.push_back(topic.name());
      token = page.next_page_token();
    } while (!token.empty());
    return names;
  }
};

TEST_F(TopicsTest, AreMadeReadChangedListedAndDeleted) {
  shards_ = 2;
  Start();
  for (int i = 0; i < 2; ++i) {  // the second request is equal
    Must(&Admin::CreateTopic, "topic { name: 'b' settings { max_payload_bytes: 3 } }");
  }
  MustSchedule(NewMessage("a", "by use", 100));
  MustSchedule(NewMessage("a", "by use", 0));
  Must(&Admin::CreateTopic, "topic { name: 'c/1' }");
  Must(&Admin::CreateTopic, "topic { name: 'c/2' }");
  EXPECT_EQ(ListAll("", 2), (Names{"a", "b", "c/1", "c/2"}));
  EXPECT_EQ(ListAll("c/", 1), (Names{"c/1", "c/2"}));
  EXPECT_TRUE(ListAll("d", 1).empty());

  const v1::TopicCounts counts = Get("a").counts();
  EXPECT_EQ(counts.pending(), 2);
  EXPECT_GT(counts.pending_bytes(), 12);
  EXPECT_EQ(counts.due(), 1);
  EXPECT_EQ(Get("b").settings().max_payload_bytes(), 3);
  EXPECT_EQ(Get("b").counts().pending(), 0);
  ExpectRefused(Call(&Messages::Schedule, NewMessage("b", "four", 10)),
                StatusCode::INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE", {{"limit", "3"}});

  const v1::Topic updated =
      Must(&Admin::UpdateTopic,
           "topic { name: 'b' settings { max_pending: -1 default_ttl { seconds: 60 } } }"
           "update_mask { paths: ['settings.max_payload_bytes', 'settings.default_ttl'] }")
          .topic();
  EXPECT_EQ(updated.settings().max_payload_bytes(), 0);
  const auto accepted = Must(&Messages::Schedule, NewMessage("b", "four", 10));
  EXPECT_EQ(accepted.message().ttl().seconds(), 60);
  EXPECT_TRUE(Must(&Admin::PauseTopic, "name: 'b'").topic().settings().paused());
  EXPECT_FALSE(Must(&Admin::ResumeTopic, "name: 'b'").topic().settings().paused());
  Must(&Admin::DeleteTopic, "name: 'c/1'");
  EXPECT_EQ(ListAll("c/", 1), Names{"c/2"});
  EXPECT_EQ(Reason(&Admin::GetTopic, "name: 'c/1'"), "TOPIC_NOT_FOUND");
}

TEST_F(TopicsTest, ARefusalNamesTheTopicAndTheLimit) {
  shards_ = 2;
  node_options_.catalog.auto_create = false;
  Start();
  Must(&Admin::CreateTopic, "topic { name: 'one' settings { max_pending: 1 } }");
  MustSchedule(NewMessage("one", "p", 100));
  const Metadata none = {{"topic", "none"}};
  for (const grpc::Status& status :
       {Call(&Admin::GetTopic, "name: 'none'"),
        Call(&Admin::UpdateTopic, "topic { name: 'none' } update_mask { paths: 'settings' }"),
        Call(&Admin::PauseTopic, "name: 'none'"), Call(&Admin::DeleteTopic, "name: 'none'"),
        Call(&Messages::Schedule, NewMessage("none", "p", 10))}) {
    ExpectRefused(status, StatusCode::NOT_FOUND, "TOPIC_NOT_FOUND", none);
  }
  ExpectRefused(Call(&Admin::CreateTopic, "topic { name: 'one' }"), StatusCode::ALREADY_EXISTS,
                "TOPIC_EXISTS", {{"topic", "one"}});
  ExpectRefused(Call(&Admin::DeleteTopic, "name: 'one'"), StatusCode::FAILED_PRECONDITION,
                "TOPIC_NOT_EMPTY", {{"topic", "one"}, {"messages", "1"}});
  ExpectRefused(Call(&Messages::Schedule, NewMessage("one", "p", 10)),
                StatusCode::RESOURCE_EXHAUSTED, "TOPIC_FULL", {{"topic", "one"}, {"limit", "1"}});
}

// The catalog creates one topic of the batch while a client deletes another one, which exists.
TEST_F(TopicsTest, ABatchIsAcceptedWhileOneOfItsTopicsIsDeleted) {
  Start();
  for (int round = 0; round < 100; ++round) {
    const std::string there = absl::StrCat("there-", round);
    Must(&Admin::CreateTopic, absl::StrCat("topic { name: '", there, "' }"));
    std::thread deleter([this, &there] {
      const std::string reason = Reason(&Admin::DeleteTopic, "name: '" + there + "'");
      EXPECT_TRUE(reason == "OK" || reason == "TOPIC_NOT_EMPTY" || reason == "TOPIC_USED")
          << reason;
    });
    v1::ScheduleBatchRequest batch;
    *batch.add_messages() = NewMessage(there, "p", 100);
    *batch.add_messages() = NewMessage(absl::StrCat("new-", round), "p", 100);
    const auto response = Must(&Messages::ScheduleBatch, batch);
    deleter.join();
    ASSERT_EQ(response.results_size(), 2);
    for (const v1::ScheduleResult& result : response.results()) {
      EXPECT_TRUE(result.has_message()) << result.error().message();
    }
    EXPECT_EQ(Get(there).counts().pending(), 1);
  }
}

TEST_F(TopicsTest, ServesWhenEveryShardKnowsTheSettings) {
  shards_ = 2;
  Start();
  Must(&Admin::CreateTopic, "topic { name: 'a' settings { max_pending: 1 } }");
  MustSchedule(NewMessage("a", "p", 100));
  GatedStore* const gate = ListenAgain<GatedStore>();
  gate->HoldCounts(1);
  std::thread starter([this] { Serve(); });
  gate->AwaitCounts();
  EXPECT_EQ(Reason(&Messages::Schedule, NewMessage("a", "p", 100)), "STARTING");
  gate->ReleaseCounts();
  starter.join();
  EXPECT_EQ(Reason(&Messages::Schedule, NewMessage("a", "p", 100)), "TOPIC_FULL");
}

// A clock was ahead by more than any retention while a new topic took a number over, and is set
// right. Requests and keys of the old topic mean nothing for the new one.
TEST_F(TopicsTest, ANewTopicDoesNotAnswerForTheOneThatHadItsNumber) {
  Start();
  for (const bool restarts : {false, true}) {
    const std::string old_topic = absl::StrCat("old-", restarts);
    const std::string new_topic = absl::StrCat("new-", restarts);
    const auto schedule = [this](const std::string& topic, const std::string& with) {
      return Must(&Messages::Schedule,
                  absl::StrCat("topic: '", topic, "' delay { seconds: 100 } ", with));
    };
    const Names repeats = {"request_id: 'r'", "key: 'k' on_conflict: ON_CONFLICT_ONCE"};
    Names old_ids;
    for (const std::string& with : repeats) {
      old_ids.push_back(schedule(old_topic, with).message().id());
      Must(&Messages::Cancel, "message_id: '" + old_ids.back() + "'");
    }
    Must(&Admin::DeleteTopic, "name: '" + old_topic + "'");
    clock_.Pass(30 * 3'600'000);
    schedule(new_topic, "");
    clock_.SetBack(30 * 3'600'000);
    if (restarts) {
      ListenAgain<test::TestStore>();
      Serve();
    }
    for (const std::string& with : repeats) {
      const auto response = schedule(new_topic, with);
      EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_CREATED) << with;
      EXPECT_EQ(absl::c_count(old_ids, response.message().id()), 0);
    }
    for (const std::string& id : old_ids) {
      EXPECT_EQ(Reason(&Messages::Get, "message_id: '" + id + "'"), "MESSAGE_NOT_FOUND");
    }
  }
}

// buckets.txt has what the policies do.
TEST_F(TopicsTest, AMinuteMayBeFull) {
  Start();
  const auto set = [this](const std::string& policy) {
    Must(&Admin::UpdateTopic,
         absl::StrCat("topic { name: 'a' settings { minute_limit { messages: 1 policy: ", policy,
                      " } } } update_mask { paths: 'settings.minute_limit' }"));
  };
  // A minute in the future.
  const int64_t minute_s = static_cast<int64_t>(clock_.Read().wall_ms / 60'000 + 10) * 60;
  const auto message = [&](int64_t second) {
    return absl::StrCat("topic: 'a' deliver_time { seconds: ", minute_s + second, " }");
  };
  Must(&Messages::Schedule, message(0));
  set("POLICY_WARN");
  EXPECT_TRUE(Must(&Messages::Schedule, message(59)).minute_limit_exceeded());
  EXPECT_FALSE(Must(&Messages::Schedule, message(60)).minute_limit_exceeded());
  set("POLICY_REFUSE");
  const grpc::Status refused = Call(&Messages::Schedule, message(61));
  ExpectRefused(
      refused, StatusCode::RESOURCE_EXHAUSTED, "MINUTE_FULL",
      {{"topic", "a"},
       {"limit", "1"},
       {"minute", absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(minute_s + 60),
                                   absl::UTCTimeZone())}});
  EXPECT_TRUE(HasRetryInfo(refused));
}

// The messages of a batch get the whole limit, although each shard has only a share of it.
TEST_F(TopicsTest, ABatchFillsAMinute) {
  shards_ = 3;
  Start();
  const std::pair<std::string, std::string> topics[] = {
      {"refuses", "POLICY_REFUSE"},
      {"refuses-too", "POLICY_REFUSE"},
      {"spreads", "POLICY_SPREAD spread_max { seconds: 600 }"}};
  for (const auto& [topic, policy] : topics) {
    Must(&Admin::CreateTopic,
         absl::StrCat("topic { name: '", topic,
                      "' settings { minute_limit { messages: 30 policy: ", policy, " } } }"));
  }
  const int64_t minute_s = static_cast<int64_t>(clock_.Read().wall_ms / 60'000 + 10) * 60;
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 60; ++i) {
    for (const auto& [topic, policy] : topics) {
      v1::ScheduleRequest* const request = batch.add_messages();
      request->set_topic(topic);
      request->mutable_deliver_time()->set_seconds(minute_s + 1);
      if (topic == "spreads") request->mutable_expire_time()->set_seconds(minute_s + 100);
    }
  }
  const auto response = Must(&Messages::ScheduleBatch, batch);
  std::map<std::pair<std::string, int64_t>, int> accepted;
  for (int i = 0; i < response.results_size(); ++i) {
    const v1::ScheduleResult& result = response.results(i);
    if (result.has_error()) {
      EXPECT_EQ(ReasonOf(result.error()), "MINUTE_FULL");
      continue;
    }
    const int64_t second = result.message().deliver_time().seconds() - minute_s;
    ++accepted[{batch.messages(i).topic(), second}];
    if (batch.messages(i).topic() != "spreads") continue;
    // The move to another minute leaves the expire_time where it is.
    EXPECT_EQ(result.message().expire_time().seconds(), minute_s + 100);
    EXPECT_EQ(result.message().ttl().seconds(), 100 - second);
    const auto got = Must(&Messages::Get, "message_id: '" + result.message().id() + "'");
    EXPECT_EQ(got.message().expire_time().seconds(), minute_s + 100);
  }
  const std::map<std::pair<std::string, int64_t>, int> expected = {
      {{"refuses", 1}, 30}, {{"refuses-too", 1}, 30}, {{"spreads", 1}, 30}, {{"spreads", 61}, 30}};
  EXPECT_EQ(accepted, expected);
}

TEST_F(TopicsTest, ATopicMayForgetWhatEnded) {
  Start();
  Must(&Admin::CreateTopic, "topic { name: 'a' settings { tombstone_retention { } } }");
  const std::string cancel = "message_id: '" + MustSchedule(NewMessage("a", "p", 100)) + "'";
  EXPECT_EQ(Must(&Messages::Cancel, cancel).outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(Must(&Messages::Cancel, cancel).outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
}

}  // namespace
}  // namespace duetime::rpc
