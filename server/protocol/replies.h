// SPDX-License-Identifier: Apache-2.0
//
// The results of a shard: replies to calls, and deliveries and confirmations for streams. Plain
// data, no behaviour.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "server/protocol/activity.h"
#include "server/protocol/answer_budget.h"
#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/tags.h"
#include "server/protocol/wait_reason.h"
#include "storage/types.h"

namespace duetime::protocol {

// The last six states are final (storage::EndState).
enum class MessageState : uint8_t {
  kUnspecified,
  kScheduled,
  kDue,
  kInFlight,
  kAcked,
  kCancelled,
  kExpired,
  kDeadLettered,
  kSkipped,
  kDropped,
};
// The outcome of a cancel or a reschedule. kDone: the message was cancelled or rescheduled.
// kSettled: the message had already ended, other than by a cancel.
enum class Outcome : uint8_t { kDone, kInFlight, kSettled, kAlreadyCancelled, kNotFound };
enum class ScheduleOutcome : uint8_t { kCreated, kReplaced, kUnchanged };

struct AcceptedMessage {
  // An error means that the shard refused the message. The other fields are then meaningless.
  absl::Status status;
  storage::MessageId id;
  MessageState state{};
  ScheduleOutcome outcome = ScheduleOutcome::kCreated;
  // The time that the shard chose: with the spread, or the kept time.
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  uint64_t revision = 0;
  // When the message was last replaced or moved. 0: never.
  uint64_t update_ms = 0;
  // With kReplaced, and with kUnchanged by a key: the deliver time before the call.
  uint64_t old_deliver_ms = 0;
  // With kCreated, if another message had the key and could not be replaced: that message.
  std::optional<storage::MessageId> previous_id;
  // The message's minute holds more messages than its limit (TopicSettings::WARN).
  bool minute_limit_exceeded = false;
  // The request id was known: this is the answer to its first request.
  bool request_repeated = false;
  // The answer is that of an earlier request, and its message has ended.
  bool ended = false;
  // The message is due at another time than the requested one, because its minute is full or it
  // keeps its time. A local time in the request then does not apply to it.
  bool moved = false;
  // The time to live of the message. 0: that of the request.
  uint64_t ttl_ms = 0;
};

// Answers a ScheduleCommand. `accepted` has one item per message, in order; with an error it is
// empty.
struct ScheduleReply {
  CallTag tag{};
  absl::Status status;
  std::vector<AcceptedMessage> accepted;
};

struct CancelReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  Outcome outcome{};
  MessageState state{};
  storage::MessageId id;
  // With kSettled and kAlreadyCancelled: when the message ended.
  uint64_t end_ms = 0;
  bool redelivery_stopped = false;
  bool delivery_uncertain = false;
};

// ABORTED ETAG_MISMATCH if the message has another etag.
struct RescheduleReply {
  CallTag tag{};
  absl::Status status;
  Outcome outcome{};
  MessageState state{};
  storage::MessageId id;
  uint64_t end_ms = 0;
  bool delivery_uncertain = false;
  uint64_t old_deliver_ms = 0;
  // The record after the call, without its payload (storage::MessageHead), and the size of the
  // whole record. Empty if no message is pending.
  std::string head;
  uint32_t bytes = 0;
};

// The history of a message. Server time, UTC milliseconds. 0: the event has not happened, or it
// happened in an earlier run.
struct Timeline {
  // The due time of the message's key: the time at which the wheel should fire it.
  uint64_t due_ms = 0;
  uint64_t fire_ms = 0;
  uint64_t dispatch_ms = 0;
  uint64_t end_ms = 0;
  // While in flight: when the last lease ends.
  uint64_t lease_end_ms = 0;
  // The due time lies in the timing wheel's window.
  bool loaded = false;
  // A claim covers the message.
  bool claimed = false;
  // The message waits in the backlog on disk.
  bool in_backlog = false;
  // Streams of the topic that this shard knows.
  uint32_t subscribers = 0;
};

