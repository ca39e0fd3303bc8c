// SPDX-License-Identifier: Apache-2.0
//
// FindTrace: finds a tombstone that lies in the row of another message.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "storage/kv_store.h"
#include "storage/locator.h"
#include "storage/types.h"

namespace duetime::storage {

// Returns the locator or tombstone of `id`, from its own row or from one of up to 63 neighbours. A
// row that cannot be read or decoded is an error with kFail; otherwise the search leaves it out.
absl::StatusOr<std::optional<Locator>> FindTrace(KvSource* source, uint16_t shard,
                                                 const MessageId& id, OnDamage on_damage);

}  // namespace duetime::storage
