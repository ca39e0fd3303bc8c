// SPDX-License-Identifier: Apache-2.0
#include "storage/slot.h"

// The hash is inlined from its header: no library to link.
#define XXH_INLINE_ALL
#include <string>
#include <xxhash.h>

#include "storage/message_id.h"

namespace duetime::storage {

uint32_t SlotOfName(absl::string_view topic, absl::string_view name) {
  std::string bytes;
  bytes.reserve(topic.size() + 1 + name.size());
  bytes.append(topic.data(), topic.size());
  bytes.push_back('\0');
  bytes.append(name.data(), name.size());
  return static_cast<uint32_t>(XXH3_64bits(bytes.data(), bytes.size()) % MessageId::kSlotCount);
}

}  // namespace duetime::storage
