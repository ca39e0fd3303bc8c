// SPDX-License-Identifier: Apache-2.0
//
// The results of a shard: one list of replies to calls, and what goes to subscribers' streams.
// Plain data, no behaviour.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/tags.h"
#include "storage/types.h"

namespace duetime::protocol {

// The last six are ends (storage::EndState).
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
// What a cancel or a reschedule found. kDone: it was cancelled, or rescheduled. kSettled: it had
// ended, other than by a cancel.
enum class Outcome : uint8_t { kDone, kInFlight, kSettled, kAlreadyCancelled, kNotFound };
enum class ScheduleOutcome : uint8_t { kCreated, kReplaced, kUnchanged };

struct AcceptedMessage {
  // Not OK: this message was refused, and the rest means nothing.
  absl::Status status;
  storage::MessageId id;
  MessageState state{};
  ScheduleOutcome outcome = ScheduleOutcome::kCreated;
  // As resolved by the shard: with the spread, or the time that was kept.
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  uint64_t revision = 0;
  // With kReplaced, or kUnchanged by a key: the time before.
  uint64_t old_deliver_ms = 0;
  // With kCreated under a key that another message had that could not be replaced any more.
  std::optional<storage::MessageId> previous_id;
  // The minute in which it is due holds more messages than it should (BucketPolicy::kWarn).
  bool minute_limit_exceeded = false;
  // It is to be delivered at another time than the request asks for (its minute is full, or it
  // keeps its time), so a local time in the request is not its own.
  bool moved = false;
};

// Answers a ScheduleCommand. With an error `accepted` is empty; otherwise one per message, in
// order.
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
  // When it ended, with kSettled and kAlreadyCancelled.
  uint64_t end_ms = 0;
  bool redelivery_stopped = false;
  bool delivery_uncertain = false;
};

// ABORTED ETAG_MISMATCH if the revision is another.
struct RescheduleReply {
  CallTag tag{};
  absl::Status status;
  Outcome outcome{};
  MessageState state{};
  storage::MessageId id;
  uint64_t end_ms = 0;
  bool delivery_uncertain = false;
  uint64_t old_deliver_ms = 0;
  // The record as it is now, without its payload (storage::MessageHead), and its size; empty if
  // nothing is pending.
  std::string head;
  uint32_t bytes = 0;
};

// The times of a message's history. Server time, UTC milliseconds; 0: has not happened, or was
// not in this run.
struct Timeline {
  // The due time of its key: when it was to be fired.
  uint64_t due_ms = 0;
  uint64_t fire_ms = 0;
  uint64_t dispatch_ms = 0;
  uint64_t end_ms = 0;
  // Of the lease, while in flight.
  uint64_t lease_end_ms = 0;
  // In the timing wheel's window.
  bool loaded = false;
  // Released for delivery (claimed).
  bool claimed = false;
  // Waits in the backlog on disk.
  bool in_backlog = false;
  // Subscribers of its topic that this shard knows.
  uint32_t subscribers = 0;
};

// The status of a message in one of its subscriptions.
struct SubscriptionStatus {
  storage::SubscriptionId subscription{};
  // kDue, kInFlight or kAcked (done with it).
  MessageState state{};
  // Deliveries begun.
  uint32_t attempts = 0;
  // While in flight; while it waits for its next attempt. Server time, UTC milliseconds; 0: not so.
  uint64_t lease_end_ms = 0;
  uint64_t retry_ms = 0;
};

// NOT_FOUND with reason MESSAGE_NOT_FOUND when there is none. Either `record`, as stored, or
// `tombstone`.
struct GetReply {
  CallTag tag{};
  absl::Status status;
  storage::MessageId id;
  MessageState state{};
  uint32_t attempts = 0;
  std::string record;
  std::optional<storage::Tombstone> tombstone;
  Timeline timeline;
  // Of a message that is due.
  std::vector<SubscriptionStatus> subscriptions;
};

struct InspectedMessage {
  // kUnspecified: it is not there any more.
  MessageState state{};
  uint32_t attempts = 0;
};

struct InspectReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  std::vector<InspectedMessage> messages;
};

// Answered when the change is on disk; with kDelete what it leaves behind goes later.
struct SubscriptionReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
};

