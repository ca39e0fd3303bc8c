// SPDX-License-Identifier: Apache-2.0
//
// Topics as resources, through a socket.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "server/api/serving_context.h"
#include "server/protocol/commands.h"
#include "storage/message_record.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class TopicsTest : public ServerTest {
 protected:
  grpc::Status Create(const std::string& name, int64_t max_payload_bytes) {
    v1::CreateTopicRequest request;
    request.mutable_topic()->set_name(name);
    request.mutable_topic()->mutable_settings()->set_max_payload_bytes(max_payload_bytes);
    v1::CreateTopicResponse response;
    return admin_->CreateTopic(NewContext().get(), request, &response);
  }
  grpc::Status Get(const std::string& name, v1::Topic* topic) {
    v1::GetTopicRequest request;
    request.set_name(name);
    v1::GetTopicResponse response;
    const grpc::Status status = admin_->GetTopic(NewContext().get(), request, &response);
    *topic = response.topic();
    return status;
  }
  grpc::Status Delete(const std::string& name) {
    v1::DeleteTopicRequest request;
    request.set_name(name);
    v1::DeleteTopicResponse response;
    return admin_->DeleteTopic(NewContext().get(), request, &response);
  }
  std::vector<std::string> ListAll(const std::string& prefix, int page_size) {
    v1::ListTopicsRequest request;
    request.set_name_prefix(prefix);
    request.set_page_size(page_size);
    std::vector<std::string> names;
    v1::ListTopicsResponse response;
    do {
      EXPECT_TRUE(admin_->ListTopics(NewContext().get(), request, &response).ok());
      for (const auto& topic : response.topics()) names.push_back(topic.name());
      request.set_page_token(response.next_page_token());
    } while (!response.next_page_token().empty());
    return names;
  }
  grpc::Status SetMaxPending(const std::string& name, int64_t max_pending) {
    v1::UpdateTopicRequest request;
    request.mutable_topic()->set_name(name);
    request.mutable_topic()->mutable_settings()->set_max_pending(max_pending);
    request.mutable_update_mask()->add_paths("settings.max_pending");
    v1::UpdateTopicResponse response;
    return admin_->UpdateTopic(NewContext().get(), request, &response);
  }
  // Posts a message past the API and checks that it revives the topic. REQUIRES: the topic is
  // deleted, and there is no other.
  void ExpectLateMessageBringsBack(const std::string& name) {
    EXPECT_TRUE(ListAll("", 10).empty());
    storage::MessageRecord record;
    record.header.topic = storage::TopicId{1};
    record.header.deliver_ms = clock_.Read().wall_ms + 100'000;
    protocol::ScheduleCommand command;
    command.tag = api::kNoReply;
    command.messages.push_back(protocol::MakeNewMessage(record, /*slot=*/0));
    ASSERT_TRUE(node_->Post(0, std::move(command)).ok());
    // The shard answers this call after the posted message.
    MustSchedule(NewMessage("z", "p", 100));
    EXPECT_EQ(ListAll("", 10), (std::vector<std::string>{name, "z"}));
    v1::Topic topic;
    ASSERT_TRUE(Get(name, &topic).ok());
    EXPECT_EQ(topic.counts().pending(), 1);
    EXPECT_EQ(topic.settings().max_payload_bytes(), 0);
  }
  // Stops the server and listens again with a new store over the same disk.
  template <typename Store>
  Store* ListenAgain(const api::ServerOptions& options) {
    StopAll();
    node_.reset();
    server_.reset();
    auto store = std::make_unique<Store>(disk_.get());
    Store* const opened = store.get();
    store_ = std::move(store);
    api::ServerOptions fresh = options;
    fresh.listen = {"unix:" + directory_.Join("again")};
    Listen(fresh);
    return opened;
  }
  void Restart(const api::ServerOptions& options) {
    ListenAgain<storage::MemoryStore>(options);
    Serve();
  }
};

