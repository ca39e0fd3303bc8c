// SPDX-License-Identifier: Apache-2.0
//
// The quotas of clients and topics, and what a client gets that ignores them.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"

#include "tests/integration/access_fixture.h"
#include "tests/support/http_get.h"

namespace duetime::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class QuotaTest : public AccessTest {
 protected:
  int ErrorsDelayed() {
    constexpr char kName[] = "\nduetime_errors_delayed ";
    const std::string metrics = HttpGet(server_->metrics_port(), "/metrics");
    const size_t at = metrics.find(kName);
    return at == std::string::npos ? -1 : std::atoi(metrics.c_str() + at + sizeof(kName) - 1);
  }

  // A Schedule call of bob.
  struct Flight {
    std::unique_ptr<grpc::ClientContext> context;
    v1::ScheduleResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ScheduleResponse>> reader;
  };
  void Send(v1::Messages::Stub* stub, Flight* flight) {
    flight->context = As("bob");
    flight->reader =
        stub->AsyncSchedule(flight->context.get(), Request("b", Millis(3'600'000)), &queue_);
    flight->reader->Finish(&flight->response, &flight->status, flight);
  }
  // Waits for the next answer.
  Flight* Next() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) ? static_cast<Flight*>(tag) : nullptr;
  }

  grpc::CompletionQueue queue_;
};

TEST_F(QuotaTest, ARefusedClientUsesNothingOfTheQuotaOfATopic) {
  Write("access.toml", Rules() + R"(
[[quota]]
who = ["alice"]
messages_per_second = 1
[[quota]]
topics = ["a"]
messages_per_second = 100
)");
  StartWithAccess();
  size_t refused = 0;
  for (int i = 0; i < 300; ++i) {
    if (ScheduleAs("alice", "a", Millis(3'600'000)) == "QUOTA_EXCEEDED") ++refused;
  }
  EXPECT_GT(refused, 250u);
  MustSchedule("a", Millis(3'600'000));
}

TEST_F(QuotaTest, QuotasNameThemselvesAndHoldForEachClient) {
  Write("access.toml", Rules() + R"(
[[quota]]
who = ["alice", "bob"]
messages_per_second = 5
streams = 1
[[quota]]
topics = ["a.slow"]
messages_per_second = 1
)");
  StartWithAccess({}, /*metrics=*/true);
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 50; ++i) *batch.add_messages() = Request("a", Millis(3'600'000));
  ASSERT_TRUE(Call("alice", "Messages/ScheduleBatch", batch).ok());
  const grpc::Status refused = Call("alice", "Messages/Schedule", Request("a", Millis(0)));
  const client::ErrorInfo info = InfoOf(refused);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(info.reason, "QUOTA_EXCEEDED");
  EXPECT_EQ(info.metadata.at("quota"), "messages_per_second");
  EXPECT_EQ(info.metadata.at("of"), "alice");
  ASSERT_TRUE(info.retry_delay.has_value());
  EXPECT_GT(*info.retry_delay, absl::Seconds(7));
  EXPECT_EQ(ScheduleAs("bob", "b", Millis(0)).size(), 26u);
  // Each topic has a quota of its own, whoever schedules.
  for (int i = 0; i < 3; ++i) MustSchedule("a.fast", Millis(3'600'000));
  v1::Message message;
  ASSERT_TRUE(Schedule(Request("a.slow", Millis(3'600'000)), &message).ok());
  ASSERT_TRUE(Schedule(Request("a.slow", Millis(3'600'000)), &message).ok());
  EXPECT_EQ(InfoOf(Schedule(Request("a.slow", Millis(3'600'000)), &message)).metadata.at("of"),
            "topic a.slow");

  const auto stub = v1::Messages::NewStub(tcp_);
  const auto first = As("bob");
  const auto second = As("bob");
  v1::SubscribeRequest start;
  start.mutable_start()->set_topic("b");
  const auto one = stub->Subscribe(first.get());
  one->Write(start);
  v1::SubscribeResponse response;
  ASSERT_TRUE(one->Read(&response));
  EXPECT_EQ(InfoOf(stub->Subscribe(second.get())->Finish()).metadata.at("quota"), "streams");
  v1::CheckAccessRequest check;
  check.set_verb(v1::ACCESS_VERB_CANCEL);
  check.set_topic("b");
  v1::CheckAccessResponse answer;
  ASSERT_TRUE(Call("bob", "Admin/CheckAccess", check, &answer).ok());
  EXPECT_TRUE(answer.allowed());
  EXPECT_EQ(answer.principal(), "bob");
  EXPECT_EQ(answer.quota().open_streams(), 1);
  EXPECT_THAT(answer.explanation(), HasSubstr("line 6"));
  check.set_principal("alice");
  EXPECT_EQ(InfoOf(Call("bob", "Admin/CheckAccess", check)).reason, "ACCESS_DENIED");
  const std::string metrics = HttpGet(server_->metrics_port(), "/metrics");
  for (const char* line : {"used_total{principal=\"alice\",quota=\"messages_per_second\"} 50",
                           "refused_total{principal=\"alice\",quota=\"messages_per_second\"} 1",
                           "used_total{principal=\"bob\",quota=\"messages_per_second\"} 1",
                           "used_total{principal=\"bob\",quota=\"streams\"} 1",
                           "refused_total{principal=\"bob\",quota=\"streams\"} 1"}) {
    EXPECT_THAT(metrics, HasSubstr(std::string("\nduetime_quota_") + line + "\n"));
  }
  EXPECT_THAT(metrics, Not(HasSubstr("quota=\"bytes_per_second\"")));
  EXPECT_THAT(metrics, Not(HasSubstr("principal=\"unix:")));
  first->TryCancel();
}

