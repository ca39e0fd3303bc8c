// SPDX-License-Identifier: Apache-2.0
//
// The errors with which a shard refuses to schedule a message. Errors that several rooms return are
// not here.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "server/protocol/new_message.h"
#include "server/protocol/replies.h"

namespace duetime::messages {

absl::Status ContentMismatchError(const protocol::ScheduleOptions& options,
                                  const storage::MessageId& id, protocol::MessageState state);
absl::Status RequestReusedError(const protocol::ScheduleOptions& options,
                                const storage::MessageId& id);
absl::Status TopicFullError(uint64_t limit);
absl::Status NothingToChangeError(const protocol::ScheduleOptions& options);
// `minute_ms`: when the minute begins.
absl::Status BucketFullError(uint64_t minute_ms, uint64_t limit);

}  // namespace duetime::messages