TEST_F(TopicsTest, AreMadeReadChangedAndListed) {
  shards_ = 2;
  Start();
  ASSERT_TRUE(Create("b", 3).ok());
  ASSERT_TRUE(Create("b", 3).ok());  // an equal request
  const grpc::Status other = Create("b", 4);
  EXPECT_EQ(other.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(other), "TOPIC_EXISTS");
  EXPECT_EQ(MetadataOf(other).at("topic"), "b");
  MustSchedule(NewMessage("a", "by use", 100));
  MustSchedule(NewMessage("a", "by use", 0));
  ASSERT_TRUE(Create("c/1", 0).ok());
  ASSERT_TRUE(Create("c/2", 0).ok());
  EXPECT_EQ(ListAll("", 2), (std::vector<std::string>{"a", "b", "c/1", "c/2"}));
  EXPECT_EQ(ListAll("c/", 1), (std::vector<std::string>{"c/1", "c/2"}));
  EXPECT_TRUE(ListAll("d", 1).empty());

  v1::Topic topic;
  ASSERT_TRUE(Get("a", &topic).ok());
  EXPECT_EQ(topic.counts().pending(), 2);
  EXPECT_GT(topic.counts().pending_bytes(), 12);
  EXPECT_EQ(topic.counts().due(), 1);
  ASSERT_TRUE(Get("b", &topic).ok());
  EXPECT_EQ(topic.settings().max_payload_bytes(), 3);
  EXPECT_EQ(topic.counts().pending(), 0);

  v1::ScheduleResponse response;
  const grpc::Status large = Schedule(NewMessage("b", "four", 10), &response);
  EXPECT_EQ(ReasonOf(large), "PAYLOAD_TOO_LARGE");
  EXPECT_EQ(MetadataOf(large).at("limit"), "3");

  v1::UpdateTopicRequest update;
  update.mutable_topic()->set_name("b");
  update.mutable_topic()->mutable_settings()->mutable_default_ttl()->set_seconds(60);
  update.mutable_update_mask()->add_paths("settings.max_payload_bytes");
  update.mutable_update_mask()->add_paths("settings.default_ttl");
  v1::UpdateTopicResponse updated;
  ASSERT_TRUE(admin_->UpdateTopic(NewContext().get(), update, &updated).ok());
  EXPECT_EQ(updated.topic().settings().max_payload_bytes(), 0);
  ASSERT_TRUE(Schedule(NewMessage("b", "four", 10), &response).ok());
  EXPECT_EQ(response.message().ttl().seconds(), 60);
}

