// SPDX-License-Identifier: Apache-2.0
//
// Refusals: every INVALID_ARGUMENT of the protos with its reason, field and limit. A refused
// request changes nothing.
#include <functional>
#include <future>
#include <grpcpp/generic/generic_stub.h>

#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"

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

  static void ExpectInvalid(const absl::Status& status, const std::string& reason,
                            const std::string& field, const std::string& limit) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const client::ErrorInfo info = client::GetErrorInfo(status);
    EXPECT_EQ(info.reason, reason) << status;
    EXPECT_EQ(info.domain, "duetime");
    EXPECT_FALSE(status.message().empty());
    EXPECT_FALSE(info.retry_delay.has_value()) << "trying again would not help";
    if (!field.empty()) {
      ASSERT_EQ(info.field_violations.size(), 1u) << status;
      EXPECT_EQ(info.field_violations[0].field, field);
      EXPECT_FALSE(info.field_violations[0].description.empty());
    }
    if (!limit.empty()) {
      const auto named = info.metadata.find("limit");
      ASSERT_NE(named, info.metadata.end()) << status;
      EXPECT_EQ(named->second, limit);
      EXPECT_NE(status.message().find(limit), absl::string_view::npos) << status;
    }
  }
  static void ExpectInvalid(const grpc::Status& status, const std::string& reason,
                            const std::string& field, const std::string& limit) {
    ExpectInvalid(client::ToAbslStatus(status), reason, field, limit);
  }

  int64_t accepted_ = 0;
};

struct ScheduleCase {
  const char* name;
  std::function<void(v1::ScheduleRequest*)> spoil;
  const char* reason;
  const char* field;
  const char* limit;
};

