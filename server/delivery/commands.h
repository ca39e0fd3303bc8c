// SPDX-License-Identifier: Apache-2.0
//
// The words between a shard and the world: commands go in, effects come out. Plain data, no
// behaviour; a CallTag or StreamId means nothing to the shard but comes back with the answer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "server/delivery/stream_credit.h"
#include "server/scheduler/new_message.h"
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

// Accepts messages: all of them in one batch, or none.
struct ScheduleCommand {
  CallTag tag{};
  std::vector<NewMessage> messages;
  // Topics of these messages whose names are not known to be on disk yet; named in the same batch.
  std::vector<std::pair<storage::TopicId, std::string>> new_topics;
};

struct CancelCommand {
  CallTag tag{};
  storage::MessageId id;
  bool stop_redelivery = false;
};

struct GetCommand {
  CallTag tag{};
  storage::MessageId id;
};

// A subscriber appears. Its credit is shared by all shards.
struct AttachCommand {
  StreamId stream{};
  storage::TopicId topic{};
  uint64_t lease_ms = 0;
  std::shared_ptr<StreamCredit> credit;
};

// A subscriber is gone: its leases end now.
struct DetachCommand {
  StreamId stream{};
};

struct NackItem {
  LeaseToken token{};
  uint64_t delay_ms = 0;
};

struct ExtendItem {
  LeaseToken token{};
  uint64_t duration_ms = 0;
};

// Settlements for this shard's leases. A stream may settle any lease whose token it knows.
struct SettleCommand {
  StreamId stream{};
  std::vector<LeaseToken> acks;
  std::vector<NackItem> nacks;
  std::vector<ExtendItem> extends;
};

// Credit of a stream that this shard found exhausted has come back through another shard.
struct CreditCommand {
  StreamId stream{};
};

using Command = std::variant<ScheduleCommand, CancelCommand, GetCommand, AttachCommand,
                             DetachCommand, SettleCommand, CreditCommand>;

// ---- Effects
// --------------------------------------------------------------------------------------------------------

enum class MessageState : uint8_t { kUnspecified, kScheduled, kDue, kInFlight };
enum class CancelOutcome : uint8_t { kCancelled, kInFlight, kNotFound };

struct AcceptedMessage {
  storage::MessageId id;
  MessageState state{};
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
  absl::Status status;
  CancelOutcome outcome{};
  MessageState state{};
  bool redelivery_stopped = false;
  bool delivery_uncertain = false;
};

// NOT_FOUND with reason MESSAGE_NOT_FOUND when there is none. `record` is as stored.
struct GetReply {
  CallTag tag{};
  absl::Status status;
  MessageState state{};
  uint32_t attempts = 0;
  std::string record;
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

enum class SettleRefusal : uint8_t { kLeaseLost };

// Acks are confirmed once they are in the journal; nacks, extends and refusals at once. One command
// may so have two replies.
struct SettleReply {
  StreamId stream{};
  // Acks and nacks that took effect.
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
  std::vector<GetReply> gets;
  std::vector<DeliveryFrame> frames;
  std::vector<SettleReply> settles;
  std::vector<WakeShards> wakes;
  // The journal failed or a read did: the shard has stopped for good. Every open call was answered
  // with STORAGE_FAILED.
  bool failed = false;

  bool empty() const {
    return schedules.empty() && cancels.empty() && gets.empty() && frames.empty() &&
           settles.empty() && wakes.empty() && !failed;
  }
};

}  // namespace duetime::delivery
