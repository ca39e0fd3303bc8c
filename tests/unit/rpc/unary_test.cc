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

  v1::ServerInfoResponse Info() {
    v1::ServerInfoResponse response;
    EXPECT_TRUE(admin_->ServerInfo(NewContext().get(), {}, &response).ok());
    return response;
  }

  cell::Roster members_{250};
};

TEST_F(UnaryTest, SaysThatItIsStarting) {
  Listen(DefaultOptions());
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(NewMessage("t", "p"), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "STARTING");
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(Info().state(), v1::SERVING_STATE_STARTING);
  Serve();
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  EXPECT_TRUE(Schedule(NewMessage("t", "p"), &response).ok());
}

TEST_F(UnaryTest, AStandbySaysWhoLeadsUntilItLeadsItself) {
  Listen(DefaultOptions());
  for (const std::string leader : {"", "other:7400"}) {
    server_->ShowStandby(leader);
    v1::ScheduleResponse response;
    const grpc::Status status = Schedule(NewMessage("t", "p"), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), "NOT_LEADER");
    EXPECT_EQ(MetadataOf(status)["leader"], leader);
    EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
    EXPECT_EQ(Info().state(), v1::SERVING_STATE_STANDBY);
    EXPECT_EQ(Info().leader_address(), leader);
  }
  Serve();
  v1::ScheduleResponse response;
  EXPECT_TRUE(Schedule(NewMessage("t", "p"), &response).ok());
}

TEST_F(UnaryTest, AServerThatIsAloneHasNoCell) {
  Start();
  EXPECT_FALSE(Info().has_cell());
  v1::HandOverResponse response;
  EXPECT_EQ(ReasonOf(admin_->HandOver(NewContext().get(), {}, &response)), "NOT_IN_CELL");
}

TEST_F(UnaryTest, AMemberTellsOfItsCellAndHandsOverToAMemberThatIsThere) {
  roster_ = &members_;
  Start();
  const auto hand_over = [this] {
    v1::HandOverResponse response;
    const grpc::Status status = admin_->HandOver(NewContext().get(), {}, &response);
    return status.ok() ? "OK" : ReasonOf(status);
  };
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
  store().FailNextAppend(storage::MemoryStore::Fault::kUnknownLost);
  for (const char* const reason : {"STORAGE_FAILED", "NOT_LEADER"}) {
    v1::ScheduleResponse response;
    EXPECT_EQ(ReasonOf(Schedule(NewMessage("t", "p"), &response)), reason);
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
  v1::PullRequest pull;
  pull.set_topic("t");
  pull.mutable_wait()->set_nanos(60'000'000);
  v1::PullResponse pulled;
  EXPECT_TRUE(messages_->Pull(NewContext().get(), pull, &pulled).ok());
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
    v1::GetRequest get;
    get.set_message_id(id);
    get.set_view(v1::MESSAGE_VIEW_FULL);
    v1::GetResponse response;
    EXPECT_TRUE(messages_->Get(NewContext().get(), get, &response).ok());
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
  ASSERT_TRUE(messages_->Schedule(NewContext().get(), plain, &one).ok());
  EXPECT_TRUE(attributes(one.message().id()).empty()) << "of a call before";

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
  v1::ScheduleResponse scheduled;
  ASSERT_TRUE(Schedule(request, &scheduled).ok());
  EXPECT_EQ(scheduled.message().topic(), "orders");
  EXPECT_EQ(scheduled.message().id().size(), 26u);
  EXPECT_EQ(scheduled.message().state(), v1::Message::STATE_SCHEDULED);
  EXPECT_EQ(scheduled.message().payload_bytes(), 5);
  EXPECT_EQ(scheduled.message().payload(), "");
  EXPECT_EQ(
      scheduled.message().deliver_time().seconds() - scheduled.message().accept_time().seconds(),
      100);

  v1::GetRequest get;
  get.set_message_id(scheduled.message().id());
  v1::GetResponse got;
  ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
  EXPECT_EQ(got.message().topic(), "orders");
  EXPECT_EQ(got.message().payload(), "");
  EXPECT_EQ(got.message().payload_bytes(), 5);
  EXPECT_EQ(got.message().attributes_size(), 0);
  get.set_view(v1::MESSAGE_VIEW_FULL);
  ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
  EXPECT_EQ(got.message().payload(), "hello");
  EXPECT_EQ(got.message().attributes().at("k"), "v");
  EXPECT_EQ(got.message().deliver_time().seconds(), scheduled.message().deliver_time().seconds());

  v1::CancelRequest cancel;
  cancel.set_message_id(scheduled.message().id());
  v1::CancelResponse cancelled;
  ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(cancelled.state(), v1::Message::STATE_SCHEDULED);
  EXPECT_EQ(cancelled.message_id(), scheduled.message().id());
  EXPECT_FALSE(cancelled.has_end_time());
  ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_ALREADY_CANCELLED);
  EXPECT_EQ(cancelled.state(), v1::Message::STATE_CANCELLED);
  EXPECT_TRUE(cancelled.has_end_time());
  ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
  EXPECT_EQ(got.message().state(), v1::Message::STATE_CANCELLED);
  EXPECT_EQ(got.message().payload(), "");
  EXPECT_EQ(got.message().payload_bytes(), 5);
  get.set_message_id(storage::MessageId::Make(1, 1'000'000, 0, 5).ToString());
  const grpc::Status gone = messages_->Get(NewContext().get(), get, &got);
  EXPECT_EQ(gone.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(gone), "MESSAGE_NOT_FOUND");

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
  v1::ScheduleResponse response;
  ASSERT_TRUE(Schedule(NewMessage("t", "p", 0), &response).ok());
  EXPECT_EQ(response.message().state(), v1::Message::STATE_DUE);
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
  v1::ScheduleBatchResponse response;
  ASSERT_TRUE(messages_->ScheduleBatch(NewContext().get(), request, &response).ok());
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

  EXPECT_TRUE(messages_->ScheduleBatch(NewContext().get(), {}, &response).ok());
  EXPECT_EQ(response.results_size(), 0);
  v1::ScheduleBatchRequest all_bad;
  all_bad.add_messages();
  ASSERT_TRUE(messages_->ScheduleBatch(NewContext().get(), all_bad, &response).ok());
  EXPECT_TRUE(response.results(0).has_error());
}

