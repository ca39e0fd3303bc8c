// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/subscriber.h"

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/cpp/error.h"
#include "tests/support/settlements.h"
#include "tests/unit/client/subscriber_fixture.h"

namespace duetime::client {
namespace {

TEST_F(SubscriberTest, SaysWhatItWantsAndHandsOverInOrder) {
  v1::SubscribeRequest start;
  Gate confirmed;
  Serve({Deliveries(1, 70), Deliveries(71, 30)}, &confirmed, &start);
  SubscriberOptions options = Options();
  options.subscription = "s";
  options.client_id = "me";
  options.max_outstanding_messages = 7;
  options.max_outstanding_bytes = 8;
  options.lease = absl::Milliseconds(1'500);
  std::vector<std::string> seen;
  const auto subscriber = Start(options, [&](const Delivery& delivery) {
    seen.emplace_back(delivery.message_id());
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(start.start().topic(), "t");
  EXPECT_EQ(start.start().subscription(), "s");
  EXPECT_EQ(start.start().client_id(), "me");
  EXPECT_EQ(start.start().max_outstanding_messages(), 7);
  EXPECT_EQ(start.start().max_outstanding_bytes(), 8);
  EXPECT_EQ(start.start().lease_duration().seconds(), 1);
  EXPECT_EQ(start.start().lease_duration().nanos(), 500'000'000);
  ASSERT_EQ(seen.size(), 100u);
  for (size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], "m" + std::to_string(i + 1));
  const SubscriberCounts counts = subscriber->counts();
  EXPECT_EQ(counts.delivered, 100);
  EXPECT_EQ(counts.acked, 100);
  EXPECT_EQ(counts.lost, 0);
  EXPECT_EQ(counts.streams, 1);
}

TEST_F(SubscriberTest, LogsWhatBecomesOfItsConnection) {
  int streams = 0;
  server_.on_subscribe = [&](ServerStream* stream, grpc::ServerContext*) {
    AcceptStream(stream);
    if (++streams == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restart");
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "deleted");
  };
  base::Mutex mutex;
  std::vector<std::string> lines;
  Gate unreachable;
  SubscriberOptions options = Options();
  options.log = [&](absl::LogSeverity severity, const std::string& line) {
    const base::MutexLock lock(&mutex);
    lines.push_back(std::string(absl::LogSeverityName(severity)) + " " + line);
    unreachable.Open();
    throw std::runtime_error("ignored");
  };
  const auto subscriber = Start(options, AckAll);
  ASSERT_TRUE(unreachable.Wait());
  server_.Start();
  EXPECT_TRUE(subscriber->WaitUntilEnded(kPatience));
  EXPECT_TRUE(subscriber->Stop().ok());
  const std::string who = "the subscriber of \"t\" ";
  const std::string at = server_.target();
  EXPECT_THAT(lines,
              testing::ElementsAre(
                  testing::AllOf(testing::StartsWith("WARNING " + who + "cannot reach " + at),
                                 testing::HasSubstr("UNAVAILABLE"),
                                 testing::HasSubstr("No such file or directory")),
                  testing::StartsWith("INFO " + who + "is back: connected to " + at + " after "),
                  "WARNING " + who + "has lost " + at + ", and tries again: UNAVAILABLE: restart",
                  "INFO " + who + "is back: connected to " + at + " after 0 s",
                  "ERROR " + who + "ends, because " + at + " refused it: NOT_FOUND: deleted"));
}

TEST_F(SubscriberTest, EndsByItselfAfterItsDeliveries) {
  // Two of five come, and one of these is settled, before the first stream breaks.
  std::vector<int64_t> wanted;
  int connects = 0;
  Gate handled;
  Play([&](ServerStream* stream) {
    wanted.push_back(AcceptStream(stream).start().max_deliveries());
    if (wanted.size() == 1) {
      stream->Write(Deliveries(1, 2));
      EXPECT_TRUE(handled.Wait());
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restart");
    }
    stream->Write(Deliveries(3, 9));  // an older server brings more than wanted
    ConfirmMany(stream, 3);
    return ReadUntilClosed(stream);
  });
  SubscriberOptions options = Options();
  options.max_deliveries = 5;
  options.on_connect = [&](const v1::SubscribeStarted& started) {
    EXPECT_EQ(started.max_outstanding_messages(), 1'000);
    ++connects;
  };
  std::vector<std::string> seen;
  const auto subscriber = Start(options, [&](const Delivery& delivery) {
    seen.emplace_back(delivery.message_id());
    if (seen.size() == 2) handled.Open();
    return Settlement::Ack();
  });
  ASSERT_TRUE(subscriber->WaitUntilEnded(kPatience));
  EXPECT_TRUE(subscriber->status().ok()) << subscriber->status();
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(wanted, (std::vector<int64_t>{5, 3}));
  EXPECT_EQ(connects, 2);
  EXPECT_EQ(seen, (std::vector<std::string>{"m1", "m2", "m3", "m4", "m5"}));
  EXPECT_EQ(subscriber->counts().delivered, 5);
  EXPECT_EQ(subscriber->counts().acked + subscriber->counts().lost, 5);
}

TEST_F(SubscriberTest, AcksThatAreReadyGoOutTogether) {
  // The server reads the first ack only when 2,000 more are ready. The writer then has at most a
  // few requests in flight.
  constexpr int kMessages = 20'000;
  Gate handled;
  std::atomic<int> requests{0};
  Gate confirmed;
  Play([&](ServerStream* stream) {
    AcceptStream(stream);
    for (int i = 0; i < kMessages; i += 500) stream->Write(Deliveries(i, 500));
    EXPECT_TRUE(handled.Wait());
    requests = ConfirmMany(stream, kMessages);
    confirmed.Open();
    return ReadUntilClosed(stream);
  });
  int count = 0;
  const auto subscriber = Start(Options(), [&](const Delivery&) {
    if (++count == kMessages) handled.Open();
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(subscriber->counts().acked, kMessages);
  EXPECT_EQ(subscriber->counts().settle_requests, requests);
  EXPECT_LT(requests, kMessages / 10);
}

TEST_F(SubscriberTest, CountsRefusals) {
  Gate answered;
  Play([&](ServerStream* stream) {
    v1::SubscribeRequest request = AcceptStream(stream);
    stream->Write(Deliveries(1, 1));
    stream->Read(&request);
    v1::SubscribeResponse response;
    response.add_refused()->set_lease_token(request.settlements(0).lease_token());
    response.mutable_refused(0)->set_reason(v1::SettleRefusal::REASON_LEASE_LOST);
    stream->Write(response);
    answered.Open();
    return ReadUntilClosed(stream);
  });
  const auto subscriber = Start(Options(), AckAll);
  ASSERT_TRUE(answered.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(subscriber->counts().refused, 1);
  EXPECT_EQ(subscriber->counts().acked, 0);
}

TEST_F(SubscriberTest, ReconnectsAfterUnavailableAndDropsWhatWasNotBegun) {
  std::atomic<int> streams{0};
  Gate handling;
  Gate reconnected;
  Gate confirmed;
  std::set<std::string> acked;
  Play([&](ServerStream* stream) -> grpc::Status {
    v1::SubscribeRequest request;
    stream->Read(&request);
    const int number = ++streams;
    if (number == 1) {
      stream->Write(Started(absl::ZeroDuration()));
      stream->Write(Deliveries(1, 2));
      stream->Write(Deliveries(3, 3));
      EXPECT_TRUE(handling.Wait());
      return {grpc::StatusCode::UNAVAILABLE, "gone"};
    }
    if (number == 2) return {grpc::StatusCode::UNAVAILABLE, "still gone"};
    stream->Write(Started(absl::ZeroDuration()));
    reconnected.Open();
    stream->Write(Deliveries(11, 5));
    while (acked.size() < 5 && stream->Read(&request)) {
      for (const auto& token : test::TokensWith(test::kAck, request)) acked.insert(token);
      stream->Write(Confirmation(request));
    }
    confirmed.Open();
    return ReadUntilClosed(stream);
  });
  SubscriberOptions options = Options();
  std::atomic<int> disconnects{0};
  options.on_disconnect = [&](const absl::Status& status) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    ++disconnects;
  };
  std::vector<std::string> seen;
  const auto subscriber = Start(options, [&](const Delivery& delivery) {
    seen.emplace_back(delivery.message_id());
    if (delivery.message_id() == "m1") {
      // The stream of m1 ends while this handler runs, and another stream is open when the handler
      // returns, so its ack is lost. No handler starts for m2, which is in the same frame, or for
      // the next frame.
      handling.Open();
      EXPECT_TRUE(reconnected.Wait());
    }
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"m1", "m11", "m12", "m13", "m14", "m15"}));
  EXPECT_EQ(acked, (std::set<std::string>{"11", "12", "13", "14", "15"}));
  const SubscriberCounts counts = subscriber->counts();
  EXPECT_EQ(counts.acked, 5);
  EXPECT_EQ(counts.lost, 1);
  EXPECT_EQ(counts.skipped, 4);
  EXPECT_EQ(counts.streams, 2);
  EXPECT_EQ(disconnects, 2);
}

TEST_F(SubscriberTest, ConnectsWhenTheServerComesLater) {
  Gate opened;
  server_.on_subscribe = [&](ServerStream* stream, grpc::ServerContext*) {
    AcceptStream(stream);
    opened.Open();
    return ReadUntilClosed(stream);
  };
  SubscriberOptions options = Options();
  Gate failed;
  options.on_disconnect = [&](const absl::Status&) { failed.Open(); };
  const auto subscriber = Start(options, AckAll);
  ASSERT_TRUE(failed.Wait());
  server_.Start();
  EXPECT_TRUE(opened.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
}

TEST_F(SubscriberTest, WaitsAsLongAsTheServerAsks) {
  std::atomic<int> streams{0};
  std::chrono::steady_clock::time_point refused;
  std::chrono::steady_clock::time_point came_back;
  Gate opened;
  Play([&](ServerStream* stream) -> grpc::Status {
    if (++streams == 1) {
      refused = std::chrono::steady_clock::now();
      return MakeServerError(grpc::StatusCode::UNAVAILABLE, "DRAINING", 300);
    }
    came_back = std::chrono::steady_clock::now();
    opened.Open();
    return ReadUntilClosed(stream);
  });
  const auto subscriber = Start(Options(), AckAll);
  ASSERT_TRUE(opened.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_GE(came_back - refused, std::chrono::milliseconds(300));
}

TEST_F(SubscriberTest, EndsWhenTheServerRefusesTheRequest) {
  std::atomic<int> streams{0};
  Play([&](ServerStream*) {
    ++streams;
    return MakeServerError(grpc::StatusCode::INVALID_ARGUMENT, "INVALID_TOPIC");
  });
  const auto subscriber = Start(Options(), AckAll);
  ASSERT_TRUE(subscriber->WaitUntilEnded(kPatience));
  EXPECT_EQ(subscriber->status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorInfo(subscriber->status()).reason, "INVALID_TOPIC");
  EXPECT_EQ(streams, 1);
  EXPECT_TRUE(subscriber->Stop().ok());
}

TEST_F(SubscriberTest, ADrainNoticeLetsItSettleThenReconnect) {
  std::atomic<int> streams{0};
  std::atomic<bool> half_closed{false};
  std::atomic<int> settled_after_notice{0};
  Gate noticed;
  Gate second;
  Play([&](ServerStream* stream) -> grpc::Status {
    v1::SubscribeRequest request = AcceptStream(stream);
    if (++streams > 1) {
      second.Open();
      return ReadUntilClosed(stream);
    }
    stream->Write(Deliveries(1, 3));
    v1::SubscribeResponse notice;
    notice.mutable_drain()->mutable_grace()->set_seconds(60);
    stream->Write(notice);
    noticed.Open();
    while (stream->Read(&request)) {
      settled_after_notice += request.settlements_size();
      stream->Write(Confirmation(request));
    }
    // The client closed its side as soon as it had nothing left, long before the end of the grace
    // period.
    half_closed = true;
    return MakeServerError(grpc::StatusCode::UNAVAILABLE, "DRAINING");
  });
  const auto subscriber = Start(Options(), [&](const Delivery&) {
    EXPECT_TRUE(noticed.Wait());
    return Settlement::Ack();
  });
  ASSERT_TRUE(second.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_TRUE(half_closed);
  EXPECT_EQ(settled_after_notice, 3);
  EXPECT_EQ(subscriber->counts().acked, 3);
  EXPECT_EQ(subscriber->counts().lost, 0);
}

TEST_F(SubscriberTest, StopWaitsForTheHandlerAndItsConfirmationAndBeginsNothingElse) {
  Gate handling;
  Gate known;
  bool no_more = false;
  std::set<std::string> released;
  Play([&](ServerStream* stream) {
    v1::SubscribeRequest request = AcceptStream(stream);
    stream->Write(Deliveries(1, 2));
    stream->Write(Deliveries(3, 1));
    while (stream->Read(&request)) {
      no_more |= request.no_more_deliveries();
      for (const auto& token : test::TokensWith(v1::Settlement::kRelease, request)) {
        EXPECT_TRUE(no_more) << "or the server would deliver the message here again";
        released.insert(token);
      }
      stream->Write(Confirmation(request));
    }
    return grpc::Status::OK;
  });
  std::vector<std::string> seen;
  Subscriber* running = nullptr;
  const auto subscriber = Start(Options(), [&](const Delivery& delivery) {
    seen.emplace_back(delivery.message_id());
    handling.Open();
    EXPECT_TRUE(known.Wait());
    AwaitSkip(*running);
    return Settlement::Ack();
  });
  running = subscriber.get();
  known.Open();
  ASSERT_TRUE(handling.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(seen, std::vector<std::string>{"m1"});
  const SubscriberCounts counts = subscriber->counts();
  EXPECT_EQ(counts.delivered, 1);
  EXPECT_EQ(counts.acked, 1);
  EXPECT_EQ(counts.lost, 0);
  EXPECT_EQ(counts.skipped, 2);
  EXPECT_EQ(released, (std::set<std::string>{"2", "3"}));
  // A second Stop changes nothing, nor does the destructor after it.
  EXPECT_TRUE(subscriber->Stop().ok());
}

TEST_F(SubscriberTest, StopSaysWhenConfirmationsAreMissing) {
  Gate read;
  Play([&](ServerStream* stream) {
    v1::SubscribeRequest request = AcceptStream(stream);
    stream->Write(Deliveries(1, 1));
    stream->Read(&request);
    read.Open();
    return ReadUntilClosed(stream);
  });
  const auto subscriber = Start(Options(), AckAll);
  ASSERT_TRUE(read.Wait());
  EXPECT_EQ(subscriber->Stop(absl::Milliseconds(50)).code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(subscriber->counts().lost, 1);
}

TEST_F(SubscriberTest, StopDoesNotWaitForAServerThatIsNotThere) {
  SubscriberOptions options = Options();
  options.backoff = {.initial = absl::Hours(1), .max = absl::Hours(1), .multiplier = 1.0};
  Gate failed;
  options.on_disconnect = [&](const absl::Status&) { failed.Open(); };
  const auto subscriber = Start(options, AckAll);
  ASSERT_TRUE(failed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
}

TEST_F(SubscriberTest, CallbacksThatThrowDoNotEndIt) {
  std::atomic<int> streams{0};
  v1::SubscribeRequest settled;
  Gate confirmed;
  Play([&](ServerStream* stream) {
    AcceptStream(stream);
    if (++streams == 1) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restart");
    stream->Write(Deliveries(1, 3));
    v1::SubscribeRequest request;
    while (settled.settlements_size() < 3 && stream->Read(&request)) {
      settled.MergeFrom(request);
      stream->Write(Confirmation(request));
    }
    confirmed.Open();
    return ReadUntilClosed(stream);
  });
  SubscriberOptions options = Options();
  options.on_connect = [](const v1::SubscribeStarted&) { throw std::runtime_error("c"); };
  options.on_disconnect = [](const absl::Status&) { throw 1; };
  const auto subscriber = Start(options, [](const Delivery& delivery) {
    if (delivery.message_id() == "m1") throw std::runtime_error("the shop is cl\xF6sed");
    if (delivery.message_id() == "m2") throw 2;
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  const std::vector<v1::Settlement> nacks = test::With(v1::Settlement::kNack, settled);
  ASSERT_EQ(nacks.size(), 2u);
  EXPECT_EQ(nacks[0].nack().reason(), "the shop is cl?sed")
      << "the server refuses what is not UTF-8";
  EXPECT_THAT(nacks[1].nack().reason(), testing::HasSubstr("unknown type"));
  EXPECT_EQ(subscriber->counts().acked, 1);
}

TEST_F(SubscriberTest, ASilentStreamIsGivenUp) {
  std::atomic<int> streams{0};
  Gate second;
  Play([&](ServerStream* stream) {
    AcceptStream(stream);
    if (++streams == 2) second.Open();
    return ReadUntilClosed(stream);
  });
  SubscriberOptions options = Options();
  options.silence_max = absl::Milliseconds(50);
  std::atomic<bool> named{false};
  options.on_disconnect = [&](const absl::Status& status) {
    if (status.message().find("no sign of life") != absl::string_view::npos) named = true;
  };
  const auto subscriber = Start(options, AckAll);
  EXPECT_TRUE(second.Wait());
  EXPECT_TRUE(named);
  EXPECT_TRUE(subscriber->Stop().ok());
}

TEST_F(SubscriberTest, SeveralThreadsHandleAtOnce) {
  constexpr int kThreads = 4;
  Gate confirmed;
  Serve({Deliveries(1, 200)}, &confirmed);
  SubscriberOptions options = Options();
  options.handler_threads = kThreads;
  std::mutex mutex;
  std::set<std::string> seen;
  std::atomic<int> inside{0};
  Gate all_inside;
  const auto subscriber = Start(options, [&](const Delivery& delivery) {
    // The first handlers wait for each other. They can only go on if the deliveries of one frame
    // run concurrently.
    if (++inside == kThreads) all_inside.Open();
    EXPECT_TRUE(all_inside.Wait());
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(seen.emplace(delivery.message_id()).second) << delivery.message_id();
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(seen.size(), 200u);
  EXPECT_EQ(subscriber->counts().acked, 200);
}

}  // namespace
}  // namespace duetime::client
