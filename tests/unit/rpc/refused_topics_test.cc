// SPDX-License-Identifier: Apache-2.0
//
// A refused call creates no topic: every call that can create one, with every refusal.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

using Names = std::vector<std::string>;

// Of a recurrence, whose late messages become dead letters.
constexpr char kWithDeadLetters[] =
    "template { ttl { seconds: 60 } late_policy: LATE_POLICY_DEAD_LETTER }";

class RefusedTopicsTest : public ServerTest {
 protected:
  // "deleted" is a deleted topic that keeps the key "k" and the request id "r". The other topics
  // have a message and no dead-letter topic; "keyed" has the key "k" and the recurrence "r".
  void Prepare(size_t recurrences_max = 1) {
    node_options_.limits.recurrences_max = recurrences_max;
    Start();
    v1::ScheduleRequest keyed = NewMessage("deleted", "p", 100);
    keyed.set_key("k");
    v1::ScheduleRequest repeated = NewMessage("deleted", "p", 100);
    repeated.set_request_id("r");
    for (const v1::ScheduleRequest& request : {keyed, repeated}) {
      Must(&Messages::Cancel, "message_id: '" + MustSchedule(request) + "'");
    }
    Must(&Admin::DeleteTopic, "name: 'deleted'");
    Must(&Admin::CreateTopic, "topic { name: 'full' settings { max_pending: 1 } }");
    Must(
        &Admin::CreateTopic,
        "topic { name: 'minute' settings { minute_limit { messages: 1 policy: POLICY_REFUSE } } }");
    MustSchedule(At("full"));
    MustSchedule(At("minute"));
    keyed.set_topic("keyed");
    MustSchedule(keyed);
    etag_ = Must(&Messages::CreateRecurrence, NewRecurrence("r", "keyed")).recurrence().etag();
    ASSERT_EQ(TopicNames(), prepared_);
  }
  // A message at a fixed time that is ahead.
  v1::ScheduleRequest At(const std::string& topic) {
    v1::ScheduleRequest request = NewMessage(topic, "other");
    if (deliver_s_ == 0) deliver_s_ = static_cast<int64_t>(clock_.Read().wall_ms / 1'000) + 3'600;
    request.mutable_deliver_time()->set_seconds(deliver_s_);
    return request;
  }
  static v1::CreateRecurrenceRequest NewRecurrence(const std::string& name,
                                                   const std::string& topic) {
    v1::CreateRecurrenceRequest request;
    request.mutable_recurrence()->set_name(name);
    request.mutable_recurrence()->set_topic(topic);
    request.mutable_recurrence()->mutable_schedule()->set_cron("0 0 1 1 *");
    return request;
  }
  // Schedules the messages as one batch, and returns the reasons of their refusals.
  Names Batch(const std::vector<v1::ScheduleRequest>& requests) {
    v1::ScheduleBatchRequest batch;
    for (const v1::ScheduleRequest& request : requests) *batch.add_messages() = request;
    return Reasons(Must(&Messages::ScheduleBatch, batch).results());
  }
  // The same, as one frame of a stream.
  Names Frame(const std::vector<v1::ScheduleRequest>& requests) {
    v1::ScheduleStreamRequest frame;
    for (const v1::ScheduleRequest& request : requests) *frame.add_messages() = request;
    const auto context = NewContext();
    const auto stream = messages_->ScheduleStream(context.get());
    v1::ScheduleStreamResponse response;
    EXPECT_TRUE(stream->Write(frame) && stream->WritesDone() && stream->Read(&response));
    EXPECT_TRUE(stream->Finish().ok());
    return Reasons(response.results());
  }
  struct RefusedRecurrence {
    std::string reason;
    std::string name;
    std::string topic;
    // Added to the recurrence, in text format.
    std::string more = {};
  };
  void ExpectRefusedRecurrences(const std::vector<RefusedRecurrence>& cases) {
    for (const RefusedRecurrence& one : cases) {
      SCOPED_TRACE(one.reason + " " + one.topic.substr(0, 10));
      v1::CreateRecurrenceRequest request = NewRecurrence(one.name, one.topic);
      request.MergeFrom(ParseProto<v1::CreateRecurrenceRequest>("recurrence { " + one.more + " }"));
      EXPECT_EQ(Reason(&Messages::CreateRecurrence, request), one.reason);
      EXPECT_EQ(TopicNames(), prepared_);
    }
  }
  template <typename Results>
  static Names Reasons(const Results& results) {
    Names reasons;
    for (const v1::ScheduleResult& result : results) {
      reasons.push_back(result.has_error() ? ReasonOf(result.error()) : "OK");
    }
    return reasons;
  }

  const Names prepared_ = {"full", "keyed", "minute"};
  // Of the recurrence.
  std::string etag_;
  int64_t deliver_s_ = 0;
};

void MakeDeadLetter(v1::ScheduleRequest* request) {
  request->mutable_ttl()->set_seconds(60);
  request->set_late_policy(v1::Message::LATE_POLICY_DEAD_LETTER);
}

void ReplaceOnly(const std::string& key, v1::ScheduleRequest* request) {
  request->set_key(key);
  request->set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
  request->set_only_if_exists(true);
}

TEST_F(RefusedTopicsTest, OfAMessage) {
  Prepare();
  struct Case {
    std::string reason;
    v1::ScheduleRequest request;
  };
  std::vector<Case> cases;
  const auto add = [&](const std::string& reason, const std::string& topic) {
    cases.push_back({reason, At(topic)});
    return &cases.back().request;
  };
  v1::ScheduleRequest* once = add("CONTENT_MISMATCH", "deleted");
  once->set_key("k");
  once->set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_ONCE);
  add("REQUEST_ID_REUSED", "deleted")->set_request_id("r");
  MakeDeadLetter(add("TOPIC_FULL", "full"));
  MakeDeadLetter(add("MINUTE_FULL", "minute"));
  v1::ScheduleRequest* request = add("CONTENT_MISMATCH", "keyed");
  request->set_key("k");
  MakeDeadLetter(request);
  request = add("MESSAGE_NOT_FOUND", "keyed");
  ReplaceOnly("x", request);
  MakeDeadLetter(request);
  ReplaceOnly("x", add("MESSAGE_NOT_FOUND", "new"));
  ReplaceOnly("k", add("MESSAGE_NOT_FOUND", "deleted"));
  add("INVALID_LATE_POLICY", "new")->set_late_policy(v1::Message::LATE_POLICY_DEAD_LETTER);
  MakeDeadLetter(add("NO_DEAD_LETTER_TOPIC", std::string(255, 'x')));
  for (const Case& one : cases) {
    SCOPED_TRACE(one.reason + " " + one.request.topic().substr(0, 10));
    EXPECT_EQ(Reason(&Messages::Schedule, one.request), one.reason);
    EXPECT_EQ(Batch({one.request, one.request}), (Names{one.reason, one.reason}));
    EXPECT_EQ(Frame({one.request}), Names{one.reason});
    EXPECT_EQ(TopicNames(), prepared_);
    // A check refuses what the call refuses.
    v1::ScheduleRequest check = one.request;
    check.set_validate_only(true);
    if (one.reason != "NO_DEAD_LETTER_TOPIC") {
      EXPECT_EQ(Reason(&Messages::Schedule, check), one.reason);
    }
  }
}

