// SPDX-License-Identifier: Apache-2.0
//
// SubscriberTest: a subscriber against a server whose side of the stream the test scripts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "client/cpp/convert.h"
#include "client/cpp/subscriber.h"
#include "server/base/mutex.h"
#include "tests/unit/client/fake_server.h"

namespace duetime::client {

inline constexpr absl::Duration kPatience = absl::Seconds(20);

// An event that threads wait for, with a deadline.
class Gate {
 public:
  void Open() {
    const base::MutexLock lock(&mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  bool Wait() {
    const base::MutexLock lock(&mutex_);
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(kPatience);
    while (!open_ && changed_.WaitUntil(&mutex_, deadline)) {
    }
    return open_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

// The first response of a stream. It leaves out a zero `lease`, so the subscriber prolongs none.
inline v1::SubscribeResponse Started(absl::Duration lease) {
  v1::SubscribeResponse response;
  response.mutable_started()->set_max_outstanding_messages(1'000);
  if (lease != absl::ZeroDuration()) {
    *response.mutable_started()->mutable_lease_duration() = ToProto(lease);
  }
  return response;
}

inline v1::SubscribeResponse Deliveries(int first_token, int count) {
  v1::SubscribeResponse response;
  for (int i = 0; i < count; ++i) {
    v1::Delivery* delivery = response.add_deliveries();
    const std::string token = std::to_string(first_token + i);
    delivery->set_message_id("m" + token);
    delivery->set_lease_token(token);
    delivery->set_attempt(1);
    delivery->set_payload("p");
  }
  return response;
}

// Confirms every settlement in `request`.
inline v1::SubscribeResponse Confirmation(const v1::SubscribeRequest& request) {
  v1::SubscribeResponse response;
  for (const v1::Settlement& one : request.settlements()) {
    (one.has_extend() ? response.add_extended() : response.add_settled())
        ->assign(one.lease_token());
  }
  response.mutable_begun()->CopyFrom(request.begun());
  return response;
}

// Reads and confirms until `count` settlements came or the stream ended. Returns the number of
// requests.
inline int ConfirmMany(ServerStream* stream, int count) {
  int requests = 0;
  v1::SubscribeRequest request;
  while (count > 0 && stream->Read(&request)) {
    ++requests;
    for (const v1::Settlement& one : request.settlements()) {
      if (!one.has_extend() && !one.has_release()) --count;
    }
    stream->Write(Confirmation(request));
  }
  return requests;
}

// Reads the subscriber's first request and answers it as a server that opens the stream.
inline v1::SubscribeRequest AcceptStream(ServerStream* stream,
                                         absl::Duration lease = absl::ZeroDuration()) {
  v1::SubscribeRequest request;
  stream->Read(&request);
  stream->Write(Started(lease));
  return request;
}

// Reads until the subscriber closes the stream, then ends it with OK.
inline grpc::Status ReadUntilClosed(ServerStream* stream) {
  v1::SubscribeRequest request;
  while (stream->Read(&request)) {
  }
  return grpc::Status::OK;
}

class SubscriberTest : public testing::Test {
 protected:
  SubscriberOptions Options() const {
    SubscriberOptions options;
    options.server.target = server_.target();
    options.topic = "t";
    options.backoff = {
        .initial = absl::Milliseconds(1), .max = absl::Milliseconds(5), .multiplier = 2.0};
    return options;
  }

  static Settlement AckAll(const Delivery&) { return Settlement::Ack(); }

  // Starts a server that runs `play` for each stream.
  void Play(std::function<grpc::Status(ServerStream*)> play) {
    server_.on_subscribe = [play = std::move(play)](ServerStream* stream, grpc::ServerContext*) {
      return play(stream);
    };
    server_.Start();
  }

  // Starts a server that sends these frames, confirms as many settlements as there are deliveries,
  // opens `confirmed`, and keeps the stream until the subscriber closes it.
  void Serve(std::vector<v1::SubscribeResponse> frames, Gate* confirmed,
             v1::SubscribeRequest* start = nullptr) {
    Play([frames = std::move(frames), confirmed, start](ServerStream* stream) {
      const v1::SubscribeRequest request = AcceptStream(stream);
      if (start != nullptr) *start = request;
      int deliveries = 0;
      for (const v1::SubscribeResponse& frame : frames) {
        stream->Write(frame);
        deliveries += frame.deliveries_size();
      }
      ConfirmMany(stream, deliveries);
      confirmed->Open();
      return ReadUntilClosed(stream);
    });
  }

  // Waits until a stop is under way: the subscriber has skipped deliveries that no handler began.
  static void AwaitSkip(const Subscriber& subscriber) {
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoSeconds(kPatience);
    while (subscriber.counts().skipped == 0 && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
  }

  static std::unique_ptr<Subscriber> Start(const SubscriberOptions& options, Handler handler) {
    auto subscriber = Subscriber::Start(options, std::move(handler));
    EXPECT_TRUE(subscriber.ok()) << subscriber.status();
    return *std::move(subscriber);
  }

  FakeServer server_;
};

}  // namespace duetime::client