struct SubscriptionGauges {
  // Waiting for credit, in memory.
  uint64_t ready = 0;
  uint64_t in_flight = 0;
  // Waiting for their next attempt, in memory.
  uint64_t delayed = 0;
  // Behind another message of their ordering key.
  uint64_t blocked = 0;
  uint64_t streams = 0;
  // More of it waits on disk.
  bool behind = false;
  // Of what is ready in memory; 0: none is.
  uint64_t oldest_due_ms = 0;
  // Its attempts fail too fast; see FailureThrottle.
  bool slowed = false;
  // Since start.
  uint64_t delivered = 0;
  uint64_t acked = 0;
  uint64_t dead_lettered = 0;
  uint64_t dropped = 0;
};

// NOT_FOUND if the shard does not know the subscription.
struct InspectSubscriptionReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  SubscriptionGauges gauges;
  // Where its backlog goes on, if it has one: to be looked at there, beside the engine.
  std::optional<storage::MessageKey> backlog_from;
};

struct TopicReply {
  CallTag tag{};
  storage::TopicId topic{};
  absl::Status status;
  // If the command asks for a count: what the shard has of the topic, decided but not necessarily
  // on disk.
  uint64_t messages = 0;
  uint64_t recurrences = 0;
};

// The operation as it is in this shard now. ALREADY_EXISTS OPERATION_EXISTS, NOT_FOUND
// OPERATION_NOT_FOUND, RESOURCE_EXHAUSTED OPERATION_LIMIT.
struct OperationReply {
  CallTag tag{};
  uint32_t position = 0;
  absl::Status status;
  Operation operation;
};

// The recurrence as it is now (kDelete: as it was). ALREADY_EXISTS CONTENT_MISMATCH, NOT_FOUND
// RECURRENCE_NOT_FOUND, ABORTED ETAG_MISMATCH, RESOURCE_EXHAUSTED RECURRENCE_LIMIT, and what
// calendar::Recurrence::Compile says.
struct RecurrenceReply {
  CallTag tag{};
  absl::Status status;
  RecurrenceState state;
  // With kDelete.
  bool occurrence_cancelled = false;
};

// One message handed to a stream.
struct Delivery {
  storage::MessageId id;
  LeaseToken token{};
  uint32_t attempt = 0;
  bool maybe_redelivered = false;
  // The server's time when it was handed over.
  uint64_t dispatch_ms = 0;
  std::string record;
};

// Empty if the wait ended without a message.
struct PullReply {
  CallTag tag{};
  std::vector<Delivery> deliveries;
};

struct DeliveryFrame {
  StreamId stream{};
  std::vector<Delivery> deliveries;
};

// kNoDeadLetterTopic: the shard has not been told where dead letters go (TopicCommand).
enum class SettleRefusal : uint8_t { kLeaseLost, kNoDeadLetterTopic };

// Acks and dead letters are confirmed once they are in the journal; nacks, extends and refusals at
// once. One command may so have two replies.
struct SettleReply {
  StreamId stream{};
  // Acks, nacks and dead letters that took effect.
  std::vector<LeaseToken> settled;
  std::vector<LeaseToken> extended;
  std::vector<std::pair<LeaseToken, SettleRefusal>> refused;
};

// Other shards that found this stream's credit exhausted: send each a CreditCommand.
struct WakeShards {
  StreamId stream{};
  uint64_t shard_mask = 0;
};

// One answer to a command, under the command's tag.
using Reply = std::variant<ScheduleReply, CancelReply, RescheduleReply, GetReply, InspectReply,
                           TopicReply, SubscriptionReply, InspectSubscriptionReply, OperationReply,
                           RecurrenceReply, PullReply>;

inline CallTag TagOf(const Reply& reply) {
  return std::visit([](const auto& answer) { return answer.tag; }, reply);
}

// The results of a shard's step. Each list is in order; deliveries and settlements come before the
// replies of the same step.
struct Effects {
  std::vector<DeliveryFrame> frames;
  std::vector<SettleReply> settles;
  std::vector<Reply> replies;
  std::vector<WakeShards> wakes;
  // Watched topics that have got a message. Each is reported once, before the message is.
  std::vector<storage::TopicId> used_topics;
  // The journal failed or a read did: the shard has stopped for good. Every open call was answered
  // with STORAGE_FAILED.
  bool failed = false;

  bool empty() const {
    return frames.empty() && settles.empty() && replies.empty() && wakes.empty() &&
           used_topics.empty() && !failed;
  }
};

}  // namespace duetime::protocol
