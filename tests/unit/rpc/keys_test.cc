// SPDX-License-Identifier: Apache-2.0
//
// Keys, request ids, reschedule, cancel and explain, through a socket: the answers and the errors.
#include <map>
#include <string>
#include <vector>

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

using Metadata = std::map<std::string, std::string>;

class KeysTest : public ServerTest {
 protected:
  static v1::ScheduleRequest Keyed(const std::string& key, const std::string& payload,
                                   int64_t delay_seconds) {
    v1::ScheduleRequest request = NewMessage("orders", payload, delay_seconds);
    request.set_key(key);
    return request;
  }
  v1::ScheduleResponse MustAccept(const v1::ScheduleRequest& request) {
    v1::ScheduleResponse response;
    const grpc::Status status = Schedule(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::CancelResponse Cancel(const std::string& key) {
    v1::CancelRequest request;
    request.mutable_key()->set_topic("orders");
    request.mutable_key()->set_key(key);
    v1::CancelResponse response;
    const grpc::Status status = messages_->Cancel(NewContext().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Get(const std::string& key, v1::GetResponse* response) {
    v1::GetRequest request;
    request.mutable_key()->set_topic("orders");
    request.mutable_key()->set_key(key);
    request.set_view(v1::MESSAGE_VIEW_FULL);
    return messages_->Get(NewContext().get(), request, response);
  }
  // One request id for many keys and ordering keys: each request makes a message of its own, and a
  // repeat of each finds it, whatever the number of shards.
  void ReuseARequestId(uint16_t shards) {
    shards_ = shards;
    Start();
    std::vector<v1::ScheduleRequest> requests = {NewMessage("orders", "p", 100)};
    for (int i = 0; i < 24; ++i) {
      requests.push_back(Keyed("k" + std::to_string(i), "p", 100));
      requests.push_back(NewMessage("orders", "p", 100));
      requests.back().set_ordering_key("k" + std::to_string(i));
    }
    std::map<std::string, size_t> ids;
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].set_request_id("r");
      const v1::ScheduleResponse created = MustAccept(requests[i]);
      EXPECT_EQ(created.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
      EXPECT_FALSE(created.request_repeated());
      EXPECT_TRUE(ids.emplace(created.message().id(), i).second) << i;
      v1::GetRequest get;
      get.set_message_id(created.message().id());
      v1::GetResponse got;
      ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
      EXPECT_EQ(got.message().key(), requests[i].key());
      EXPECT_EQ(got.message().ordering_key(), requests[i].ordering_key());
    }
    for (const auto& [id, i] : ids) {
      const v1::ScheduleResponse repeat = MustAccept(requests[i]);
      EXPECT_EQ(repeat.message().id(), id);
      EXPECT_EQ(repeat.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
      EXPECT_TRUE(repeat.request_repeated());
      requests[i].set_payload("other");
      Metadata expected = {{"topic", "orders"}, {"request_id", "r"}, {"message_id", id}};
      if (!requests[i].key().empty()) expected["key"] = requests[i].key();
      if (!requests[i].ordering_key().empty()) {
        expected["ordering_key"] = requests[i].ordering_key();
      }
      v1::ScheduleResponse response;
      const grpc::Status status = Schedule(requests[i], &response);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
      EXPECT_EQ(ReasonOf(status), "REQUEST_ID_REUSED");
      EXPECT_EQ(MetadataOf(status), expected);
    }
  }
};

TEST_F(KeysTest, AMessageIsFoundByItsKey) {
  shards_ = 4;
  Start();
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    const v1::ScheduleResponse scheduled = MustAccept(Keyed(key, "p" + key, 100));
    EXPECT_EQ(scheduled.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
    EXPECT_EQ(scheduled.message().key(), key);
    v1::GetResponse got;
    ASSERT_TRUE(Get(key, &got).ok());
    EXPECT_EQ(got.message().id(), scheduled.message().id());
    EXPECT_EQ(got.message().payload(), "p" + key);
    EXPECT_EQ(got.message().etag(), scheduled.message().etag());
    EXPECT_EQ(Cancel(key).outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
    EXPECT_EQ(Cancel(key).outcome(), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);
    ASSERT_TRUE(Get(key, &got).ok());
    EXPECT_EQ(got.message().state(), v1::Message::STATE_CANCELLED);
    EXPECT_TRUE(got.message().has_end_time());
    EXPECT_EQ(got.message().key(), key);
  }
}

TEST_F(KeysTest, WhatIsNotThereIsNotFound) {
  Start();
  EXPECT_EQ(Cancel("k").outcome(),
            v1::CancelResponse::OUTCOME_NOT_FOUND);  // nor does its topic exist
  v1::GetResponse got;
  grpc::Status status = Get("k", &got);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status), "MESSAGE_NOT_FOUND");
  EXPECT_EQ(MetadataOf(status), (Metadata{{"topic", "orders"}, {"key", "k"}}));
  MustAccept(Keyed("other", "p", 100));
  EXPECT_EQ(Cancel("k").outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
  status = Get("k", &got);
  EXPECT_EQ(ReasonOf(status), "MESSAGE_NOT_FOUND");
  EXPECT_EQ(MetadataOf(status).at("key"), "k");
}

TEST_F(KeysTest, OtherContentIsRefused) {
  Start();
  const v1::ScheduleResponse first = MustAccept(Keyed("k", "one", 100));
  const v1::ScheduleResponse again = MustAccept(Keyed("k", "one", 100));
  EXPECT_EQ(again.outcome(), v1::SCHEDULE_OUTCOME_UNCHANGED);
  EXPECT_EQ(again.message().id(), first.message().id());
  EXPECT_EQ(again.message().deliver_time().seconds(), first.message().deliver_time().seconds());
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(Keyed("k", "two", 100), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(status), "CONTENT_MISMATCH");
  EXPECT_EQ(MetadataOf(status), (Metadata{{"topic", "orders"},
                                          {"key", "k"},
                                          {"message_id", first.message().id()},
                                          {"state", "STATE_SCHEDULED"}}));
}

// The default of the server, or the setting of the topic.
TEST_F(KeysTest, OnceIsRefusedWhereEndedMessagesAreForgotten) {
  node_options_.limits.tombstone_retention_ms = 0;
  Start();
  v1::CreateTopicRequest keeps;
  keeps.mutable_topic()->set_name("keeps");
  keeps.mutable_topic()->mutable_settings()->mutable_tombstone_retention()->set_seconds(60);
  v1::CreateTopicRequest forgets;
  forgets.mutable_topic()->set_name("forgets");
  forgets.mutable_topic()->mutable_settings()->mutable_tombstone_retention();
  for (const v1::CreateTopicRequest& create : {keeps, forgets}) {
    v1::CreateTopicResponse created;
    ASSERT_TRUE(admin_->CreateTopic(NewContext().get(), create, &created).ok());
  }
  const std::pair<std::string, std::string> cases[] = {
      {"orders", "INVALID_ON_CONFLICT"}, {"forgets", "INVALID_ON_CONFLICT"}, {"keeps", ""}};
  for (const auto& [topic, reason] : cases) {
    SCOPED_TRACE(topic);
    v1::ScheduleRequest request = Keyed("k", "one", 100);
    request.set_topic(topic);
    v1::ScheduleResponse response;
    EXPECT_TRUE(Schedule(request, &response).ok());
    request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_ONCE);
    const grpc::Status status = Schedule(request, &response);
    EXPECT_EQ(status.ok() ? "" : ReasonOf(status), reason);
  }
}

TEST_F(KeysTest, ReplacesKeepsTheTimeAndPushesBack) {
  Start();
  const v1::ScheduleResponse first = MustAccept(Keyed("k", "one", 100));
  v1::ScheduleRequest request = Keyed("k", "two", 200);
  request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
  v1::ScheduleResponse response = MustAccept(request);
  EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_REPLACED);
  EXPECT_EQ(response.message().id(), first.message().id());
  EXPECT_NE(response.message().etag(), first.message().etag());
  EXPECT_EQ(response.old_deliver_time().seconds(), first.message().deliver_time().seconds());
  const int64_t second = response.message().deliver_time().seconds();
  EXPECT_GE(second, first.message().deliver_time().seconds() + 100);
  EXPECT_FALSE(first.message().has_update_time());
  EXPECT_TRUE(response.message().has_update_time());

  request = Keyed("k", "three", 50);
  request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_KEEP_TIME);
  response = MustAccept(request);
  EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_REPLACED);
  EXPECT_EQ(response.message().deliver_time().seconds(), second);

