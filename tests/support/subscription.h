// SPDX-License-Identifier: Apache-2.0
//
// Subscription: one Subscribe stream as a test drives it, request by request.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "duetime/v1/messages.grpc.pb.h"
#include "tests/support/subprocess.h"

namespace duetime::test {

// The server's answer to a settlement.
enum class SettleAnswer { kNone, kSettled, kExtended, kLeaseLost, kOutOfRange };

// A delivery and the time of its arrival by this machine's clock.
struct Received {
  v1::Delivery delivery;
  std::chrono::system_clock::time_point time;
};

// Reads every response on a thread of its own, and lets a test wait for deliveries and answers.
// Settles nothing by itself. Thread-safe, except that all sends come from one thread.
class Subscription {
 public:
  struct Start {
    std::string topic;
    int messages = 0;
    int64_t bytes = 0;
    Millis lease{0};
    bool reports_begun = false;
  };

  // Opens the stream. With a `start.lease` of zero the server chooses the lease.
  Subscription(const std::shared_ptr<grpc::Channel>& channel, const Start& start);
  // Opens the stream and sends `first` unchanged.
  Subscription(const std::shared_ptr<grpc::Channel>& channel, const v1::SubscribeRequest& first);
  // Cancels the stream if it still runs.
  ~Subscription();
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;

  // Waits for the start response. Returns false if the stream ended first.
  bool WaitStarted(Millis timeout = Millis(10'000));
  v1::SubscribeStarted started() const;

  // Waits for the next delivery. Returns nullopt on a timeout.
  std::optional<Received> Next(Millis timeout = Millis(10'000));
  // True if nothing arrives for `time`.
  bool StaysQuiet(Millis time) { return !Next(time).has_value(); }
  // The number of deliveries that arrived and that no Next has returned.
  size_t waiting() const;
  size_t frames() const;

  bool Send(const v1::SubscribeRequest& request);
  bool Ack(const v1::Delivery& delivery);
  bool Nack(const v1::Delivery& delivery, Millis delay);
  bool Extend(const v1::Delivery& delivery, Millis duration);
  // Waits for the server's answer to the last settlement of this token, and forgets the answer.
  SettleAnswer Answer(const std::string& lease_token, Millis timeout = Millis(10'000));
  // Acks the delivery and returns the answer.
  SettleAnswer AckAndWait(const v1::Delivery& delivery);

  std::optional<v1::DrainNotice> WaitDrain(Millis timeout);
  bool WaitHeartbeat(Millis timeout);
  // Waits for the server to end the stream. Returns nullopt on a timeout.
  std::optional<grpc::Status> WaitEnd(Millis timeout);

  void HalfClose() { stream_->WritesDone(); }
  // Cancels the stream.
  void Cancel() { context_.TryCancel(); }

 private:
  void Read();
  template <typename Condition>
  bool WaitFor(std::unique_lock<std::mutex>* lock, Millis timeout, Condition condition) {
    return changed_.wait_for(*lock, timeout, condition);
  }

  grpc::ClientContext context_;
  std::unique_ptr<v1::Messages::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SubscribeRequest, v1::SubscribeResponse>> stream_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<Received> deliveries_;
  std::map<std::string, SettleAnswer> answers_;
  std::optional<v1::SubscribeStarted> started_;
  std::optional<v1::DrainNotice> drain_;
  size_t heartbeats_ = 0;
  size_t frames_ = 0;
  bool ended_ = false;
  grpc::Status status_;

  std::thread reader_;
};

}  // namespace duetime::test