TEST_F(TopicsTest, RefusesWhatIsNotThere) {
  Start();
  v1::Topic topic;
  const grpc::Status missing = Get("a", &topic);
  EXPECT_EQ(missing.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(missing), "TOPIC_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Delete("a")), "TOPIC_NOT_FOUND");
  v1::UpdateTopicRequest update;
  update.mutable_topic()->set_name("a");
  v1::UpdateTopicResponse updated;
  EXPECT_EQ(ReasonOf(admin_->UpdateTopic(NewContext().get(), update, &updated)), "TOPIC_NOT_FOUND");
}

TEST_F(TopicsTest, ADeletedTopicIsGoneUntilItIsUsed) {
  Start();
  ASSERT_TRUE(Create("a", 3).ok());
  const std::string id = MustSchedule(NewMessage("a", "p", 100));
  const grpc::Status full = Delete("a");
  EXPECT_EQ(full.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonOf(full), "TOPIC_NOT_EMPTY");
  EXPECT_EQ(MetadataOf(full).at("messages"), "1");
  v1::CancelRequest cancel;
  cancel.set_message_id(id);
  v1::CancelResponse cancelled;
  ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
  ASSERT_TRUE(Delete("a").ok());
  v1::Topic topic;
  EXPECT_EQ(ReasonOf(Get("a", &topic)), "TOPIC_NOT_FOUND");
  EXPECT_TRUE(ListAll("", 10).empty());
  Restart(DefaultOptions());
  EXPECT_TRUE(ListAll("", 10).empty());
  MustSchedule(NewMessage("a", "longer than three", 100));
  ASSERT_TRUE(Get("a", &topic).ok());
  EXPECT_EQ(topic.settings().max_payload_bytes(), 0);
  Restart(DefaultOptions());
  ASSERT_TRUE(Get("a", &topic).ok());
  EXPECT_EQ(topic.counts().pending(), 1);
}

// A clock was ahead by more than any retention while a new topic took a number over, and is set
// right. Requests and keys of the old topic mean nothing for the new one.
TEST_F(TopicsTest, ANewTopicDoesNotAnswerForTheOneThatHadItsNumber) {
  Start();
  for (const bool restarts : {false, true}) {
    const std::string old_topic = absl::StrCat("old-", restarts);
    const std::string new_topic = absl::StrCat("new-", restarts);
    const auto request = [](const std::string& topic, bool keyed) {
      v1::ScheduleRequest made = NewMessage(topic, "p", 100);
      if (keyed) {
        made.set_key("k");
        made.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_ONCE);
      } else {
        made.set_request_id("r");
      }
      return made;
    };
    std::vector<std::string> old_ids;
    for (const bool keyed : {false, true}) {
      old_ids.push_back(MustSchedule(request(old_topic, keyed)));
      v1::CancelRequest cancel;
      cancel.set_message_id(old_ids.back());
      v1::CancelResponse cancelled;
      ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
    }
    ASSERT_TRUE(Delete(old_topic).ok());
    clock_.Pass(30 * 3'600'000);
    MustSchedule(NewMessage(new_topic, "p", 100));
    clock_.SetBack(30 * 3'600'000);
    if (restarts) Restart(DefaultOptions());
    for (const bool keyed : {false, true}) {
      v1::ScheduleResponse response;
      ASSERT_TRUE(
          messages_->Schedule(NewContext().get(), request(new_topic, keyed), &response).ok());
      EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
      EXPECT_EQ(std::count(old_ids.begin(), old_ids.end(), response.message().id()), 0);
    }
    for (const std::string& id : old_ids) {
      v1::GetRequest get;
      get.set_message_id(id);
      v1::GetResponse got;
      EXPECT_EQ(ReasonOf(messages_->Get(NewContext().get(), get, &got)), "MESSAGE_NOT_FOUND");
    }
  }
}

// The shard has decided a message, which is not on disk yet, when the deletion of its topic begins.
TEST_F(TopicsTest, ATopicWithAMessageOnItsWayIsNotEmpty) {
  GatedStore* const gate = UseGatedStore();
  Start();
  ASSERT_TRUE(Create("a", 3).ok());
  gate->HoldAppends(storage::RecordType::kAccept);
  std::thread client([this] { MustSchedule(NewMessage("a", "p", 100)); });
  gate->AwaitAppend();
  const grpc::Status status = Delete("a");
  EXPECT_EQ(ReasonOf(status), "TOPIC_NOT_EMPTY");
  EXPECT_EQ(MetadataOf(status).at("messages"), "1");
  gate->HoldAppends(std::nullopt);
  client.join();
  v1::Topic topic;
  ASSERT_TRUE(Get("a", &topic).ok());
  EXPECT_EQ(topic.settings().max_payload_bytes(), 3);
}

// A message arrives while the deletion of its empty topic is being written.
TEST_F(TopicsTest, AMessageMakesTheDeletionOfItsTopicVoid) {
  // Keeps the shard from writing low watermarks of its own.
  node_options_.limits.scheduler.low_watermark_period_ms = 3'600'000;
  GatedStore* const gate = UseGatedStore();
  Start();
  ASSERT_TRUE(Create("a", 3).ok());
  gate->HoldAppends(storage::RecordType::kObject);
  std::thread deleter([this] {
    const grpc::Status status = Delete("a");
    EXPECT_EQ(ReasonOf(status), "TOPIC_NOT_EMPTY");
    EXPECT_EQ(MetadataOf(status)["messages"], "1");
  });
  gate->AwaitAppend();
  std::thread client([this] { MustSchedule(NewMessage("a", "p", 100)); });
  // Waits until the shard has decided the message. Its batch waits behind that of the deletion.
  while (node_->shard_stats()[0].uncommitted_batches < 1) std::this_thread::yield();
  gate->HoldAppends(std::nullopt);
  deleter.join();
  client.join();
  v1::Topic topic;
  ASSERT_TRUE(Get("a", &topic).ok());
  EXPECT_EQ(topic.counts().pending(), 1);
  EXPECT_EQ(topic.settings().max_payload_bytes(), 3);
  Restart(DefaultOptions());
  ASSERT_TRUE(Get("a", &topic).ok());
  EXPECT_EQ(topic.settings().max_payload_bytes(), 3);
}

