// SPDX-License-Identifier: Apache-2.0
//
// The slot of a named message.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// The slot of `name` in `topic`: XXH3-64 of the topic's name, a zero byte and `name`, modulo the
// number of slots. Never change it: messages are found by it.
uint32_t SlotOfName(absl::string_view topic, absl::string_view name);

}  // namespace duetime::storage
