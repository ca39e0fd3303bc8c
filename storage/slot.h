// SPDX-License-Identifier: Apache-2.0
//
// Which slot a named message goes to.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// The slot of what is called `name` in `topic`: XXH3-64 of the topic's name, a zero byte and
// `name`, modulo the number of slots. The same for ever, because what is in a slot is found again
// by it.
uint32_t SlotOfName(absl::string_view topic, absl::string_view name);

}  // namespace duetime::storage