// The catalog creates one topic of the batch while a client deletes another one, which exists.
TEST_F(TopicsTest, ABatchIsAcceptedWhileOneOfItsTopicsIsDeleted) {
  Start();
  for (int round = 0; round < 100; ++round) {
    const std::string there = absl::StrCat("there-", round);
    ASSERT_TRUE(Create(there, 3).ok());
    std::thread deleter([this, &there] {
      const grpc::Status status = Delete(there);
      EXPECT_TRUE(status.ok() || ReasonOf(status) == "TOPIC_NOT_EMPTY" ||
                  ReasonOf(status) == "TOPIC_USED")
          << status.error_message();
    });
    v1::ScheduleBatchRequest batch;
    *batch.add_messages() = NewMessage(there, "p", 100);
    *batch.add_messages() = NewMessage(absl::StrCat("new-", round), "p", 100);
    v1::ScheduleBatchResponse response;
    EXPECT_TRUE(messages_->ScheduleBatch(NewContext().get(), batch, &response).ok());
    deleter.join();
    ASSERT_EQ(response.results_size(), 2);
    for (const v1::ScheduleResult& result : response.results()) {
      EXPECT_TRUE(result.has_message()) << result.error().message();
    }
    v1::Topic topic;
    ASSERT_TRUE(Get(there, &topic).ok());
    EXPECT_EQ(topic.counts().pending(), 1);
  }
}

// The message's call found the topic before the deletion, and the message reaches its shard after
// it.
TEST_F(TopicsTest, ALateMessageBringsItsTopicBack) {
  Start();
  ASSERT_TRUE(Create("a", 3).ok());
  ASSERT_TRUE(Delete("a").ok());
  ExpectLateMessageBringsBack("a");
}

TEST_F(TopicsTest, ALateMessageBringsItsTopicBackAfterARestart) {
  Start();
  ASSERT_TRUE(Create("a", 3).ok());
  ASSERT_TRUE(Delete("a").ok());
  Restart(DefaultOptions());
  ExpectLateMessageBringsBack("a");
}

TEST_F(TopicsTest, SettingsSurviveARestart) {
  Start();
  ASSERT_TRUE(Create("used", 3).ok());
  MustSchedule(NewMessage("used", "p", 100));
  ASSERT_TRUE(Create("unused", 5).ok());
  Restart(DefaultOptions());
  v1::Topic topic;
  ASSERT_TRUE(Get("used", &topic).ok());
  EXPECT_EQ(topic.settings().max_payload_bytes(), 3);
  EXPECT_EQ(topic.counts().pending(), 1);
  ASSERT_TRUE(Get("unused", &topic).ok());
  EXPECT_EQ(topic.settings().max_payload_bytes(), 5);
}

TEST_F(TopicsTest, MayHaveToBeMadeOnPurpose) {
  node_options_.catalog.auto_create = false;
  Start();
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(NewMessage("a", "p", 10), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status), "TOPIC_NOT_FOUND");
  EXPECT_EQ(MetadataOf(status).at("topic"), "a");
  ASSERT_TRUE(Create("a", 0).ok());
  EXPECT_TRUE(Schedule(NewMessage("a", "p", 10), &response).ok());
}

