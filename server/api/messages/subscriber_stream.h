// SPDX-License-Identifier: Apache-2.0
//
// SubscriberStream: one Subscribe call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

#include "server/api/api_worker.h"
#include "server/api/messages/frame_queue.h"
#include "server/api/request_validation.h"
#include "server/api/subscriptions/subscription_watch.h"
#include "server/protocol/replies.h"
#include "server/protocol/stream_credit.h"
#include "server/rpc/bidi_stream.h"

namespace duetime::api {

// Attaches to every shard once `start` has come, passes settlements to their shards, and sends what
// the shards hand over in frames, one write at a time: while one is in flight the next gathers.
//
// A slow reader's write does not end; then its credit runs out and the shards stop handing over.
// Settlements are bounded too: nothing more is read while kSettlesOpenMax of them wait for an
// answer or for the write. A stored record that turns out damaged is not delivered but given back
// (ServingContext::GiveBackDamaged). A stream whose subscription is deleted ends within a second.
//
// However the stream ends, every shard receives a command to end its leases. Thread safety:
// confined to the worker's thread.
class SubscriberStream final : public rpc::BidiStream, public StreamSink, public CatalogReplySink {
 public:
  SubscriberStream(ApiWorker* api, rpc::CqWorker* worker) : rpc::BidiStream(worker), api_(api) {}
  ~SubscriberStream() override;

  void AddDeliveries(base::Now now, std::vector<protocol::Delivery> deliveries) override;
  void AddSettles(const protocol::SettleReply& reply) override;
  // Begins a write if there is something to write and none is in flight.
  void Pump() override;

  void OnServingState() override;

  // The catalog has created the subscription, or has linked the dead-letter topic.
  void OnReply(catalog::Reply reply) override;

 private:
  enum class Phase : uint8_t {
    kAwaitStart,
    // The catalog creates the subscription. The stream reads nothing meanwhile.
    kCreating,
    kOpen,
    // The client has half-closed: its last settlements are confirmed, then the call ends.
    kClosing,
  };

  static constexpr uint64_t kStartTimeoutMs = 10'000;
  static constexpr uint64_t kClosingTimeoutMs = 5'000;
  // When the server ends: the confirmations are in the journal by then, only their way out is left.
  static constexpr uint64_t kEndingTimeoutMs = 500;
  static constexpr size_t kSettlesOpenMax = 200'000;

  void OnOpened() override;
  void OnMessage(grpc::ByteBuffer* buffer) override;
  void OnReadsDone() override;
  void OnWritten() override;
  void OnEnded() override;
  void OnSweep(base::Now now) override;

  absl::Status HandleRequest(grpc::ByteBuffer* buffer);
  absl::Status Start(const v1::SubscribeStart& start);
  void Settle(const v1::SubscribeRequest& request);
  void Open(catalog::SubscriptionPtr subscription);
  void Attach(const catalog::Subscription& subscription);
  void PostSettles(RoutedSettles routed);
  // True if the shards know the topic of this subscription's dead letters, as far as is known here.
  bool KnowsDeadLetters() const;
  template <typename Command>
  absl::Status PostToCatalog(Command command);
  void Detach();
  // Takes and delivers nothing more; ends with `status` when the last confirmations are sent, or
  // after `timeout_ms`.
  void Close(const grpc::Status& status, uint64_t timeout_ms);
  void ReadOn();
  void Fail(const absl::Status& status);

  ApiWorker* const api_;
  Phase phase_ = Phase::kAwaitStart;
  protocol::StreamId id_{};
  bool attached_ = false;
  bool counted_ = false;
  FrameQueue queue_;
  // To go into the next frame.
  bool send_started_ = false;
  bool send_heartbeat_ = false;
  bool send_drain_ = false;
  bool drain_sent_ = false;
  ValidStart start_;
  std::string topic_;
  std::string subscription_;
  SubscriptionWatch watch_;
  // A request to the catalog without an answer. The stream reads nothing meanwhile.
  std::optional<catalog::RequestTag> asked_;
  // Settlements that wait for that answer.
  std::optional<RoutedSettles> held_;
  // Settlements at the shards.
  size_t settles_open_ = 0;
  // Tokens that were given back here and not by the client: their confirmations are not for it.
  absl::flat_hash_set<uint64_t> given_back_;
  uint64_t opened_mono_ms_ = 0;
  grpc::Status closing_status_;
  uint64_t close_by_mono_ms_ = 0;
  uint64_t last_write_mono_ms_ = 0;
};

}  // namespace duetime::api