// The status of a message in one of its subscriptions.
struct SubscriptionStatus {
  storage::SubscriptionId subscription{};
  // kDue, kInFlight or kAcked. kAcked: the subscription has settled the message.
  MessageState state{};
  // Deliveries begun.
  uint32_t attempts = 0;
  // The end of the lease while in flight, and the time of the next attempt while the message waits
  // for it. Server time, UTC milliseconds; otherwise 0.
  uint64_t lease_end_ms = 0;
  uint64_t retry_ms = 0;
  // What a message in state kDue waits for.
  WaitReason wait_reason{};
  // With kOrderingKey: the message that holds the key. Zero while the server reads the next one.
  storage::MessageId holder{};
  // With kAcked: the dead letter that the subscription made of the message; zero if none.
  storage::MessageId dead_letter{};
  // Its last attempts that ended without a settlement, encoded (storage/attempts.h).
  std::string last_attempts = {};
};

// NOT_FOUND MESSAGE_NOT_FOUND if there is no such message, RESOURCE_EXHAUSTED OVERLOADED without
// room for the answer. Holds either `record`, as stored, or `tombstone`.
struct GetReply {
  CallTag tag{};
  absl::Status status;
  storage::MessageId id;
  MessageState state{};
  uint32_t attempts = 0;
  std::string record;
  std::optional<storage::Tombstone> tombstone;
  Timeline timeline;
  // Only for a due message.
  std::vector<SubscriptionStatus> subscriptions;
  // Counts the record.
  AnswerCharge charge = nullptr;
};

struct InspectedMessage {
  // kUnspecified: the message no longer exists.
  MessageState state{};
  uint32_t attempts = 0;
};

struct InspectReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  std::vector<InspectedMessage> messages;
};

// The shard sends the reply when the change is on disk. After a kDelete it releases the
// subscription's messages in the background.
struct SubscriptionReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
};

// The ordering key behind which most messages of a subscription wait.
struct LongestKey {
  std::string ordering_key;
  // The message that holds the key.
  storage::MessageId holder{};
  // Messages that wait in memory. More of them wait on disk if `on_disk`.
  uint64_t waiting = 0;
  bool on_disk = false;
};

struct SubscriptionGauges {
  // Messages in memory that wait for credit.
  uint64_t ready = 0;
  uint64_t in_flight = 0;
  // Messages in memory that wait for their next attempt.
  uint64_t delayed = 0;
  // Messages that wait for another message of their ordering key.
  uint64_t blocked = 0;
  uint64_t streams = 0;
  // The subscription has a backlog on disk.
  bool behind = false;
  // Nothing if no message waits for its ordering key.
  std::optional<LongestKey> longest_key;
  // The subscription is slowed; see FailureThrottle.
  bool slowed = false;
  // Since start.
  uint64_t delivered = 0;
  uint64_t acked = 0;
  uint64_t dead_lettered = 0;
  uint64_t dead_letter_hops_refused = 0;
  uint64_t dropped = 0;
};

// NOT_FOUND if the shard does not know the subscription.
struct InspectSubscriptionReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  SubscriptionGauges gauges;
};

struct TopicReply {
  CallTag tag{};
  storage::TopicId topic{};
  absl::Status status;
  // If the command asks for a count: the topic's messages and its recurrences that are not
  // completed in the shard, including changes that are not on disk yet.
  uint64_t messages = 0;
  uint64_t recurrences = 0;
  // Every id that the shard has given is less.
  storage::MessageId next_id{};
};

// The operation's state in this shard. ALREADY_EXISTS OPERATION_EXISTS, NOT_FOUND
// OPERATION_NOT_FOUND, RESOURCE_EXHAUSTED OPERATION_LIMIT.
struct OperationReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  Operation operation;
};

// The recurrence after the command (kDelete: before it). ALREADY_EXISTS CONTENT_MISMATCH, NOT_FOUND
// RECURRENCE_NOT_FOUND, ABORTED ETAG_MISMATCH, RESOURCE_EXHAUSTED RECURRENCE_LIMIT, OVERLOADED
// without room for the answer, and the errors of calendar::Recurrence::Compile.
struct RecurrenceReply {
  CallTag tag{};
  absl::Status status;
  RecurrenceState state;
  // With kDelete: the command cancelled the pending occurrence.
  bool occurrence_cancelled = false;
  // Counts the template.
  AnswerCharge charge = nullptr;
};

