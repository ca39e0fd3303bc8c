// SPDX-License-Identifier: Apache-2.0
//
// The clients of a cell under test. They call the members all the time, receive and settle, and
// record everything.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/cpp/delay_client.h"
#include "client/cpp/subscriber.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "tests/cells/recorder.h"

namespace duetime::cells {

inline constexpr int kTopics = 3;
std::string TopicName(int topic);
// A new connection to a member, or to all.
std::shared_ptr<grpc::Channel> Connect(const std::string& target);

// A client on a thread of its own, from Begin until Stop.
class CellClient {
 public:
  virtual ~CellClient() = default;
  CellClient(const CellClient&) = delete;
  CellClient& operator=(const CellClient&) = delete;

  void Begin();
  // Waits for the open call. Idempotent. Call it before the destructor.
  void Stop();

 protected:
  CellClient() = default;
  // One call or stream. Returns how long to pause.
  virtual std::chrono::milliseconds Step() = 0;
  // Ends a call that would last for ever.
  virtual void Interrupt() {}
  bool stopping() const { return stopping_; }

 private:
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;
};

// Calls through the client library.
class LibraryCaller : public CellClient {
 public:
  // All members of the cell, or a gateway to them.
  struct Server {
    std::string target;
    // The prefix of each id.
    std::string id_prefix;
    // Beats with each accepted call.
    Pulse* accepted = nullptr;
  };
  LibraryCaller(Server server, uint16_t client, uint64_t seed, World* world);

 private:
  std::chrono::milliseconds Step() override;
  void Schedule();
  void ScheduleBatch();
  void Cancel();
  void Get();

  const Server server_;
  World& world_;
  std::mt19937_64 random_;
  Recorder recorder_;
  const std::unique_ptr<client::Client> library_;
};

// Calls one member without retries, whether that member leads or not.
class DirectCaller : public CellClient {
 public:
  DirectCaller(int member, uint16_t client, uint64_t seed, World* world);

 private:
  std::chrono::milliseconds Step() override;
  absl::Status Schedule();
  absl::Status Cancel(const crash::AcceptedMessages::Message& target);
  absl::Status Move(const crash::AcceptedMessages::Message& target);
  absl::Status Get(const crash::AcceptedMessages::Message& target);

  const int member_;
  World& world_;
  std::mt19937_64 random_;
  Recorder recorder_;
  const std::unique_ptr<v1::Messages::Stub> stub_;
};

// Receives the messages of a topic on one stream after the other.
class CellSubscriber : public CellClient {
 public:
  struct Where {
    // Of all members or of one.
    std::string target;
    std::string topic;
    // Acks everything.
    bool diligent = false;
  };
  CellSubscriber(Where where, uint64_t seed, World* world);

  // Cancels a stream that has been silent for longer than the members' heartbeat.
  void EndSilentStream();
  int64_t last_delivery_ms() const { return last_delivery_ms_; }

 private:
  std::chrono::milliseconds Step() override;
  void Interrupt() override;
  void OnResponse(const v1::SubscribeResponse& response, v1::SubscribeRequest* answer);
  void OnDelivery(const v1::Delivery& delivery, v1::SubscribeRequest* answer);
  void OnSettled(const std::string& token, test::Outcome outcome);

  const Where where_;
  World& world_;
  std::mt19937_64 random_;
  const std::unique_ptr<v1::Messages::Stub> stub_;
  std::atomic<int64_t> last_response_ms_;
  std::atomic<int64_t> last_delivery_ms_;
  // The epoch of the member that opened the stream.
  uint32_t epoch_ = 0;
  // Settlements of the open stream without an answer, by lease token.
  std::unordered_map<std::string, test::Event> open_;
  std::mutex mutex_;
  // The context of the open stream, or null. Guarded by mutex_.
  grpc::ClientContext* context_ = nullptr;
};

// Schedules through a gateway, in a topic of its own, and receives there through the gateway. The
// history does not have these messages, because a delivery does not tell a gateway's client which
// member sent it.
class GatewayEcho : public CellClient {
 public:
  explicit GatewayEcho(World* world);
  // After Stop: waits until each accepted message has come, and prints how many have not. Returns
  // false on a timeout.
  bool AwaitAll(std::chrono::seconds timeout);

 private:
  std::chrono::milliseconds Step() override;
  std::vector<std::string> Missing();

  World& world_;
  const std::unique_ptr<client::Client> library_;
  std::mutex mutex_;
  // Ids. mutex_ guards both sets.
  std::unordered_set<std::string> accepted_;
  std::unordered_set<std::string> delivered_;
  std::unique_ptr<client::Subscriber> subscriber_;
};

// All of them. They run until Stop.
class Clients {
 public:
  Clients(uint64_t seed, World* world);
  ~Clients() { Stop(); }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;
  void Stop();
  GatewayEcho& echo() { return echo_; }

 private:
  GatewayEcho echo_;
  std::vector<std::unique_ptr<CellClient>> callers_;
  std::vector<std::unique_ptr<CellSubscriber>> subscribers_;
  std::atomic<bool> stopping_{false};
  // Ends silent streams.
  std::thread watch_;
};

}  // namespace duetime::cells
