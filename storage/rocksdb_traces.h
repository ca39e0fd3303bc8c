// SPDX-License-Identifier: Apache-2.0
//
// FindTrace: where the tombstone of a message may lie in the row of another one.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "storage/locator.h"
#include "storage/rocksdb_damage.h"
#include "storage/rocksdb_range.h"
#include "storage/types.h"

namespace duetime::storage {

// The locator or tombstone of `id`, from its own row or from one of the at most 63 neighbours. With
// kFail, a row that cannot be read or decoded is an error; else it is left out.
absl::StatusOr<std::optional<Locator>> FindTrace(TableDamage* tables, uint16_t shard,
                                                 const MessageId& id, OnDamage on_damage);

}  // namespace duetime::storage
