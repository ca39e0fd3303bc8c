// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "storage/locator.h"
#include "storage/message_record.h"
#include "storage/types.h"

namespace duetime::protocol {

// What to do if a pending message already has the key; with kOnce also if an ended one had it last.
enum class OnConflict : uint8_t { kFail, kReplace, kKeepTime, kPushBack, kOnce };

// True if the mode changes the message that has the key.
inline bool Replaces(OnConflict on_conflict) {
  return on_conflict != OnConflict::kFail && on_conflict != OnConflict::kOnce;
}

// The fields of a schedule request that the record does not hold. Most messages have no options.
struct ScheduleOptions {
  // Empty: none.
  std::string key;
  // Only for the scope of the request id. With a key it is empty or equal to the key.
  std::string ordering_key = {};
  std::string request_id;
  storage::Fingerprint content;
  OnConflict on_conflict = OnConflict::kFail;
  bool only_if_exists = false;
  // The shard answers and changes nothing.
  bool validate_only = false;
  // For kPushBack: the longest delay, counted from the first acceptance. 0: no bound.
  uint64_t max_wait_ms = 0;
  // The message is due at deliver_ms plus a part of the spread that follows from its id.
  uint64_t spread_ms = 0;
  // The end of the time to live, if the request gives it: a full minute does not move it. 0: none.
  uint64_t expire_ms = 0;
};

// A validated message for a shard. The caller's thread encodes the record, so that the engine's
// thread need not. The other fields repeat the parts of the record that the engine needs.
struct NewMessage {
  storage::TopicId topic{};
  // REQUIRES: the slot belongs to the shard.
  uint32_t slot = 0;
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  // EncodeMessageRecord's bytes.
  std::string record;
  uint32_t payload_bytes = 0;
  // storage::MessageFlags of the record.
  uint8_t flags = 0;
  // Null: none.
  std::unique_ptr<ScheduleOptions> options = nullptr;
};

// Encodes a record for the shard of `slot`. Topic and times come from the record's header.
NewMessage MakeNewMessage(const storage::MessageRecord& record, uint32_t slot);

}  // namespace duetime::protocol
