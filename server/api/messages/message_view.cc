// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/message_view.h"

#include <string>

#include "server/api/messages/target_validation.h"
#include "server/api/proto_time.h"
#include "server/base/check.h"
#include "server/protocol/etag.h"
#include "storage/attempts.h"

namespace duetime::api {

namespace {

v1::DeadLetter::Reason ReasonToProto(storage::DeadLetterReason reason) {
  switch (reason) {
    case storage::DeadLetterReason::kMaxAttempts:
      return v1::DeadLetter::REASON_MAX_ATTEMPTS;
    case storage::DeadLetterReason::kRejected:
      return v1::DeadLetter::REASON_REJECTED;
    case storage::DeadLetterReason::kExpired:
      return v1::DeadLetter::REASON_EXPIRED;
    case storage::DeadLetterReason::kRetention:
      return v1::DeadLetter::REASON_RETENTION;
  }
  return v1::DeadLetter::REASON_UNSPECIFIED;
}

v1::Attempt::End EndToProto(storage::AttemptEnd end) {
  using storage::AttemptEnd;
  switch (end) {
    case AttemptEnd::kNacked:
      return v1::Attempt::END_NACKED;
    case AttemptEnd::kLeaseLost:
      return v1::Attempt::END_LEASE_ENDED;
    case AttemptEnd::kStreamEnded:
    case AttemptEnd::kBegunStreamEnded:
      return v1::Attempt::END_STREAM_ENDED;
    case AttemptEnd::kReleased:
      return v1::Attempt::END_RELEASED;
    case AttemptEnd::kTakenBack:
      return v1::Attempt::END_TAKEN_BACK;
    case AttemptEnd::kNotBegun:
      return v1::Attempt::END_NOT_BEGUN;
  }
  return v1::Attempt::END_UNSPECIFIED;
}

}  // namespace

v1::Message::State ToProto(protocol::MessageState state) {
  using protocol::MessageState;
  switch (state) {
    case MessageState::kUnspecified:
      return v1::Message::STATE_UNSPECIFIED;
    case MessageState::kScheduled:
      return v1::Message::STATE_SCHEDULED;
    case MessageState::kDue:
      return v1::Message::STATE_DUE;
    case MessageState::kInFlight:
      return v1::Message::STATE_IN_FLIGHT;
    case MessageState::kAcked:
      return v1::Message::STATE_ACKED;
    case MessageState::kCancelled:
      return v1::Message::STATE_CANCELLED;
    case MessageState::kExpired:
      return v1::Message::STATE_EXPIRED;
    case MessageState::kDeadLettered:
      return v1::Message::STATE_DEAD_LETTERED;
    case MessageState::kSkipped:
      return v1::Message::STATE_SKIPPED;
    case MessageState::kDropped:
      return v1::Message::STATE_DROPPED;
  }
  return v1::Message::STATE_UNSPECIFIED;
}

v1::ScheduleOutcome ToProto(protocol::ScheduleOutcome outcome) {
  switch (outcome) {
    case protocol::ScheduleOutcome::kCreated:
      return v1::SCHEDULE_OUTCOME_CREATED;
    case protocol::ScheduleOutcome::kReplaced:
      return v1::SCHEDULE_OUTCOME_REPLACED;
    case protocol::ScheduleOutcome::kUnchanged:
      return v1::SCHEDULE_OUTCOME_UNCHANGED;
  }
  return v1::SCHEDULE_OUTCOME_UNSPECIFIED;
}

v1::Message::LatePolicy ToProto(storage::LatePolicy policy) {
  switch (policy) {
    case storage::LatePolicy::kDeliver:
      return v1::Message::LATE_POLICY_UNSPECIFIED;
    case storage::LatePolicy::kDrop:
      return v1::Message::LATE_POLICY_DROP;
    case storage::LatePolicy::kDeadLetter:
      return v1::Message::LATE_POLICY_DEAD_LETTER;
  }
  return v1::Message::LATE_POLICY_UNSPECIFIED;
}

void FillLifetime(uint64_t deliver_ms, uint64_t ttl_ms, storage::LatePolicy policy,
                  v1::Message* message) {
  if (ttl_ms == 0) return;
  SetDuration(ttl_ms, message->mutable_ttl());
  SetTimestamp(deliver_ms + ttl_ms, message->mutable_expire_time());
  message->set_late_policy(ToProto(policy));
}

void FillIdentity(const storage::MessageId& id, uint64_t revision, v1::Message* message) {
  if (id == storage::MessageId{}) return;
  message->set_id(id.ToString());
  message->set_etag(EtagText(protocol::EtagOf(id, revision)));
}

void FillRecord(const storage::MessageRecord& record, const storage::MessageId& id,
                absl::string_view topic, uint64_t payload_bytes, bool full, v1::Message* message) {
  FillIdentity(id, record.revision, message);
  message->set_topic(topic.data(), topic.size());
  SetTimestamp(record.header.deliver_ms, message->mutable_deliver_time());
  SetTimestamp(record.header.accept_ms, message->mutable_accept_time());
  message->set_payload_bytes(static_cast<int64_t>(payload_bytes));
  message->set_key(record.key.data(), record.key.size());
  for (const auto& [key, value] : record.labels) {
    (*message->mutable_labels())[std::string(key)] = std::string(value);
  }
  message->set_ordering_key(record.ordering_key.data(), record.ordering_key.size());
  FillLifetime(record.header.deliver_ms, record.ttl_ms, record.late_policy, message);
  if (record.spread_ms > 0) SetDuration(record.spread_ms, message->mutable_spread());
  if (!record.civil_time.empty()) {
    message->mutable_civil_time()->set_local(std::string(record.civil_time));
    message->mutable_civil_time()->set_time_zone(std::string(record.time_zone));
  }
  if (record.update_ms > 0) SetTimestamp(record.update_ms, message->mutable_update_time());
  message->set_recurrence(record.recurrence.data(), record.recurrence.size());
  message->set_occurrence(static_cast<int64_t>(record.occurrence));
  if (record.dead_letter.has_value()) {
    FillDeadLetter(*record.dead_letter, message->mutable_dead_letter());
  }
  if (!full) return;
  message->set_payload(record.payload.data(), record.payload.size());
  for (const auto& [key, value] : record.attributes) {
    (*message->mutable_attributes())[std::string(key)] = std::string(value);
  }
}

void FillDeadLetter(const storage::DeadLetterOrigin& origin, v1::DeadLetter* proto) {
  proto->set_topic(std::string(origin.topic_name));
  proto->set_subscription(std::string(origin.subscription_name));
  proto->set_message_id(origin.id.ToString());
  proto->set_key(std::string(origin.key));
  proto->set_attempts(static_cast<int32_t>(origin.attempts));
  proto->set_reason(ReasonToProto(origin.reason));
  proto->set_reason_text(std::string(origin.reason_text));
  if (origin.first_dispatch_ms > 0) {
    SetTimestamp(origin.first_dispatch_ms, proto->mutable_first_dispatch_time());
  }
  if (origin.last_dispatch_ms > 0) {
    SetTimestamp(origin.last_dispatch_ms, proto->mutable_last_dispatch_time());
  }
  SetTimestamp(origin.deliver_ms, proto->mutable_deliver_time());
  SetTimestamp(origin.accept_ms, proto->mutable_accept_time());
  proto->set_hops(static_cast<int32_t>(origin.hops));
  FillAttempts(origin.last_attempts, proto->mutable_last_attempts());
}

void FillAttempts(absl::string_view bytes,
                  google::protobuf::RepeatedPtrField<v1::Attempt>* attempts) {
  if (bytes.empty()) return;
  const auto decoded = storage::DecodeAttempts(bytes);
  DT_CHECK(decoded.has_value());
  for (const storage::Attempt& from : *decoded) {
    v1::Attempt* const to = attempts->Add();
    to->set_number(static_cast<int32_t>(from.number));
    to->set_end(EndToProto(from.end));
    SetTimestamp(from.end_ms, to->mutable_end_time());
    SetDuration(from.held_ms, to->mutable_held());
    if (from.delay_ms > 0) SetDuration(from.delay_ms, to->mutable_delay());
    to->set_client_id(std::string(from.client_id));
    to->set_reason(std::string(from.reason));
  }
}

void FillTombstone(const storage::Tombstone& tombstone, const storage::MessageId& id,
                   absl::string_view topic, v1::Message* message) {
  FillIdentity(id, tombstone.revision, message);
  message->set_topic(topic.data(), topic.size());
  SetTimestamp(tombstone.deliver_ms, message->mutable_deliver_time());
  SetTimestamp(tombstone.accept_ms, message->mutable_accept_time());
  SetTimestamp(tombstone.end_ms, message->mutable_end_time());
  message->set_payload_bytes(tombstone.payload_bytes);
  message->set_attempts(static_cast<int32_t>(tombstone.attempts));
  message->set_key(tombstone.key);
  for (const storage::MessageId& letter : tombstone.dead_letters) {
    message->add_dead_letter_ids(letter.ToString());
  }
}

}  // namespace duetime::api
