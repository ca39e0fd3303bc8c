// SPDX-License-Identifier: Apache-2.0
//
// ConcurrentContract: the observations that clients and subscribers may make while their calls
// overlap.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "storage/message_record.h"
#include "tests/simulation/contract.h"

namespace duetime::simulation {

// The name of the recurrence that never skips an occurrence.
inline constexpr absl::string_view kWholeRecurrence = "whole";

// Uses only the facts that a client knows: answers, deliveries, crashes.
//
// Calls overlap, so most answers are not determined. The revisions are: each change of a message
// has its own, so content and time of (id, revision) are the same in every answer and delivery, and
// no revision below the highest confirmed one appears again. The contract asserts any other fact
// only if no open or lost call can have changed it.
class ConcurrentContract final : public Contract {
 public:
  // A subscription that a command created. In the other topics the first subscription exists by
  // use, and never gives a message up.
  struct Subscription {
    storage::TopicId topic{};
    protocol::RetryPolicy retry = protocol::DefaultSubscriptionSettings().retry();
    // Its retention in messages, 0 if it keeps all; and whether the older ones become dead letters.
    uint64_t bound = 0;
    // Until the next run the subscription may also count messages that are gone: those that it was
    // offered before it had the bound.
    bool bound_is_new = false;
    bool dead_letters = false;
    // The numbers of dropped messages that the subscription reports: in this run by shard, and in
    // all runs.
    std::map<uint16_t, uint64_t> dropped;
    uint64_t dropped_in_all = 0;
    // The subscription certainly gets asks with this number or a higher one, and none below
    // allowed_from.
    uint64_t first_number = 0;
    uint64_t allowed_from = 0;
    bool live = false;
    // A crash lost the answer to the last command about the subscription.
    bool unknown = false;
  };

  // The limits of one topic, which has a subscription by use. 0: no limit.
  struct Limits {
    storage::TopicId topic{};
    uint16_t shards = 1;
    uint64_t pending_max = 0;
    // Each shard has an equal share. A message moves to a later minute, by at most spread_ms, or is
    // refused.
    uint64_t minute_max = 0;
    uint64_t spread_ms = 0;
  };

  // `by_use`: topics above this number have created subscriptions.
  explicit ConcurrentContract(uint32_t by_use) : by_use_(by_use) {}

  std::map<storage::SubscriptionId, Subscription>& subscriptions() { return subscriptions_; }
  Limits& limits() { return limits_; }

  // ---- Runs of the server
  void OnStart(base::Now now, uint64_t epoch);
  // How the process ended. kCrash: with all open calls. kPowerCut: unsynced settlements may be
  // lost, too. kCrashAtRest: everything was at rest before. kCleanStop: then the shards were
  // closed.
  enum class End : uint8_t { kCrash, kPowerCut, kCrashAtRest, kCleanStop };
  void OnEnd(End how, const std::vector<Question>& open);

  // ---- Calls
  void OnSent(Question* question) override;
  // A bulk operation begins on the keys with this prefix.
  void OnBulk(storage::TopicId topic, const std::string& prefix, bool ends);

  void OnAnswer(base::Now now, const Question& question,
                const protocol::AcceptedMessage& answer) override;
  void OnAnswer(base::Now now, const Question& question,
                const protocol::CancelReply& answer) override;
  void OnAnswer(base::Now now, const Question& question,
                const protocol::RescheduleReply& answer) override;
  void OnAnswer(base::Now now, const Question& question, const protocol::GetReply& answer) override;

  // ---- Subscribers (concurrent_deliveries.cc)
  void OnDelivery(base::Now now, uint16_t shard, storage::TopicId topic,
                  storage::SubscriptionId subscription, uint64_t lease_ms,
                  const protocol::Delivery& delivery) override;
  void OnReported(protocol::LeaseToken token) override;
  // Whether the delivery goes to a created subscription and is no dead letter.
  bool MayReject(protocol::LeaseToken token) const;
  void OnSettleSent(base::Now now, const protocol::SettleCommand& command) override;
  void OnSettled(base::Now now, const protocol::SettleReply& reply) override;
  void OnFailed(base::Now now, protocol::LeaseToken token,
                std::optional<uint64_t> delay_ms) override;
  void OnDetached(base::Now now, protocol::LeaseToken token) override;
  // Describes a message that must end and has not; empty if there is none.
  std::string FindLost();
  void CheckDrained() override;

