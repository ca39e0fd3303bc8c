// SPDX-License-Identifier: Apache-2.0
//
// The clients of the soak whose messages are judged: they schedule, move, cancel, receive and
// settle, and write the history.
#pragma once

#include <atomic>
#include <cstdint>
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

// Topics that exist from the beginning to the end. Messages of the first three are cancelled and
// moved. The last one has further subscriptions that come and go.
inline constexpr const char* kSteadyTopics[] = {"steady/0", "steady/1", "steady/2", "fan"};

// What all clients share, over all runs of the daemon. Thread-safe.
class SoakWorld {
 public:
  SoakWorld(test::HistoryWriter* history, int64_t delay_max_ms);

  test::HistoryWriter& history() { return history_; }
  int64_t delay_max_ms() const { return delay_max_ms_; }
  // Messages also go to this topic, or no longer.
  void OpenTopic(const std::string& topic);
  void CloseTopic(const std::string& topic);
  std::string PickTopic(std::mt19937_64* random) const;

  void Accepted(uint32_t message, const std::string& topic, const std::string& id);
  // Number and id of one of the messages that were accepted last and may be cancelled.
  std::optional<std::pair<uint32_t, std::string>> PickRecent(std::mt19937_64* random) const;

  // The daemon's clock less the true one.
  std::atomic<int64_t> clock_offset_ms{0};
  // Messages and occurrences that clients received and the history does not have.
  std::atomic<int64_t> other_deliveries{0};
  std::atomic<int64_t> occurrences{0};

 private:
  test::HistoryWriter& history_;
  const int64_t delay_max_ms_;
  mutable std::mutex mutex_;
  // mutex_ guards all members below.
  std::vector<std::string> topics_;
  std::vector<std::pair<uint32_t, std::string>> recent_;
  size_t recent_next_ = 0;
};

// One client on a thread of its own, in one run of the daemon. It goes on, whatever fails, until
// Stop.
class SoakClient {
 public:
  virtual ~SoakClient() { Stop(); }
  SoakClient(const SoakClient&) = delete;
  SoakClient& operator=(const SoakClient&) = delete;

  // Ends the open call and the thread.
  void Stop();

 protected:
  explicit SoakClient(const std::string& target) : target_(target) {}
  // Each subclass calls this last in its constructor, and Stop in its destructor.
  void Start();
  // One call or stream. Returns how long to pause.
  virtual std::chrono::milliseconds Step(v1::Messages::Stub* stub,
                                         grpc::ClientContext* context) = 0;
  bool stopping() const { return stopping_; }

 private:
  const std::string target_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  // The context of the open call, or null. Guarded by mutex_.
  grpc::ClientContext* context_ = nullptr;
  std::thread thread_;
};

// Schedules messages, one by one and in batches.
class SoakProducer : public SoakClient {
 public:
  struct Where {
    std::string target;
    int run = 0;
    uint16_t client = 0;
    int messages_per_second = 0;
  };
  SoakProducer(const Where& where, uint64_t seed, SoakWorld* world);
  ~SoakProducer() override { Stop(); }

 private:
  std::chrono::milliseconds Step(v1::Messages::Stub* stub, grpc::ClientContext* context) override;
  // Adds a message and writes that its call begins. Returns its number.
  uint32_t AddMessage(v1::ScheduleBatchRequest* batch);

  const Where where_;
  SoakWorld& world_;
  std::mt19937_64 random_;
};

// Cancels and moves messages that were accepted a moment ago.
class SoakCanceller : public SoakClient {
 public:
  SoakCanceller(const SoakProducer::Where& where, uint64_t seed, SoakWorld* world);
  ~SoakCanceller() override { Stop(); }

 private:
  std::chrono::milliseconds Step(v1::Messages::Stub* stub, grpc::ClientContext* context) override;
  void Cancel(v1::Messages::Stub* stub, grpc::ClientContext* context,
              const std::pair<uint32_t, std::string>& target);
  void Move(v1::Messages::Stub* stub, grpc::ClientContext* context,
            const std::pair<uint32_t, std::string>& target);

  const SoakProducer::Where where_;
  SoakWorld& world_;
  std::mt19937_64 random_;
};

// Receives a topic's messages on one stream after the other. Settles most of them: acks, nacks and
// releases.
class SoakSubscriber : public SoakClient {
 public:
  struct Where {
    std::string target;
    std::string topic;
    int run = 0;
    // Acks everything and never breaks its stream.
    bool diligent = false;
  };
  SoakSubscriber(Where where, uint64_t seed, SoakWorld* world);
  ~SoakSubscriber() override { Stop(); }

 private:
  std::chrono::milliseconds Step(v1::Messages::Stub* stub, grpc::ClientContext* context) override;
  void OnDelivery(const v1::Delivery& delivery, v1::SubscribeRequest* answer);
  void OnSettled(const std::string& token, test::Outcome outcome);

  const Where where_;
  SoakWorld& world_;
  std::mt19937_64 random_;
  // Settlements of the open stream without an answer, by lease token.
  std::unordered_map<std::string, test::Event> open_;
};

// Receives and acks by Pull and Settle, and writes no history.
class SoakPuller : public SoakClient {
 public:
  SoakPuller(const std::string& target, std::string topic, std::string subscription,
             SoakWorld* world);
  ~SoakPuller() override { Stop(); }

 private:
  std::chrono::milliseconds Step(v1::Messages::Stub* stub, grpc::ClientContext* context) override;

  const std::string topic_;
  const std::string subscription_;
  SoakWorld& world_;
};

// Milliseconds since 1970.
int64_t ToMillis(const google::protobuf::Timestamp& time);

}  // namespace duetime::crash
