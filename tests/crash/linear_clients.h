// SPDX-License-Identifier: Apache-2.0
//
// The clients of the linearizability check. A few clients work on a few keys of one topic, and
// record their requests and the answers.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "duetime/v1/messages.grpc.pb.h"
#include "tests/crash/linear_history.h"

namespace duetime::linear {

inline constexpr char kTopic[] = "linear";

// Microseconds of a clock that starts at wall time and never goes back.
int64_t NowMicros();

// Records histories, and remembers ids and contents that clients can reuse. Thread-safe.
class Recorder {
 public:
  explicit Recorder(int keys) : keys_(static_cast<size_t>(keys)) {}

  // A payload and its time, under a unique number.
  struct Content {
    int64_t number = 0;
    int64_t deliver_ms = 0;
  };

  static std::string KeyName(int key) { return "key/" + std::to_string(key); }
  static std::string Payload(int64_t content) { return std::to_string(content); }
  int keys() const { return static_cast<int>(keys_.size()); }

  Content NewContent(int key, int64_t deliver_ms);
  // A recently used content, or a new one.
  Content UsedContent(int key, int64_t deliver_ms, std::mt19937_64* random);
  // An id or an etag of a recent answer; empty if none exists.
  std::string UsedId(int key, std::mt19937_64* random) const;
  std::string UsedEtag(int key, std::mt19937_64* random) const;

  // Records an operation that is over or never will be.
  void Add(int key, const Operation& operation);

  // REQUIRES: the daemon is dead, and all clients have ended.
  void EndRun();

  std::vector<std::vector<Run>> TakeHistories();
  int64_t Count(Kind kind, Answer answer) const;

 private:
  struct Key {
    std::vector<Run> runs = std::vector<Run>(1);
    std::deque<Content> contents;
    std::deque<std::string> ids;
    std::deque<std::string> etags;
  };

  mutable std::mutex mutex_;
  // mutex_ guards all members below.
  std::vector<Key> keys_;
  int64_t contents_ = 0;
  std::map<std::pair<Kind, Answer>, int64_t> counts_;
};

// Clients on threads of their own, which make calls until they are stopped or the daemon is gone.
class Callers {
 public:
  Callers(const std::string& target, int threads, uint64_t seed, Recorder* recorder);
  ~Callers() { Stop(); }
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;
  void Stop();

 private:
  void Run(const std::string& target, uint64_t seed);

  Recorder* const recorder_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

// Ends a key's message in any state, and reads its state once more. Returns false if a call has no
// answer.
bool EndKey(v1::Messages::Stub* stub, int key, Recorder* recorder);

// A subscriber. Of 100 deliveries it acks `acks`, nacks `nacks`, and leaves the others unsettled.
class Receiver {
 public:
  struct Habits {
    int acks = 60;
    int nacks = 30;
  };
  Receiver(const std::string& target, Habits habits, uint64_t seed, Recorder* recorder);
  ~Receiver() { Stop(); }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;
  void Stop();
  // When the subscriber last received a response, by NowMicros.
  int64_t last_us() const { return last_us_.load(); }

 private:
  struct Settlement {
    int key = 0;
    Operation operation;
  };

  void Run(const std::string& target, uint64_t seed);
  void OnDelivery(const v1::Delivery& delivery, std::mt19937_64* random,
                  v1::SubscribeRequest* settlements);
  void OnSettled(const std::string& token, Answer answer);

  const Habits habits_;
  Recorder* const recorder_;
  grpc::ClientContext context_;
  std::atomic<int64_t> last_us_;
  // Settlements without an answer, by token. Confined to the thread.
  std::unordered_map<std::string, Settlement> open_;
  std::thread thread_;
};

}  // namespace duetime::linear