// One accepted message creates the topic. The refused ones still create no dead-letter topic.
TEST_F(RefusedTopicsTest, OfABatchThatIsAcceptedInPart) {
  Prepare();
  v1::ScheduleRequest mismatch = At("keyed");
  mismatch.set_key("k");
  MakeDeadLetter(&mismatch);
  EXPECT_EQ(Batch({mismatch, At("keyed")}), (Names{"CONTENT_MISMATCH", "OK"}));
  EXPECT_EQ(Frame({mismatch, At("keyed")}), (Names{"CONTENT_MISMATCH", "OK"}));
  EXPECT_EQ(TopicNames(), prepared_);
  v1::ScheduleRequest reused = At("deleted");
  reused.set_request_id("r");
  EXPECT_EQ(Batch({reused, At("deleted"), reused}),
            (Names{"REQUEST_ID_REUSED", "OK", "REQUEST_ID_REUSED"}));
  EXPECT_EQ(TopicNames(), (Names{"deleted", "full", "keyed", "minute"}));
  // The second message would be refused without the first one.
  v1::ScheduleRequest first = At("keyed");
  first.set_key("n");
  v1::ScheduleRequest second = At("keyed");
  ReplaceOnly("n", &second);
  MakeDeadLetter(&second);
  EXPECT_EQ(Batch({first, second}), (Names{"OK", "OK"}));
  EXPECT_EQ(TopicNames(), (Names{"deleted", "full", "keyed", "keyed.dlq", "minute"}));
}

