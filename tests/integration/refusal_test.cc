// SPDX-License-Identifier: Apache-2.0
//
// Refusals: the table refusals.txt, bytes that are no request, and full servers. A refused request
// changes nothing.
#include <future>
#include <grpcpp/generic/generic_stub.h>

#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"
#include "tests/support/refusals.h"

namespace duetime::test {
namespace {

class RefusalTest : public DaemonTest {
 protected:
  void SetUp() override { StartDaemon(); }

  // Checks after every test that no message was accepted and that the server still serves.
  void TearDown() override {
    if (server_ != nullptr && server_->running()) {
      const auto known = [&](const v1::Counts& c) { return c.accepted() >= accepted_; };
      EXPECT_EQ(CountsWhen(known).accepted(), accepted_);
      EXPECT_EQ(MustSchedule("after", Millis(3'600'000)).state(), v1::Message::STATE_SCHEDULED);
    }
    DaemonTest::TearDown();
  }

  static void ExpectInvalid(const grpc::Status& status, const std::string& reason) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    EXPECT_EQ(InfoOf(status).reason, reason) << status.error_message();
    EXPECT_FALSE(InfoOf(status).retry_delay.has_value()) << "trying again would not help";
  }

  int64_t accepted_ = 0;
};

TEST_F(DaemonTest, RefusesEachFieldOutOfItsBounds) {
  StartDaemon();
  ExpectRefusals(channel_);
}

TEST_F(DaemonTest, AcceptsTheEdges) {
  StartDaemon();
  ExpectAccepted(channel_);
}

// gRPC refuses the request before it reads it.
TEST_F(RefusalTest, ABatchOfFarTooManyBytes) {
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 17; ++i) {
    *batch.add_messages() = Request("t", Millis(3'600'000), std::string(1 << 20, 'x'));
  }
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ScheduleBatchResponse response;
  const grpc::Status status = messages_->ScheduleBatch(&context, batch, &response);
  EXPECT_TRUE(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
              status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
      << status.error_message();
}

TEST_F(RefusalTest, ASecondStartEndsTheStream) {
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  ASSERT_TRUE(subscription.WaitStarted());
  v1::SubscribeRequest again;
  again.mutable_start()->set_topic("t");
  subscription.Send(again);
  const auto end = subscription.WaitEnd(Millis(10'000));
  ASSERT_TRUE(end.has_value());
  ExpectInvalid(*end, "INVALID_SUBSCRIBE");
}

TEST_F(RefusalTest, ATokenThatWasNeverGivenIsRefusedAndTheStreamGoesOn) {
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  ASSERT_TRUE(subscription.WaitStarted());
  for (const std::string token : {"", "0000000000001", "fzzzzzzzzzzzz", "12345", "no token"}) {
    v1::SubscribeRequest request;
    request.add_settlements()->set_lease_token(token);
    ASSERT_TRUE(subscription.Send(request));
    EXPECT_EQ(subscription.Answer(token), SettleAnswer::kLeaseLost) << token;
  }
  MustSchedule("t", Millis(0));
  accepted_ = 1;
  EXPECT_TRUE(subscription.Next().has_value());
}

// Sends `bytes` as the request of `method`.
grpc::Status CallRaw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(Clock::now() + Millis(10'000));
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> answered;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                 [&answered](grpc::Status status) { answered.set_value(std::move(status)); });
  return answered.get_future().get();
}

TEST_F(RefusalTest, BytesThatAreNotTheMessageAreMalformed) {
  const std::string bad_utf8 = [] {
    v1::ScheduleRequest request = Request("t", Millis(0));
    (*request.mutable_attributes())["k"] = "ok";
    std::string bytes = request.SerializeAsString();
    bytes[bytes.find("ok")] = '\xff';
    return bytes;
  }();
  for (const char* method : {"Schedule", "ScheduleBatch", "Cancel", "Get"}) {
    for (const std::string& bytes : {std::string("\xff\xff\xff\xff"), std::string("\x0a\x7f short"),
                                     std::string("\x0a"), std::string(1'000, '\x0b')}) {
      const grpc::Status status =
          CallRaw(channel_, std::string("/duetime.v1.Messages/") + method, bytes);
      SCOPED_TRACE(std::string(method) + ": " + status.error_message());
      ExpectInvalid(status, "MALFORMED_REQUEST");
    }
  }
  ExpectInvalid(CallRaw(channel_, "/duetime.v1.Messages/Schedule", bad_utf8), "MALFORMED_REQUEST");
  ExpectInvalid(CallRaw(channel_, "/duetime.v1.Messages/Cancel", std::string("\x0a\x02\xff\xfe")),
                "MALFORMED_REQUEST");
  ExpectInvalid(CallRaw(channel_, "/duetime.v1.Admin/ServerInfo", "\xff\xff\xff\xff"),
                "MALFORMED_REQUEST");
}

TEST_F(RefusalTest, AMethodThatIsNotThereIsUnimplemented) {
  EXPECT_EQ(CallRaw(channel_, "/duetime.v1.Messages/Explode", "").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST(OverloadTest, AFullMailboxSaysWhenToComeAgain) {
  ServerProcess server({.daemon = kDaemon,
                        .flags = {"--shards=1", "--mailbox-commands-max=1"},
                        .tcp = false,
                        .metrics = false,
                        .where = TempDirectory::Where::kMemory,
                        .unix_socket = true,
                        .tls = {}});
  ASSERT_TRUE(server.Start()) << server.error();
  const auto stub = v1::Messages::NewStub(server.Connect());
  grpc::CompletionQueue queue;
  struct Call {
    grpc::ClientContext context;
    v1::ScheduleResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ScheduleResponse>> reader;
  };
  v1::ScheduleRequest request;
  request.set_topic("t");
  request.mutable_delay()->set_seconds(3'600);
  int accepted = 0;
  int refused = 0;
  // Sends bursts until a call meets a full mailbox, because the test cannot know how fast the shard
  // empties it.
  for (int burst = 0; burst < 200 && refused == 0; ++burst) {
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < 200; ++i) {
      calls.push_back(std::make_unique<Call>());
      Call* call = calls.back().get();
      call->context.set_deadline(Clock::now() + Millis(20'000));
      call->reader = stub->AsyncSchedule(&call->context, request, &queue);
      call->reader->Finish(&call->response, &call->status, call);
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      void* tag = nullptr;
      bool ok = false;
      ASSERT_TRUE(queue.Next(&tag, &ok));
      const auto* call = static_cast<Call*>(tag);
      if (call->status.ok()) {
        ++accepted;
        continue;
      }
      ++refused;
      EXPECT_EQ(call->status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
          << call->status.error_message();
      const client::ErrorInfo info = InfoOf(call->status);
      EXPECT_EQ(info.reason, "OVERLOADED");
      EXPECT_GT(info.retry_delay.value_or(absl::ZeroDuration()), absl::ZeroDuration());
      EXPECT_EQ(info.metadata.count("limit"), 1u);
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(accepted, 0);
  // A refused call changed nothing.
  const auto admin = v1::Admin::NewStub(server.Connect());
  // The count is a copy and may be a moment old.
  v1::ServerInfoResponse info;
  const auto deadline = Clock::now() + Millis(5000);
  do {
    grpc::ClientContext context;
    ASSERT_TRUE(admin->ServerInfo(&context, {}, &info).ok());
  } while (info.counts().accepted() < accepted && Clock::now() < deadline);
  EXPECT_EQ(info.counts().accepted(), accepted);
}

TEST_F(DaemonTest, TooManyStreamsAndTopics) {
  StartDaemon({"--streams-max=2", "--topics-max=3"});
  const Subscription one(channel_, Subscription::Start{.topic = "a"});
  Subscription two(channel_, Subscription::Start{.topic = "a"});
  ASSERT_TRUE(two.WaitStarted());
  Subscription three(channel_, Subscription::Start{.topic = "a"});
  const auto end = three.WaitEnd(Millis(10'000));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(InfoOf(*end).reason, "STREAM_LIMIT");
  EXPECT_EQ(InfoOf(*end).metadata.count("limit"), 1u);

  MustSchedule("b", Millis(3'600'000));
  MustSchedule("c", Millis(3'600'000));
  v1::Message message;
  const grpc::Status status = Schedule(Request("d", Millis(3'600'000)), &message);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(InfoOf(status).reason, "TOPIC_LIMIT");
  MustSchedule("b", Millis(3'600'000));
}

}  // namespace
}  // namespace duetime::test
