// SPDX-License-Identifier: Apache-2.0
//
// Converts times between absl and Protobuf. The client library and its tools use it.
#pragma once

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace duetime::client {

// Rounds up to whole nanoseconds, so that the time is never early. A time that Protobuf cannot hold
// (before year 1, after 9999, infinite) becomes a time that the server refuses.
google::protobuf::Timestamp ToProto(absl::Time time);
// As above; an infinite duration becomes one beyond every horizon.
google::protobuf::Duration ToProto(absl::Duration duration);

absl::Time FromProto(const google::protobuf::Timestamp& time);
absl::Duration FromProto(const google::protobuf::Duration& duration);

}  // namespace duetime::client