TEST_F(RefusedTopicsTest, OfARecurrence) {
  Prepare();
  for (const std::string topic : {"new", "deleted"}) {
    ExpectRefusedRecurrences({{"CONTENT_MISMATCH", "r", topic},
                              {"RECURRENCE_LIMIT", "s", topic},
                              {"INVALID_CRON", "s", topic, "schedule { cron: '61 * * * *' }"}});
  }
  ExpectRefusedRecurrences({{"RECURRENCE_LIMIT", "s", "keyed", kWithDeadLetters}});
}

TEST_F(RefusedTopicsTest, OfARecurrenceWithDeadLetters) {
  node_options_.catalog.topics_max = 4;
  Prepare(/*recurrences_max=*/2);
  // There is room for one more topic, and not for its dead letters.
  ExpectRefusedRecurrences(
      {{"TOPIC_LIMIT", "s", "new", kWithDeadLetters},
       {"NO_DEAD_LETTER_TOPIC", "s", std::string(255, 'x'), kWithDeadLetters},
       {"CONTENT_MISMATCH", "r", "keyed", kWithDeadLetters},
       {"INVALID_RECURRENCE", "s", "new",
        "schedule { interval { seconds: 3600 } end_time { seconds: 7200 } }"}});
  const std::string update = absl::StrCat("recurrence { name: 'r' ", kWithDeadLetters,
                                          " } update_mask { paths: 'template' } ");
  Must(&Messages::UpdateRecurrence,
       "recurrence { name: 'r' template { payload: 'new' } } update_mask { paths: 'template' }");
  EXPECT_EQ(Reason(&Messages::UpdateRecurrence, absl::StrCat(update, "etag: '", etag_, "'")),
            "ETAG_MISMATCH");
  EXPECT_EQ(TopicNames(), prepared_);
  Must(&Messages::UpdateRecurrence, update);
  EXPECT_EQ(TopicNames(), (Names{"full", "keyed", "keyed.dlq", "minute"}));
}

TEST_F(RefusedTopicsTest, OfASubscriber) {
  api::ServerOptions options = DefaultOptions();
  options.streams_max = 0;
  Start(options);
  EXPECT_EQ(Reason(&Messages::Pull, "topic: 'new'"), "STREAM_LIMIT");
  const auto context = NewContext();
  const auto stream = messages_->Subscribe(context.get());
  v1::SubscribeRequest start;
  start.mutable_start()->set_topic("new");
  stream->Write(start);
  v1::SubscribeResponse response;
  while (stream->Read(&response)) continue;
  EXPECT_EQ(ReasonOf(stream->Finish()), "STREAM_LIMIT");
  EXPECT_TRUE(TopicNames().empty());
}

}  // namespace
}  // namespace duetime::rpc