TEST_F(TopicsTest, ATopicMayBeFull) {
  shards_ = 2;
  Start();
  MustSchedule(NewMessage("a", "p", 100));
  ASSERT_TRUE(SetMaxPending("a", 2).ok());
  MustSchedule(NewMessage("a", "p", 100));
  v1::ScheduleResponse response;
  const auto refused = [&] {
    const grpc::Status status = Schedule(NewMessage("a", "p", 100), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(status), "TOPIC_FULL");
    EXPECT_EQ(MetadataOf(status).at("topic"), "a");
    EXPECT_EQ(MetadataOf(status).at("limit"), "2");
  };
  refused();
  Restart(DefaultOptions());
  refused();
  ASSERT_TRUE(SetMaxPending("a", 0).ok());
  MustSchedule(NewMessage("a", "p", 100));
}

// Otherwise a shard could accept a message for which the new limit has no room.
TEST_F(TopicsTest, AChangeIsAnsweredWhenEveryShardKnowsIt) {
  shards_ = 2;
  GatedStore* const gate = UseGatedStore();
  Start();
  MustSchedule(NewMessage("a", "p", 100));
  gate->HoldCounts(1);
  bool held_at_answer = true;
  std::thread client([&] {
    EXPECT_TRUE(SetMaxPending("a", 2).ok());
    held_at_answer = gate->counts_held();
  });
  gate->AwaitCounts();
  // Answering other calls shows that the worker does not block on the change.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  }
  gate->ReleaseCounts();
  client.join();
  EXPECT_FALSE(held_at_answer);
}

TEST_F(TopicsTest, ServesWhenEveryShardKnowsTheSettings) {
  shards_ = 2;
  Start();
  MustSchedule(NewMessage("a", "p", 100));
  ASSERT_TRUE(SetMaxPending("a", 1).ok());
  auto* const gate = ListenAgain<GatedStore>(DefaultOptions());
  gate->HoldCounts(1);
  std::thread starter([this] { Serve(); });
  gate->AwaitCounts();
  v1::ScheduleResponse response;
  EXPECT_EQ(ReasonOf(Schedule(NewMessage("a", "p", 100), &response)), "STARTING");
  gate->ReleaseCounts();
  starter.join();
  EXPECT_EQ(ReasonOf(Schedule(NewMessage("a", "p", 100), &response)), "TOPIC_FULL");
}

TEST_F(TopicsTest, AMinuteMayBeFull) {
  Start();
  v1::UpdateTopicRequest update;
  update.mutable_topic()->set_name("a");
  update.mutable_update_mask()->add_paths("settings.minute_limit");
  v1::UpdateTopicResponse updated;
  v1::MinuteLimit* const limit = update.mutable_topic()->mutable_settings()->mutable_minute_limit();
  const auto set = [&](int64_t messages, v1::MinuteLimit::Policy policy) {
    limit->set_messages(messages);
    limit->set_policy(policy);
    ASSERT_TRUE(admin_->UpdateTopic(NewContext().get(), update, &updated).ok());
    EXPECT_EQ(updated.topic().settings().minute_limit().messages(), messages);
    EXPECT_EQ(updated.topic().settings().minute_limit().policy(), policy);
  };
  // A minute in the future.
  const int64_t minute_s = static_cast<int64_t>(clock_.Read().wall_ms / 60'000 + 10) * 60;
  v1::ScheduleResponse response;
  const auto schedule = [&](int64_t second) {
    v1::ScheduleRequest request;
    request.set_topic("a");
    request.mutable_civil_time()->set_time_zone("UTC");
    request.mutable_civil_time()->set_local(absl::FormatTime(
        "%Y-%m-%dT%H:%M:%S", absl::FromUnixSeconds(minute_s + second), absl::UTCTimeZone()));
    return Schedule(request, &response);
  };
  ASSERT_TRUE(schedule(0).ok());
  set(1, v1::MinuteLimit::POLICY_WARN);
  ASSERT_TRUE(schedule(59).ok());
  EXPECT_TRUE(response.minute_limit_exceeded());
  ASSERT_TRUE(schedule(60).ok());
  EXPECT_FALSE(response.minute_limit_exceeded());
  EXPECT_EQ(response.message().civil_time().time_zone(), "UTC");

  set(1, v1::MinuteLimit::POLICY_REFUSE);
  const auto refused = [&] {
    const grpc::Status status = schedule(61);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ReasonOf(status), "MINUTE_FULL");
    EXPECT_EQ(MetadataOf(status).at("topic"), "a");
    EXPECT_EQ(MetadataOf(status).at("limit"), "1");
    EXPECT_TRUE(HasRetryInfo(status));
    EXPECT_EQ(MetadataOf(status).at("minute"),
              absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(minute_s + 60),
                               absl::UTCTimeZone()));
  };
  refused();
  Restart(DefaultOptions());
  refused();

  // The topic's spread moves the message, so it loses its civil time.
  limit->mutable_spread_max()->set_seconds(119);
  set(1, v1::MinuteLimit::POLICY_SPREAD);
  EXPECT_EQ(updated.topic().settings().minute_limit().spread_max().seconds(), 119);
  ASSERT_TRUE(schedule(61).ok());
  EXPECT_EQ(response.message().deliver_time().seconds(), minute_s + 121);
  EXPECT_FALSE(response.message().has_civil_time());
  EXPECT_EQ(ReasonOf(schedule(61)), "MINUTE_FULL");  // spread_max allows a move by one minute
  update.mutable_topic()->mutable_settings()->clear_minute_limit();
  ASSERT_TRUE(admin_->UpdateTopic(NewContext().get(), update, &updated).ok());
  EXPECT_FALSE(updated.topic().settings().has_minute_limit());
  EXPECT_TRUE(schedule(61).ok());
}