// A batch of alice, and the next one.
TEST_F(QuotaTest, ABatchPassesAsFarAsItsQuotasAllow) {
  using Strings = std::vector<std::string>;
  const struct {
    const char* what;
    const char* quotas;
    Strings topics;
    // The owner of the quota that refuses, or "".
    Strings refused_by;
    Strings then_refused_by;
  } kCases[] = {
      {"pending messages of a client",
       "[[quota]]\nwho = [\"alice\"]\npending_messages = 5\n",
       Strings(8, "a"),
       {"", "", "", "", "", "alice", "alice", "alice"},
       Strings(8, "alice")},
      {"pending messages of a topic; its neighbours pass",
       "[[quota]]\ntopics = [\"a.x\"]\npending_messages = 1\n",
       {"a.x", "a.y", "a.x", "a.y"},
       {"", "", "topic a.x", ""},
       {"topic a.x", "", "topic a.x", ""}},
      {"a rate takes a batch as a whole", "[[quota]]\nwho = [\"alice\"]\nmessages_per_second = 1\n",
       Strings(50, "a"), Strings(50), Strings(50, "alice")},
      {"a message without a right uses no quota",
       "[[quota]]\nwho = [\"alice\"]\npending_messages = 1\n",
       {"b", "a", "a"},
       {"", "", "alice"},
       {"", "alice", "alice"}},
  };
  for (const auto& one : kCases) {
    SCOPED_TRACE(one.what);
    if (server_ != nullptr) server_->Stop();
    Write("access.toml", Rules() + one.quotas);
    StartWithAccess();
    v1::ScheduleBatchRequest batch;
    for (const std::string& topic : one.topics) {
      *batch.add_messages() = Request(topic, Millis(3'600'000));
    }
    for (const Strings& expected : {one.refused_by, one.then_refused_by}) {
      v1::ScheduleBatchResponse response;
      EXPECT_TRUE(Call("alice", "Messages/ScheduleBatch", batch, &response).ok());
      Strings refused_by;
      for (const v1::ScheduleResult& result : response.results()) {
        const auto& metadata = result.error().metadata();
        refused_by.push_back(metadata.contains("of") ? metadata.at("of") : "");
        const bool over = result.error().reason() == "QUOTA_EXCEEDED";
        EXPECT_EQ(over, metadata.contains("of"));
        EXPECT_EQ(over, result.error().has_retry_delay());
      }
      EXPECT_EQ(refused_by, expected);
    }
  }
}

