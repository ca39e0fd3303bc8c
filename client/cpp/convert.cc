// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/convert.h"

#include <cstdint>

namespace duetime::client {

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  // ToUnixSeconds always floors. IDivDuration floors positive spans only.
  const int64_t seconds = absl::ToUnixSeconds(time);
  proto.set_seconds(seconds);
  if (time == absl::InfiniteFuture() || time == absl::InfinitePast()) return proto;
  const absl::Duration rest =
      absl::Ceil(time - absl::FromUnixSeconds(seconds), absl::Nanoseconds(1));
  if (rest >= absl::Seconds(1)) {
    proto.set_seconds(seconds + 1);
  } else {
    proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  }
  return proto;
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  if (duration == absl::InfiniteDuration() || duration == -absl::InfiniteDuration()) {
    proto.set_seconds(absl::ToInt64Seconds(duration));
    return proto;
  }
  absl::Duration rest;
  // Truncates toward zero, so that seconds and nanos have the same sign, as Protobuf requires.
  const int64_t seconds =
      absl::IDivDuration(absl::Ceil(duration, absl::Nanoseconds(1)), absl::Seconds(1), &rest);
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos());
}

absl::Duration FromProto(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

}  // namespace duetime::client
