// SPDX-License-Identifier: Apache-2.0
//
// Why a shard refuses a message that is to be scheduled, beyond what more than one room says.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "server/delivery/commands.h"

namespace duetime::delivery {

absl::Status ContentMismatchError(const scheduler::Terms& terms, const storage::MessageId& id,
                                  MessageState state);
absl::Status RequestReusedError(const scheduler::Terms& terms, const storage::MessageId& id);
absl::Status TopicFullError(uint64_t limit);
absl::Status NothingToChangeError(const scheduler::Terms& terms);
// `minute_ms`: when the minute begins.
absl::Status BucketFullError(uint64_t minute_ms, uint64_t limit);

}  // namespace duetime::delivery