  // ---- Damage. REQUIRES: the topic has one subscription, by use.
  // The stored message with these bytes cannot be read from now on. A call that needs it answers
  // DATA_LOSS and changes nothing, and the message is not delivered.
  void OnDamaged(const storage::MessageId& id, const std::string& bytes);
  // Every message can be read again. What was due then comes in the next run.
  void OnRepaired();
  void OnUnreadable(storage::SubscriptionId subscription, const protocol::Delivery& delivery);

  const std::map<std::string, uint64_t>& counts() const { return counts_; }

 private:
  using Place = Question::Place;
  struct Version {
    // The number of the ask. 0: unknown.
    uint64_t number = 0;
    uint64_t deliver_ms = 0;
  };
  // The state of a message for one subscription.
  struct Pair : Attempts {
    bool acked = false;
    bool ack_sent = false;
    // An ack or a rejection was not confirmed, or a power cut may have undone it.
    bool maybe_settled = false;
    // The rejection was confirmed; the dead letter was delivered.
    bool dead = false;
    bool dead_delivered = false;
    // The epoch of the run of the last delivery.
    uint64_t epoch = 0;
    // Attempts that certainly ended before the last crash, and that a nack or a release ended, as
    // confirmed in this run.
    uint32_t failed = 0;
    uint32_t nacked = 0;
    // The half attempts that perhaps do not count as failed, at most.
    uint32_t spared = 0;
    // The half attempts that may have failed, at most.
    uint32_t failures_max = 0;
    // The last attempt: its subscriber reports what it begins; has not said so of this one; the
    // server has the report.
    bool reports = false;
    bool unbegun = false;
    bool begun = false;
  };
  struct Message {
    storage::MessageId id;
    Place place;
    std::string ordering_key;
    bool confirmed = false;
    uint64_t confirmed_wall_ms = 0;
    bool occurrence = false;
    bool cancelled = false;
    bool stopped = false;
    bool maybe_ended = false;
    // The message may have changes without an answer.
    bool unsure = false;
    // The message cannot be read, unless a change that was in flight has replaced it. Until the
    // end: it may have been handed out without its content, which counts as a delivery.
    bool damaged = false;
    bool was_damaged = false;
    std::map<uint64_t, Version> versions;
    uint64_t highest = 0;
    int deliveries = 0;
    uint64_t delivered_revision = 0;
    std::map<storage::SubscriptionId, Pair> pairs;
  };
  struct Key {
    std::set<storage::MessageId> ids;
    int changes_open = 0;
    int cancels_open = 0;
    // A change was lost, or a bulk operation may have changed messages.
    bool unsure = false;
    // The answer of a schedule was lost, so the message may exist.
    bool maybe_created = false;
    bool bulk_ends = false;
    // The deliver time may come from the limit of a PUSH_BACK, or from a bulk operation.
    bool any_time = false;
    std::set<uint64_t> times;
    std::set<uint64_t> numbers;
  };
  // A bulk operation on the keys with this prefix.
  struct Bulk {
    storage::TopicId topic{};
    std::string prefix;
    bool ends = false;
  };
  using PairKey = std::pair<storage::MessageId, storage::SubscriptionId>;