  request = Keyed("k", "four", 50);
  request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK);
  response = MustAccept(request);
  EXPECT_EQ(response.message().deliver_time().seconds(), second);  // never pulled forward
  request.mutable_delay()->set_seconds(1'000);
  request.mutable_max_wait()->set_seconds(300);
  response = MustAccept(request);
  EXPECT_EQ(response.message().deliver_time().seconds(),
            first.message().accept_time().seconds() + 300);
  v1::GetResponse got;
  ASSERT_TRUE(Get("k", &got).ok());
  EXPECT_EQ(got.message().payload(), "four");
  EXPECT_EQ(got.message().etag(), response.message().etag());
  EXPECT_TRUE(got.message().has_update_time());
  EXPECT_EQ(got.message().update_time().seconds(), response.message().update_time().seconds());
  EXPECT_EQ(got.message().update_time().nanos(), response.message().update_time().nanos());
}

TEST_F(KeysTest, AnAnswerShowsTheLocalTimeOnlyIfTheMessageHasIt) {
  Start();
  v1::ScheduleRequest request = Keyed("k", "p", 100);
  request.mutable_civil_time()->set_local("2034-06-01T09:00");
  request.mutable_civil_time()->set_time_zone("Europe/Berlin");
  EXPECT_TRUE(MustAccept(request).message().has_civil_time());
  EXPECT_TRUE(MustAccept(request).message().has_civil_time());
  v1::RescheduleRequest move;
  move.mutable_key()->set_topic("orders");
  move.mutable_key()->set_key("k");
  move.mutable_delay()->set_seconds(500);
  v1::RescheduleResponse moved;
  ASSERT_TRUE(messages_->Reschedule(NewContext().get(), move, &moved).ok());
  const v1::ScheduleResponse unchanged = MustAccept(request);
  EXPECT_EQ(unchanged.outcome(), v1::SCHEDULE_OUTCOME_UNCHANGED);
  EXPECT_EQ(unchanged.message().deliver_time().seconds(), moved.message().deliver_time().seconds());
  EXPECT_FALSE(unchanged.message().has_civil_time());

  // max_wait keeps the message at its time, so neither the answer nor its repeat has a local time.
  request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK);
  request.mutable_max_wait()->set_seconds(300);
  request.set_request_id("r");
  request.set_payload("other");
  EXPECT_FALSE(MustAccept(request).message().has_civil_time());
  EXPECT_FALSE(MustAccept(request).message().has_civil_time());
}

