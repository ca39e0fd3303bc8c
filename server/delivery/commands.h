// SPDX-License-Identifier: Apache-2.0
//
// The words between a shard and the world: commands go in, effects come out. Plain data, no
// behaviour; a CallTag or StreamId means nothing to the shard but comes back with the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "server/delivery/operation.h"
#include "server/delivery/recurrence_state.h"
#include "server/delivery/stream_credit.h"
#include "server/delivery/subscription_state.h"
#include "server/delivery/topic_pace.h"
#include "server/scheduler/new_message.h"
#include "server/scheduler/topic_quota.h"
#include "storage/types.h"

namespace duetime::delivery {

// Whose answer it is.
enum class CallTag : uint64_t {};
// A subscriber's stream, unique within the process.
enum class StreamId : uint64_t {};
// One lease. Unique across shards and restarts: shard 6 bits, epoch 16 (low ones), counter 42.
enum class LeaseToken : uint64_t {};

constexpr uint16_t kShardCountMax = 64;
constexpr uint16_t ShardOfLease(LeaseToken token) {
  return static_cast<uint16_t>(static_cast<uint64_t>(token) >> 58);
}

// ---- Commands
// -------------------------------------------------------------------------------------------------------

using scheduler::NewMessage;
using scheduler::OnConflict;
using scheduler::Terms;
using scheduler::TopicQuota;

// Accepts messages, all of them in one batch; those with terms may be refused one by one.
struct ScheduleCommand {
  CallTag tag{};
  std::vector<NewMessage> messages;
  // Topics of these messages whose names are not known to be on disk yet; named in the same batch.
  std::vector<std::pair<storage::TopicId, std::string>> new_topics;
};

// Names a message: by its id, or by its topic and key.
struct Target {
  storage::MessageId id;
  storage::TopicId topic{};
  // Not empty: by key, and id means nothing.
  std::string key;
};

// A call may send several commands under its tag, to several shards: `position` tells its answers
// apart.
struct CancelCommand {
  CallTag tag{};
  uint32_t position = 0;
  Target target;
  bool stop_redelivery = false;
};

// Answered one by one, as each is decided.
struct CancelBatchCommand {
  std::vector<CancelCommand> items;
};

struct RescheduleCommand {
  CallTag tag{};
  Target target;
  uint64_t deliver_ms = 0;
  // The local time that deliver_ms was resolved from, and its zone; empty if it was not.
  std::string civil_time;
  std::string time_zone;
  // Only if the message is at this revision.
  std::optional<uint64_t> revision;
};

struct GetCommand {
  CallTag tag{};
  Target target;
};

// Asks for the states of messages of this shard (a page of a list): answered in the same order.
struct InspectCommand {
  CallTag tag{};
  uint32_t position = 0;
  std::vector<storage::MessageKey> keys;
};

// What is done with a message whose minute is full: it is accepted and the answer says so; it is
// refused; it is moved to a later minute.
enum class BucketPolicy : uint8_t { kWarn = 1, kRefuse = 2, kSpread = 3 };

// What the shards need to know of a topic's settings. Always answered, with a TopicReply, once it
// holds.
struct TopicCommand {
  CallTag tag{};
  storage::TopicId topic{};
  // How long its fates and keys are kept after the end; 0: not at all.
  uint64_t fate_retention_ms = 0;
  // Shared by all shards; null: the topic has no limit, and never had one.
  std::shared_ptr<scheduler::TopicQuota> quota;
  // The topic is being deleted, or was: Effects::used_topics tells when it gets a message.
  bool watch = false;
  // Accepts, does not deliver.
  bool paused = false;
  // Shared by all shards; null: as fast as subscribers take it.
  std::shared_ptr<TopicPace> pace = nullptr;
  // Where dead letters go whose subscription says nothing else. 0: not known. The name is written
  // with the first one.
  storage::TopicId dead_letter{};
  std::string dead_letter_name = {};
  // How many messages may become due in one minute, in all shards together. 0: no limit.
  uint64_t minute_max = 0;
  BucketPolicy bucket_policy = BucketPolicy::kWarn;
  // For kSpread: how much later a message may be.
  uint32_t spread_minutes_max = 0;
};

// A change of a subscription, sent to every shard. Those of one topic come one after the other.
struct SubscriptionCommand {
  enum class Kind : uint8_t { kCreate, kUpdate, kDelete };
  CallTag tag{};
  uint32_t position = 0;
  Kind kind{};
  // kCreate: all but the start, which the shard sets. If there is one of this id (which nobody has
  // named, or by a command that was not answered), it takes over the name and the settings and
  // keeps its start. kUpdate: id and settings count. kDelete: id counts.
  SubscriptionState state;
  // For kCreate: only what is accepted from now on; otherwise everything that is still there.
  bool from_now = false;
  // For kDelete: it is the last one of its topic, and only loses its name and its settings.
  bool keep_messages = false;
  // As in ScheduleCommand.
  std::vector<std::pair<storage::TopicId, std::string>> new_topics;
};

// Asks how a subscription stands in this shard.
struct InspectSubscriptionCommand {
  CallTag tag{};
  uint32_t position = 0;
  storage::SubscriptionId subscription{};
};

// Asks for an EchoReply and for nothing else: it comes behind what the shard has handed out, and
// made of the commands before.
struct EchoCommand {
  CallTag tag{};
};

// Writes or removes (no value) an object.
struct ObjectCommand {
  CallTag tag{};
  storage::ObjectKind kind{};
  std::string name;
  std::optional<std::string> value;
};

// Starts a bulk operation in this shard; or stops the one of this name, if there is no spec. Kept
// as an object.
struct OperationCommand {
  CallTag tag{};
  uint32_t position = 0;
  std::string name;
  std::optional<OperationSpec> spec;
  storage::Fingerprint content;
};

// A change of a recurrence. The shard is that of SlotOfName("", name).
struct RecurrenceCommand {
  enum class Kind : uint8_t { kCreate, kUpdate, kPause, kResume, kDelete };
  CallTag tag{};
  Kind kind{};
  std::string name;
  // For kCreate; for kUpdate: with the fields that change.
  RecurrenceSpec spec;
  // For kUpdate: which of them.
  bool update_message = false;
  bool update_rule = false;
  bool update_overlap = false;
  bool update_misfire = false;
  // For kUpdate: only if it is at this revision.
  std::optional<uint64_t> revision;
  // For kCreate: check, and change nothing.
  bool validate_only = false;
  // For kCreate and kUpdate: as in ScheduleCommand.
  std::vector<std::pair<storage::TopicId, std::string>> new_topics;
};

// A subscriber appears. Its credit is shared by all shards.
struct AttachCommand {
  StreamId stream{};
  storage::TopicId topic{};
  storage::SubscriptionId subscription{};
  uint64_t lease_ms = 0;
  std::shared_ptr<StreamCredit> credit;
};

// A subscriber is gone.
struct DetachCommand {
  StreamId stream{};
  // Its leases go on without it; otherwise they end now.
  bool keep_leases = false;
};

struct NackItem {
  LeaseToken token{};
  // Nothing: by the subscription's retry policy.
  std::optional<uint64_t> delay_ms;
  // What the subscriber said.
  std::string reason = {};
};

struct DeadLetterItem {
  LeaseToken token{};
  std::string reason;
};

struct ExtendItem {
  LeaseToken token{};
  uint64_t duration_ms = 0;
};

// Settlements for this shard's leases. A stream may settle any lease whose token it knows; it need
// not be attached.
struct SettleCommand {
  StreamId stream{};
  std::vector<LeaseToken> acks;
  std::vector<NackItem> nacks;
  std::vector<ExtendItem> extends;
  // Not to be tried again.
  std::vector<DeadLetterItem> dead_letters = {};
};

// Credit of a stream that this shard found exhausted has come back through another shard.
struct CreditCommand {
  StreamId stream{};
};

using Command =
    std::variant<ScheduleCommand, CancelCommand, CancelBatchCommand, RescheduleCommand, GetCommand,
                 InspectCommand, ObjectCommand, TopicCommand, SubscriptionCommand,
                 InspectSubscriptionCommand, EchoCommand, OperationCommand, RecurrenceCommand,
                 AttachCommand, DetachCommand, SettleCommand, CreditCommand>;

// ---- Effects
// --------------------------------------------------------------------------------------------------------

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
  bool bucket_over = false;
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

// What is known of the way of a message. Server time, UTC milliseconds; 0: has not happened, or was
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

// How a message stands with one of the subscriptions that it is for.
struct SubscriptionStanding {
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
// `fate`.
struct GetReply {
  CallTag tag{};
  absl::Status status;
  storage::MessageId id;
  MessageState state{};
  uint32_t attempts = 0;
  std::string record;
  std::optional<storage::Fate> fate;
  Timeline timeline;
  // Of a message that is due.
  std::vector<SubscriptionStanding> subscriptions;
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

struct ObjectReply {
  CallTag tag{};
  absl::Status status;
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
  // Its attempts fail too fast; see FailureBrake.
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

struct EchoReply {
  CallTag tag{};
};

// What the shard has of the topic, decided but not necessarily on disk.
struct TopicReply {
  CallTag tag{};
  absl::Status status;
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

// What a shard wants done, in order within each list.
struct Effects {
  std::vector<ScheduleReply> schedules;
  std::vector<CancelReply> cancels;
  std::vector<RescheduleReply> reschedules;
  std::vector<GetReply> gets;
  std::vector<InspectReply> inspects;
  std::vector<ObjectReply> objects;
  std::vector<TopicReply> topics;
  std::vector<SubscriptionReply> subscriptions;
  std::vector<InspectSubscriptionReply> subscription_gauges;
  std::vector<EchoReply> echoes;
  std::vector<OperationReply> operations;
  std::vector<RecurrenceReply> recurrences;
  std::vector<DeliveryFrame> frames;
  std::vector<SettleReply> settles;
  std::vector<WakeShards> wakes;
  // Topics that were watched and have got a message; told once each, before the message is.
  std::vector<storage::TopicId> used_topics;
  // The journal failed or a read did: the shard has stopped for good. Every open call was answered
  // with STORAGE_FAILED.
  bool failed = false;

  bool empty() const {
    return schedules.empty() && cancels.empty() && reschedules.empty() && gets.empty() &&
           inspects.empty() && objects.empty() && topics.empty() && subscriptions.empty() &&
           subscription_gauges.empty() && echoes.empty() && operations.empty() &&
           recurrences.empty() && frames.empty() && settles.empty() && wakes.empty() &&
           used_topics.empty() && !failed;
  }
};

}  // namespace duetime::delivery
