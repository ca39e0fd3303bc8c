// SPDX-License-Identifier: Apache-2.0
//
// Between protobuf's times and the server's whole milliseconds. Whatever is finer is rounded up, so
// that nothing is ever delivered before the moment that was asked for.
#pragma once

#include <cstdint>
#include <optional>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace duetime::api {

// UTC milliseconds of a timestamp, rounded up; 0 for any moment before 1970, which is as due as
// 1970 is. Nothing if it is not a well-formed Timestamp: years 0001-9999, nanos in [0,
// 999,999,999].
std::optional<uint64_t> TimestampToMs(const google::protobuf::Timestamp& time);

// Milliseconds of a duration, rounded up. Nothing if it is negative or not a well-formed Duration:
// at most 315,576,000,000 seconds, nanos in (-1e9, 1e9) and of the same sign as the seconds.
std::optional<uint64_t> DurationToMs(const google::protobuf::Duration& duration);

void SetTimestamp(uint64_t ms, google::protobuf::Timestamp* time);
void SetDuration(uint64_t ms, google::protobuf::Duration* duration);

}  // namespace duetime::api
