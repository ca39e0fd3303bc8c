// SPDX-License-Identifier: Apache-2.0
//
// Contract: the answers and deliveries that a client may see.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "storage/message_record.h"
#include "tests/simulation/world.h"

namespace duetime::simulation {

// A question about one message: an item of a client's call.
struct Question {
  enum class Kind : uint8_t { kSchedule, kCancel, kReschedule, kGet };
  // A key of a topic, or "#" and the number of a message without a key.
  using Place = std::pair<storage::TopicId, std::string>;

  bool by_key() const { return kind == Kind::kSchedule || !target.key.empty(); }

  Kind kind{};
  // For kSchedule.
  Ask ask = {};
  // For the other kinds.
  protocol::Target target = {};
  bool stop_redelivery = false;
  // For kReschedule.
  uint64_t deliver_ms = 0;
  // The etag: a revision of a message.
  std::optional<uint64_t> revision = {};
  storage::MessageId revision_of = {};
  // The contract's facts of the moment at which the question was sent.
  Place place = {};
  // The message that certainly had the key; no id if there is none.
  storage::MessageId owner = {};
  bool answered = false;
};

// Follows every message through a history, and checks each answer and each delivery. Records the
// first violation. violation() is empty while there is none.
//
// The rules are the same in every history: a message has one protocol::Outcome (kDone: no
// subscriber can have it yet, kInFlight, kSettled, kAlreadyCancelled, kNotFound), and an answer
// reveals it. The derived classes differ in their knowledge. SequentialContract knows the outcome
// of each message. ConcurrentContract knows which outcomes are possible.
class Contract {
 public:
  virtual ~Contract() = default;

  // The known ids, in the order of their appearance.
  const std::vector<storage::MessageId>& ids() const { return ids_; }

  // ---- Calls
  virtual void OnSent(Question*) {}
  virtual void OnAnswer(base::Now now, const Question& question,
                        const protocol::AcceptedMessage& answer) = 0;
  virtual void OnAnswer(base::Now now, const Question& question,
                        const protocol::CancelReply& answer) = 0;
  virtual void OnAnswer(base::Now now, const Question& question,
                        const protocol::RescheduleReply& answer) = 0;
  virtual void OnAnswer(base::Now now, const Question& question,
                        const protocol::GetReply& answer) = 0;

  // ---- Subscribers
  virtual void OnDelivery(base::Now now, uint16_t shard, storage::TopicId topic,
                          storage::SubscriptionId subscription, uint64_t lease_ms,
                          const protocol::Delivery& delivery) = 0;
  // The subscriber that has this delivery.
  virtual void OnHolder(protocol::LeaseToken, const std::string& /*client_id*/) {}
  // The stream of this delivery reports what it begins.
  virtual void OnReported(protocol::LeaseToken) {}
  virtual void OnSettleSent(base::Now now, const protocol::SettleCommand& command) = 0;
  virtual void OnSettled(base::Now now, const protocol::SettleReply& reply) = 0;
  // The attempt failed, by a nack or because its stream is gone.
  virtual void OnFailed(base::Now now, protocol::LeaseToken token,
                        std::optional<uint64_t> delay_ms) = 0;

  // The subscriber ended the stream of this lease.
  virtual void OnDetached(base::Now now, protocol::LeaseToken token) {
    OnFailed(now, token, std::nullopt);
  }

  // To be called after the final drain.
  virtual void CheckDrained() = 0;

  void Violate(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }
  const std::string& violation() const { return violation_; }

 protected:
  // The attempts to deliver a message to a subscription.
  struct Attempts {
    // The number of the last attempt that the server knows, and of all deliveries.
    uint32_t last = 0;
    int deliveries = 0;
    std::optional<protocol::LeaseToken> lease;
    uint64_t lease_end_mono_ms = 0;
    // The next attempt waits until one of the clocks reaches its time.
    uint64_t retry_mono_ms = 0;
    uint64_t retry_wall_ms = 0;

    bool Leased(base::Now now) const {
      return lease.has_value() && now.mono_ms < lease_end_mono_ms;
    }
    bool Waits(base::Now now) const {
      return now.mono_ms < retry_mono_ms && now.wall_ms < retry_wall_ms;
    }
    // A retry without a wait stores no time, so a restart with a clock that was set back does not
    // delay it.
    void Fail(base::Now now, uint64_t wait_ms) {
      lease.reset();
      retry_mono_ms = now.mono_ms + wait_ms;
      retry_wall_ms = wait_ms == 0 ? 0 : now.wall_ms + wait_ms;
    }
  };

  // The outcome of an ended message.
  static protocol::Outcome OutcomeOf(storage::EndState end) {
    return end == storage::EndState::kCancelled ? protocol::Outcome::kAlreadyCancelled
                                                : protocol::Outcome::kSettled;
  }
  // Decodes a whole record, or its head. Returns false after a violation.
  bool Decode(const std::string& name, const std::string& bytes, storage::MessageRecord* record);
  bool DecodeHead(const std::string& name, const std::string& bytes,
                  storage::MessageRecord* record);
  // Checks the time of a delivery, and begins its attempt.
  void BeginAttempt(const std::string& name, base::Now now, uint64_t lease_ms, uint64_t deliver_ms,
                    const protocol::Delivery& delivery, Attempts* attempts);

  std::vector<storage::MessageId> ids_;

 private:
  std::string violation_;
};

}  // namespace duetime::simulation
