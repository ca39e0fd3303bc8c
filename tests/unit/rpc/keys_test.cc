// SPDX-License-Identifier: Apache-2.0
//
// Keys, request ids, reschedule, cancel and explain, through a socket: the answers and the errors.
// keys.txt has what the modes of on_conflict do.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

using grpc::StatusCode;

class KeysTest : public ServerTest {
 protected:
  static v1::ScheduleRequest Keyed(const std::string& key, const std::string& payload,
                                   int64_t delay_seconds) {
    v1::ScheduleRequest request = NewMessage("orders", payload, delay_seconds);
    request.set_key(key);
    return request;
  }
  // A target, in text format.
  static std::string Key(const std::string& key) {
    return absl::StrCat("key { topic: 'orders' key: '", key, "' } ");
  }
  v1::CancelResponse Cancel(const std::string& key) { return Must(&Messages::Cancel, Key(key)); }
  v1::Message Get(const std::string& key) {
    return Must(&Messages::Get, Key(key) + "view: MESSAGE_VIEW_FULL").message();
  }
  v1::Message GetById(const std::string& id) {
    return Must(&Messages::Get, absl::StrCat("message_id: '", id, "'")).message();
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
    std::map<std::string, std::pair<size_t, v1::Message>> created;
    for (size_t i = 0; i < requests.size(); ++i) {
      requests[i].set_request_id("r");
      const auto answer = Must(&Messages::Schedule, requests[i]);
      EXPECT_EQ(answer.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
      EXPECT_FALSE(answer.request_repeated());
      const std::string& id = answer.message().id();
      EXPECT_TRUE(created.try_emplace(id, i, answer.message()).second) << i;
      const v1::Message got = GetById(id);
      EXPECT_EQ(got.key(), requests[i].key());
      EXPECT_EQ(got.ordering_key(), requests[i].ordering_key());
    }
    for (const auto& [id, first] : created) {
      v1::ScheduleRequest& request = requests[first.first];
      const auto repeat = Must(&Messages::Schedule, request);
      EXPECT_EQ(repeat.message().id(), id);
      EXPECT_EQ(repeat.message().accept_time().nanos(), first.second.accept_time().nanos());
      EXPECT_EQ(repeat.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
      EXPECT_TRUE(repeat.request_repeated());
      request.set_payload("other");
      Metadata expected = {{"topic", "orders"}, {"request_id", "r"}, {"message_id", id}};
      if (!request.key().empty()) expected["key"] = request.key();
      if (!request.ordering_key().empty()) expected["ordering_key"] = request.ordering_key();
      const grpc::Status status = Call(&Messages::Schedule, request);
      ExpectRefused(status, StatusCode::ALREADY_EXISTS, "REQUEST_ID_REUSED", {});
      EXPECT_EQ(MetadataOf(status), expected);
    }
  }
};

TEST_F(KeysTest, AMessageIsFoundByItsKey) {
  shards_ = 4;
  Start();
  for (int i = 0; i < 20; ++i) {
    const std::string key = "k" + std::to_string(i);
    const auto scheduled = Must(&Messages::Schedule, Keyed(key, "p" + key, 100));
    EXPECT_EQ(scheduled.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
    EXPECT_EQ(scheduled.message().key(), key);
    v1::Message got = Get(key);
    EXPECT_EQ(got.id(), scheduled.message().id());
    EXPECT_EQ(got.payload(), "p" + key);
    EXPECT_EQ(got.etag(), scheduled.message().etag());
    EXPECT_EQ(Cancel(key).outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
    EXPECT_EQ(Cancel(key).outcome(), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);
    got = Get(key);
    EXPECT_EQ(got.state(), v1::Message::STATE_CANCELLED);
    EXPECT_TRUE(got.has_end_time());
    EXPECT_EQ(got.key(), key);
  }
}

TEST_F(KeysTest, ARefusalNamesTheKey) {
  Start();
  const Metadata named = {{"topic", "orders"}, {"key", "k"}};
  v1::ScheduleRequest replace = Keyed("k", "one", 100);
  replace.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
  replace.set_only_if_exists(true);
  ExpectRefused(Call(&Messages::Schedule, replace), StatusCode::NOT_FOUND, "MESSAGE_NOT_FOUND",
                named);
  EXPECT_EQ(Cancel("k").outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
  ExpectRefused(Call(&Messages::Get, Key("k")), StatusCode::NOT_FOUND, "MESSAGE_NOT_FOUND", named);
  MustSchedule(Keyed("other", "p", 100));  // now the topic exists
  EXPECT_EQ(Cancel("k").outcome(), v1::CancelResponse::OUTCOME_NOT_FOUND);
  ExpectRefused(Call(&Messages::Get, Key("k")), StatusCode::NOT_FOUND, "MESSAGE_NOT_FOUND", named);
  const auto first = Must(&Messages::Schedule, Keyed("k", "one", 100));
  const auto again = Must(&Messages::Schedule, Keyed("k", "one", 100));
  EXPECT_EQ(again.outcome(), v1::SCHEDULE_OUTCOME_UNCHANGED);
  EXPECT_EQ(again.message().id(), first.message().id());
  EXPECT_EQ(again.message().deliver_time().seconds(), first.message().deliver_time().seconds());
  const grpc::Status other = Call(&Messages::Schedule, Keyed("k", "two", 100));
  ExpectRefused(other, StatusCode::ALREADY_EXISTS, "CONTENT_MISMATCH", {});
  EXPECT_EQ(MetadataOf(other), (Metadata{{"topic", "orders"},
                                         {"key", "k"},
                                         {"message_id", first.message().id()},
                                         {"state", "STATE_SCHEDULED"}}));
}

// The default of the server, or the setting of the topic.
TEST_F(KeysTest, OnceIsRefusedWhereEndedMessagesAreForgotten) {
  node_options_.limits.tombstone_retention_ms = 0;
  Start();
  Must(&Admin::CreateTopic,
       "topic { name: 'keeps' settings { tombstone_retention { seconds: 60 } } }");
  Must(&Admin::CreateTopic, "topic { name: 'forgets' settings { tombstone_retention { } } }");
  const std::pair<std::string, std::string> cases[] = {
      {"orders", "INVALID_ON_CONFLICT"}, {"forgets", "INVALID_ON_CONFLICT"}, {"keeps", "OK"}};
  for (const auto& [topic, reason] : cases) {
    SCOPED_TRACE(topic);
    v1::ScheduleRequest request = Keyed("k", "one", 100);
    request.set_topic(topic);
    MustSchedule(request);
    request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_ONCE);
    EXPECT_EQ(Reason(&Messages::Schedule, request), reason);
  }
}

TEST_F(KeysTest, ReplacesKeepsTheTimeAndPushesBack) {
  Start();
  const v1::Message first = Must(&Messages::Schedule, Keyed("k", "one", 100)).message();
  EXPECT_FALSE(first.has_update_time());
  const auto schedule = [this](const std::string& payload, int64_t delay_seconds,
                               v1::ScheduleRequest::OnConflict mode, int64_t max_wait_s = 0) {
    v1::ScheduleRequest request = Keyed("k", payload, delay_seconds);
    request.set_on_conflict(mode);
    if (max_wait_s > 0) request.mutable_max_wait()->set_seconds(max_wait_s);
    const auto response = Must(&Messages::Schedule, request);
    EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_REPLACED);
    return response;
  };
  auto response = schedule("two", 200, v1::ScheduleRequest::ON_CONFLICT_REPLACE);
  EXPECT_EQ(response.message().id(), first.id());
  EXPECT_NE(response.message().etag(), first.etag());
  EXPECT_EQ(response.old_deliver_time().seconds(), first.deliver_time().seconds());
  EXPECT_TRUE(response.message().has_update_time());
  const int64_t second = response.message().deliver_time().seconds();
  EXPECT_GE(second, first.deliver_time().seconds() + 100);

  response = schedule("three", 50, v1::ScheduleRequest::ON_CONFLICT_KEEP_TIME);
  EXPECT_EQ(response.message().deliver_time().seconds(), second);
  response = schedule("four", 50, v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK);
  EXPECT_EQ(response.message().deliver_time().seconds(), second);  // never pulled forward
  response = schedule("five", 1'000, v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK, 300);
  EXPECT_EQ(response.message().deliver_time().seconds(), first.accept_time().seconds() + 300);
  const v1::Message got = Get("k");
  EXPECT_EQ(got.payload(), "five");
  EXPECT_EQ(got.etag(), response.message().etag());
  EXPECT_EQ(got.update_time().seconds(), response.message().update_time().seconds());
  EXPECT_EQ(got.update_time().nanos(), response.message().update_time().nanos());
}

TEST_F(KeysTest, AnAnswerShowsTheLocalTimeOnlyIfTheMessageHasIt) {
  Start();
  v1::ScheduleRequest request = Keyed("k", "p", 100);
  request.mutable_civil_time()->set_local("2034-06-01T09:00");
  request.mutable_civil_time()->set_time_zone("Europe/Berlin");
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Must(&Messages::Schedule, request).message().has_civil_time());
  }
  const auto moved = Must(&Messages::Reschedule, Key("k") + "delay { seconds: 500 }");
  const auto unchanged = Must(&Messages::Schedule, request);
  EXPECT_EQ(unchanged.outcome(), v1::SCHEDULE_OUTCOME_UNCHANGED);
  EXPECT_EQ(unchanged.message().deliver_time().seconds(), moved.message().deliver_time().seconds());
  EXPECT_FALSE(unchanged.message().has_civil_time());

  // max_wait keeps the message at its time, so neither the answer nor its repeat has a local time.
  request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_PUSH_BACK);
  request.mutable_max_wait()->set_seconds(300);
  request.set_request_id("r");
  request.set_payload("other");
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(Must(&Messages::Schedule, request).message().has_civil_time());
  }
}