// The messages of a batch get the whole limit, although each shard has only a share of it.
TEST_F(TopicsTest, ABatchFillsAMinute) {
  shards_ = 3;
  Start();
  for (const std::string topic : {"refuses", "refuses-too", "spreads"}) {
    v1::CreateTopicRequest create;
    create.mutable_topic()->set_name(topic);
    v1::MinuteLimit* const limit =
        create.mutable_topic()->mutable_settings()->mutable_minute_limit();
    limit->set_messages(30);
    limit->set_policy(v1::MinuteLimit::POLICY_REFUSE);
    if (topic == "spreads") {
      limit->set_policy(v1::MinuteLimit::POLICY_SPREAD);
      limit->mutable_spread_max()->set_seconds(600);
    }
    v1::CreateTopicResponse created;
    ASSERT_TRUE(admin_->CreateTopic(NewContext().get(), create, &created).ok());
  }
  const int64_t minute_s = static_cast<int64_t>(clock_.Read().wall_ms / 60'000 + 10) * 60;
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 60; ++i) {
    for (const std::string topic : {"refuses", "refuses-too", "spreads"}) {
      v1::ScheduleRequest* const request = batch.add_messages();
      request->set_topic(topic);
      request->mutable_deliver_time()->set_seconds(minute_s + 1);
      if (topic == "spreads") request->mutable_expire_time()->set_seconds(minute_s + 100);
    }
  }
  v1::ScheduleBatchResponse response;
  ASSERT_TRUE(messages_->ScheduleBatch(NewContext().get(), batch, &response).ok());
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
    v1::GetRequest get;
    get.set_message_id(result.message().id());
    v1::GetResponse got;
    ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
    EXPECT_EQ(got.message().expire_time().seconds(), minute_s + 100);
  }
  const std::map<std::pair<std::string, int64_t>, int> expected = {
      {{"refuses", 1}, 30}, {{"refuses-too", 1}, 30}, {{"spreads", 1}, 30}, {{"spreads", 61}, 30}};
  EXPECT_EQ(accepted, expected);
}

TEST_F(TopicsTest, ATopicMayForgetWhatEnded) {
  Start();
  v1::CreateTopicRequest request;
  request.mutable_topic()->set_name("a");
  request.mutable_topic()->mutable_settings()->mutable_tombstone_retention();  // 0
  v1::CreateTopicResponse created;
  ASSERT_TRUE(admin_->CreateTopic(NewContext().get(), request, &created).ok());
  v1::CancelRequest cancel;
  cancel.set_message_id(MustSchedule(NewMessage("a", "p", 100)));
  v1::CancelResponse cancelled;
  ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
}

}  // namespace
}  // namespace duetime::rpc
