// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "storage/trace.h"
#include "storage/types.h"

namespace duetime::scheduler {

// What to do when there is already a message under the key.
enum class OnConflict : uint8_t { kFail, kReplace, kKeepTime, kPushBack };

// What a message asks for beyond its time: most have none of it.
struct Terms {
  // Empty: none.
  std::string key;
  std::string request_id;
  storage::Fingerprint content;
  OnConflict on_conflict = OnConflict::kFail;
  bool only_if_exists = false;
  // Decide, and change nothing.
  bool validate_only = false;
  // For kPushBack: no later than this after the first acceptance. 0: no bound.
  uint64_t max_wait_ms = 0;
  // The message is delivered at a point within this after deliver_ms, chosen from its id.
  uint64_t spread_ms = 0;
};

// A validated message on its way in; its record is encoded on the caller's thread.
struct NewMessage {
  storage::TopicId topic{};
  // REQUIRES: the slot belongs to the shard.
  uint32_t slot = 0;
  uint64_t deliver_ms = 0;
  // EncodeMessageRecord's bytes; holds the key, too.
  std::string record;
  // MessageFlags of the record.
  uint8_t flags = 0;
  // Null: a plain message.
  std::unique_ptr<Terms> terms = nullptr;
};

}  // namespace duetime::scheduler
