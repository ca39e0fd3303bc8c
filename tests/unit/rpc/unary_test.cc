// SPDX-License-Identifier: Apache-2.0
//
// The unary calls, through a socket.
#include <atomic>
#include <grpcpp/generic/generic_stub.h>
#include <set>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "server/cell/roster.h"
#include "tests/unit/rpc/server_fixture.h"

namespace duetime::rpc {
namespace {

class UnaryTest : public ServerTest {
 protected:
  // Sends bytes as a request that no stub would send.
  grpc::Status CallRaw(const std::string& method, const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue cq;
    const auto context = NewContext();
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    const auto reader = stub.PrepareUnaryCall(context.get(), method, request, &cq);
    grpc::ByteBuffer response;
    grpc::Status status;
    reader->StartCall();
    reader->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(cq.Next(&tag, &ok) && ok);
    return status;
  }

  v1::ServerInfoResponse Info() { return Must(&Admin::ServerInfo, ""); }

  cell::Roster members_{250};
};

TEST_F(UnaryTest, SaysThatItIsStarting) {
  Listen(DefaultOptions());
  ExpectRefused(Call(&Messages::Schedule, NewMessage("t", "p")), grpc::StatusCode::UNAVAILABLE,
                "STARTING", {});
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Info().state(), v1::SERVING_STATE_STARTING);
  Serve();
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  MustSchedule(NewMessage("t", "p"));
}

TEST_F(UnaryTest, AStandbySaysWhoLeadsUntilItLeadsItself) {
  Listen(DefaultOptions());
  for (const std::string leader : {"", "other:7400"}) {
    server_->ShowStandby(leader);
    ExpectRefused(Call(&Messages::Schedule, NewMessage("t", "p")), grpc::StatusCode::UNAVAILABLE,
                  "NOT_LEADER", {{"leader", leader}});
    EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
    EXPECT_EQ(Info().state(), v1::SERVING_STATE_STANDBY);
    EXPECT_EQ(Info().leader_address(), leader);
  }
  Serve();
  MustSchedule(NewMessage("t", "p"));
}

TEST_F(UnaryTest, AServerThatIsAloneHasNoCell) {
  Start();
  EXPECT_FALSE(Info().has_cell());
  EXPECT_EQ(Reason(&Admin::HandOver, ""), "NOT_IN_CELL");
}

TEST_F(UnaryTest, AMemberTellsOfItsCellAndHandsOverToAMemberThatIsThere) {
  roster_ = &members_;
  Start();
  const auto hand_over = [this] { return Reason(&Admin::HandOver, ""); };
  EXPECT_EQ(Info().cell().member(), "a");
  // Its clock is behind the log's.
  const auto report = [&](const char* name, uint64_t time_ms, uint64_t behind_ms = 1'300) {
    members_.NoteTime(time_ms);
    members_.Note({.report = {.name = name,
                              .address = "host:1",
                              .leads = true,
                              .durable_offset = 9,
                              .wall_ms = time_ms - behind_ms,
                              .ahead_most_ms = -static_cast<int64_t>(behind_ms)},
                   .epoch = 3,
                   .groups = 8,
                   .report_ms = time_ms});
  };
  report("a", 50'000);
  EXPECT_EQ(hand_over(), "NO_STANDBY");
  report("b", 50'000);
  report("a", 81'000);
  EXPECT_EQ(hand_over(), "NO_STANDBY") << "b is away";
  EXPECT_FALSE(server_->hand_over_wanted());
  report("b", 82'000, 1'600);
  EXPECT_EQ(hand_over(), "OK");
  EXPECT_TRUE(server_->hand_over_wanted());
  const v1::Cell cell = Info().cell();
  ASSERT_EQ(cell.members_size(), 2);
  EXPECT_EQ(cell.members(0).name(), "a");
  EXPECT_EQ(cell.members(0).address(), "host:1");
  EXPECT_TRUE(cell.members(0).leads());
  EXPECT_EQ(cell.members(0).epoch(), 3);
  EXPECT_EQ(cell.members(0).groups(), 8);
  EXPECT_EQ(cell.members(0).durable_offset(), 9);
  EXPECT_EQ(cell.members(0).report_age().seconds(), 1);
  EXPECT_EQ(cell.members(0).clock_difference().seconds(), -1);
  EXPECT_EQ(cell.members(0).clock_difference().nanos(), -300'000'000);
  EXPECT_EQ(cell.members(0).clocks_apart(), 1);
  // The journal takes no more: another member may lead.
  store().FailNextAppend(test::TestStore::Fault::kUnknownLost);
  for (const char* const reason : {"STORAGE_FAILED", "NOT_LEADER"}) {
    EXPECT_EQ(Reason(&Messages::Schedule, NewMessage("t", "p")), reason);
  }
}

TEST_F(UnaryTest, ASlowCallIsLoggedAndAPullThatWaitsIsNot) {
  std::ostringstream lines;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(lines)));
  GatedStore* const gate = UseGatedStore();
  api::ServerOptions options = DefaultOptions();
  options.slow_request_ms = 30;
  Start(options);
  MustSchedule(NewMessage("t", "p", 100));
  Must(&Messages::Pull, "topic: 't' wait { nanos: 60000000 }");
  gate->SetOpen(false);
  const uint64_t begin = base::ReadMicros();
  std::thread caller([this] { MustSchedule(NewMessage("t", "p", 100)); });
  gate->AwaitAppend();
  while (base::ReadMicros() < begin + 100'000) std::this_thread::yield();
  gate->SetOpen(true);
  caller.join();
  StopAll();
  spdlog::set_default_logger(before);
  EXPECT_NE(lines.str().find("slow call: Schedule took "), std::string::npos) << lines.str();
  EXPECT_NE(lines.str().find(" ms, OK, from unix"), std::string::npos) << lines.str();
  EXPECT_EQ(lines.str().find("Pull"), std::string::npos) << lines.str();
}

TEST_F(UnaryTest, AMessageKeepsTheTraceContextOfItsCall) {
  Start();
  const std::string parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  const auto traced = [&](const std::string& header) {
    auto context = NewContext();
    context->AddMetadata("traceparent", header);
    context->AddMetadata("tracestate", "vendor=1");
    return context;
  };
  const auto attributes = [this](const std::string& id) {
    const auto response = Must(&Messages::Get, "message_id: '" + id + "' view: MESSAGE_VIEW_FULL");
    const auto& found = response.message().attributes();
    return std::map<std::string, std::string>(found.begin(), found.end());
  };
  const std::map<std::string, std::string> both = {{"traceparent", parent},
                                                   {"tracestate", "vendor=1"}};
  v1::ScheduleRequest own = NewMessage("t", "p", 100);
  (*own.mutable_attributes())["traceparent"] = "mine";
  v1::ScheduleResponse one;
  const v1::ScheduleRequest plain = NewMessage("t", "p", 100);
  ASSERT_TRUE(messages_->Schedule(traced(parent).get(), plain, &one).ok());
  EXPECT_EQ(attributes(one.message().id()), both) << "the call that creates the topic";
  ASSERT_TRUE(messages_->Schedule(traced(parent).get(), plain, &one).ok());
  EXPECT_EQ(attributes(one.message().id()), both);
  ASSERT_TRUE(messages_->Schedule(traced("nonsense").get(), plain, &one).ok());
  EXPECT_TRUE(attributes(one.message().id()).empty());
  EXPECT_TRUE(attributes(MustSchedule(plain)).empty()) << "of a call before";

  v1::ScheduleBatchRequest batch;
  *batch.add_messages() = plain;
  *batch.add_messages() = own;
  v1::ScheduleBatchResponse many;
  ASSERT_TRUE(messages_->ScheduleBatch(traced(parent).get(), batch, &many).ok());
  EXPECT_EQ(attributes(many.results(0).message().id()), both);
  EXPECT_EQ(attributes(many.results(1).message().id()).at("traceparent"), "mine");
  EXPECT_EQ(attributes(many.results(1).message().id()).size(), 1u);

  const auto context = traced(parent);
  const auto stream = messages_->ScheduleStream(context.get());
  v1::ScheduleStreamRequest frame;
  *frame.add_messages() = plain;
  v1::ScheduleStreamResponse response;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(stream->Write(frame) && stream->Read(&response));
    EXPECT_EQ(attributes(response.results(0).message().id()), both);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(UnaryTest, SchedulesGetsAndCancels) {
  Start();
  v1::ScheduleRequest request = NewMessage("orders", "hello", 100);
  (*request.mutable_attributes())["k"] = "v";
  const v1::Message scheduled = Must(&Messages::Schedule, request).message();
  EXPECT_EQ(scheduled.topic(), "orders");
  EXPECT_EQ(scheduled.id().size(), 26u);
  EXPECT_EQ(scheduled.state(), v1::Message::STATE_SCHEDULED);
  EXPECT_EQ(scheduled.deliver_time().seconds() - scheduled.accept_time().seconds(), 100);

  const std::string id = "message_id: '" + scheduled.id() + "' ";
  v1::Message got = Must(&Messages::Get, id).message();
  EXPECT_EQ(got.topic(), "orders");
  for (const v1::Message& basic : {scheduled, got}) {
    EXPECT_EQ(basic.payload(), "");
    EXPECT_EQ(basic.payload_bytes(), 5);
    EXPECT_EQ(basic.attributes_size(), 0);
  }
  got = Must(&Messages::Get, id + "view: MESSAGE_VIEW_FULL").message();
  EXPECT_EQ(got.payload(), "hello");
  EXPECT_EQ(got.attributes().at("k"), "v");
  EXPECT_EQ(got.deliver_time().seconds(), scheduled.deliver_time().seconds());

  auto cancelled = Must(&Messages::Cancel, id);
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(cancelled.state(), v1::Message::STATE_SCHEDULED);
  EXPECT_EQ(cancelled.message_id(), scheduled.id());
  EXPECT_FALSE(cancelled.has_end_time());
  cancelled = Must(&Messages::Cancel, id);
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);
  EXPECT_EQ(cancelled.state(), v1::Message::STATE_CANCELLED);
  EXPECT_TRUE(cancelled.has_end_time());
  got = Must(&Messages::Get, id + "view: MESSAGE_VIEW_FULL").message();
  EXPECT_EQ(got.state(), v1::Message::STATE_CANCELLED);
  EXPECT_EQ(got.payload(), "");
  EXPECT_EQ(got.payload_bytes(), 5);
  const std::string other = storage::MessageId::Make(1, 1'000'000, 0, 5).ToString();
  ExpectRefused(Call(&Messages::Get, "message_id: '" + other + "'"), grpc::StatusCode::NOT_FOUND,
                "MESSAGE_NOT_FOUND", {});

  const v1::ServerInfoResponse info = Info();
  EXPECT_EQ(info.state(), v1::SERVING_STATE_SERVING);
  EXPECT_EQ(info.shards(), 1);
  EXPECT_EQ(info.counts().topics(), 1);
  EXPECT_EQ(info.limits().payload_bytes_max(), 1 << 20);
  EXPECT_EQ(stats_.of(api::MethodOf<v1::GetRequest>()).started.load(), 4u);
  EXPECT_EQ(stats_.of(api::MethodOf<v1::GetRequest>()).ended[5].load(), 1u);
}

TEST_F(UnaryTest, ADueMessageSaysSo) {
  Start();
  EXPECT_EQ(Must(&Messages::Schedule, NewMessage("t", "p")).message().state(),
            v1::Message::STATE_DUE);
}

TEST_F(UnaryTest, ABatchAnswersItemByItem) {
  shards_ = 4;
  Start();
  v1::ScheduleBatchRequest request;
  for (int i = 0; i < 100; ++i) {
    *request.add_messages() = NewMessage("topic-" + std::to_string(i % 3), "p", 50);
  }
  request.mutable_messages(7)->set_topic("not a topic");
  request.mutable_messages(99)->clear_when();
  const auto response = Must(&Messages::ScheduleBatch, request);
  ASSERT_EQ(response.results_size(), 100);
  std::set<std::string> ids;
  for (int i = 0; i < 100; ++i) {
    if (i == 7 || i == 99) {
      ASSERT_TRUE(response.results(i).has_error());
      const v1::Failure& info = response.results(i).error();
      EXPECT_EQ(info.code(), static_cast<int>(grpc::StatusCode::INVALID_ARGUMENT));
      EXPECT_EQ(info.reason(), i == 7 ? "INVALID_TOPIC" : "DELIVER_TIME_MISSING");
      EXPECT_EQ(info.metadata().at("field"),
                i == 7 ? "messages[7].topic" : "messages[99].deliver_time");
      EXPECT_EQ(info.field(), info.metadata().at("field"));
      continue;
    }
    ASSERT_TRUE(response.results(i).has_message());
    EXPECT_EQ(response.results(i).message().topic(), "topic-" + std::to_string(i % 3));
    ids.insert(response.results(i).message().id());
  }
  EXPECT_EQ(ids.size(), 98u);

  EXPECT_EQ(Must(&Messages::ScheduleBatch, "").results_size(), 0);
  EXPECT_TRUE(Must(&Messages::ScheduleBatch, "messages { }").results(0).has_error());
}

TEST_F(UnaryTest, ABatchHasLimits) {
  api::ServerOptions options = DefaultOptions();
  options.limits.batch_messages_max = 2;
  Start(options);
  const auto times = [](int count, const std::string& text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  for (const int items : {2, 3}) {
    const std::string reason = items > 2 ? "BATCH_TOO_LARGE" : "OK";
    EXPECT_EQ(Reason(&Messages::ScheduleBatch, times(items, "messages { } ")), reason);
    EXPECT_EQ(Reason(&Messages::CancelBatch, times(items, "cancels { } ")), reason);
  }
}

TEST_F(UnaryTest, BytesThatAreNoMessageAreAnInvalidArgument) {
  Start();
  const std::string not_utf8("\x0a\x02\xff\xfe", 4);
  for (const char* method : {"/duetime.v1.Messages/Schedule", "/duetime.v1.Messages/ScheduleBatch",
                             "/duetime.v1.Messages/Cancel", "/duetime.v1.Messages/Get",
                             "/duetime.v1.Messages/CancelBatch", "/duetime.v1.Messages/Reschedule",
                             "/duetime.v1.Messages/List", "/duetime.v1.Messages/Explain",
                             "/duetime.v1.Admin/CreateTopic", "/duetime.v1.Admin/GetTopic",
                             "/duetime.v1.Admin/ListTopics", "/duetime.v1.Admin/UpdateTopic",
                             "/duetime.v1.Admin/DeleteTopic", "/duetime.v1.Admin/Forecast",
                             "/duetime.v1.Admin/ServerInfo", "/grpc.health.v1.Health/Check"}) {
    SCOPED_TRACE(method);
    for (const std::string& bytes : {std::string("\xff\xff\xff"), std::string("\x0a\x7f"),
                                     std::string(2'000, '\x7a').replace(1, 2, "\x8f\xce")}) {
      const grpc::Status status = CallRaw(method, bytes);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
      EXPECT_EQ(ReasonOf(status), "MALFORMED_REQUEST");
    }
  }
  EXPECT_EQ(ReasonOf(CallRaw("/duetime.v1.Messages/Schedule", not_utf8)), "MALFORMED_REQUEST");
  EXPECT_EQ(CallRaw("/duetime.v1.Messages/Nonsense", "").error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(UnaryTest, ToleratesAFewUnknownFields) {
  Start();
  v1::ScheduleRequest request = NewMessage("t", "p", 10);
  auto* unknown = v1::ScheduleRequest::GetReflection()->MutableUnknownFields(&request);
  unknown->AddLengthDelimited(100, std::string(1'000, 'x'));
  MustSchedule(request);
  unknown->AddLengthDelimited(100, std::string(100, 'x'));
  EXPECT_EQ(Reason(&Messages::Schedule, request), "MALFORMED_REQUEST");
}

TEST_F(UnaryTest, TakesNoCompressedMessages) {
  Start();
  const auto context = NewContext();
  context->set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::ScheduleResponse response;
  const grpc::Status status =
      messages_->Schedule(context.get(), NewMessage("t", std::string(100'000, 'x'), 10), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

TEST_F(UnaryTest, RefusesNewMessagesWhenTheDiskIsLow) {
  std::atomic<bool> low{true};
  disk_low_ = [&low] { return low.load(); };
  Start();
  ExpectRefused(Call(&Messages::Schedule, NewMessage("t", "p", 10)),
                grpc::StatusCode::RESOURCE_EXHAUSTED, "DISK_LOW", {});
  EXPECT_TRUE(Info().disk_low());
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  low = false;
  MustSchedule(NewMessage("t", "p", 10));
}

TEST_F(UnaryTest, DrainingTakesNothingNewButStillCancels) {
  Start();
  const std::string id = MustSchedule(NewMessage("t", "p", 1000));
  server_->Drain();
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  ExpectRefused(Call(&Messages::Schedule, NewMessage("t", "p", 10)), grpc::StatusCode::UNAVAILABLE,
                "DRAINING", {});
  EXPECT_EQ(Must(&Messages::Cancel, "message_id: '" + id + "'").outcome(),
            v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(Info().state(), v1::SERVING_STATE_DRAINING);
}

TEST_F(UnaryTest, StopsForGoodWhenStorageFails) {
  Start();
  MustSchedule(NewMessage("t", "p", 1000));
  store().FailNextAppend(test::TestStore::Fault::kUnknownLost);
  for (int i = 0; i < 2; ++i) {
    ExpectRefused(Call(&Messages::Schedule, NewMessage("t", "p", 1000)),
                  grpc::StatusCode::UNAVAILABLE, "STORAGE_FAILED", {});
  }
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Info().state(), v1::SERVING_STATE_STORAGE_FAILED);
}

TEST_F(UnaryTest, ShutdownDoesNotWaitForADiskThatDoesNotAnswer) {
  GatedStore* const gate = UseGatedStore();
  api::ServerOptions options = DefaultOptions();
  options.heartbeat_ms = 20;  // the server also checks its calls this often
  Start(options);
  gate->SetOpen(false);
  grpc::Status status;
  std::thread caller([&] { status = Call(&Messages::Schedule, NewMessage("t", "p", 1000)); });
  const metrics::RpcMethodStats& calls = stats_.of(api::MethodOf<v1::ScheduleRequest>());
  while (calls.started.load() == 0) std::this_thread::yield();
  server_->Shutdown(std::chrono::milliseconds(20));
  caller.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  // The late answer finds no call.
  gate->SetOpen(true);
  node_->Stop();
}

TEST_F(UnaryTest, ManyCallersOnManyQueuesAndShards) {
  shards_ = 3;
  api::ServerOptions options = DefaultOptions();
  options.io_threads = 3;
  Start(options);
  constexpr int kThreads = 4;
  constexpr int kCalls = 200;
  std::vector<std::set<std::string>> ids(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      // A connection per thread, so that every completion queue gets calls.
      grpc::ChannelArguments arguments;
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
      const auto stub = v1::Messages::NewStub(grpc::CreateCustomChannel(
          server_->addresses()[0], grpc::InsecureChannelCredentials(), arguments));
      for (int i = 0; i < kCalls; ++i) {
        v1::ScheduleResponse response;
        if (!stub->Schedule(NewContext().get(), NewMessage("t", "p", 1000), &response).ok()) return;
        ids[static_cast<size_t>(t)].insert(response.message().id());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& some : ids) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), static_cast<size_t>(kThreads * kCalls));
}

}  // namespace
}  // namespace duetime::rpc
