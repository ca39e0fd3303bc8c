// SPDX-License-Identifier: Apache-2.0
//
// Operator interfaces: health, reflection, metrics, ServerInfo, the drain on SIGTERM.
#include <gmock/gmock.h>
#include <map>
#include <set>

#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "tests/integration/daemon_fixture.h"
#include "tests/support/http_get.h"

namespace duetime::test {
namespace {

using grpc::health::v1::HealthCheckResponse;

class OperationTest : public DaemonTest {
 protected:
  grpc::Status Health(const std::string& service, HealthCheckResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    return grpc::health::v1::Health::NewStub(channel_)->Check(&context, request, response);
  }
};

TEST_F(OperationTest, HealthOfTheServerAndOfEachService) {
  StartDaemon();
  HealthCheckResponse response;
  for (const char* service : {"", "duetime.v1.Messages", "duetime.v1.Admin"}) {
    ASSERT_TRUE(Health(service, &response).ok()) << service;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
  EXPECT_EQ(Health("duetime.v1.Nonsense", &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(OperationTest, HealthWatchTellsOfTheDrain) {
  StartDaemon({"--drain-grace-ms=3000"});
  // A message in flight keeps the drain waiting.
  MustSchedule("t", Millis(0));
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  const auto held = subscription.Next();
  ASSERT_TRUE(held.has_value());
  const auto stub = grpc::health::v1::Health::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto watch = stub->Watch(&context, {});
  HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  server_->Terminate();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
  context.TryCancel();
  while (watch->Read(&response)) {
  }
  watch->Finish();
  subscription.Ack(held->delivery);
  EXPECT_EQ(server_->Wait(Millis(10'000)).value_or(ExitStatus{}).code, 0);
}

TEST_F(OperationTest, ReflectionListsAndDescribesTheServices) {
  StartDaemon();
  const auto stub = grpc::reflection::v1alpha::ServerReflection::NewStub(channel_);
  grpc::ClientContext context;
  SetDeadline(&context);
  const auto stream = stub->ServerReflectionInfo(&context);
  grpc::reflection::v1alpha::ServerReflectionRequest request;
  grpc::reflection::v1alpha::ServerReflectionResponse response;
  request.set_list_services("");
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  std::set<std::string> names;
  for (const auto& service : response.list_services_response().service()) {
    names.insert(service.name());
  }
  EXPECT_THAT(names, testing::IsSupersetOf(
                         {"duetime.v1.Messages", "duetime.v1.Admin", "grpc.health.v1.Health"}));
  request.set_file_containing_symbol("duetime.v1.Messages.Schedule");
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_GE(response.file_descriptor_response().file_descriptor_proto_size(), 1)
      << response.ShortDebugString();
  request.set_file_containing_symbol("no.such.Symbol");
  ASSERT_TRUE(stream->Write(request));
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(OperationTest, MetricsCountWhatHappens) {
  StartDaemon({"--shards=1"}, /*tcp=*/false, /*metrics=*/true);
  ASSERT_GT(server_->metrics_port(), 0) << server_->log();
  const v1::Message cancelled = MustSchedule("t", Millis(3'600'000));
  MustCancel(cancelled.id());
  MustSchedule("t", Millis(0));
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  const auto received = subscription.Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(subscription.AckAndWait(received->delivery), SettleAnswer::kSettled);
  const std::vector<std::string> lines = {"duetime_messages_accepted_total{shard=\"0\"} 2",
                                          "duetime_messages_cancelled_total{shard=\"0\"} 1",
                                          "duetime_deliveries_total{shard=\"0\"} 1",
                                          "duetime_acks_total{shard=\"0\"} 1"};
  // The engines publish their counters a moment later.
  std::string text;
  const auto deadline = Clock::now() + Millis(10'000);
  const auto all_there = [&] {
    for (const std::string& line : lines) {
      if (text.find(line) == std::string::npos) return false;
    }
    return true;
  };
  do {
    text = HttpGet(server_->metrics_port(), "/metrics");
  } while (!all_there() && Clock::now() < deadline);
  EXPECT_TRUE(all_there()) << text;
  EXPECT_NE(text.find("200 OK"), std::string::npos);
  for (const char* family :
       {"duetime_delivery_lateness_seconds_bucket", "duetime_pending_future_loaded",
        "duetime_due_backlog", "duetime_in_flight", "duetime_mailbox_commands",
        "duetime_mailbox_refused_total", "duetime_commit_syncs_total",
        "duetime_commit_append_seconds_bucket", "duetime_storage_failed", "duetime_disk_low",
        "duetime_store_block_cache_bytes"}) {
    EXPECT_NE(text.find(std::string("\n") + family), std::string::npos) << family;
  }
  EXPECT_EQ(HttpGet(server_->metrics_port(), "/nothing").find("200 OK"), std::string::npos);
}

TEST_F(OperationTest, ServerInfoTellsStateLimitsAndCounts) {
  StartDaemon({"--shards=3", "--payload-bytes-max=1000", "--topics-max=7"});
  v1::ServerInfoResponse info = Info();
  EXPECT_FALSE(info.version().empty());
  EXPECT_EQ(info.state(), v1::SERVING_STATE_SERVING);
  EXPECT_EQ(info.clock_state(), v1::CLOCK_STATE_NORMAL);
  EXPECT_EQ(info.epoch(), 1);
  EXPECT_EQ(info.shards(), 3);
  EXPECT_FALSE(info.disk_low());
  EXPECT_EQ(info.limits().payload_bytes_max(), 1'000);
  EXPECT_EQ(info.limits().topics_max(), 7);
  EXPECT_EQ(info.limits().topic_bytes_max(), 255);
  EXPECT_EQ(info.limits().batch_messages_max(), 10'000);
  EXPECT_EQ(info.limits().batch_bytes_max(), 16 << 20);
  EXPECT_EQ(info.limits().attributes_max(), 64);
  EXPECT_EQ(info.limits().attributes_bytes_max(), 16 << 10);
  EXPECT_EQ(info.limits().outstanding_messages_max(), 100'000);
  EXPECT_EQ(info.limits().horizon().seconds(), 3'650LL * 86'400);
  EXPECT_GT(info.limits().streams_max(), 0);
  const absl::Duration skew = client::FromProto(info.server_time()) - absl::Now();
  EXPECT_LT(absl::AbsDuration(skew), absl::Seconds(5));
  EXPECT_LE(client::FromProto(info.start_time()), client::FromProto(info.server_time()));

  MustSchedule("a", Millis(3'600'000));
  MustSchedule("b", Millis(0));
  Subscription subscription(channel_, Subscription::Start{.topic = "b"});
  ASSERT_TRUE(subscription.Next().has_value());
  // The counts are copies, at most a moment old.
  const auto deadline = Clock::now() + Millis(10'000);
  do {
    info = Info();
  } while (info.counts().in_flight() < 1 && Clock::now() < deadline);
  EXPECT_EQ(info.counts().accepted(), 2);
  EXPECT_EQ(info.counts().delivered(), 1);
  EXPECT_EQ(info.counts().in_flight(), 1);
  EXPECT_EQ(info.counts().streams(), 1);
  EXPECT_EQ(info.counts().topics(), 2);

  EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  EXPECT_EQ(Info().epoch(), 2);
}

TEST_F(OperationTest, SigtermDrainsAndEndsInTime) {
  StartDaemon({"--drain-grace-ms=5000"});
  MustSchedule("t", Millis(0), "held");
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  const auto held = subscription.Next();
  ASSERT_TRUE(held.has_value());
  const v1::Message later = MustSchedule("t", Millis(300));
  // A message that comes due during the drain stays, and is delivered after the restart.
  const auto begin = Clock::now();
  server_->Terminate();
  const auto notice = subscription.WaitDrain(Millis(10'000));
  ASSERT_TRUE(notice.has_value());
  EXPECT_EQ(notice->grace().seconds(), 5);

  v1::Message message;
  const grpc::Status refused = Schedule(Request("t", Millis(0)), &message);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(InfoOf(refused).reason, "DRAINING");
  EXPECT_TRUE(InfoOf(refused).retry_delay.has_value());
  Subscription another(channel_, Subscription::Start{.topic = "t"});
  const auto end = another.WaitEnd(Millis(10'000));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(InfoOf(*end).reason, "DRAINING") << end->error_message();
  // During the drain, in-flight messages can be settled, and pending messages can be read and
  // cancelled.
  EXPECT_TRUE(Get(held->delivery.message_id(), &message).ok());
  EXPECT_EQ(Info().state(), v1::SERVING_STATE_DRAINING);
  EXPECT_TRUE(subscription.StaysQuiet(Millis(500))) << "given out during the drain";
  EXPECT_EQ(subscription.AckAndWait(held->delivery), SettleAnswer::kSettled);

  const auto closed = subscription.WaitEnd(Millis(10'000));
  ASSERT_TRUE(closed.has_value());
  EXPECT_EQ(closed->error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(InfoOf(*closed).reason, "DRAINING") << closed->error_message();
  const auto exit = server_->Wait(Millis(20'000));
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
  // All leases are settled, so the drain ends before its grace period.
  EXPECT_LT(Clock::now() - begin, Millis(5'000));

  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  EXPECT_EQ(StateOf(held->delivery.message_id()), v1::Message::STATE_ACKED);
  Subscription after(channel_, Subscription::Start{.topic = "t"});
  const auto received = after.Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.message_id(), later.id());
}

TEST_F(OperationTest, ADrainDoesNotWaitForEverForASubscriber) {
  StartDaemon({"--drain-grace-ms=500"});
  const v1::Message held = MustSchedule("t", Millis(0));
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  ASSERT_TRUE(subscription.Next().has_value());
  const auto begin = Clock::now();
  const auto exit = server_->Stop(Millis(20'000));
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
  EXPECT_GE(Clock::now() - begin, Millis(450));
  EXPECT_LT(Clock::now() - begin, Millis(10'000));
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  Subscription after(channel_, Subscription::Start{.topic = "t"});
  const auto received = after.Next();
  ASSERT_TRUE(received.has_value());
  EXPECT_EQ(received->delivery.message_id(), held.id());
  EXPECT_TRUE(received->delivery.maybe_redelivered());
}

TEST_F(OperationTest, CallsThatAreOpenAtSigtermAreAnswered) {
  constexpr int kCalls = 600;
  StartDaemon();
  MustSchedule("t", Millis(3'600'000));
  grpc::CompletionQueue queue;
  struct Call {
    grpc::ClientContext context;
    v1::ScheduleResponse response;
    grpc::Status status;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::ScheduleResponse>> reader;
  };
  const v1::ScheduleRequest request = Request("t", Millis(3'600'000));
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_unique<Call>());
    SetDeadline(&calls.back()->context);
    calls.back()->reader = messages_->AsyncSchedule(&calls.back()->context, request, &queue);
    calls.back()->reader->Finish(&calls.back()->response, &calls.back()->status,
                                 calls.back().get());
  }
  std::set<std::string> accepted;
  std::map<grpc::StatusCode, int> refused;
  for (int i = 0; i < kCalls; ++i) {
    // Now the server is handling some of the calls.
    if (i == 20) server_->Terminate();
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    const auto* call = static_cast<Call*>(tag);
    if (call->status.ok()) {
      accepted.insert(call->response.message().id());
    } else {
      ++refused[call->status.error_code()];
    }
  }
  // gRPC cancels the calls that it has not handed to the server when the server ends.
  for (const auto& [code, count] : refused) {
    EXPECT_TRUE(code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED)
        << count << " with code " << code;
    std::printf("%d calls ended with code %d\n", count, code);
  }
  std::printf("%zu calls were accepted\n", accepted.size());
  EXPECT_EQ(server_->Wait(Millis(20'000)).value_or(ExitStatus{}).code, 0);
  EXPECT_GE(accepted.size(), 20u);
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  for (const std::string& id : accepted) EXPECT_EQ(StateOf(id), v1::Message::STATE_SCHEDULED);
}

TEST_F(OperationTest, ASecondSignalOrManyDoNoHarm) {
  StartDaemon({"--drain-grace-ms=200"});
  MustSchedule("t", Millis(0));
  Subscription subscription(channel_, Subscription::Start{.topic = "t"});
  ASSERT_TRUE(subscription.Next().has_value());
  for (int i = 0; i < 5; ++i) server_->Terminate();
  const auto exit = server_->Wait(Millis(20'000));
  ASSERT_TRUE(exit.has_value());
  EXPECT_EQ(exit->code, 0);
}

}  // namespace
}  // namespace duetime::test
