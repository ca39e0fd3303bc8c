// SPDX-License-Identifier: Apache-2.0
//
// The clients of the crash test. They schedule, cancel, receive and ack, and record the answers.
#pragma once

#include <atomic>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "duetime/v1/messages.grpc.pb.h"
#include "tests/crash/kill9_recorder.h"

namespace duetime::crash {

// How a subscriber behaves.
struct SubscriberHabits {
  int credit = 100;
  // Percent of deliveries. The subscriber leaves the rest unsettled.
  int acks = 80;
  int nacks = 8;
  // Percent of frames after which the subscriber cancels its stream and opens another.
  int breaks = 2;
};

inline constexpr int kTopics = 3;
std::string TopicName(int topic);

// All clients of one run of the daemon. They start in the constructor and run until Stop or until
// the daemon is gone.
class Clients {
 public:
  Clients(const std::string& target, int run, uint64_t seed, Recorder* recorder);
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  // Ends the clients. The outcome of an unanswered call is unknown.
  void Stop();

 private:
  void Schedule(uint64_t seed);
  void Cancel(uint64_t seed);
  // Cancels one of the messages that were accepted last.
  void CancelOne(v1::Messages::Stub* stub, std::mt19937_64* random);

  const std::string target_;
  const int run_;
  Recorder* const recorder_;
  // Constant once the threads run.
  bool quiet_ = false;
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<class SubscriberClient>> subscribers_;
  std::vector<std::thread> threads_;
};

// One subscriber, on a thread of its own.
class SubscriberClient {
 public:
  struct Where {
    std::string target;
    std::string topic;
    int run = 0;
    // Empty: the default subscription.
    std::string subscription{};
  };
  SubscriberClient(Where where, const SubscriberHabits& habits, uint64_t seed, Recorder* recorder);
  ~SubscriberClient();
  SubscriberClient(const SubscriberClient&) = delete;
  SubscriberClient& operator=(const SubscriberClient&) = delete;

  void Stop();
  // When the subscriber last received a response, by the steady clock, in milliseconds.
  int64_t last_received_ms() const { return last_received_ms_.load(); }

 private:
  void Run(uint64_t seed);
  // Runs one stream from its start to its end.
  void RunStream(v1::Messages::Stub* stub, std::mt19937_64* random);
  void OnDelivery(const v1::Delivery& delivery, std::mt19937_64* random,
                  v1::SubscribeRequest* answer);
  void OnSettled(uint64_t token, Ended ended);

  const Where where_;
  const SubscriberHabits habits_;
  Recorder* const recorder_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> last_received_ms_{0};
  // Acks of the open stream without an answer: lease token to message number. Confined to the
  // thread.
  std::unordered_map<uint64_t, size_t> open_acks_;
  std::mutex mutex_;
  // The context of the open stream, or null. Guarded by mutex_.
  grpc::ClientContext* context_ = nullptr;
  std::thread thread_;
};

// Cancels every accepted message and records the answers. REQUIRES: the daemon of `run` has
// delivered all remaining messages. Returns false if a call failed.
bool AskAfterAll(const std::shared_ptr<grpc::Channel>& channel, int run, Recorder* recorder);

// Classifies a call: a refused call changed nothing, and an unknown one may have taken effect.
Ended EndedBy(const grpc::Status& status);

// A moment of the steady clock, in milliseconds.
int64_t SteadyMillis();

}  // namespace duetime::crash