TEST_F(UnaryTest, ABatchHasLimits) {
  api::ServerOptions options = DefaultOptions();
  options.limits.batch_messages_max = 10;
  options.limits.batch_bytes_max = 10'000;
  Start(options);
  v1::ScheduleBatchRequest request;
  for (int i = 0; i < 11; ++i) *request.add_messages() = NewMessage("t", "p", 50);
  v1::ScheduleBatchResponse response;
  grpc::Status status = messages_->ScheduleBatch(NewContext().get(), request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "BATCH_TOO_LARGE");
  request.mutable_messages()->RemoveLast();
  EXPECT_TRUE(messages_->ScheduleBatch(NewContext().get(), request, &response).ok());
  request.mutable_messages(0)->set_payload(std::string(10'000, 'x'));
  status = messages_->ScheduleBatch(NewContext().get(), request, &response);
  EXPECT_EQ(ReasonOf(status), "BATCH_TOO_LARGE");
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
  v1::ScheduleResponse response;
  EXPECT_TRUE(Schedule(request, &response).ok());
  unknown->AddLengthDelimited(100, std::string(100, 'x'));
  EXPECT_EQ(ReasonOf(Schedule(request, &response)), "MALFORMED_REQUEST");
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
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(NewMessage("t", "p", 10), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "DISK_LOW");
  EXPECT_TRUE(Info().disk_low());
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::SERVING);
  low = false;
  EXPECT_TRUE(Schedule(NewMessage("t", "p", 10), &response).ok());
}

TEST_F(UnaryTest, HasALimitOfTopics) {
  node_options_.catalog.topics_max = 1;
  Start();
  v1::ScheduleResponse response;
  EXPECT_TRUE(Schedule(NewMessage("a", "p", 10), &response).ok());
  EXPECT_EQ(ReasonOf(Schedule(NewMessage("b", "p", 10), &response)), "TOPIC_LIMIT");
  EXPECT_TRUE(Schedule(NewMessage("a", "p", 10), &response).ok());
}

TEST_F(UnaryTest, TopicNamesSurviveARestart) {
  Start();
  const std::string id = MustSchedule(NewMessage("orders", "p", 1000));
  StopAll();
  server_.reset();
  node_.reset();
  store_ = std::make_unique<storage::MemoryStore>(disk_.get());
  Start();
  v1::GetRequest get;
  get.set_message_id(id);
  v1::GetResponse got;
  ASSERT_TRUE(messages_->Get(NewContext().get(), get, &got).ok());
  EXPECT_EQ(got.message().topic(), "orders");
}

TEST_F(UnaryTest, DrainingTakesNothingNewButStillCancels) {
  Start();
  const std::string id = MustSchedule(NewMessage("t", "p", 1000));
  server_->Drain();
  EXPECT_EQ(Health(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  v1::ScheduleResponse response;
  const grpc::Status status = Schedule(NewMessage("t", "p", 10), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "DRAINING");
  v1::CancelRequest cancel;
  cancel.set_message_id(id);
  v1::CancelResponse cancelled;
  ASSERT_TRUE(messages_->Cancel(NewContext().get(), cancel, &cancelled).ok());
  EXPECT_EQ(cancelled.outcome(), v1::CancelResponse::OUTCOME_CANCELLED);
  EXPECT_EQ(Info().state(), v1::SERVING_STATE_DRAINING);
}

TEST_F(UnaryTest, StopsForGoodWhenStorageFails) {
  Start();
  MustSchedule(NewMessage("t", "p", 1000));
  store().FailNextAppend(storage::MemoryStore::Fault::kUnknownLost);
  v1::ScheduleResponse response;
  for (int i = 0; i < 2; ++i) {
    const grpc::Status status = Schedule(NewMessage("t", "p", 1000), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
    EXPECT_EQ(ReasonOf(status), "STORAGE_FAILED");
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
  std::thread caller([&] {
    v1::ScheduleResponse response;
    status = Schedule(NewMessage("t", "p", 1000), &response);
  });
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
