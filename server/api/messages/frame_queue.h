// SPDX-License-Identifier: Apache-2.0
//
// FrameQueue: deliveries and confirmations that wait for a subscriber's stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "duetime/v1/messages.pb.h"
#include "server/base/clock.h"
#include "server/protocol/replies.h"
#include "storage/message_record.h"

namespace duetime::api {

// Fills in `to` from a delivery and from its decoded record.
void FillDelivery(const protocol::Delivery& from, const storage::MessageRecord& record,
                  v1::Delivery* to);

// Gathers deliveries and confirmations while a write is in flight, and puts as many of them into
// one response as fit. Knows nothing of gRPC.
//
// Guarantees: (1) deliveries leave in order of arrival; (2) the stream's credit bounds the memory,
// and so does its limit of unsent bytes (StreamCredit): a delivery whose lease ends while it waits
// for a slow reader is dropped, because the shard then gives its credit to other deliveries; (3) a
// response has at most kFrameMessagesMax deliveries and about kFrameBytesMax bytes, but at least
// one item. Thread safety: confined.
class FrameQueue {
 public:
  static constexpr size_t kFrameMessagesMax = 1'000;
  static constexpr size_t kFrameBytesMax = 256 << 10;

  // `lease_ms`: the length of the stream's leases.
  void set_lease_ms(uint64_t lease_ms) { lease_ms_ = lease_ms; }

  // REQUIRES: `deliveries` is not empty.
  void AddDeliveries(base::Now now, std::vector<protocol::Delivery> deliveries);
  void AddSettled(protocol::LeaseToken token) { settled_.push_back(token); }
  void AddExtended(protocol::LeaseToken token) { extended_.push_back(token); }
  void AddBegun(protocol::LeaseToken token) { begun_.push_back(token); }
  // `token`: as the client sent it.
  void AddRefused(std::string token, v1::SettleRefusal::Reason reason) {
    refused_.emplace_back(std::move(token), reason);
  }
  void AddRefused(protocol::LeaseToken token, v1::SettleRefusal::Reason reason);

  bool empty() const { return chunks_.empty() && confirmations() == 0; }
  // The number of confirmations and refusals that wait.
  size_t confirmations() const {
    return settled_.size() + extended_.size() + begun_.size() + refused_.size();
  }
  // How many deliveries Fill and AddDeliveries have left out since the last call.
  int64_t TakeDropped() { return std::exchange(dropped_, 0); }
  // Bytes of the records that wait.
  size_t bytes() const { return bytes_; }
  // Drops everything.
  void Clear();
  // Drops the deliveries and returns their tokens.
  std::vector<protocol::LeaseToken> TakeDeliveries();

  // Moves as much into `response` as fits. Leaves out a delivery with a damaged record, and adds
  // its token to `damaged`. Returns the approximate number of bytes added; 0 if nothing was left to
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
  int64_t dropped_ = 0;
  std::vector<protocol::LeaseToken> settled_;
  std::vector<protocol::LeaseToken> extended_;
  std::vector<protocol::LeaseToken> begun_;
  std::vector<std::pair<std::string, v1::SettleRefusal::Reason>> refused_;
  storage::MessageRecord record_;
};

}  // namespace duetime::api
