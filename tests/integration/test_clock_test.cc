// SPDX-License-Identifier: Apache-2.0
//
// A server with a test clock, as a client sees it.
#include <filesystem>
#include <future>
#include <gmock/gmock.h>
#include <signal.h>
#include <thread>

#include "absl/strings/str_cat.h"

#include "duetime/v1/test_clock.grpc.pb.h"
#include "tests/integration/daemon_fixture.h"
#include "tests/support/proto_text.h"

namespace duetime::test {
namespace {

using testing::HasSubstr;

constexpr int64_t kHour = 3'600;
constexpr int64_t kDay = 24 * kHour;
// 2027-03-27T23:00:00Z, two hours before the clocks of Berlin change.
constexpr char kStart[] = "2027-03-27T23:00:00Z";
constexpr int64_t kStartSeconds = 1'806'188'400;

class TestClockTest : public DaemonTest {
 protected:
  void StartFrozen(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {absl::StrCat("--test-clock=", kStart), "--test-clock-frozen"};
    flags.insert(flags.end(), more.begin(), more.end());
    StartDaemon(flags);
    clock_ = v1::TestClock::NewStub(channel_);
  }
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::TestClock::StubInterface::*method)(grpc::ClientContext*,
                                                                         const Request&, Response*),
                    const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    return (clock_.get()->*method)(&context, request, response);
  }
  // Returns what happened in `seconds`.
  v1::Advanced Advance(int64_t seconds) {
    v1::AdvanceRequest request;
    request.mutable_by()->set_seconds(seconds);
    v1::AdvanceResponse response;
    const grpc::Status status = Call(&v1::TestClock::StubInterface::Advance, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.advanced();
  }
  int64_t Now() {
    v1::GetClockResponse response;
    EXPECT_TRUE(Call(&v1::TestClock::StubInterface::GetClock, {}, &response).ok());
    return response.clock().time().seconds();
  }
  grpc::Status Pull(int64_t wait_seconds, v1::PullResponse* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::PullRequest request;
    request.set_topic("orders");
    request.mutable_wait()->set_seconds(wait_seconds);
    return messages_->Pull(&context, request, response);
  }

  std::unique_ptr<v1::TestClock::Stub> clock_;
};

TEST_F(TestClockTest, AReminderComesTwoDaysLaterUnlessItIsCancelled) {
  StartFrozen();
  const v1::Message paid = MustSchedule("orders", Millis(48 * kHour * 1'000), "paid");
  const v1::Message unpaid = MustSchedule("orders", Millis(48 * kHour * 1'000), "unpaid");
  EXPECT_EQ(unpaid.deliver_time().seconds(), kStartSeconds + 48 * kHour);
  Advance(47 * kHour);
  MustCancel(paid.id());
  EXPECT_EQ(StateOf(unpaid.id()), v1::Message::STATE_SCHEDULED);
  const v1::Advanced advanced = Advance(2 * kHour);
  EXPECT_EQ(advanced.stop(), v1::Advanced::STOP_REACHED);
  EXPECT_EQ(advanced.fired(), 1);
  EXPECT_EQ(StateOf(unpaid.id()), v1::Message::STATE_DUE);
  v1::PullResponse pulled;
  ASSERT_TRUE(Pull(10, &pulled).ok());
  ASSERT_EQ(pulled.deliveries_size(), 1);
  EXPECT_EQ(pulled.deliveries(0).payload(), "unpaid");
  EXPECT_EQ(pulled.deliveries(0).lateness().seconds(), kHour);

  // Its lease ends by the test clock, if that may pass it.
  v1::AdvanceRequest request;
  request.mutable_by()->set_seconds(kHour);
  request.mutable_limits()->mutable_timeout()->set_nanos(50'000'000);
  v1::AdvanceResponse held;
  ASSERT_TRUE(Call(&v1::TestClock::StubInterface::Advance, request, &held).ok());
  EXPECT_EQ(held.advanced().stop(), v1::Advanced::STOP_SUBSCRIBERS);
  request.mutable_limits()->set_end_leases(true);
  v1::AdvanceResponse ended;
  ASSERT_TRUE(Call(&v1::TestClock::StubInterface::Advance, request, &ended).ok());
  EXPECT_EQ(ended.advanced().leases_lost(), 1);
}

TEST_F(TestClockTest, ADigestAtNineComesOnTheNightOfTheChange) {
  StartFrozen();
  v1::CreateRecurrenceRequest request;
  v1::Recurrence* const recurrence = request.mutable_recurrence();
  recurrence->set_name("digest");
  recurrence->set_topic("digests");
  recurrence->mutable_schedule()->set_cron("0 9 * * *");
  recurrence->mutable_schedule()->set_time_zone("Europe/Berlin");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::CreateRecurrenceResponse created;
  ASSERT_TRUE(messages_->CreateRecurrence(&context, request, &created).ok());
  v1::AdvanceToNextResponse next;
  ASSERT_TRUE(Call(&v1::TestClock::StubInterface::AdvanceToNext, {}, &next).ok());
  // Nine in the summer time that has just begun.
  EXPECT_EQ(next.advanced().clock().time().seconds(), kStartSeconds + 8 * kHour);
  EXPECT_EQ(next.advanced().fired(), 1);
  EXPECT_EQ(Advance(10 * kDay).fired(), 10);
}

TEST_F(TestClockTest, CallsWaitByTheMachinesClock) {
  StartFrozen({"--drain-grace-ms=100"});
  MustSchedule("orders", Millis(kHour * 1'000));
  v1::PullResponse pulled;
  const auto begin = Clock::now();
  ASSERT_TRUE(Pull(1, &pulled).ok());
  EXPECT_EQ(pulled.deliveries_size(), 0);
  EXPECT_LT(Clock::now() - begin, Millis(10'000));
  EXPECT_EQ(Now(), kStartSeconds);
  // So does the drain, with a message in flight.
  Advance(kHour);
  ASSERT_TRUE(Pull(0, &pulled).ok());
  ASSERT_EQ(pulled.deliveries_size(), 1);
  EXPECT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
}

// What the review of the first version found.
TEST_F(TestClockTest, RatesRetentionsAndMessagesThatAreDueNow) {
  StartFrozen();
  v1::CreateTopicRequest topic;
  topic.mutable_topic()->set_name("orders");
  topic.mutable_topic()->mutable_settings()->mutable_rate()->set_messages_per_second(2);
  topic.mutable_topic()->mutable_settings()->mutable_rate()->set_burst(1);
  v1::CreateSubscriptionRequest subscription;
  subscription.mutable_subscription()->set_topic("kept");
  subscription.mutable_subscription()->set_name("s");
  subscription.mutable_subscription()->mutable_settings()->mutable_retention()->set_seconds(100 *
                                                                                            kDay);
  grpc::ClientContext contexts[2];
  v1::CreateTopicResponse created;
  v1::CreateSubscriptionResponse made;
  ASSERT_TRUE(admin_->CreateTopic(&contexts[0], topic, &created).ok());
  ASSERT_TRUE(admin_->CreateSubscription(&contexts[1], subscription, &made).ok());
  MustSchedule("kept", Millis(kHour * 1'000));
  for (int day = 0; day < 3; ++day) {
    MustSchedule("orders", Millis(0));
    v1::PullResponse pulled;
    ASSERT_TRUE(Pull(10, &pulled).ok());
    ASSERT_EQ(pulled.deliveries_size(), 1) << "day " << day;
    EXPECT_EQ(pulled.deliveries(0).lateness().seconds(), 0);
    v1::SettleRequest settle;
    settle.add_settlements()->set_lease_token(pulled.deliveries(0).lease_token());
    v1::SettleResponse settled;
    grpc::ClientContext context;
    SetDeadline(&context);
    ASSERT_TRUE(messages_->Settle(&context, settle, &settled).ok());
    Advance(kDay);
  }
  v1::AdvanceToNextResponse next;
  ASSERT_TRUE(Call(&v1::TestClock::StubInterface::AdvanceToNext, {}, &next).ok());
  EXPECT_EQ(next.advanced().dropped(), 1);
  EXPECT_EQ(next.advanced().clock().time().seconds(), kStartSeconds + kHour + 100 * kDay);
}

TEST_F(TestClockTest, NeitherASigtermNorAKillPassesOverAnything) {
  StartFrozen();
  v1::CreateRecurrenceRequest request;
  request.mutable_recurrence()->set_name("ticks");
  request.mutable_recurrence()->set_topic("ticks");
  request.mutable_recurrence()->mutable_schedule()->set_cron("* * * * *");
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::CreateRecurrenceResponse created;
  ASSERT_TRUE(messages_->CreateRecurrence(&context, request, &created).ok());
  for (const bool kills : {false, true}) {
    v1::AdvanceRequest far;
    far.mutable_by()->set_seconds(300 * kDay);
    far.mutable_limits()->mutable_timeout()->set_seconds(60);
    grpc::ClientContext moving_context;
    SetDeadline(&moving_context, Millis(60'000));
    v1::AdvanceResponse moved;
    const int64_t before = Now();
    auto moving = std::async(std::launch::async,
                             [&] { return clock_->Advance(&moving_context, far, &moved); });
    while (Now() < before + kDay) std::this_thread::yield();
    const int64_t seen = Now();
    if (kills) {
      server_->Kill();
    } else {
      server_->Stop();
    }
    EXPECT_FALSE(moving.get().ok());
    ASSERT_TRUE(server_->Start()) << server_->error();
    Connect();
    clock_ = v1::TestClock::NewStub(channel_);
    EXPECT_GE(Now(), seen);
    EXPECT_LT(Now(), before + 300 * kDay);
    grpc::ClientContext get_context;
    SetDeadline(&get_context);
    v1::GetRecurrenceRequest get;
    get.set_name("ticks");
    v1::GetRecurrenceResponse got;
    ASSERT_TRUE(messages_->GetRecurrence(&get_context, get, &got).ok());
    EXPECT_EQ(got.recurrence().skipped(), 0);
  }
}

TEST_F(TestClockTest, BadRequestsMoveNothing) {
  StartFrozen();
  const char* const cases[] = {"",
                               "by { seconds: 0 }",
                               "by { seconds: -5 }",
                               "by { seconds: 4000000000 }",
                               "to { seconds: 1700000000 }",
                               "to { seconds: 1 nanos: -1 }",
                               "by { seconds: 1 } limits { timeout { seconds: 601 } }",
                               "by { seconds: 1 } limits { timeout { } }",
                               "by { seconds: 1 } limits { hand_outs_max: 10001 }",
                               "by { seconds: 1 } limits { hand_outs_max: -1 }",
                               "by { seconds: 1 } limits { until_idle: true end_leases: true }"};
  for (const char* const text : cases) {
    v1::AdvanceResponse response;
    const grpc::Status status = Call(&v1::TestClock::StubInterface::Advance,
                                     ParseProto<v1::AdvanceRequest>(text), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << text;
    EXPECT_EQ(InfoOf(status).reason, "INVALID_CLOCK") << text;
  }
  for (const int32_t speed : {-1, 100'001}) {
    v1::SetClockRequest set;
    set.set_speed(speed);
    v1::SetClockResponse response;
    const grpc::Status status = Call(&v1::TestClock::StubInterface::SetClock, set, &response);
    EXPECT_EQ(InfoOf(status).reason, "INVALID_CLOCK") << speed;
  }
  EXPECT_EQ(Now(), kStartSeconds);
}

TEST_F(TestClockTest, AStoreOfATestClockOpensOnlyWithOneAndGoesOn) {
  StartFrozen();
  EXPECT_EQ(Info().clock_state(), v1::CLOCK_STATE_TEST);
  EXPECT_EQ(Info().shards(), 1);
  EXPECT_THAT(server_->log(), HasSubstr("TEST CLOCK"));
  MustSchedule("orders", Millis(20 * kDay * 1'000));
  Advance(10 * kDay);
  ASSERT_EQ(server_->Stop().value_or(ExitStatus{}).code, 0);
  const std::string test_dir = server_->data_dir();
  const auto run = [](const std::string& dir, const std::vector<std::string>& flags) {
    std::vector<std::string> argv = {kDaemon, "--data-dir=" + dir, "--listen=127.0.0.1:0",
                                     "--metrics-listen="};
    argv.insert(argv.end(), flags.begin(), flags.end());
    return RunProgram(argv);
  };
  RunResult refused = run(test_dir, {});
  EXPECT_NE(refused.exit.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("was made with a test clock"));

  // The same directory, with the clock asked to begin in the past: it goes on where it was.
  ASSERT_TRUE(server_->Start()) << server_->error();
  Connect();
  clock_ = v1::TestClock::NewStub(channel_);
  EXPECT_EQ(Now(), kStartSeconds + 10 * kDay);
  EXPECT_EQ(Advance(11 * kDay).fired(), 1);
  server_->Stop();

  StartDaemon();
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetClockResponse response;
  EXPECT_EQ(v1::TestClock::NewStub(channel_)->GetClock(&context, {}, &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Info().clock_state(), v1::CLOCK_STATE_NORMAL);
  server_->Stop();
  refused = run(server_->data_dir(), {"--test-clock"});
  EXPECT_NE(refused.exit.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("was made without a test clock"));

  const std::pair<std::vector<std::string>, const char*> misused[] = {
      {{"--test-clock=tomorrow"}, "test_clock = \"tomorrow\""},
      {{"--test-clock-frozen"}, "need test_clock"},
      {{"--test-clock", "--insecure-nonloopback", "--listen=0.0.0.0:0"}, "test_clock_on_network"},
      {{"--test-clock", "--cell-brokers=127.0.0.1:1", "--cell-topic=t", "--cell-member=m",
        "--cell-address=127.0.0.1:1"},
       "for a server alone"}};
  for (const auto& [flags, says] : misused) {
    refused = run(test_dir, flags);
    EXPECT_EQ(refused.exit.code, 78);
    EXPECT_THAT(refused.err, HasSubstr(says));
  }
}

}  // namespace
}  // namespace duetime::test
