// SPDX-License-Identifier: Apache-2.0
//
// SequentialContract: the one right answer of each call, if calls come one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "server/base/clock.h"
#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "storage/attempts.h"
#include "storage/locator.h"
#include "storage/message_store.h"
#include "tests/simulation/contract.h"

namespace duetime::simulation {

// The store's records, at a restart, of possible deliveries by earlier runs.
struct Recovered {
  uint64_t epoch = 0;
  uint64_t claim_ms = 0;
  // The earlier runs that may have delivered messages without a record.
  storage::ClaimReturn uncertain;
  std::map<storage::TopicId, storage::MessageKey> backlog_claims;
  // The listings by the message's place, with the listing's own place. A moved message may have
  // several listings, of which one counts.
  std::map<storage::MessageKey, std::pair<storage::MessageKey, storage::BacklogEntry>> backlog;
  // Progress records by place.
  std::map<storage::MessageKey, storage::Progress> progress;
};

// Holds maps of messages, keys and request ids, and the rules of their life. Compares every answer
// and every delivery with them, field by field. The contract does not decide ids, points of a
// spread, the subscriber of a message, and the claims after a crash. It learns these from an
// answer, checks them, and expects the same later.
class SequentialContract final : public Contract {
 public:
  struct Message : Attempts {
    storage::MessageId id;
    Ask ask;
    uint64_t deliver_ms = 0;
    uint64_t accept_ms = 0;
    uint64_t revision = 0;
    uint64_t update_ms = 0;
    // Due time of its place. 0: the contract learns it from the store. placed_wall_ms: when it was
    // decided.
    uint64_t place_ms = 0;
    uint64_t placed_wall_ms = 0;
    // The backlog listed the message when this run began. The value says whether a delivery is
    // possible.
    std::optional<bool> listed_uncertain;
    // This run moved the message, so no subscriber had it.
    bool moved_here = false;
    // Set after the end.
    std::optional<storage::EndState> end;
    uint64_t end_ms = 0;
    uint64_t expire_ms = 0;
    bool stopped = false;
    // The attempt that goes on, and those that ended without a settlement. Get tells the last of
    // them.
    uint32_t current = 0;
    uint64_t begin_ms = 0;
    std::string client_id;
    // Each as AddAttempt encodes it alone.
    std::vector<std::string> ended;

    bool pending() const { return !end.has_value(); }
  };

  // `retention` of tombstones by topic, and of keys.
  SequentialContract(std::map<storage::TopicId, uint64_t> tombstone_retention_ms,
                     uint64_t request_retention_ms)
      : tombstone_retention_ms_(std::move(tombstone_retention_ms)),
        request_retention_ms_(request_retention_ms) {}

  // ---- Calls
  void OnAnswer(base::Now now, const Question& question,
                const protocol::AcceptedMessage& actual) override;
  void OnAnswer(base::Now now, const Question& question,
                const protocol::CancelReply& actual) override;
  void OnAnswer(base::Now now, const Question& question,
                const protocol::RescheduleReply& actual) override;
  void OnAnswer(base::Now now, const Question& question, const protocol::GetReply& actual) override;
  void OnInspect(base::Now now, const std::vector<storage::MessageKey>& keys,
                 const protocol::InspectReply& actual);

  // ---- Subscribers
  void OnDelivery(base::Now now, uint16_t shard, storage::TopicId topic,
                  storage::SubscriptionId subscription, uint64_t lease_ms,
                  const protocol::Delivery& actual) override;
  // A command may settle a lease only once.
  void OnHolder(protocol::LeaseToken token, const std::string& client_id) override;
  void OnSettleSent(base::Now now, const protocol::SettleCommand& command) override;
  void OnSettled(base::Now now, const protocol::SettleReply& actual) override;
  void OnFailed(base::Now now, protocol::LeaseToken token,
                std::optional<uint64_t> delay_ms) override;
  void OnDetached(base::Now now, protocol::LeaseToken token) override;

  // ---- The store, when the shard is idle
  //
  // The store has exactly these records. Learns places that were unknown.
  using Stored = std::map<storage::MessageId, std::pair<storage::MessageKey, std::string>>;
  void OnStored(const Stored& stored);
  // Every settlement has its answer. These messages left the store: each was answered as ended, or
  // was late and is now EXPIRED.
  void OnRest(base::Now now, const std::vector<storage::MessageId>& erased);

  // ---- Crashes
  //
  // A power cut undid the ends of these messages, which were not on stable storage.
  void OnLost(const std::vector<storage::MessageId>& ids);
  // The server begins a clean stop.
  void OnStop(base::Now now);
  // After a clean stop the answers are as certain as before.
  void OnRestart(const Recovered& recovered, Host::End how);

  // Checks that nothing is pending.
  void CheckDrained() override;

  const std::map<storage::MessageId, Message>& messages() const { return messages_; }

