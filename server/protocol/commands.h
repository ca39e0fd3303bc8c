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

struct TopicQuota;

// Accepts messages, all of them in one batch; those with options may be refused one by one.
struct ScheduleCommand {
  CallTag tag{};
  std::vector<NewMessage> messages;
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
  // How long its tombstones and keys are kept after the end; 0: not at all.
  uint64_t tombstone_retention_ms = 0;
  // Shared by all shards; null: the topic has no limit, and never had one.
  std::shared_ptr<TopicQuota> quota;
  // The topic is being deleted, or was: Effects::used_topics (replies.h) tells when it gets a
  // message.
  bool watch = false;
  // The reply counts what the shard has of the topic. Walks all recurrences of the shard.
  bool count = false;
  // Accepts, does not deliver.
  bool paused = false;
  // Shared by all shards; null: as fast as subscribers take it.
  std::shared_ptr<TopicPace> pace = nullptr;
  // The target of dead letters whose subscription names none. 0: not known.
  storage::TopicId dead_letter{};
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
  // kCreate: all but the start, which the shard sets. A subscription of this id that is there
  // already (nameless, or made by an earlier try of this command) takes over the name and the
  // settings and keeps its start. kUpdate: id and settings count. kDelete: id counts.
  SubscriptionState state;
  // For kCreate: only what is accepted from now on; otherwise everything that is still there.
  bool from_now = false;
  // For kDelete: it is the last one of its topic, and only loses its name and its settings.
  bool keep_messages = false;
};

// Asks how a subscription stands in this shard.
struct InspectSubscriptionCommand {
  CallTag tag{};
  uint32_t position = 0;
  storage::SubscriptionId subscription{};
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

// Takes what is ready for a subscription, once. Answered by one PullReply: at the end of the step
// if there are messages or wait_ms is 0, else when there are messages, when the wait ends, or on an
// EndPullCommand.
struct PullCommand {
  CallTag tag{};
  // A name that no other Pull or stream has.
  StreamId stream{};
  storage::TopicId topic{};
  storage::SubscriptionId subscription{};
  uint64_t lease_ms = 0;
  // Shared by all shards.
  std::shared_ptr<StreamCredit> credit;
  uint64_t wait_ms = 0;
};

// Ends the wait of a Pull.
struct EndPullCommand {
  StreamId stream{};
  // False: the leases that it was given, also in an answer, end now.
  bool keep_leases = true;
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
                 InspectCommand, TopicCommand, SubscriptionCommand, InspectSubscriptionCommand,
                 OperationCommand, RecurrenceCommand, AttachCommand, DetachCommand, SettleCommand,
                 CreditCommand, PullCommand, EndPullCommand>;

}  // namespace duetime::protocol
