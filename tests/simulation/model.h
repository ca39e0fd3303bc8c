// SPDX-License-Identifier: Apache-2.0
//
// Model: what may be true of each message, from what clients and subscribers have seen.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/base/clock.h"
#include "server/delivery/commands.h"

namespace duetime::simulation {

// Follows every message through a history and checks each observation against the promises. It
// knows only what a client could know: answers, deliveries, crashes. A message is known by its
// number, which is its payload.
//
// A violation is recorded, not thrown: violation() is empty while all is well.
class Model {
 public:
  enum class Known : uint8_t { kPending, kYes, kUnknown };

  struct Message {
    uint64_t number = 0;
    storage::TopicId topic{};
    uint64_t deliver_ms = 0;
    // Schedule was answered OK / not answered yet / its outcome is unknown.
    Known accepted = Known::kPending;
    std::optional<storage::MessageId> id;
    uint64_t accepted_wall_ms = 0;
    int accepted_run = 0;
    // Certain ends.
    bool cancelled = false;
    bool stopped = false;
    bool acked = false;
    // The run in which the ack was confirmed, and whether a power cut since may have taken it back.
    bool ack_may_be_lost = false;
    // Attempts to end it whose outcome is not known.
    bool maybe_ended = false;
    // Cancels that are not answered yet.
    int cancels_sent = 0;
    // Deliveries over all runs, and the last.
    int deliveries = 0;
    int last_run = -1;
    uint32_t last_attempt = 0;
    // The lease that is live as far as anyone can tell.
    std::optional<delivery::LeaseToken> lease;
    delivery::StreamId lease_stream{};
    uint64_t lease_end_mono_ms = 0;
    // An ack was sent in this run and not answered yet.
    bool ack_sent = false;
  };

  Message& Add(storage::TopicId topic, uint64_t deliver_ms);
  Message& Get(uint64_t number) { return messages_.at(number); }
  std::map<uint64_t, Message>& messages() { return messages_; }
  // The message whose live lease this is, or nullptr.
  Message* FindByLease(delivery::LeaseToken token);

  void OnScheduled(Message& message, const storage::MessageId& id, uint64_t wall_ms);
  void OnScheduleUnknown(Message& message);
  void OnDelivery(uint64_t number, const delivery::Delivery& delivery, storage::TopicId topic,
                  delivery::StreamId stream, uint16_t shard, base::Now now, uint64_t lease_ms);
  void OnSettled(delivery::LeaseToken token, bool ack);
  void OnRefused(delivery::LeaseToken token, base::Now now);
  void OnCancelSent(Message& message) { ++message.cancels_sent; }
  void OnCancel(Message& message, const delivery::CancelReply& reply);
  void OnGet(Message& message, const delivery::GetReply& reply);
  // The message's lease is over for the reason that everybody knows (nack, stream end).
  void EndLease(Message& message);

  // The process is gone: leases are over, what was not answered is unknown. With `power` unsynced
  // settlements may be lost.
  void OnCrash(bool power);

  // After the final drain: everything accepted must have ended.
  void CheckDrained();

  void Violate(const std::string& what);
  const std::string& violation() const { return violation_; }
  int run() const { return run_; }

 private:
  static bool MustExist(const Message& message);
  void CheckOrder(const Message& message, const delivery::Delivery& delivery, uint16_t shard);

  std::map<uint64_t, Message> messages_;
  std::map<storage::MessageId, uint64_t> by_id_;
  std::map<delivery::LeaseToken, uint64_t> by_lease_;
  // Last first delivery that counts for order, per shard and topic.
  std::map<std::pair<uint16_t, storage::TopicId>, storage::MessageKey> last_first_;
  uint64_t next_number_ = 1;
  int run_ = 0;
  std::string violation_;
};

}  // namespace duetime::simulation
