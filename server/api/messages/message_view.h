// SPDX-License-Identifier: Apache-2.0
//
// Conversion of stored messages and their states to the API's form.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

#include "duetime/v1/messages.pb.h"
#include "server/protocol/replies.h"
#include "storage/message_record.h"

namespace duetime::api {

v1::Message::State ToProto(protocol::MessageState state);
v1::ScheduleOutcome ToProto(protocol::ScheduleOutcome outcome);
v1::Message::LatePolicy ToProto(storage::LatePolicy policy);

// Sets the id and the etag. Without an id there is no message yet, and it sets neither.
void FillIdentity(const storage::MessageId& id, uint64_t revision, v1::Message* message);

// Fills in a pending message from its record; with `full`, also the payload and the attributes.
// Does not set the state. `payload_bytes` is an argument of its own, because a list reads records
// without their payloads.
void FillRecord(const storage::MessageRecord& record, const storage::MessageId& id,
                absl::string_view topic, uint64_t payload_bytes, bool full, v1::Message* message);

// Fills in the attempts of `bytes` (storage/attempts.h). REQUIRES: a codec has accepted the bytes.
void FillAttempts(absl::string_view bytes,
                  google::protobuf::RepeatedPtrField<v1::Attempt>* attempts);

// Fills in the origin of a dead letter.
void FillDeadLetter(const storage::DeadLetterOrigin& origin, v1::DeadLetter* proto);

// Fills in an ended message from its tombstone. Does not set the state.
void FillTombstone(const storage::Tombstone& tombstone, const storage::MessageId& id,
                   absl::string_view topic, v1::Message* message);

// Fills in the time to live in its two forms, if the message has one.
void FillLifetime(uint64_t deliver_ms, uint64_t ttl_ms, storage::LatePolicy policy,
                  v1::Message* message);

}  // namespace duetime::api
