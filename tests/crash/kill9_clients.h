// SPDX-License-Identifier: Apache-2.0
//
// The clients of the crash test: they schedule, cancel, receive and ack, and record what they see.
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
  // Out of 100 deliveries; the rest is left alone.
  int acks = 80;
  int nacks = 8;
  // Out of 100 frames: breaks the stream off and opens another.
  int breaks = 2;
};

inline constexpr int kTopics = 3;
std::string TopicName(int topic);

// All clients of one run of the daemon. They start with the constructor and go on until Stop, or
// until the daemon is gone.
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
  // Cancels one of the messages accepted last.
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
    // Empty: the default one.
    std::string subscription{};
  };
  SubscriberClient(Where where, const SubscriberHabits& habits, uint64_t seed, Recorder* recorder);
  ~SubscriberClient();
  SubscriberClient(const SubscriberClient&) = delete;
  SubscriberClient& operator=(const SubscriberClient&) = delete;

  void Stop();
  // When it last received anything, by the steady clock, in milliseconds.
  int64_t last_received_ms() const { return last_received_ms_.load(); }

 private:
  void Run(uint64_t seed);
  // Lives through one stream.
  void RunStream(v1::Messages::Stub* stub, std::mt19937_64* random);
  void OnDelivery(const v1::Delivery& delivery, std::mt19937_64* random,
                  v1::SubscribeRequest* answer);
  void OnSettled(uint64_t token, Ended ended);

  const Where where_;
  const SubscriberHabits habits_;
  Recorder* const recorder_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> last_received_ms_{0};
  // Acks without an answer, of the open stream: which message. Confined to the thread.
  std::unordered_map<uint64_t, size_t> open_acks_;
  std::mutex mutex_;
  // The open stream's, or null. Guarded by mutex_.
  grpc::ClientContext* context_ = nullptr;
  std::thread thread_;
};

// Asks by a cancel what became of each message that was ever accepted; `run` is that of the daemon,
// which has delivered all that was left. False if a call failed.
bool AskAfterAll(const std::shared_ptr<grpc::Channel>& channel, int run, Recorder* recorder);

// Whether a call with this status may have taken effect.
Ended EndedBy(const grpc::Status& status);

// A moment of the steady clock, in milliseconds.
int64_t SteadyMillis();

}  // namespace duetime::crash
