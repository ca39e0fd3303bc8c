// SPDX-License-Identifier: Apache-2.0
//
// SubscriberFan: one Subscribe call of a gateway, which receives from all cells.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"

#include "duetime/v1/subscribe.pb.h"
#include "server/gateway/cell_stream.h"
#include "server/gateway/gateway_worker.h"
#include "server/rpc/bidi_stream.h"

namespace duetime::gateway {

// Holds a stream to each cell, with an equal share of the client's credit, so that the client never
// has more outstanding than it wants. A stream that ends for a passing cause (a change of leader)
// is opened again, while those of the other cells go on; its leases have ended, and settlements
// that the cell had not confirmed are answered with LEASE_LOST. Any other error ends the whole.
//
// If the client reads slowly, a write does not end, and the fan reads nothing from the cells once
// kUnsentBytesMax wait. Thread safety: confined to the worker's thread.
class SubscriberFan final : public rpc::BidiStream, public CellStreamOwner {
 public:
  SubscriberFan(GatewayWorker* worker, rpc::CqWorker* shell);

  void OnServingState() override;
  void OnResponse(size_t cell, v1::SubscribeResponse* response) override;
  void OnStreamEnd(size_t cell, const absl::Status& status) override;

 private:
  static constexpr uint64_t kStartTimeoutMs = 10'000;
  static constexpr uint64_t kClosingTimeoutMs = 5'000;
  static constexpr size_t kUnsentBytesMax = 1 << 20;
  static constexpr size_t kSettlesOpenMax = 200'000;

  struct Member {
    // Null between two streams.
    std::unique_ptr<CellStream> stream;
    // How many settlements have no answer, by their tokens as the cell knows them, and in all.
    absl::flat_hash_map<std::string, size_t> open;
    size_t open_count = 0;
    // The cell has answered on this stream.
    bool started = false;
    // The stream waits to be read on.
    bool unread = false;
    // Deliveries that the client has not settled, so far as the fan knows.
    int64_t in_flight = 0;
  };

  void OnOpened() override;
  void OnMessage(grpc::ByteBuffer* buffer) override;
  void OnReadsDone() override;
  void OnWritten() override;
  void OnEnded() override;
  void OnSweep(base::Now now) override;

  absl::Status HandleRequest(grpc::ByteBuffer* buffer);
  absl::Status Start(const v1::SubscribeStart& start);
  void Open(size_t cell);
  void Settle(v1::SubscribeRequest* request);
  // Adds the settlements of `request` to those that have no answer.
  static void AddOpen(const v1::SubscribeRequest& request, Member* member);
  void TakeAnswers(size_t cell, v1::SubscribeResponse* response);
  // Passes deliveries on, and gives those back that are beyond max_deliveries.
  void TakeDeliveries(size_t cell, v1::SubscribeResponse* response);
  void Lose(const std::string& token);
  // Answers what the cell has not answered.
  void LoseOpen(size_t cell);
  // Counts bytes that wait for the client.
  void AddUnsent(size_t bytes);
  size_t settles_open() const;
  // Lets operators list the stream and end it.
  void Show();
  void AddInFlight(int64_t messages, Member* member);
  void ReadClient();
  void ReadCells();
  // Begins a write if there is something to send and no write is in flight.
  void Pump();
  void EndIfAllEnded();
  void Fail(const absl::Status& status);

  GatewayWorker* const worker_;
  // Set once the client has sent it: with the defaults filled in, and each cell's share.
  std::optional<v1::SubscribeStart> start_;
  v1::SubscribeStart share_;
  std::vector<Member> members_;
  // For the next write.
  v1::SubscribeResponse unsent_;
  bool has_unsent_ = false;
  size_t unsent_bytes_ = 0;
  bool started_sent_ = false;
  bool drain_sent_ = false;
  bool no_more_ = false;
  int64_t delivered_ = 0;
  // Tokens that the fan gave back itself: the client gets no answer for them.
  absl::flat_hash_set<std::string> given_back_;
  // Since the first request; how operators see the stream.
  rpc::OpenStreamPtr shown_;
  // Of all members; any thread reads it.
  const std::shared_ptr<std::atomic<int64_t>> in_flight_ =
      std::make_shared<std::atomic<int64_t>>(0);
  // The client has half-closed.
  bool closing_ = false;
  uint64_t opened_mono_ms_ = 0;
  uint64_t close_by_mono_ms_ = 0;
  uint64_t last_write_mono_ms_ = 0;
};

}  // namespace duetime::gateway
