// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "storage/types.h"

namespace duetime::scheduler {

// A validated message on its way in; its record is encoded on the caller's thread.
struct NewMessage {
  storage::TopicId topic{};
  // REQUIRES: the slot belongs to the shard.
  uint32_t slot = 0;
  uint64_t deliver_ms = 0;
  std::string record;
};

}  // namespace duetime::scheduler