 private:
  struct Key {
    storage::MessageId id;
    uint64_t fingerprint = 0;
    // 0: the key's message is pending.
    uint64_t expire_ms = 0;
  };
  struct Request {
    uint64_t fingerprint = 0;
    uint64_t expire_ms = 0;
    protocol::AcceptedMessage answer;
  };
  enum class Settlement : uint8_t { kSettled, kExtended, kRefused };
  using Name = std::pair<storage::TopicId, std::string>;
  using RequestName = std::tuple<storage::TopicId, std::string, std::string>;

  static bool Counts(base::Now now, uint64_t expire_ms) {
    return expire_ms == 0 || expire_ms > now.wall_ms;
  }
  // The scope of a request id is the topic and the key, else the ordering key.
  static RequestName RequestOf(const Ask& ask) {
    const std::string scope = ask.key.empty() ? "o" + ask.ordering_key : "k" + ask.key;
    return {ask.topic, scope, ask.request_id};
  }
  Key* FindKey(base::Now now, const Name& name);
  // A message that is pending, or ended and not forgotten.
  Message* Find(base::Now now, const storage::MessageId& id);
  Message* Find(base::Now now, const protocol::Target& target);
  // Whether the message is too late to be delivered.
  static bool Expires(base::Now now, const Message& message);
  bool Uncertain(const Message& message) const;
  bool Untouched(const Message& message) const { return message.last == 0 && !Uncertain(message); }
  protocol::Outcome OutcomeOf(const Message* message) const;
  protocol::MessageState StateOf(base::Now now, const Message& message) const;
  // The pending message with this current lease. Null if there is none.
  Message* FindLease(protocol::LeaseToken token);
  void End(Message& message, storage::EndState how, uint64_t end_ms);
  // Begins an attempt, after the one before it.
  static void NewAttempt(base::Now now, uint32_t number, Message* message);
  // The current attempt ended without a settlement.
  static void EndAttempt(base::Now now, storage::AttemptEnd how, uint64_t delay_ms,
                         const std::string& reason, Message* message);
  // The same, if its lease has ended by time.
  static void EndIfLate(base::Now now, Message* message);
  static bool TellsAll(const storage::Attempts& told, const Message& message);
  // Compares what a Get tells of a due message's attempts.
  void CompareAttempts(const std::string& name, const Message& message,
                       const protocol::GetReply& actual);
  // A restart knows the attempts that happened. After a power cut it may not know the last ones.
  void RecoverAttempts(const storage::Progress* row, Host::End how, Message* message);

  // Compares the fields that the answers to a cancel and a reschedule share. Returns the message if
  // it is pending.
  template <typename Reply>
  Message* CompareOutcome(base::Now now, absl::string_view what, const Question& question,
                          const Reply& actual);
  void Refused(absl::string_view what, const absl::Status& actual, absl::StatusCode code,
               absl::string_view reason);
  protocol::AcceptedMessage AsItIs(base::Now now, const Message& message) const;
  void Existing(base::Now now, const Ask& ask, const Key& key, const Message& message,
                const protocol::AcceptedMessage& actual);
  void Replace(base::Now now, const Ask& ask, Key& key, Message& message,
               const protocol::AcceptedMessage& actual);
  // Gives the message a new revision.
  static void Change(base::Now now, uint64_t deliver_ms, Message* message);
  void Create(base::Now now, const Ask& ask, std::optional<storage::MessageId> previous,
              const protocol::AcceptedMessage& actual);
  void Remember(base::Now now, const Ask& ask, const protocol::AcceptedMessage& answer);
  // Checks the answer's point in the spread: it is always the same for the same id and spread.
  void CheckPoint(const storage::MessageId& id, uint64_t spread_ms, uint64_t point_ms);
  void CompareAccepted(const protocol::AcceptedMessage& expected,
                       const protocol::AcceptedMessage& actual);
  void CompareRecord(const Message& message, const storage::MessageRecord& actual,
                     bool with_payload);

  template <typename T>
  void Same(absl::string_view what, const T& expected, const T& actual) {
    if (expected == actual) return;
    Violate(absl::StrCat(what, ": ", Text(expected), " expected, got ", Text(actual)));
  }
  template <typename T>
  static std::string Text(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      return absl::StrCat(static_cast<uint64_t>(value));
    } else if constexpr (std::is_same_v<T, storage::MessageId>) {
      return value.ToString();
    } else if constexpr (std::is_same_v<T, std::optional<storage::MessageId>>) {
      return value.has_value() ? value->ToString() : "none";
    } else {
      return absl::StrCat(value);
    }
  }

  const std::map<storage::TopicId, uint64_t> tombstone_retention_ms_;
  const uint64_t request_retention_ms_;
  std::map<storage::MessageId, Message> messages_;
  std::map<Name, Key> keys_;
  std::map<RequestName, Request> requests_;
  std::map<std::pair<storage::MessageId, uint64_t>, uint64_t> points_;
  std::map<protocol::LeaseToken, storage::MessageId> leases_;
  // The settlements without an answer, and their stream.
  protocol::StreamId settler_{};
  std::set<std::pair<Settlement, protocol::LeaseToken>> settling_;
  Recovered recovered_;
};

}  // namespace duetime::simulation
