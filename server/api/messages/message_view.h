// SPDX-License-Identifier: Apache-2.0
//
// What is stored or known of a message, in the API's form.
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

// A pending message from its record. `full`: with payload and attributes. Sets neither the id nor
// the state. payload_bytes is told apart, because a list reads records without their payloads.
void FillRecord(const storage::MessageRecord& record, absl::string_view topic,
                uint64_t payload_bytes, bool full, v1::Message* message);

// What a dead letter was.
void FillDeadLetter(const storage::DeadLetterOrigin& origin, v1::DeadLetter* proto);

// An ended message, from its tombstone. Sets neither the id nor the state.
void FillTombstone(const storage::Tombstone& tombstone, absl::string_view topic,
                   v1::Message* message);

// The time to live in its two forms, if there is one.
void FillLifetime(uint64_t deliver_ms, uint64_t ttl_ms, storage::LatePolicy policy,
                  v1::Message* message);

}  // namespace duetime::api
