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

#include "server/api/access/stream_caller.h"
#include "server/api/api_worker.h"
#include "server/api/messages/frame_queue.h"
#include "server/api/messages/settle_routing.h"
#include "server/api/request_validation.h"
#include "server/api/subscriptions/subscription_watch.h"
#include "server/protocol/replies.h"
#include "server/rpc/bidi_stream.h"

namespace duetime::protocol {
class StreamCredit;
}

namespace duetime::api {

// Attaches to every shard after the `start` request, passes settlements to their shards, and sends
// the shards' deliveries in frames. One write is in flight at a time; meanwhile the next frame
// gathers.
//
// If the client reads slowly, a write does not end. Then the shards deliver no more when
// stream_unsent_bytes_max wait to be sent, or when the credit runs out. Settlements are bounded
// too: the stream reads nothing while more than kSettlesOpenMax of them wait for an answer or for
// the write. A delivery with a damaged record is not sent but given back
// (ServingContext::GiveBackDamaged). A stream whose subscription is deleted, or whose client has
// lost its right, ends within a second.
//
// However the stream ends, every shard receives a command to end its leases. Thread safety:
// confined to the worker's thread.
class SubscriberStream final : public rpc::BidiStream, public StreamSink, public CatalogReplySink {
 public:
  SubscriberStream(ApiWorker* api, rpc::CqWorker* worker)
      : rpc::BidiStream(worker), api_(api), caller_(&api->context()) {}

  void AddDeliveries(base::Now now, std::vector<protocol::Delivery> deliveries) override;
  void AddSettles(const protocol::SettleReply& reply) override;
  // Begins a write if the stream has something to send and no write is in flight.
  void Pump() override;

  void OnServingState() override;

  // Takes the catalog's answer to CreateSubscription or EnsureTopic.
  void OnReply(catalog::Reply reply) override;

 private:
  enum class Phase : uint8_t {
    kAwaitStart,
    // The catalog creates the subscription. The stream reads nothing meanwhile.
    kCreating,
    kOpen,
    // The client has half-closed, or the server ends. The stream confirms the last settlements,
    // then ends.
    kClosing,
  };

  static constexpr uint64_t kStartTimeoutMs = 10'000;
  static constexpr uint64_t kClosingTimeoutMs = 5'000;
  // The time for the last confirmations when the server ends. They are in the journal by then.
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
  void Post(std::vector<protocol::SettleCommand> by_shard);
  // Lets the catalog link the dead-letter topic that the first of letters_ needs, if any.
  void LinkDeadLetters();
  // Sends those of letters_ that wait for the same topic as the first. If the catalog could not
  // link the dead-letter topic, the shards now refuse them for good.
  void SendLettersAgain();
  template <typename Command>
  absl::Status PostToCatalog(Command command);
  void Detach();
  // Tells the shards which bytes have left the queue, so that they go on delivering.
  void MakeRoom();
  // Gives deliveries back that were not sent.
  void GiveBack(const std::vector<protocol::LeaseToken>& unsent);
  // Delivers nothing more. The leases go on.
  void StopDeliveries();
  // Lets operators list the stream and end it.
  void Show();
  // Stops reading and delivering. Ends with `status` when the last confirmations are sent, or after
  // `timeout_ms`.
  void Close(const grpc::Status& status, uint64_t timeout_ms);
  void ReadOn();
  void Fail(const absl::Status& status);

  ApiWorker* const api_;
  StreamCaller caller_;
  Phase phase_ = Phase::kAwaitStart;
  protocol::StreamId id_{};
  bool attached_ = false;
  // The server has closed the stream. False at its end: the client ended it, or is gone. A read
  // ends in the same way after a half-close, a cancelled call and the end of the client's process.
  bool closed_by_server_ = false;
  // The number of deliveries from each shard.
  std::vector<uint64_t> received_;
  FrameQueue queue_;
  std::shared_ptr<protocol::StreamCredit> credit_;
  // The bytes of the queue, as the shards know them.
  size_t unsent_ = 0;
  // The notices for the next frame.
  bool send_started_ = false;
  bool send_heartbeat_ = false;
  bool send_drain_ = false;
  bool drain_sent_ = false;
  // The client wants no more deliveries.
  bool deliveries_stopped_ = false;
  ValidStart start_;
  std::string topic_;
  std::string subscription_;
  std::string client_id_;
  SubscriptionWatch watch_;
  // The open request to the catalog. The stream reads nothing meanwhile.
  std::optional<catalog::RequestTag> asked_;
  // The settlements of the first request, while the catalog creates the subscription.
  std::optional<RoutedSettles> first_;
  // The client has sent a dead letter.
  bool rejects_ = false;
  // Dead letters whose topics have no dead-letter topic yet, so far as the shards know.
  std::vector<protocol::RefusedSettlement> letters_;
  // The number of settlements that the shards have not answered.
  size_t settles_open_ = 0;
  // Tokens that the stream gave back for damaged records. The client gets no confirmation for them.
  absl::flat_hash_set<uint64_t> given_back_;
  // Since the first request; how operators see the stream.
  rpc::OpenStreamPtr shown_;
  uint64_t opened_mono_ms_ = 0;
  grpc::Status closing_status_;
  uint64_t close_by_mono_ms_ = 0;
  uint64_t last_write_mono_ms_ = 0;
};

}  // namespace duetime::api
