// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/frame_queue.h"

#include <algorithm>
#include <string>

#include "server/api/messages/message_view.h"
#include "server/api/proto_time.h"
#include "server/base/check.h"
#include "server/protocol/lease_token.h"

namespace duetime::api {
namespace {

// The size of a delivery's ids, times and tags on the wire.
constexpr size_t kDeliveryOverheadBytes = 80;
// The size of a token in a repeated field.
constexpr size_t kTokenBytes = protocol::kLeaseTextSize + 2;

// Moves as many tokens as fit into `bytes_max`, and returns their size.
size_t MoveTokens(size_t bytes_max, std::vector<protocol::LeaseToken>* from,
                  google::protobuf::RepeatedPtrField<std::string>* to) {
  const size_t count = std::min(from->size(), bytes_max / kTokenBytes);
  to->Reserve(static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) protocol::WriteLease((*from)[i], to->Add());
  from->erase(from->begin(), from->begin() + static_cast<ptrdiff_t>(count));
  return count * kTokenBytes;
}

}  // namespace

void FillDelivery(const protocol::Delivery& from, const storage::MessageRecord& record,
                  v1::Delivery* to) {
  to->set_message_id(from.id.ToString());
  protocol::WriteLease(from.token, to->mutable_lease_token());
  to->set_attempt(static_cast<int32_t>(from.attempt));
  to->set_payload(record.payload.data(), record.payload.size());
  for (const auto& [key, value] : record.attributes) {
    (*to->mutable_attributes())[std::string(key)] = std::string(value);
  }
  SetTimestamp(record.header.deliver_ms, to->mutable_deliver_time());
  SetTimestamp(record.header.accept_ms, to->mutable_accept_time());
  const uint64_t late_ms = from.dispatch_ms - std::min(from.dispatch_ms, record.header.deliver_ms);
  SetDuration(late_ms, to->mutable_lateness());
  to->set_maybe_redelivered(from.maybe_redelivered);
  if (from.confirm_begun) to->set_confirm_begun(true);
  // Most messages have none of these.
  if (!record.key.empty()) to->set_key(record.key.data(), record.key.size());
  if (!record.ordering_key.empty()) {
    to->set_ordering_key(record.ordering_key.data(), record.ordering_key.size());
  }
  for (const auto& [key, value] : record.labels) {
    (*to->mutable_labels())[std::string(key)] = std::string(value);
  }
  if (!record.recurrence.empty()) {
    to->set_recurrence(record.recurrence.data(), record.recurrence.size());
    to->set_occurrence(static_cast<int64_t>(record.occurrence));
  }
  if (record.dead_letter.has_value()) {
    FillDeadLetter(*record.dead_letter, to->mutable_dead_letter());
  }
}

void FrameQueue::AddDeliveries(base::Now now, std::vector<protocol::Delivery> deliveries) {
  DT_CHECK(!deliveries.empty());
  DropExpired(now);
  for (const protocol::Delivery& delivery : deliveries) bytes_ += delivery.record.size();
  chunks_.push_back(
      {.arrived_mono_ms = now.mono_ms, .next = 0, .deliveries = std::move(deliveries)});
}

void FrameQueue::AddRefused(protocol::LeaseToken token, v1::SettleRefusal::Reason reason) {
  protocol::WriteLease(token, &refused_.emplace_back("", reason).first);
}

std::vector<protocol::LeaseToken> FrameQueue::TakeDeliveries() {
  std::vector<protocol::LeaseToken> tokens;
  for (const Chunk& chunk : chunks_) {
    for (size_t i = chunk.next; i < chunk.deliveries.size(); ++i) {
      tokens.push_back(chunk.deliveries[i].token);
    }
  }
  chunks_.clear();
  bytes_ = 0;
  return tokens;
}

void FrameQueue::Clear() {
  chunks_.clear();
  bytes_ = 0;
  settled_ = {};
  extended_ = {};
  begun_ = {};
  refused_ = {};
}

void FrameQueue::DropFront() {
  const Chunk& chunk = chunks_.front();
  for (size_t i = chunk.next; i < chunk.deliveries.size(); ++i) {
    bytes_ -= chunk.deliveries[i].record.size();
    ++dropped_;
  }
  chunks_.pop_front();
}

void FrameQueue::DropExpired(base::Now now) {
  // The leases began before the deliveries arrived here, so these leases have ended by now.
  while (!chunks_.empty() && chunks_.front().arrived_mono_ms + lease_ms_ <= now.mono_ms) {
    DropFront();
  }
}

size_t FrameQueue::Fill(base::Now now, v1::SubscribeResponse* response,
                        std::vector<protocol::LeaseToken>* damaged) {
  DropExpired(now);
  const size_t bytes = FillConfirmations(response);
  return bytes + FillDeliveries(bytes, response, damaged);
}

size_t FrameQueue::FillConfirmations(v1::SubscribeResponse* response) {
  // Confirmations take the room of deliveries, but it takes tens of thousands of them to fill a
  // frame. The settlement of a token is its last request, and its confirmation overtakes no earlier
  // one.
  size_t bytes = MoveTokens(kFrameBytesMax, &begun_, response->mutable_begun());
  bytes += MoveTokens(kFrameBytesMax - bytes, &extended_, response->mutable_extended());
  bytes += MoveTokens(kFrameBytesMax - bytes, &settled_, response->mutable_settled());
  size_t refused = 0;
  for (; refused < refused_.size() && bytes < kFrameBytesMax; ++refused) {
    auto& [token, reason] = refused_[refused];
    constexpr size_t kRefusedOverheadBytes = 8;
    bytes += token.size() + kRefusedOverheadBytes;
    v1::SettleRefusal* refusal = response->add_refused();
    refusal->set_lease_token(std::move(token));
    refusal->set_reason(reason);
  }
  refused_.erase(refused_.begin(), refused_.begin() + static_cast<ptrdiff_t>(refused));
  return bytes;
}

size_t FrameQueue::FillDeliveries(size_t used, v1::SubscribeResponse* response,
                                  std::vector<protocol::LeaseToken>* damaged) {
  size_t bytes = 0;
  size_t count = 0;
  while (!chunks_.empty()) {
    Chunk& chunk = chunks_.front();
    while (chunk.next < chunk.deliveries.size()) {
      const protocol::Delivery& next = chunk.deliveries[chunk.next];
      const size_t size = next.record.size() + kDeliveryOverheadBytes;
      const bool fits = count < kFrameMessagesMax && used + bytes + size <= kFrameBytesMax;
      if (!fits && used + bytes > 0) return bytes;
      ++chunk.next;
      bytes_ -= next.record.size();
      if (!storage::DecodeMessageRecord(next.record, &record_).ok()) {
        damaged->push_back(next.token);
        ++dropped_;
        continue;
      }
      FillDelivery(next, record_, response->add_deliveries());
      bytes += size;
      ++count;
    }
    chunks_.pop_front();
  }
  return bytes;
}

}  // namespace duetime::api
