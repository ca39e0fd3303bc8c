// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_creator.h"

#include <string>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/messages/message_states.h"
#include "server/messages/schedule_errors.h"
#include "server/scheduler/message_writer.h"
#include "storage/message_record.h"

namespace duetime::messages {

using protocol::NewMessage;
using scheduler::Scheduler;
using storage::MessageId;
using storage::MessageRef;

namespace {

// Gives the record another deliver time. `moved`: the request asked for another time, so a local
// time in the record does not hold any more. `ttl_ms`: the new time to live; 0: it stays.
absl::Status SetDeliverTime(uint64_t deliver_ms, bool moved, uint64_t ttl_ms, std::string* bytes) {
  storage::MessageRecord record;
  if (absl::Status status = storage::DecodeMessageRecord(*bytes, &record); !status.ok()) {
    return status;
  }
  DT_CHECK_LT(record.header.deliver_ms, deliver_ms);
  record.header.deliver_ms = deliver_ms;
  if (ttl_ms > 0) record.ttl_ms = ttl_ms;
  if (moved) record.civil_time = record.time_zone = {};
  std::string changed = storage::EncodeMessageRecord(record);
  *bytes = std::move(changed);
  return absl::OkStatus();
}

// True if RecentMessages keeps the message.
bool IsKept(const protocol::AcceptedMessage& answer, const MessageRef& message) {
  constexpr uint8_t kNotKept = storage::MessageFlags::kKeyed | storage::MessageFlags::kRecurs |
                               storage::MessageFlags::kDeadLetter;
  return (message.flags & kNotKept) == 0 && answer.deliver_ms == message.key.due_ms;
}

}  // namespace

MessageCreator::MessageCreator(const delivery::Core& core, const MinuteLimits* minute_limits)
    : core_(core), minute_limits_(minute_limits) {}

absl::Status MessageCreator::Create(base::Now now, NewMessage* message,
                                    protocol::AcceptedMessage* answer,
                                    std::vector<MessageRef>* created) {
  DT_CHECK(!message->record.empty());
  DT_CHECK(answer->status.ok());
  if (const protocol::TopicQuota* const quota = core_.writer.QuotaOf(message->topic);
      quota != nullptr && !quota->HasRoom()) {
    return TopicFullError(quota->max.load());
  }
  const uint64_t spread_ms = message->options != nullptr ? message->options->spread_ms : 0;
  const bool validate_only = message->options != nullptr && message->options->validate_only;
  // The spread depends on the id, and the message gets the next id.
  const MessageId next = core_.scheduler.NextId();
  const uint64_t point_ms = Scheduler::SpreadPoint(next.epoch(), next.sequence(), spread_ms);
  const uint64_t asked_ms = message->deliver_ms + point_ms;
  MinuteLimits::Request request = {.deliver_ms = asked_ms, .present_ms = 0};
  const uint64_t expire_ms = message->options != nullptr ? message->options->expire_ms : 0;
  if (expire_ms > 0) request.latest_ms = expire_ms - 1;
  absl::Status status = PlaceInMinute(now, message->topic, request, answer);
  if (!status.ok()) return status;
  if (expire_ms > 0) answer->ttl_ms = expire_ms - answer->deliver_ms;
  DT_CHECK_GE(answer->deliver_ms, asked_ms);
  const uint64_t moved_ms = answer->deliver_ms - asked_ms;
  answer->moved = moved_ms > 0;
  answer->outcome = protocol::ScheduleOutcome::kCreated;
  answer->accept_ms = message->accept_ms;
  if (validate_only) {
    // The message gets no id, so it has no point in the spread.
    answer->deliver_ms -= point_ms;
    answer->state = StateAt(answer->deliver_ms, now);
    return absl::OkStatus();
  }
  answer->state = StateAt(answer->deliver_ms, now);
  if (answer->deliver_ms != message->deliver_ms) {
    status = SetDeliverTime(answer->deliver_ms, answer->moved, answer->ttl_ms, &message->record);
    if (!status.ok()) return status;
  }
  const MessageRef ref = {
      .key = core_.scheduler.NewKey(now, message->slot, message->deliver_ms + moved_ms, spread_ms),
      .topic = message->topic,
      .bytes = static_cast<uint32_t>(message->record.size()),
      .flags = message->flags};
  DT_CHECK_GE(ref.key.due_ms, answer->deliver_ms);
  answer->id = ref.key.id;
  created->push_back(ref);
  if (IsKept(*answer, ref)) {
    DT_CHECK_EQ(ref.key.due_ms, ref.key.id.due_ms());
    core_.writer.recent().Add({.id = ref.key.id,
                               .accept_ms = message->accept_ms,
                               .topic = ref.topic,
                               .payload_bytes = message->payload_bytes,
                               .record_bytes = ref.bytes});
  }
  core_.scheduler.Put(now, ref, std::move(message->record));
  return absl::OkStatus();
}

void MessageCreator::OnCommitted(const std::vector<MessageRef>& created) {
  core_.scheduler.CountAccepted(created.size());
  for (const MessageRef& message : created) {
    core_.scheduler.OnPut(message);
    ++core_.subscriptions.ActivityOf(message.topic).accepted;
    core_.writer.recent().MarkStored(message.key.id);
  }
}

absl::Status MessageCreator::PlaceInMinute(base::Now now, storage::TopicId topic,
                                           const MinuteLimits::Request& request,
                                           protocol::AcceptedMessage* answer) const {
  MinuteLimits::Placement placement = {.deliver_ms = request.deliver_ms};
  if (minute_limits_->Has(topic)) {
    absl::Status status = minute_limits_->Place(now, topic, request, &placement);
    if (!status.ok()) return status;
  }
  answer->deliver_ms = placement.deliver_ms;
  answer->minute_limit_exceeded = placement.over;
  return absl::OkStatus();
}

}  // namespace duetime::messages
