// SPDX-License-Identifier: Apache-2.0
//
// The clients of the crash tests. They schedule, cancel, receive and ack, and record the answers.
#pragma once

#include <atomic>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "duetime/v1/messages.grpc.pb.h"
#include "tests/support/history.h"

namespace duetime::crash {

using test::Event;
using test::HistoryWriter;
using test::Outcome;
using test::What;

// The ids of the accepted messages, which cancels need. Thread-safe.
class AcceptedMessages {
 public:
  using Message = std::pair<uint32_t, std::string>;

  void Add(uint32_t number, const std::string& id);
  // One of the messages that were accepted last.
  std::optional<Message> PickRecent(std::mt19937_64* random) const;
  std::vector<Message> All() const;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::vector<Message> messages_;
};

// A batch of schedules with delays, as a test records it: begun, and then ended.
class ScheduleRecord {
 public:
  explicit ScheduleRecord(HistoryWriter* history) : history_(history) {}

  // Returns the number of a new message.
  uint32_t Begin(int64_t delay_ms);
  // `accepted` may be null.
  void End(uint32_t run, const grpc::Status& status, const v1::ScheduleBatchResponse& response,
           AcceptedMessages* accepted) const;

 private:
  HistoryWriter* const history_;
  std::vector<uint32_t> numbers_;
};

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
// the daemon is gone. A Schedule call has at most `batch` messages.
class Clients {
 public:
  Clients(const std::string& target, uint32_t run, uint64_t seed, int batch, HistoryWriter* history,
          AcceptedMessages* accepted);
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
  const uint32_t run_;
  const int batch_;
  HistoryWriter* const history_;
  AcceptedMessages* const accepted_;
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
    uint32_t run = 0;
    // Empty: the default subscription.
    std::string subscription{};
    // Its number in the history.
    uint8_t number = 0;
  };
  SubscriberClient(Where where, const SubscriberHabits& habits, uint64_t seed,
                   HistoryWriter* history);
  ~SubscriberClient();
  SubscriberClient(const SubscriberClient&) = delete;
  SubscriberClient& operator=(const SubscriberClient&) = delete;

  void Stop();
  // When the subscriber last received a delivery, by the steady clock, in milliseconds.
  int64_t last_received_ms() const { return last_received_ms_.load(); }

 private:
  void Run(uint64_t seed);
  // Runs one stream from its start to its end.
  void RunStream(v1::Messages::Stub* stub, std::mt19937_64* random);
  void OnDelivery(const v1::Delivery& delivery, std::mt19937_64* random,
                  v1::SubscribeRequest* answer);
  void BeginSettlement(What what, const v1::Delivery& delivery, uint32_t message);
  void OnSettled(const std::string& token, Outcome outcome);

  const Where where_;
  const SubscriberHabits habits_;
  HistoryWriter* const history_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> last_received_ms_{0};
  // Settlements of the open stream without an answer, by lease token. Confined to the thread.
  std::unordered_map<std::string, Event> open_;
  std::mutex mutex_;
  // The context of the open stream, or null. Guarded by mutex_.
  grpc::ClientContext* context_ = nullptr;
  std::thread thread_;
};

// Cancels every accepted message and records the answers. REQUIRES: the daemon of `run` has
// delivered all remaining messages. Returns false if a call failed.
bool AskAfterAll(const std::shared_ptr<grpc::Channel>& channel, uint32_t run,
                 const AcceptedMessages& accepted, HistoryWriter* history);

// Whether messages in memory are due, in flight, or wait for their next attempt, which may take
// longer than any quiet time. True, too, if the call fails.
bool AnyOpen(const std::shared_ptr<grpc::Channel>& channel);

// A moment of the steady clock, in milliseconds.
int64_t SteadyMillis();

}  // namespace duetime::crash
