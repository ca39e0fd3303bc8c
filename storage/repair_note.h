// SPDX-License-Identifier: Apache-2.0
//
// RepairNote: what a repair that lost records leaves to the first start of the new directory.
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

#include "storage/types.h"

namespace duetime::storage {

// An object of ObjectKind::kCatalog in this partition, which no shard has. Its value is a number
// (value_codec.h): the greatest number of a subscription that a record outside the family `objects`
// names, or 0 if none is at least kSecondSubscription. The catalog mends its records, and then
// erases the note.
inline constexpr uint16_t kRepairNotePartition = kNoShard;
inline constexpr absl::string_view kRepairNoteName = "repaired";

}  // namespace duetime::storage