TEST_F(KeysTest, ARequestIdCountsForOneKeyWithOneShard) { ReuseARequestId(1); }
TEST_F(KeysTest, ARequestIdCountsForOneKeyWithThreeShards) { ReuseARequestId(3); }

TEST_F(KeysTest, ValidateOnlyChangesNothing) {
  Start();
  v1::ScheduleRequest request = Keyed("k", "one", 100);
  request.set_validate_only(true);
  const auto response = Must(&Messages::Schedule, request);
  EXPECT_EQ(response.outcome(), v1::SCHEDULE_OUTCOME_CREATED);
  EXPECT_EQ(response.message().id(), "");
  EXPECT_EQ(response.message().state(), v1::Message::STATE_SCHEDULED);
  EXPECT_EQ(Reason(&Messages::Get, Key("k")), "MESSAGE_NOT_FOUND");
}

TEST_F(KeysTest, EverythingThatWasAskedForIsToldAgain) {
  Start();
  const v1::Message scheduled =
      Must(&Messages::Schedule,
           "topic: 'orders' civil_time { local: '2034-06-01T09:00' time_zone: 'Europe/Berlin' }"
           "labels { key: 'customer' value: '7' } ordering_key: 'o' ttl { seconds: 60 }"
           "late_policy: LATE_POLICY_DROP spread { seconds: 30 }")
          .message();
  const v1::Message got = GetById(scheduled.id());
  for (const v1::Message* message : {&scheduled, &got}) {
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
  EXPECT_GE(scheduled.deliver_time().seconds(), 2'032'758'000);
  EXPECT_LE(scheduled.deliver_time().seconds(), 2'032'758'030);
  EXPECT_EQ(scheduled.deliver_time().nanos(), got.deliver_time().nanos());
}

TEST_F(KeysTest, ABatchOfKeysGoesToManyShardsAndComesBackInOrder) {
  shards_ = 4;
  Start();
  MustSchedule(Keyed("k7", "other", 100));
  v1::ScheduleBatchRequest request;
  for (int i = 0; i < 100; ++i) {
    *request.add_messages() =
        i % 3 == 0 ? NewMessage("orders", "plain", 50) : Keyed("k" + std::to_string(i), "p", 50);
  }
  request.mutable_messages(50)->set_topic("not a topic");
  const auto response = Must(&Messages::ScheduleBatch, request);
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
    *cancels.add_cancels() = ParseProto<v1::CancelRequest>(Key("k" + std::to_string(i)));
  }
  cancels.mutable_cancels(4)->set_message_id("nonsense");
  cancels.mutable_cancels(5)->mutable_key()->set_topic("nowhere");
  const auto cancelled = Must(&Messages::CancelBatch, cancels);
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
  EXPECT_EQ(Must(&Messages::CancelBatch, "").results_size(), 0);
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
    const grpc::Status status = Call(&Messages::ScheduleBatch, request);
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
  const v1::Message first = Must(&Messages::Schedule, Keyed("k", "p", 100)).message();
  const std::string move = Key("k") + "delay { seconds: 500 } ";
  const std::string etag = absl::StrCat("etag: '", first.etag(), "'");
  auto response = Must(&Messages::Reschedule, move + etag);
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_RESCHEDULED);
  EXPECT_EQ(response.message_id(), first.id());
  EXPECT_EQ(response.message().id(), first.id());
  EXPECT_EQ(response.message().key(), "k");
  EXPECT_EQ(response.message().payload_bytes(), 1);
  EXPECT_EQ(response.old_deliver_time().seconds(), first.deliver_time().seconds());
  EXPECT_GE(response.message().deliver_time().seconds(), first.deliver_time().seconds() + 400);

  ExpectRefused(Call(&Messages::Reschedule, move + etag), StatusCode::ABORTED, "ETAG_MISMATCH",
                {{"etag", Get("k").etag()}, {"message_id", first.id()}});
  EXPECT_EQ(Cancel("k").outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  response = Must(&Messages::Reschedule, move);
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_ALREADY_CANCELLED);
  EXPECT_TRUE(response.has_end_time());
  response = Must(&Messages::Reschedule, move + "key { topic: 'nowhere' }");
  EXPECT_EQ(response.outcome(), v1::RescheduleResponse::OUTCOME_NOT_FOUND);
}

TEST_F(KeysTest, Explains) {
  Start();
  MustSchedule(Keyed("due", "p", 0));
  const v1::Message later = Must(&Messages::Schedule, Keyed("later", "p", 100)).message();
  const auto explain = [this](const std::string& key, const std::string& summary) {
    const auto response = Must(&Messages::Explain, Key(key));
    EXPECT_NE(response.summary().find(summary), std::string::npos) << response.summary();
    return response;
  };
  auto response = explain("later", "due in");
  EXPECT_EQ(response.message().id(), later.id());
  EXPECT_EQ(response.timeline().due_time().seconds(), later.deliver_time().seconds());
  EXPECT_EQ(response.lateness().total().seconds(), 0);
  response = explain("due", "there is no subscriber");
  EXPECT_EQ(response.message().state(), v1::Message::STATE_DUE);
  EXPECT_EQ(response.timeline().subscribers(), 0);
  EXPECT_EQ(Cancel("due").outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_TRUE(explain("due", "cancelled").timeline().has_end_time());
  EXPECT_EQ(Reason(&Messages::Explain, "key { topic: 'nowhere' key: 'k' }"), "MESSAGE_NOT_FOUND");
}

}  // namespace
}  // namespace duetime::rpc