TEST_F(KeysTest, OnlyIfExists) {
  Start();
  v1::ScheduleRequest request = Keyed("k", "one", 100);
  request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
  request.set_only_if_exists(true);
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status), "MESSAGE_NOT_FOUND");
  EXPECT_EQ(MetadataOf(status), (Metadata{{"topic", "orders"}, {"key", "k"}}));
  MustAccept(Keyed("k", "one", 50));
  EXPECT_EQ(MustAccept(request).outcome(), v1::SCHEDULE_OUTCOME_REPLACED);
}

TEST_F(KeysTest, ARequestIdIsAnsweredTheSameTwice) {
  shards_ = 4;
  Start();
  v1::ScheduleRequest request = NewMessage("orders", "p", 100);
  request.set_request_id("r-1");
  const v1::ScheduleResponse first = MustAccept(request);
  const v1::ScheduleResponse again = MustAccept(request);
  EXPECT_EQ(again.message().id(), first.message().id());
  EXPECT_EQ(again.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_EQ(again.message().accept_time().nanos(), first.message().accept_time().nanos());
  request.set_payload("other");
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  EXPECT_EQ(ReasonOf(status), "REQUEST_ID_REUSED");
  EXPECT_EQ(
      MetadataOf(status),
      (Metadata{{"topic", "orders"}, {"request_id", "r-1"}, {"message_id", first.message().id()}}));
}

TEST_F(KeysTest, ARequestIdCountsForOneKeyWithOneShard) { ReuseARequestId(1); }
TEST_F(KeysTest, ARequestIdCountsForOneKeyWithThreeShards) { ReuseARequestId(3); }

TEST_F(KeysTest, ValidateOnlyChangesNothing) {
  Start();
  v1::ScheduleRequest request = Keyed("k", "one", 100);
  request.set_validate_only(true);
  const v1::ScheduleResponse response = MustAccept(request);
  EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_EQ(response.message().id(), "");
  EXPECT_EQ(response.message().state(), v1::Message::STATE_SCHEDULED);
  v1::GetResponse got;
  EXPECT_EQ(ReasonOf(Get("k", &got)), "MESSAGE_NOT_FOUND");
}

TEST_F(KeysTest, EverythingThatWasAskedForIsToldAgain) {
  Start();
  v1::ScheduleRequest request = NewMessage("orders", "p");
  request.mutable_civil_time()->set_local("2034-06-01T09:00");
  request.mutable_civil_time()->set_time_zone("Europe/Berlin");
  (*request.mutable_labels())["customer"] = "7";
  request.set_ordering_key("o");
  request.mutable_ttl()->set_seconds(60);
  request.set_late_policy(v1::Message::LATE_POLICY_DROP);
  request.mutable_spread()->set_seconds(30);
  const v1::ScheduleResponse scheduled = MustAccept(request);
  v1::GetRequest get;
  get.set_message_id(scheduled.message().id());
  v1::GetResponse got;
  ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
  for (const v1::Message* message : {&scheduled.message(), &got.message()}) {
    EXPECT_EQ(message->civil_time().local(), "2034-06-01T09:00");
    EXPECT_EQ(message->civil_time().time_zone(), "Europe/Berlin");
    EXPECT_EQ(message->labels().at("customer"), "7");
    EXPECT_EQ(message->ordering_key(), "o");
    EXPECT_EQ(message->ttl().seconds(), 60);
    EXPECT_EQ(message->late_policy(), v1::Message::LATE_POLICY_DROP);
    EXPECT_EQ(message->spread().seconds(), 30);
    EXPECT_EQ(message->expire_time().seconds(), message->deliver_time().seconds() + 60);
  }
  // 07:00 UTC, and up to half a minute more.
  EXPECT_GE(scheduled.message().deliver_time().seconds(), 2'032'758'000);
  EXPECT_LE(scheduled.message().deliver_time().seconds(), 2'032'758'030);
  EXPECT_EQ(scheduled.message().deliver_time().nanos(), got.message().deliver_time().nanos());
}

TEST_F(KeysTest, DropNeedsATimeToLive) {
  Start();
  v1::ScheduleRequest request = NewMessage("orders", "p", 10);
  request.set_late_policy(v1::Message::LATE_POLICY_DROP);
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(request, &response);
  EXPECT_EQ(ReasonOf(status), "INVALID_LATE_POLICY");
  EXPECT_EQ(MetadataOf(status).at("field"), "late_policy");
}

TEST_F(KeysTest, ABatchOfKeysGoesToManyShardsAndComesBackInOrder) {
  shards_ = 4;
  Start();
  MustAccept(Keyed("k7", "other", 100));
  v1::ScheduleBatchRequest request;
  for (int i = 0; i < 100; ++i) {
    *request.add_messages() =
        i % 3 == 0 ? NewMessage("orders", "plain", 50) : Keyed("k" + std::to_string(i), "p", 50);
  }
  request.mutable_messages(50)->set_topic("not a topic");
  v1::ScheduleBatchResponse response;
  ASSERT_TRUE(messages_->ScheduleBatch(NewContext().get(), request, &response).ok());
  ASSERT_EQ(response.results_size(), 100);
  for (int i = 0; i < 100; ++i) {
    const v1::ScheduleResult& result = response.results(i);
    if (i == 7) {
      EXPECT_EQ(ReasonOf(result.error()), "CONTENT_MISMATCH");
    } else if (i == 50) {
      EXPECT_EQ(ReasonOf(result.error()), "INVALID_TOPIC");
    } else {
      EXPECT_EQ(result.message().key(), i % 3 == 0 ? "" : "k" + std::to_string(i));
      EXPECT_EQ(result.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
    }
  }

  v1::CancelBatchRequest cancels;
  for (int i = 0; i < 100; ++i) {
    cancels.add_cancels()->mutable_key()->set_topic("orders");
    cancels.mutable_cancels(i)->mutable_key()->set_key("k" + std::to_string(i));
  }
  cancels.mutable_cancels(4)->set_message_id("nonsense");
  cancels.mutable_cancels(5)->mutable_key()->set_topic("nowhere");
  v1::CancelBatchResponse cancelled;
  ASSERT_TRUE(messages_->CancelBatch(NewContext().get(), cancels, &cancelled).ok());
  ASSERT_EQ(cancelled.results_size(), 100);
  for (int i = 0; i < 100; ++i) {
    const v1::CancelResult& result = cancelled.results(i);
    if (i == 4) {
      EXPECT_EQ(ReasonOf(result.error()), "INVALID_MESSAGE_ID");
      continue;
    }
    const bool there = i % 3 != 0 && i != 50 && i != 5;
    EXPECT_EQ(result.cancel().outcome(),
              there ? v1::CancelResponse::OUTCOME_CANCELLED : v1::CancelResponse::OUTCOME_NOT_FOUND)
        << i;
    if (there && i != 7) {
      EXPECT_EQ(result.cancel().message_id(), response.results(i).message().id());
    }
  }
  cancels.Clear();
  ASSERT_TRUE(messages_->CancelBatch(NewContext().get(), cancels, &cancelled).ok());
  EXPECT_EQ(cancelled.results_size(), 0);
}

TEST_F(KeysTest, ACancelBatchHasLimits) {
  api::ServerOptions options = DefaultOptions();
  options.limits.batch_messages_max = 2;
  Start(options);
  v1::CancelBatchRequest request;
  for (int i = 0; i < 3; ++i) request.add_cancels()->set_message_id("x");
  v1::CancelBatchResponse response;
  const grpc::Status status = messages_->CancelBatch(NewContext().get(), request, &response);
  EXPECT_EQ(ReasonOf(status), "BATCH_TOO_LARGE");
  EXPECT_EQ(InfoOf(status).metadata().at("field"), "cancels");
  EXPECT_EQ(MetadataOf(status).at("limit"), "2");
}

TEST_F(KeysTest, ABatchThatIsTooLargeLearnsItsLimitUnlessItIsFarTooLarge) {
  api::ServerOptions options = DefaultOptions();
  options.limits.batch_bytes_max = 2 << 20;
  Start(options);
  const auto reason_of = [this](int half_mebibytes) {
    v1::ScheduleBatchRequest request;
    for (int i = 0; i < half_mebibytes; ++i) {
      *request.add_messages() = NewMessage("orders", std::string(512 << 10, 'p'), 100);
    }
    v1::ScheduleBatchResponse response;
    const grpc::Status status = messages_->ScheduleBatch(NewContext().get(), request, &response);
    if (status.ok()) return std::string("OK");
    if (InfoOf(status).reason() != "BATCH_TOO_LARGE") return std::string("refused");
    EXPECT_EQ(MetadataOf(status).at("limit"), std::to_string(2 << 20));
    return ReasonOf(status);
  };
  EXPECT_EQ(reason_of(3), "OK");
  EXPECT_EQ(reason_of(4), "BATCH_TOO_LARGE");
  EXPECT_EQ(reason_of(5), "BATCH_TOO_LARGE");
  EXPECT_EQ(reason_of(7), "refused");  // by gRPC
  EXPECT_EQ(reason_of(1), "OK");
}

TEST_F(KeysTest, Reschedules) {
  shards_ = 2;
  Start();
  const v1::ScheduleResponse first = MustAccept(Keyed("k", "p", 100));
  v1::RescheduleRequest request;
  request.mutable_key()->set_topic("orders");
  request.mutable_key()->set_key("k");
  request.mutable_delay()->set_seconds(500);
  request.set_etag(first.message().etag());
  v1::RescheduleResponse response;
  grpc::Status status = messages_->Reschedule(NewContext().get(), request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_RESCHEDULED);
  EXPECT_EQ(response.message_id(), first.message().id());
  EXPECT_EQ(response.message().id(), first.message().id());
  EXPECT_EQ(response.message().key(), "k");
  EXPECT_EQ(response.message().payload_bytes(), 1);
  EXPECT_EQ(response.old_deliver_time().seconds(), first.message().deliver_time().seconds());
  EXPECT_GE(response.message().deliver_time().seconds(),
            first.message().deliver_time().seconds() + 400);

  status = messages_->Reschedule(NewContext().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(ReasonOf(status), "ETAG_MISMATCH");
  v1::GetResponse got;
  ASSERT_TRUE(Get("k", &got).ok());
  EXPECT_EQ(MetadataOf(status).at("etag"), got.message().etag());
  EXPECT_EQ(MetadataOf(status).at("message_id"), first.message().id());

  EXPECT_EQ(Cancel("k").outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  request.clear_etag();
  ASSERT_TRUE(messages_->Reschedule(NewContext().get(), request, &response).ok());
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_ALREADY_CANCELLED);
  EXPECT_TRUE(response.has_end_time());
  request.mutable_key()->set_topic("nowhere");
  ASSERT_TRUE(messages_->Reschedule(NewContext().get(), request, &response).ok());
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_NOT_FOUND);
  request.mutable_civil_time()->set_local("never");
  EXPECT_EQ(ReasonOf(messages_->Reschedule(NewContext().get(), request, &response)),
            "INVALID_CIVIL_TIME");
}

TEST_F(KeysTest, Explains) {
  Start();
  const v1::ScheduleResponse due = MustAccept(Keyed("due", "p", 0));
  const v1::ScheduleResponse later = MustAccept(Keyed("later", "p", 100));
  v1::ExplainRequest request;
  request.mutable_key()->set_topic("orders");
  request.mutable_key()->set_key("later");
  v1::ExplainResponse response;
  ASSERT_TRUE(messages_->Explain(NewContext().get(), request, &response).ok());
  EXPECT_EQ(response.message().id(), later.message().id());
  EXPECT_EQ(response.timeline().due_time().seconds(), later.message().deliver_time().seconds());
  EXPECT_EQ(response.lateness().total().seconds(), 0);
  EXPECT_NE(response.summary().find("due in"), std::string::npos) << response.summary();
  request.set_message_id(due.message().id());
  ASSERT_TRUE(messages_->Explain(NewContext().get(), request, &response).ok());
  EXPECT_EQ(response.message().state(), v1::Message::STATE_DUE);
  EXPECT_EQ(response.timeline().subscribers(), 0);
  EXPECT_NE(response.summary().find("there is no subscriber"), std::string::npos)
      << response.summary();
  EXPECT_EQ(Cancel("due").outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  ASSERT_TRUE(messages_->Explain(NewContext().get(), request, &response).ok());
  EXPECT_TRUE(response.timeline().has_end_time());
  EXPECT_NE(response.summary().find("cancelled"), std::string::npos) << response.summary();
  request.mutable_key()->set_topic("nowhere");
  request.mutable_key()->set_key("k");
  EXPECT_EQ(ReasonOf(messages_->Explain(NewContext().get(), request, &response)),
            "MESSAGE_NOT_FOUND");
  EXPECT_EQ(ReasonOf(messages_->Explain(NewContext().get(), {}, &response)), "TARGET_MISSING");
}

}  // namespace
}  // namespace duetime::rpc