// As its other refusals.
TEST_F(QuotaTest, ABatchWithARefusedMessageIsPaced) {
  StartWithAccess();
  v1::ScheduleBatchRequest batch;
  for (const char* topic : {"a", "b"}) *batch.add_messages() = Request(topic, Millis(3'600'000));
  const auto begin = Clock::now();
  // 200 at once, the others at 200 per second.
  for (int i = 0; i < 700; ++i) {
    v1::ScheduleBatchResponse response;
    ASSERT_TRUE(Call("bob", "Messages/ScheduleBatch", batch, &response).ok());
    ASSERT_EQ(response.results(0).error().reason(), "ACCESS_DENIED");
    ASSERT_TRUE(response.results(1).has_message());
  }
  EXPECT_GE(Clock::now() - begin, Millis(2'400));
}

TEST_F(QuotaTest, CallsInFlightAreCountedUntilTheirEnd) {
  Write("access.toml", Rules() + "\n[[quota]]\nwho = [\"bob\"]\ncalls_in_flight = 1\n");
  StartWithAccess();
  const auto stub = v1::Messages::NewStub(tcp_);
  // One call after the other is one at a time.
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(MaySchedule("bob", "b"));
  v1::PullRequest pull;
  pull.set_topic("b");
  pull.mutable_wait()->set_seconds(20);
  const auto context = As("bob");
  v1::PullResponse response;
  grpc::CompletionQueue queue;
  const auto waiting = stub->AsyncPull(context.get(), pull, &queue);
  grpc::Status status;
  waiting->Finish(&response, &status, &queue);
  const auto deadline = Clock::now() + Millis(5'000);
  std::string reason;
  while (reason != "QUOTA_EXCEEDED" && Clock::now() < deadline) {
    reason = ScheduleAs("bob", "b", Millis(3'600'000));
  }
  EXPECT_EQ(reason, "QUOTA_EXCEEDED");
  context->TryCancel();
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  WaitUntilMaySchedule("bob", "b");
}

// What a client did in a while that repeats what is refused at once.
struct Repeated {
  int64_t accepted = 0;
  int64_t refused = 0;
};

TEST_F(QuotaTest, ACallerThatRepeatsAtOnceIsSlowedAndNoOtherIs) {
  Write("access.toml", Rules() + "\n[[quota]]\nwho = [\"bob\"]\nmessages_per_second = 1\n");
  StartWithAccess({}, /*metrics=*/true);
  constexpr size_t kInFlight = 64;
  const auto stub = v1::Messages::NewStub(tcp_);
  std::vector<Flight> flights(kInFlight);
  for (Flight& flight : flights) Send(stub.get(), &flight);
  Repeated bob;
  const auto end = Clock::now() + Millis(2'000);
  while (Clock::now() < end) {
    Flight* const flight = Next();
    ASSERT_NE(flight, nullptr);
    if (flight->status.ok()) {
      ++bob.accepted;
    } else {
      EXPECT_EQ(InfoOf(flight->status).reason, "QUOTA_EXCEEDED");
      ++bob.refused;
    }
    Send(stub.get(), flight);
  }
  // 200 per second, and those of one second at once.
  EXPECT_GE(bob.refused, 300);
  EXPECT_LE(bob.refused, 800);
  EXPECT_LE(bob.accepted, 5);
  EXPECT_GT(ErrorsDelayed(), 0);
  const auto before = Clock::now();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(MaySchedule("alice", "a"));
  EXPECT_LT(Clock::now() - before, Millis(2'000));

  // The end of the server does not wait for delayed errors, and each call is answered. The last of
  // these errors would leave after 4 s.
  std::vector<Flight> more(800);
  for (Flight& flight : more) Send(stub.get(), &flight);
  const auto deadline = Clock::now() + Millis(5'000);
  while (ErrorsDelayed() < 500 && Clock::now() < deadline) {
  }
  const auto stop = Clock::now();
  ASSERT_TRUE(server_->Stop().has_value());
  EXPECT_LT(Clock::now() - stop, Millis(3'000));
  size_t over_quota = 0;
  for (size_t i = 0; i < kInFlight + more.size(); ++i) {
    const Flight* const flight = Next();
    ASSERT_NE(flight, nullptr);
    if (InfoOf(flight->status).reason == "QUOTA_EXCEEDED") ++over_quota;
  }
  // The rest came too late, and got DRAINING.
  EXPECT_GE(over_quota, 500u);
}

TEST_F(QuotaTest, AThreadDelaysALimitedNumberOfErrors) {
  Write("access.toml", Rules() + "\n[[quota]]\nwho = [\"bob\"]\nmessages_per_second = 1\n");
  StartWithAccess({"--io-threads=1"}, /*metrics=*/true);
  // A connection has at most 1,000 calls.
  constexpr size_t kConnections = 6;
  constexpr size_t kCallsEach = 900;
  constexpr int kDelayedMax = 4'000;
  std::vector<Flight> flights(kConnections * kCallsEach);
  for (size_t i = 0; i < kConnections; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = v1::Messages::NewStub(grpc::CreateCustomChannel(
        server_->tcp_target(), grpc::InsecureChannelCredentials(), arguments));
    for (size_t j = 0; j < kCallsEach; ++j) Send(stub.get(), &flights[i * kCallsEach + j]);
  }
  int most = 0;
  // The client's calls go on only while their queue is asked.
  const auto deadline = Clock::now() + Millis(20'000);
  for (size_t answers = 0; answers < flights.size();) {
    ASSERT_LT(Clock::now(), deadline);
    void* tag = nullptr;
    bool ok = false;
    const auto soon = std::chrono::system_clock::now() + Millis(20);
    while (queue_.AsyncNext(&tag, &ok, soon) == grpc::CompletionQueue::GOT_EVENT) ++answers;
    most = std::max(most, ErrorsDelayed());
  }
  EXPECT_GT(most, kDelayedMax * 3 / 4);
  EXPECT_LE(most, kDelayedMax);
}

TEST_F(QuotaTest, AStreamThatRepeatsAtOnceIsReadSlowly) {
  Write("access.toml", Rules() + "\n[[quota]]\nwho = [\"bob\"]\nmessages_per_second = 1\n");
  StartWithAccess();
  const auto context = As("bob");
  const auto stream = v1::Messages::NewStub(tcp_)->ScheduleStream(context.get());
  v1::ScheduleStreamRequest frame;
  *frame.add_messages() = Request("b", Millis(3'600'000));
  int64_t refused = 0;
  const auto end = Clock::now() + Millis(3'000);
  while (Clock::now() < end) {
    v1::ScheduleStreamResponse response;
    ASSERT_TRUE(stream->Write(frame) && stream->Read(&response));
    if (response.results(0).has_error()) ++refused;
  }
  EXPECT_GE(refused, 150);
  EXPECT_LE(refused, 800);
  context->TryCancel();
}

TEST_F(QuotaTest, PendingMessagesOfAllTopicsOfAClientAreLimited) {
  Write("access.toml", Rules() + R"(
[[quota]]
who = ["alice"]
pending_messages = 10
[[quota]]
who = ["bob"]
pending_bytes = 100000
)");
  StartWithAccess({}, /*metrics=*/true);
  std::vector<std::string> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(ScheduleAs("alice", i % 2 == 0 ? "a" : "a.x", Millis(3'600'000)));
  }
  const grpc::Status refused = Call("alice", "Messages/Schedule", Request("a", Millis(3'600'000)));
  const client::ErrorInfo info = InfoOf(refused);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(info.reason, "QUOTA_EXCEEDED");
  EXPECT_EQ(info.metadata.at("quota"), "pending_messages");
  EXPECT_EQ(info.metadata.at("limit"), "10");
  EXPECT_EQ(info.metadata.at("of"), "alice");
  EXPECT_TRUE(info.retry_delay.has_value());
  // Messages that end make room, once the server has counted again.
  EXPECT_EQ(CancelAs("alice", ids[0]), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(CancelAs("alice", ids[1]), v1::CancelResponse::OUTCOME_CANCELLED);
  WaitUntilMaySchedule("alice", "a.y");  // schedules two
  // Other clients' messages in these topics count, too, and messages in other topics do not.
  for (int i = 0; i < 5; ++i) {
    MustSchedule("a", Millis(3'600'000));
    MustSchedule("c", Millis(3'600'000));
  }
  v1::CheckAccessRequest check;
  check.set_verb(v1::ACCESS_VERB_SCHEDULE);
  check.set_topic("a");
  v1::CheckAccessResponse answer;
  const auto deadline = Clock::now() + Millis(10'000);
  // A count that is older than the last Schedule may let one more pass.
  std::string outcome;
  int64_t pending = 15;
  do {
    outcome = ScheduleAs("alice", "a", Millis(3'600'000));
    if (outcome != "QUOTA_EXCEEDED") ++pending;
    ASSERT_TRUE(Call("alice", "Admin/CheckAccess", check, &answer).ok());
  } while ((outcome != "QUOTA_EXCEEDED" || answer.quota().now_pending_messages() != pending) &&
           Clock::now() < deadline);
  EXPECT_EQ(outcome, "QUOTA_EXCEEDED");
  EXPECT_LE(pending, 16);
  EXPECT_EQ(answer.quota().pending_messages(), 10);
  EXPECT_EQ(answer.quota().now_pending_messages(), pending);
  EXPECT_GT(answer.quota().now_pending_bytes(), 15);
  EXPECT_THAT(HttpGet(server_->metrics_port(), "/metrics"),
              HasSubstr(absl::StrCat(
                  "\nduetime_quota_pending{principal=\"alice\",quota=\"pending_messages\"} ",
                  pending, "\n")));

  // By bytes.
  EXPECT_TRUE(MaySchedule("bob", "b"));
  v1::ScheduleRequest large = Request("b", Millis(3'600'000));
  large.set_payload(std::string(60'000, 'x'));
  EXPECT_TRUE(Call("bob", "Messages/Schedule", large).ok());
  EXPECT_EQ(InfoOf(Call("bob", "Messages/Schedule", large)).metadata.at("quota"), "pending_bytes");
}

TEST_F(QuotaTest, PendingMessagesOfATopicAreLimitedWhoeverSchedules) {
  Write("access.toml", Rules() + "\n[[quota]]\ntopics = [\"a.*\"]\npending_messages = 3\n");
  StartWithAccess();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(MaySchedule("alice", "a.x"));
  v1::Message message;
  const client::ErrorInfo info = InfoOf(Schedule(Request("a.x", Millis(3'600'000)), &message));
  EXPECT_EQ(info.metadata.at("quota"), "pending_messages");
  EXPECT_EQ(info.metadata.at("of"), "topic a.x");
  // Each topic has the whole quota.
  EXPECT_TRUE(MaySchedule("alice", "a.y"));
  // The count outlives the server.
  ASSERT_TRUE(server_->Stop().has_value());
  ASSERT_TRUE(server_->Start()) << server_->error();
  tcp_ = grpc::CreateChannel(server_->tcp_target(), grpc::InsecureChannelCredentials());
  const auto deadline = Clock::now() + Millis(10'000);
  std::string reason;
  while (reason != "QUOTA_EXCEEDED" && Clock::now() < deadline) {
    reason = ScheduleAs("alice", "a.x", Millis(3'600'000));
  }
  EXPECT_EQ(reason, "QUOTA_EXCEEDED");
}

TEST_F(QuotaTest, ARecurrenceCountsAsAMessage) {
  Write("access.toml", Rules() + "\n[[quota]]\nwho = [\"alice\"]\nmessages_per_second = 1\n");
  StartWithAccess();
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 50; ++i) *batch.add_messages() = Request("a", Millis(3'600'000));
  ASSERT_TRUE(Call("alice", "Messages/ScheduleBatch", batch).ok());
  v1::CreateRecurrenceRequest create;
  create.mutable_recurrence()->set_name("r");
  create.mutable_recurrence()->set_topic("a");
  create.mutable_recurrence()->mutable_schedule()->mutable_interval()->set_seconds(3'600);
  EXPECT_EQ(InfoOf(Call("alice", "Messages/CreateRecurrence", create)).reason, "QUOTA_EXCEEDED");
  EXPECT_EQ(InfoOf(Call("bob", "Messages/CreateRecurrence", create)).reason, "ACCESS_DENIED");
}

}  // namespace
}  // namespace duetime::test