  bool ByUse(const Message& message) const {
    return static_cast<uint32_t>(message.place.first) <= by_use_;
  }
  Key& KeyOf(const Place& place);
  static void MayChange(const Bulk& bulk, const Place& place, Key* key);
  Message& MessageOf(const storage::MessageId& id, const Place& place);
  // The message that certainly has the key, undelivered; no id if there is none.
  storage::MessageId OwnerOf(const Place& place);
  void Close(const Question& question);
  void Lose(const Question& question);
  void Confirm(Message* message, uint64_t revision, Version version);
  void CheckVersion(const Message& message, uint64_t revision, const Version& seen);
  // Acked: one subscription's ack was confirmed. Unacked: no ack may have ended the message, not
  // even an unconfirmed one.
  static bool Acked(const Message& message);
  static bool Unacked(const Message& message);
  bool MayBeCancelled(const Message& message);
  bool MustExist(const Message& message);
  // The message exists, and no subscriber has it.
  bool MustBeUntouched(const Message& message) {
    return message.deliveries == 0 && !message.was_damaged && MustExist(message);
  }
  // The answer is DATA_LOSS, and the call needs a damaged message.
  bool IsDamaged(const Question& question, const absl::Status& answer);
  bool StillOwns(const Question& question);
  // Whether the message may have this outcome. `uncertain`: the server may have delivered the
  // message in an earlier run.
  bool MayBe(const Message& message, protocol::Outcome outcome, bool uncertain);
  // Checks the outcome that an answer reveals. Returns null if the answer finds no message.
  Message* CheckOutcome(const Question& question, const storage::MessageId& id,
                        protocol::Outcome outcome, bool uncertain);
  // Decodes a message with its content's number.
  bool DecodeContent(const std::string& name, const std::string& bytes,
                     storage::MessageRecord* record, uint64_t* number);
  void OnCreated(const Question& question, const protocol::AcceptedMessage& answer);
  // Checks a refusal because of a limit, and that a new message exceeds none.
  void CheckLimitReached(const Ask& ask, const absl::Status& refusal);
  void CheckLimits(base::Now now, const Message& created);
  // Whether a message may have this time if a call asks for that one.
  bool TimeFits(storage::TopicId topic, uint64_t asked_ms, uint64_t time_ms) const {
    const bool spreads = topic == limits_.topic && limits_.spread_ms > 0;
    return time_ms == asked_ms ||
           (spreads && time_ms > asked_ms && time_ms - asked_ms <= limits_.spread_ms);
  }
  void OnReplaced(const Ask& ask, const protocol::AcceptedMessage& answer);

  // Whether the delivery is of a scheduled message, and not of a dead letter.
  bool Follows(protocol::LeaseToken token) const;
  Pair* FindPair(protocol::LeaseToken token);
  void OnDeadLetter(uint64_t number, const storage::DeadLetterOrigin& origin);
  void CheckContent(const std::string& name, uint64_t number, const storage::MessageRecord& record,
                    Message* message);
  void CheckPair(const std::string& name, uint64_t number, storage::SubscriptionId subscription,
                 const protocol::Delivery& delivery, const Message& message, const Pair& pair);
  void CheckDueOrder(uint16_t shard, const storage::MessageRecord& record, const Message& message);
  void CheckOrderingKey(const std::string& name, base::Now now, const PairKey& key,
                        const Message& message);
  void OnOccurrence(const storage::MessageId& id, const storage::MessageRecord& record);

  const uint32_t by_use_;
  Limits limits_;
  // The messages that calls sent to the topic with limits.
  uint64_t sent_to_limited_ = 0;
  std::map<storage::MessageId, Message> messages_;
  std::map<Place, Key> keys_;
  std::vector<Bulk> bulks_;
  // How often a content was sent and not refused, by number.
  std::map<uint64_t, int> possible_;
  std::map<std::pair<Place, std::string>, std::pair<uint64_t, storage::MessageId>> requests_;
  // How often each request id was sent.
  std::map<std::pair<Place, std::string>, int> requests_sent_;
  // The occurrences by number, for each payload. The payload has the name and differs for each
  // creation.
  std::map<std::string, std::map<uint64_t, storage::MessageId>> recurrences_;
  std::map<storage::SubscriptionId, Subscription> subscriptions_;
  // Every granted lease. A lease of a dead letter has no message.
  std::map<protocol::LeaseToken, PairKey> leases_;
  // Acks and rejections without an answer. True: a rejection.
  std::map<protocol::LeaseToken, bool> settling_;
  // Nacks and releases without an answer, with the number of the attempt.
  std::map<protocol::LeaseToken, uint32_t> nacking_;
  // The last lease of each ordering key.
  std::map<std::pair<storage::SubscriptionId, std::string>, protocol::LeaseToken> in_order_;
  // The last first delivery to which the order applies, by shard, topic and ordering key.
  std::map<std::tuple<uint16_t, storage::TopicId, std::string>, storage::MessageKey> last_first_;
  uint64_t epoch_ = 0;
  // No run since this epoch ended but by a clean stop.
  uint64_t certain_from_ = 0;
  bool clean_ = false;
  // Counts of events, by name.
  std::map<std::string, uint64_t> counts_;
};

}  // namespace duetime::simulation
