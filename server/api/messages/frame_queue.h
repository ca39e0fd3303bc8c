// SPDX-License-Identifier: Apache-2.0
//
// FrameQueue: what a subscriber's stream has yet to be sent, and how it becomes responses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "duetime/v1/messages.pb.h"
#include "server/base/clock.h"
#include "server/protocol/replies.h"
#include "storage/message_record.h"

namespace duetime::api {

// Makes of a delivery what a subscriber gets; `record` is its own, decoded.
void FillDelivery(const protocol::Delivery& from, const storage::MessageRecord& record,
                  v1::Delivery* to);

// Gathers deliveries and confirmations while a write is in flight and makes one response of as much
// of them as fits. Knows nothing of gRPC.
//
// Guarantees: (1) deliveries leave in order of arrival; (2) memory is bounded by the stream's
// credit: a delivery whose lease has run out while it waited for a slow reader is dropped, because
// its credit has been given out again; (3) a response holds at most kFrameMessagesMax deliveries
// and about kFrameBytesMax, but always at least one thing. Thread safety: confined.
class FrameQueue {
 public:
  static constexpr size_t kFrameMessagesMax = 1'000;
  static constexpr size_t kFrameBytesMax = 256 << 10;

  // `lease_ms`: how long a delivery of this stream is leased.
  void set_lease_ms(uint64_t lease_ms) { lease_ms_ = lease_ms; }

  // REQUIRES: `deliveries` is not empty.
  void AddDeliveries(base::Now now, std::vector<protocol::Delivery> deliveries);
  void AddSettled(protocol::LeaseToken token) { settled_.push_back(token); }
  void AddExtended(protocol::LeaseToken token) { extended_.push_back(token); }
  void AddRefused(protocol::LeaseToken token, v1::SettleRefusal::Reason reason) {
    refused_.emplace_back(token, reason);
  }

  bool empty() const { return chunks_.empty() && confirmations() == 0; }
  // Confirmations and refusals that wait.
  size_t confirmations() const { return settled_.size() + extended_.size() + refused_.size(); }
  // Bytes of the records that wait.
  size_t bytes() const { return bytes_; }
  // Forgets everything, or the deliveries only.
  void Clear();
  void DropDeliveries();

  // Moves what fits into `response`. A delivery whose record is damaged is left out and its token
  // put into `damaged`. Returns the number of bytes added, about; 0 means that nothing was left to
  // send.
  size_t Fill(base::Now now, v1::SubscribeResponse* response,
              std::vector<protocol::LeaseToken>* damaged);

 private:
  struct Chunk {
    uint64_t arrived_mono_ms = 0;
    size_t next = 0;
    std::vector<protocol::Delivery> deliveries;
  };

  void DropExpired(base::Now now);
  void DropFront();
  size_t FillConfirmations(v1::SubscribeResponse* response);
  size_t FillDeliveries(size_t bytes, v1::SubscribeResponse* response,
                        std::vector<protocol::LeaseToken>* damaged);

  uint64_t lease_ms_ = 0;
  std::deque<Chunk> chunks_;
  size_t bytes_ = 0;
  std::vector<protocol::LeaseToken> settled_;
  std::vector<protocol::LeaseToken> extended_;
  std::vector<std::pair<protocol::LeaseToken, v1::SettleRefusal::Reason>> refused_;
  storage::MessageRecord record_;
};

}  // namespace duetime::api