// One delivery of a message to a stream.
struct Delivery {
  storage::MessageId id;
  LeaseToken token{};
  uint32_t attempt = 0;
  bool maybe_redelivered = false;
  // The server's time of the delivery.
  uint64_t dispatch_ms = 0;
  std::string record;
  // The subscriber must report the message as begun, and wait for the confirmation.
  bool confirm_begun = false;
};

// Answers a PullCommand. Empty if the wait ended without a message. RESOURCE_EXHAUSTED OVERLOADED
// if messages are ready, but there was no room for the answer; it is empty then.
struct PullReply {
  CallTag tag{};
  std::vector<Delivery> deliveries;
  absl::Status status = absl::OkStatus();
  // Count the records.
  std::vector<AnswerCharge> charges = {};
};

struct DeliveryFrame {
  StreamId stream{};
  storage::SubscriptionId subscription{};
  std::vector<Delivery> deliveries;
  // For a Pull: not OK if there was no room for its messages. Then `deliveries` is empty.
  absl::Status status = absl::OkStatus();
  // For a Pull: counts the records.
  AnswerCharge charge = nullptr;
};

// kNoDeadLetterTopic: the shard knows no dead-letter topic (TopicCommand::dead_letter).
// kNoMoreHops: the message has been in as many dead-letter topics as it may.
enum class SettleRefusal : uint8_t { kLeaseLost, kNoDeadLetterTopic, kNoMoreHops };

// A settlement that changed nothing.
struct RefusedSettlement {
  LeaseToken token{};
  SettleRefusal refusal = SettleRefusal::kLeaseLost;
  // With kNoDeadLetterTopic, unless the settlement was sent again: the topic whose dead-letter
  // topic the shard does not know, and the settlement's text. The sender may let the catalog link
  // the dead-letter topic, and send the settlement again.
  storage::TopicId topic{};
  std::string reason = {};
};

// Confirms settlements. The shard confirms acks and dead letters after the journal has accepted
// them, and nacks, extends and refusals at once. So one command may have two replies.
struct SettleReply {
  StreamId stream{};
  // Acks, nacks and dead letters that took effect.
  std::vector<LeaseToken> settled;
  std::vector<LeaseToken> extended;
  std::vector<LeaseToken> begun = {};
  std::vector<RefusedSettlement> refused;
};

// The other shards that found this stream's credit exhausted. The runtime sends each of them a
// CreditCommand.
struct WakeShards {
  StreamId stream{};
  uint64_t shard_mask = 0;
};

// A reply to a command, with the command's tag.
using Reply = std::variant<ScheduleReply, CancelReply, RescheduleReply, GetReply, InspectReply,
                           TopicReply, SubscriptionReply, InspectSubscriptionReply, ActivityReply,
                           OperationReply, RecurrenceReply, PullReply>;

inline CallTag TagOf(const Reply& reply) {
  return std::visit([](const auto& answer) { return answer.tag; }, reply);
}

// The results of a shard's step. Each list is in order. Deliveries and settlements precede the
// replies of the same step.
struct Effects {
  std::vector<DeliveryFrame> frames;
  std::vector<SettleReply> settles;
  std::vector<Reply> replies;
  std::vector<WakeShards> wakes;
  // Watched topics that got a message. The shard reports each topic once, before it answers the
  // message.
  std::vector<storage::TopicId> used_topics;
  // Lines for the log.
  std::vector<std::string> notices;
  // A write or a read of the store failed, and the shard has stopped for good. It answered every
  // open call with STORAGE_FAILED.
  bool failed = false;

  bool empty() const {
    return frames.empty() && settles.empty() && replies.empty() && wakes.empty() &&
           used_topics.empty() && notices.empty() && !failed;
  }
};

}  // namespace duetime::protocol
