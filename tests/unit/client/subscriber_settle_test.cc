// SPDX-License-Identifier: Apache-2.0
//
// A subscriber's requests about its deliveries: settlements of each kind, and extensions of the
// lease while a handler works.
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/cpp/subscriber.h"
#include "tests/support/settlements.h"
#include "tests/unit/client/subscriber_fixture.h"

namespace duetime::client {
namespace {

// The subscriber prolongs a lease after a third of it.
constexpr absl::Duration kLease = absl::Milliseconds(300);

TEST_F(SubscriberTest, SettlesInEveryWay) {
  v1::SubscribeRequest settled;
  Gate confirmed;
  Play([&](ServerStream* stream) {
    v1::SubscribeRequest request = AcceptStream(stream);
    // Waits for each delivery in turn, so that each settlement has a request of its own.
    for (int token = 1; token <= 6; ++token) {
      stream->Write(Deliveries(token, 1));
      stream->Read(&request);
      settled.MergeFrom(request);
      stream->Write(Confirmation(request));
    }
    stream->Write(Deliveries(7, 1));
    confirmed.Open();
    return ReadUntilClosed(stream);
  });
  const std::map<std::string, Settlement> answers = {
      {"m1", Settlement::Nack("busy")},
      {"m2", Settlement::NackAfter(absl::ZeroDuration())},
      {"m3", Settlement::DeadLetter(std::string(254, 'x') + "ü")},
      {"m4", Settlement::FromStatus(absl::NotFoundError("no such customer"))},
      {"m5", Settlement::FromStatus(absl::OkStatus())},
      {"m6", Settlement::NackAfter(absl::Seconds(3), "later")},
      {"m7", Settlement::Leave()}};
  Gate left;
  const auto subscriber = Start(Options(), [&](const Delivery& delivery) {
    if (delivery.message_id() == "m7") left.Open();
    return answers.at(std::string(delivery.message_id()));
  });
  ASSERT_TRUE(confirmed.Wait());
  ASSERT_TRUE(left.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  const std::vector<v1::Settlement> nacks = test::With(v1::Settlement::kNack, settled);
  ASSERT_EQ(nacks.size(), 4u);
  EXPECT_EQ(nacks[0].lease_token(), "1");
  EXPECT_FALSE(nacks[0].nack().has_delay()) << "the retry policy decides";
  EXPECT_EQ(nacks[0].nack().reason(), "busy");
  EXPECT_TRUE(nacks[1].nack().has_delay()) << "at once, whatever the policy says";
  EXPECT_EQ(nacks[1].nack().delay().seconds(), 0);
  EXPECT_EQ(nacks[2].nack().reason(), "no such customer");
  EXPECT_EQ(nacks[3].nack().delay().seconds(), 3);
  EXPECT_EQ(nacks[3].nack().reason(), "later");
  const std::vector<v1::Settlement> dead = test::With(v1::Settlement::kDeadLetter, settled);
  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].lease_token(), "3");
  EXPECT_EQ(dead[0].dead_letter().reason(), std::string(254, 'x')) << "cut at a character";
  EXPECT_EQ(test::TokensWith(test::kAck, settled), std::vector<std::string>{"5"});
  const SubscriberCounts counts = subscriber->counts();
  EXPECT_EQ(counts.delivered, 7);
  EXPECT_EQ(counts.acked, 1);
  EXPECT_EQ(counts.nacked, 4);
  EXPECT_EQ(counts.dead_lettered, 1);
  EXPECT_EQ(counts.left, 1);
  EXPECT_EQ(counts.extended, 0) << "the server said nothing of leases";
}

TEST_F(SubscriberTest, HandlersSeeWhatADeadLetterWas) {
  Gate confirmed;
  v1::SubscribeResponse deliveries = Deliveries(1, 2);
  deliveries.mutable_deliveries(1)->mutable_dead_letter()->set_message_id("before");
  Serve({deliveries}, &confirmed);
  std::vector<std::string> seen;
  const auto subscriber = Start(Options(), [&](const Delivery& delivery) {
    seen.push_back(delivery.dead_letter() == nullptr ? "none"
                                                     : delivery.dead_letter()->message_id());
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(seen, (std::vector<std::string>{"none", "before"}));
}

// Reads until each of `tokens` was prolonged twice or settled. Returns the number of extensions by
// token.
std::map<std::string, int> ReadExtensions(ServerStream* stream,
                                          const std::set<std::string>& tokens) {
  std::map<std::string, int> times;
  v1::SubscribeRequest request;
  const auto enough = [&] {
    for (const std::string& token : tokens) {
      if (times[token] < 2) return false;
    }
    return true;
  };
  while (!enough() && stream->Read(&request)) {
    for (const v1::Settlement& one : test::With(v1::Settlement::kExtend, request)) {
      EXPECT_EQ(FromProto(one.extend().duration()), kLease);
      ++times[one.lease_token()];
    }
    stream->Write(Confirmation(request));
  }
  return times;
}

TEST_F(SubscriberTest, LeasesGoOnWhileAHandlerRunsAndForWhatWaitsBehindIt) {
  Gate prolonged;
  Gate confirmed;
  Play([&](ServerStream* stream) {
    AcceptStream(stream, kLease);
    stream->Write(Deliveries(1, 2));
    stream->Write(Deliveries(3, 1));
    const auto times = ReadExtensions(stream, {"1", "2", "3"});
    EXPECT_EQ(times.size(), 3u);
    prolonged.Open();
    ConfirmMany(stream, 3);
    confirmed.Open();
    return ReadUntilClosed(stream);
  });
  const auto subscriber = Start(Options(), [&](const Delivery&) {
    EXPECT_TRUE(prolonged.Wait());
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  const SubscriberCounts counts = subscriber->counts();
  EXPECT_EQ(counts.acked, 3);
  EXPECT_GE(counts.extended, 6);
  EXPECT_EQ(counts.leases_lost, 0);
  EXPECT_EQ(counts.lost, 0);
}

TEST_F(SubscriberTest, WhileItStopsLeasesGoOnOfWhatRunsOnly) {
  Gate handling;
  Gate known;
  Gate stopping;
  Gate prolonged;
  Play([&](ServerStream* stream) {
    v1::SubscribeRequest request = AcceptStream(stream, kLease);
    stream->Write(Deliveries(1, 1));
    stream->Write(Deliveries(2, 1));
    EXPECT_TRUE(stopping.Wait());
    // Requests from before the stop extend both leases.
    for (int alone = 0; alone < 3 && stream->Read(&request);) {
      for (const auto& token : test::TokensWith(v1::Settlement::kExtend, request)) {
        alone = token == "1" ? alone + 1 : 0;
      }
      stream->Write(Confirmation(request));
    }
    prolonged.Open();
    ConfirmMany(stream, 1);
    return ReadUntilClosed(stream);
  });
  Subscriber* running = nullptr;
  const auto subscriber = Start(Options(), [&](const Delivery&) {
    handling.Open();
    EXPECT_TRUE(known.Wait());
    AwaitSkip(*running);
    stopping.Open();
    EXPECT_TRUE(prolonged.Wait());
    return Settlement::Ack();
  });
  running = subscriber.get();
  known.Open();
  ASSERT_TRUE(handling.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  EXPECT_EQ(subscriber->counts().acked, 1);
  EXPECT_EQ(subscriber->counts().skipped, 1);
}

TEST_F(SubscriberTest, ARefusedExtensionIsNoRefusedSettlement) {
  Gate refused;
  Gate confirmed;
  Play([&](ServerStream* stream) {
    AcceptStream(stream, kLease);
    stream->Write(Deliveries(1, 2));
    v1::SubscribeRequest request;
    // The server refuses all that is about the second lease.
    int extensions = 0;
    for (int left = 2; left > 0 && stream->Read(&request);) {
      v1::SubscribeResponse response;
      const auto answer = [&](const std::string& token, auto* taken) {
        if (token == "1") {
          *taken->Add() = token;
        } else {
          response.add_refused()->set_lease_token(token);
        }
      };
      for (const std::string& token : request.begun()) answer(token, response.mutable_begun());
      for (const auto& token : test::TokensWith(v1::Settlement::kExtend, request)) {
        answer(token, response.mutable_extended());
        if (token == "2") ++extensions;
      }
      for (const auto& token : test::TokensWith(test::kAck, request)) {
        answer(token, response.mutable_settled());
        --left;
      }
      stream->Write(response);
      if (extensions > 0) refused.Open();
    }
    EXPECT_EQ(extensions, 1);
    confirmed.Open();
    return ReadUntilClosed(stream);
  });
  SubscriberOptions options = Options();
  options.handler_threads = 2;
  const auto subscriber = Start(options, [&](const Delivery&) {
    EXPECT_TRUE(refused.Wait());
    return Settlement::Ack();
  });
  ASSERT_TRUE(confirmed.Wait());
  EXPECT_TRUE(subscriber->Stop().ok());
  const SubscriberCounts counts = subscriber->counts();
  EXPECT_EQ(counts.acked, 1);
  EXPECT_EQ(counts.refused, 1);
  EXPECT_EQ(counts.refusals.size(), 1u);
  EXPECT_EQ(counts.leases_lost, 1);
  EXPECT_EQ(counts.lost, 0);
}

TEST_F(SubscriberTest, ABatchHandlerThatFailsNacksAllAndIsLogged) {
  const struct {
    const char* reason;
    BatchHandler handler;
  } cases[] = {
      {"the handler returned 1 settlements for 2 deliveries",
       [](const auto&) { return std::vector<Settlement>{Settlement::Ack()}; }},
      {"the handler broke",
       [](const auto&) -> std::vector<Settlement> {
         throw std::runtime_error("the handler broke");
       }},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.reason);
    FakeServer server;
    v1::SubscribeRequest settled;
    Gate confirmed;
    server.on_subscribe = [&](ServerStream* stream, grpc::ServerContext*) {
      AcceptStream(stream);
      stream->Write(Deliveries(1, 2));
      stream->Read(&settled);
      stream->Write(Confirmation(settled));
      confirmed.Open();
      return ReadUntilClosed(stream);
    };
    server.Start();
    SubscriberOptions options = Options();
    options.server.target = server.target();
    std::string logged;
    options.log = [&](absl::LogSeverity severity, const std::string& line) {
      if (severity == absl::LogSeverity::kError) logged = line;
    };
    const auto subscriber = Subscriber::StartBatch(options, test.handler);
    ASSERT_TRUE(subscriber.ok()) << subscriber.status();
    ASSERT_TRUE(confirmed.Wait());
    EXPECT_TRUE((*subscriber)->Stop().ok());
    ASSERT_EQ(settled.settlements_size(), 2);
    for (const v1::Settlement& one : settled.settlements()) {
      EXPECT_EQ(one.nack().reason(), test.reason);
    }
    EXPECT_EQ(logged, "a handler of the topic \"t\" failed: " + std::string(test.reason));
    EXPECT_EQ((*subscriber)->counts().nacked, 2);
  }
}

TEST_F(SubscriberTest, StopDoesNotWaitLongerForHandlersThanItIsTold) {
  Gate handling;
  Gate stopped;
  Play([&](ServerStream* stream) {
    AcceptStream(stream);
    stream->Write(Deliveries(1, 1));
    return ReadUntilClosed(stream);
  });
  auto subscriber = Start(Options(), [&](const Delivery&) {
    handling.Open();
    EXPECT_TRUE(stopped.Wait());
    return Settlement::Ack();
  });
  ASSERT_TRUE(handling.Wait());
  EXPECT_EQ(subscriber->Stop(absl::Seconds(5), absl::Milliseconds(20)).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(subscriber->counts().delivered, 0) << "the handler still runs";
  stopped.Open();
  // The destructor waits for the handler, whose ack cannot be sent any more.
  subscriber.reset();
}

}  // namespace
}  // namespace duetime::client
