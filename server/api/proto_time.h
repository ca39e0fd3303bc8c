// SPDX-License-Identifier: Apache-2.0
//
// Conversion between protobuf's times and the server's whole milliseconds. A finer time is rounded
// up, so that no message is delivered before the requested time (P2).
#pragma once

#include <cstdint>
#include <optional>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace duetime::api {

// UTC milliseconds of a timestamp, rounded up. Any moment before 1970 becomes 0, which is just as
// due. nullopt if it is not a well-formed Timestamp: years 0001-9999, nanos in [0, 999,999,999].
std::optional<uint64_t> TimestampToMs(const google::protobuf::Timestamp& time);

// Milliseconds of a duration, rounded up. nullopt if it is negative or not a well-formed Duration:
// at most 315,576,000,000 seconds, nanos in (-1e9, 1e9) and of the same sign as the seconds.
std::optional<uint64_t> DurationToMs(const google::protobuf::Duration& duration);

void SetTimestamp(uint64_t ms, google::protobuf::Timestamp* time);
void SetDuration(uint64_t ms, google::protobuf::Duration* duration);
// The same for a time that may be negative.
void SetDifference(int64_t ms, google::protobuf::Duration* duration);

}  // namespace duetime::api