std::vector<ScheduleCase> ScheduleCases() {
  using Request = v1::ScheduleRequest;
  return {
      {"no topic", [](Request* r) { r->clear_topic(); }, "INVALID_TOPIC", "topic", ""},
      {"long topic", [](Request* r) { r->set_topic(std::string(256, 'a')); }, "INVALID_TOPIC",
       "topic", "255"},
      {"space in topic", [](Request* r) { r->set_topic("a b"); }, "INVALID_TOPIC", "topic", ""},
      {"umlaut in topic", [](Request* r) { r->set_topic("ä"); }, "INVALID_TOPIC", "topic", ""},
      {"NUL in topic", [](Request* r) { r->set_topic(std::string("a\0b", 3)); }, "INVALID_TOPIC",
       "topic", ""},
      {"large payload", [](Request* r) { r->set_payload(std::string((1 << 20) + 1, 'x')); },
       "PAYLOAD_TOO_LARGE", "payload", "1048576"},
      {"65 attributes",
       [](Request* r) {
         for (int i = 0; i < 65; ++i) r->mutable_attributes()->insert({std::to_string(i), "v"});
       },
       "INVALID_ATTRIBUTES", "attributes", "64"},
      {"16 KiB and 1 byte of attributes",
       [](Request* r) { (*r->mutable_attributes())["k"] = std::string(16 << 10, 'x'); },
       "INVALID_ATTRIBUTES", "attributes", "16384"},
      {"empty attribute key", [](Request* r) { (*r->mutable_attributes())[""] = "v"; },
       "INVALID_ATTRIBUTES", "attributes", ""},
      {"long attribute key",
       [](Request* r) { (*r->mutable_attributes())[std::string(256, 'k')] = "v"; },
       "INVALID_ATTRIBUTES", "attributes", "255"},
      {"no time", [](Request* r) { r->clear_when(); }, "DELIVER_TIME_MISSING", "deliver_time", ""},
      {"negative delay", [](Request* r) { r->mutable_delay()->set_seconds(-1); },
       "DELIVER_TIME_OUT_OF_RANGE", "delay", ""},
      {"delay below zero by a nanosecond",
       [](Request* r) {
         r->mutable_delay()->set_seconds(0);
         r->mutable_delay()->set_nanos(-1);
       },
       "DELIVER_TIME_OUT_OF_RANGE", "delay", ""},
      {"delay with two signs", [](Request* r) { r->mutable_delay()->set_nanos(-1); },
       "DELIVER_TIME_OUT_OF_RANGE", "delay", ""},
      {"delay with too many nanoseconds",
       [](Request* r) { r->mutable_delay()->set_nanos(1'000'000'000); },
       "DELIVER_TIME_OUT_OF_RANGE", "delay", ""},
      {"delay beyond the horizon",
       [](Request* r) { r->mutable_delay()->set_seconds(3'650LL * 86'400 + 1); },
       "DELIVER_TIME_OUT_OF_RANGE", "delay", "315360000000"},
      {"delay without end", [](Request* r) { r->mutable_delay()->set_seconds(INT64_MAX); },
       "DELIVER_TIME_OUT_OF_RANGE", "delay", ""},
      {"time beyond the horizon",
       [](Request* r) { r->mutable_deliver_time()->set_seconds(200'000'000'000); },
       "DELIVER_TIME_OUT_OF_RANGE", "deliver_time", "315360000000"},
      {"year 10000", [](Request* r) { r->mutable_deliver_time()->set_seconds(253'402'300'800); },
       "DELIVER_TIME_OUT_OF_RANGE", "deliver_time", ""},
      {"year 0", [](Request* r) { r->mutable_deliver_time()->set_seconds(-62'135'596'801); },
       "DELIVER_TIME_OUT_OF_RANGE", "deliver_time", ""},
      {"negative nanoseconds", [](Request* r) { r->mutable_deliver_time()->set_nanos(-1); },
       "DELIVER_TIME_OUT_OF_RANGE", "deliver_time", ""},
      {"too many nanoseconds",
       [](Request* r) { r->mutable_deliver_time()->set_nanos(1'000'000'000); },
       "DELIVER_TIME_OUT_OF_RANGE", "deliver_time", ""},
  };
}

TEST_F(RefusalTest, EveryBadSchedule) {
  const std::vector<ScheduleCase> cases = ScheduleCases();
  ASSERT_EQ(cases.size(), 22u);
  for (const ScheduleCase& c : cases) {
    SCOPED_TRACE(c.name);
    v1::ScheduleRequest request = Request("t", Millis(3'600'000));
    c.spoil(&request);
    v1::Message message;
    ExpectInvalid(Schedule(request, &message), c.reason, c.field, c.limit);
  }
}

TEST_F(RefusalTest, EveryBadItemOfABatchAndNoneOfTheOthers) {
  const std::vector<ScheduleCase> cases = ScheduleCases();
  v1::ScheduleBatchRequest batch;
  for (const ScheduleCase& c : cases) {
    *batch.add_messages() = Request("t", Millis(3'600'000));
    v1::ScheduleRequest* bad = batch.add_messages();
    *bad = Request("t", Millis(3'600'000));
    c.spoil(bad);
  }
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::ScheduleBatchResponse response;
  const grpc::Status status = messages_->ScheduleBatch(&context, batch, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), static_cast<int>(cases.size()) * 2);
  for (int i = 0; i < response.results_size(); i += 2) {
    const ScheduleCase& c = cases[static_cast<size_t>(i / 2)];
    SCOPED_TRACE(c.name);
    EXPECT_TRUE(response.results(i).has_message());
    ExpectInvalid(client::ToAbslStatus(response.results(i + 1).error()), c.reason,
                  "messages[" + std::to_string(i + 1) + "]." + c.field, c.limit);
  }
  accepted_ = static_cast<int64_t>(cases.size());
}

TEST_F(RefusalTest, TheEdgesAreAccepted) {
  v1::ScheduleRequest request = Request(std::string(255, 'a'), Millis(3'600'000));
  request.set_payload(std::string(1 << 20, 'x'));
  EXPECT_EQ(MustSchedule(request).payload_bytes(), 1 << 20);
  request = Request("abcXYZ019._-:/", Millis(0), "");
  request.mutable_delay()->set_seconds(3'650LL * 86'400);
  for (int i = 0; i < 64; ++i) {
    (*request.mutable_attributes())[std::to_string(i) + std::string(200, 'k')] = "";
  }
  EXPECT_EQ(MustSchedule(request).payload_bytes(), 0);
  accepted_ = 2;
}

TEST_F(RefusalTest, BatchesThatAreTooLarge) {
  v1::ScheduleBatchRequest batch;
  for (int i = 0; i < 10'001; ++i) *batch.add_messages() = Request("t", Millis(3'600'000), "");
  v1::ScheduleBatchResponse response;
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    ExpectInvalid(messages_->ScheduleBatch(&context, batch, &response), "BATCH_TOO_LARGE",
                  "messages", "10000");
  }
  // Sixteen payloads of 1 MiB with their overhead exceed the limit.
  batch.Clear();
  for (int i = 0; i < 16; ++i) {
    *batch.add_messages() = Request("t", Millis(3'600'000), std::string(1 << 20, 'x'));
  }
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    ExpectInvalid(messages_->ScheduleBatch(&context, batch, &response), "BATCH_TOO_LARGE",
                  "messages", "16777216");
  }
  // gRPC refuses a much larger request before it reads it.
  *batch.add_messages() = batch.messages(0);
  {
    grpc::ClientContext context;
    SetDeadline(&context);
    const grpc::Status status = messages_->ScheduleBatch(&context, batch, &response);
    EXPECT_TRUE(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT ||
                status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
        << status.error_message();
  }
  grpc::ClientContext context;
  SetDeadline(&context);
  EXPECT_TRUE(messages_->ScheduleBatch(&context, {}, &response).ok());
  EXPECT_EQ(response.results_size(), 0);
}

TEST_F(RefusalTest, IdsThatNoServerGives) {
  const std::string good = MustSchedule("t", Millis(3'600'000)).id();
  accepted_ = 1;
  std::string upper = good;
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  std::string letter = good;
  letter[5] = 'u';  // Not in the alphabet.
  for (const std::string& id : {std::string(), std::string("x"), good + "0", good.substr(1), upper,
                                letter, std::string(26, 'z'), std::string(100'000, '0')}) {
    SCOPED_TRACE(id.substr(0, 30));
    v1::Message message;
    ExpectInvalid(Get(id, &message), "INVALID_MESSAGE_ID", "message_id", "");
    v1::CancelResponse response;
    ExpectInvalid(Cancel(id, &response), "INVALID_MESSAGE_ID", "message_id", "");
  }
  v1::Message message;
  ExpectInvalid(Get(good, &message, static_cast<v1::MessageView>(3)), "INVALID_VIEW", "view", "");
  EXPECT_EQ(StateOf(good), v1::Message::STATE_SCHEDULED);
}

struct SubscribeCase {
  const char* name;
  std::function<void(v1::SubscribeRequest*)> spoil;
  const char* reason;
  const char* field;
  const char* limit;
};

TEST_F(RefusalTest, EveryBadSubscribe) {
  using Request = v1::SubscribeRequest;
  const std::vector<SubscribeCase> cases = {
      {"no start", [](Request* r) { r->clear_start(); }, "INVALID_SUBSCRIBE", "start", ""},
      {"settlements first",
       [](Request* r) {
         r->clear_start();
         r->add_settlements()->set_lease_token("0000000000001");
       },
       "INVALID_SUBSCRIBE", "start", ""},
      {"no topic", [](Request* r) { r->mutable_start()->clear_topic(); }, "INVALID_TOPIC", "topic",
       ""},
      {"bad topic", [](Request* r) { r->mutable_start()->set_topic("a b"); }, "INVALID_TOPIC",
       "topic", ""},
      {"long client id",
       [](Request* r) { r->mutable_start()->set_client_id(std::string(256, 'c')); },
       "INVALID_SUBSCRIBE", "client_id", "255"},
      {"negative credit", [](Request* r) { r->mutable_start()->set_max_outstanding_messages(-1); },
       "INVALID_SUBSCRIBE", "max_outstanding_messages", ""},
      {"too much credit",
       [](Request* r) { r->mutable_start()->set_max_outstanding_messages(100'001); },
       "INVALID_SUBSCRIBE", "max_outstanding_messages", "100000"},
      {"negative bytes", [](Request* r) { r->mutable_start()->set_max_outstanding_bytes(-1); },
       "INVALID_SUBSCRIBE", "max_outstanding_bytes", ""},
      {"short lease",
       [](Request* r) { r->mutable_start()->mutable_lease_duration()->set_nanos(999'999'999); },
       "INVALID_SUBSCRIBE", "lease_duration", ""},
      {"negative lease",
       [](Request* r) { r->mutable_start()->mutable_lease_duration()->set_seconds(-5); },
       "INVALID_SUBSCRIBE", "lease_duration", ""},
      {"long lease",
       [](Request* r) {
         r->mutable_start()->mutable_lease_duration()->set_seconds(12 * 3'600);
         r->mutable_start()->mutable_lease_duration()->set_nanos(1);
       },
       "INVALID_SUBSCRIBE", "lease_duration", ""},
  };
  ASSERT_EQ(cases.size(), 11u);
  for (const SubscribeCase& c : cases) {
    SCOPED_TRACE(c.name);
    v1::SubscribeRequest first;
    first.mutable_start()->set_topic("t");
    c.spoil(&first);
    Subscription subscription(channel_, first);
    const auto end = subscription.WaitEnd(Millis(10'000));
    ASSERT_TRUE(end.has_value());
    ExpectInvalid(*end, c.reason, c.field, c.limit);
  }
}

TEST_F(RefusalTest, ASecondStartEndsTheStream) {
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  ASSERT_TRUE(subscription.WaitStarted());
  v1::SubscribeRequest again;
  again.mutable_start()->set_topic("t");
  subscription.Send(again);
  const auto end = subscription.WaitEnd(Millis(10'000));
  ASSERT_TRUE(end.has_value());
  ExpectInvalid(*end, "INVALID_SUBSCRIBE", "start", "");
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
      ExpectInvalid(status, "MALFORMED_REQUEST", "", "");
    }
  }
  ExpectInvalid(CallRaw(channel_, "/duetime.v1.Messages/Schedule", bad_utf8), "MALFORMED_REQUEST",
                "", "");
  ExpectInvalid(CallRaw(channel_, "/duetime.v1.Messages/Cancel", std::string("\x0a\x02\xff\xfe")),
                "MALFORMED_REQUEST", "", "");
  ExpectInvalid(CallRaw(channel_, "/duetime.v1.Admin/ServerInfo", "\xff\xff\xff\xff"),
                "MALFORMED_REQUEST", "", "");
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
