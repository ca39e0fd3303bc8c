// SPDX-License-Identifier: Apache-2.0
//
// The commands that a shard takes; replies.h has its answers. Plain data, no behaviour.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/protocol/new_message.h"
#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/stream_credit.h"
#include "server/protocol/subscription_state.h"
#include "server/protocol/tags.h"
#include "server/protocol/topic_pace.h"
#include "storage/types.h"

namespace duetime::protocol {

struct ActivityList;

class AnswerBudget;
class TopicScope;
struct TopicQuota;

// Accepts messages in one batch. The shard may refuse single messages that have options.
struct ScheduleCommand {
  CallTag tag{};
  std::vector<NewMessage> messages;
};

// Names a message: by its id, or by its topic and key.
struct Target {
  storage::MessageId id;
  storage::TopicId topic{};
  // If not empty, the key names the message, and `id` is ignored.
  std::string key;
  // See topic_scope.h. Null: all topics.
  std::shared_ptr<const TopicScope> scope = nullptr;
};

// Cancels a message. A call may send several commands with its tag to several shards; `position`
// distinguishes the replies.
struct CancelCommand {
  CallTag tag{};
  uint32_t position = 0;
  Target target;
  bool stop_redelivery = false;
};

// Cancels several messages. Each item gets a reply of its own, as soon as the shard has decided it.
struct CancelBatchCommand {
  std::vector<CancelCommand> items;
};

struct RescheduleCommand {
  CallTag tag{};
  Target target;
  uint64_t deliver_ms = 0;
  // The local time from which deliver_ms was resolved, and its zone. Both empty: none was given.
  std::string civil_time;
  std::string time_zone;
  // If set, the message moves only if this is its etag (EtagOf).
  std::optional<uint64_t> etag;
};

struct GetCommand {
  CallTag tag{};
  Target target;
  // Bounds the records of replies. Null: no limit.
  std::shared_ptr<AnswerBudget> budget = nullptr;
};

// Reads the states of messages of this shard, for a page of a list. The reply has the same order.
struct InspectCommand {
  CallTag tag{};
  uint32_t position = 0;
  std::vector<storage::MessageKey> keys;
};

class TopicUse;

// Gives a shard the settings of a topic, and what belongs to them. The shard sends a TopicReply
// when the settings apply.
struct TopicCommand {
  CallTag tag{};
  storage::TopicId topic{};
  TopicSettingsPtr settings = DefaultTopicSettings();
  // Shared by all shards. Null: the topic never had a limit.
  std::shared_ptr<TopicQuota> quota;
  // Set for a topic that is deleted or being deleted. With the next message of the topic the shard
  // calls Use(), and reports the topic in Effects::used_topics (replies.h).
  std::shared_ptr<TopicUse> use = nullptr;
  // The reply counts the topic's messages and the recurrences that are not completed. Cost:
  // O(recurrences of the shard).
  bool count = false;
  // The topic is deleted, so its completed recurrences end.
  bool deleted = false;
  // Shared by all shards. Null: the topic never had a rate.
  std::shared_ptr<TopicPace> pace = nullptr;
  // The dead-letter topic for subscriptions that name none. 0: unknown.
  storage::TopicId dead_letter{};
  // The topic took over the number of another one. From now on the shard gives only ids from this
  // one on, and what names the topic with a lower id is of the other topic, and not found. 0: no
  // other topic had the number.
  storage::MessageId first_id{};
};

// Creates, updates or deletes a subscription. Every shard gets the command. The catalog makes one
// change of a topic at a time, and names a topic's first subscription before it adds others:
// otherwise no object keeps the first one over a restart.
struct SubscriptionCommand {
  enum class Kind : uint8_t { kCreate, kUpdate, kDelete };
  CallTag tag{};
  uint32_t position = 0;
  Kind kind{};
  // kCreate uses all fields but `start`, which the shard sets. If the id exists (nameless, or from
  // an earlier try of this command), the subscription gets the name and the settings, and keeps its
  // start. kUpdate uses id and settings. kDelete uses the id.
  SubscriptionState state;
  // For kCreate. True: the subscription gets messages that are accepted from now on. False: it also
  // gets all messages that the shard still has.
  bool from_now = false;
  // For kDelete: this is the topic's last subscription. It keeps its messages, and loses only its
  // name and settings.
  bool keep_messages = false;
};

// Reads the gauges of a subscription in this shard.
struct InspectSubscriptionCommand {
  CallTag tag{};
  uint32_t position = 0;
  storage::SubscriptionId subscription{};
};

// Asks for the numbers of a list. The cost is that of a look-up for each item.
struct ActivityCommand {
  CallTag tag{};
  uint32_t position = 0;
  std::shared_ptr<const ActivityList> list;
};

// Starts a bulk operation in this shard. Without a spec, stops the operation of this name. The
// shard keeps an operation as an object. An operation starts in shard 0 first.
struct OperationCommand {
  CallTag tag{};
  uint32_t position = 0;
  std::string name;
  std::optional<OperationSpec> spec;
  storage::Fingerprint content;
  // Decides and answers, but starts nothing.
  bool validate_only = false;
  // For shard 0: other places do not have the operation yet. A repeat without it says that all of
  // them do.
  bool starting = false;
  // With starting: other cells start the operation as well.
  bool elsewhere = false;
  // For the other shards: first_ms of the part in shard 0.
  uint64_t first_ms = 0;
};

// Changes a recurrence. The slot SlotOfName("", name) decides the shard.
struct RecurrenceCommand {
  enum class Kind : uint8_t { kCreate, kUpdate, kPause, kResume, kDelete };
  CallTag tag{};
  Kind kind{};
  std::string name;
  // For all kinds but kCreate.
  // See topic_scope.h. Null: all topics.
  std::shared_ptr<const TopicScope> scope = nullptr;
  // For kCreate, and for kUpdate: the new values.
  RecurrenceSpec spec;
  // For kUpdate: which fields of `spec` apply.
  bool update_message = false;
  bool update_rule = false;
  bool update_overlap = false;
  bool update_misfire = false;
  // For kUpdate: if set, the update applies only if this is the recurrence's etag (EtagOf).
  std::optional<uint64_t> etag;
  // For kCreate and kUpdate: checks the request and changes nothing.
  bool validate_only = false;
  // Bounds the templates of replies. Null: no limit.
  std::shared_ptr<AnswerBudget> budget = nullptr;
};

// Opens a subscriber's stream. All shards share its credit.
struct AttachCommand {
  StreamId stream{};
  storage::TopicId topic{};
  storage::SubscriptionId subscription{};
  uint64_t lease_ms = 0;
  std::shared_ptr<StreamCredit> credit;
  // The subscriber reports the messages that it begins (SettleCommand::begun).
  bool reports_begun = false;
  // The subscriber's name for itself; empty if it gave none.
  std::string client_id = {};
  // For a Pull: bounds the records of its deliveries. Null: only the credit does.
  std::shared_ptr<AnswerBudget> budget = nullptr;
};

// Closes a subscriber's stream.
struct DetachCommand {
  StreamId stream{};
  // True: the stream's leases stay. False: they end now.
  bool keep_leases = false;
  // True: no delivery of the stream left the server.
  bool unsent = false;
  // True: the server did not close the stream. Its subscriber may have died.
  bool broke = false;
  // How many of this shard's deliveries have reached the stream's owner. Later ones have not left
  // the server. Empty: all have reached it.
  std::optional<uint64_t> received = std::nullopt;
};

// Takes a subscription's ready messages once. The shard sends one PullReply. If messages are ready
// or wait_ms is 0, the reply comes at the end of the step. Otherwise it comes with the first
// messages, at the end of the wait, or on an EndPullCommand.
struct PullCommand {
  CallTag tag{};
  // Unique among Pulls and streams.
  StreamId stream{};
  storage::TopicId topic{};
  storage::SubscriptionId subscription{};
  uint64_t lease_ms = 0;
  // Shared by all shards.
  std::shared_ptr<StreamCredit> credit;
  uint64_t wait_ms = 0;
  // Bounds the records of replies. Null: no limit.
  std::shared_ptr<AnswerBudget> budget = nullptr;
  // As in AttachCommand.
  std::string client_id = {};
};

// Ends the wait of a Pull.
struct EndPullCommand {
  StreamId stream{};
  // True: the leases of the Pull stay. False: they end now, even if a PullReply carried them, which
  // was then not sent.
  bool keep_leases = true;
};

enum class SettleAction : uint8_t { kAck, kNack, kExtend, kDeadLetter, kRelease };

// What to do with one lease.
struct Settlement {
  LeaseToken token{};
  SettleAction action = SettleAction::kAck;
  // kExtend: how long the lease then lasts. kNack: the delay; absent: by the subscription's retry
  // policy. kRelease: the delay; absent: none.
  std::optional<uint64_t> ms = std::nullopt;
  // kNack, kDeadLetter: the subscriber's text.
  std::string reason = {};
  // kDeadLetter: the settlement was refused before with RefusedSettlement::topic.
  bool again = false;
};

// Settles leases of this shard. A stream may settle any lease whose token it knows, even if the
// stream is not attached.
struct SettleCommand {
  StreamId stream{};
  // Messages whose handler has begun. The shard takes these first.
  std::vector<LeaseToken> begun = {};
  // The shard takes these in order.
  std::vector<Settlement> settlements = {};
  // They are acks, and no shard waits for credit of the stream, so they may be committed a little
  // later, together with other records.
  bool may_wait = false;

  bool empty() const { return begun.empty() && settlements.empty(); }
};

// Tells a shard that found a stream's credit exhausted that another shard has returned credit.
struct CreditCommand {
  StreamId stream{};
};

using Command =
    std::variant<ScheduleCommand, CancelCommand, CancelBatchCommand, RescheduleCommand, GetCommand,
                 InspectCommand, TopicCommand, SubscriptionCommand, InspectSubscriptionCommand,
                 ActivityCommand, OperationCommand, RecurrenceCommand, AttachCommand, DetachCommand,
                 SettleCommand, CreditCommand, PullCommand, EndPullCommand>;

}  // namespace duetime::protocol
