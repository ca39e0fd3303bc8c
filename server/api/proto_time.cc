// SPDX-License-Identifier: Apache-2.0
#include "server/api/proto_time.h"

namespace duetime::api {
namespace {

constexpr int64_t kTimestampSecondsMin = -62'135'596'800;  // 0001-01-01T00:00:00Z
constexpr int64_t kTimestampSecondsMax = 253'402'300'799;  // 9999-12-31T23:59:59Z
constexpr int64_t kDurationSecondsMax = 315'576'000'000;
constexpr int32_t kNanosMax = 999'999'999;
constexpr int32_t kNanosPerMs = 1'000'000;

// Cannot overflow, because the seconds were checked to be in [0, 4e11].
uint64_t ToMs(int64_t seconds, int32_t nanos) {
  return static_cast<uint64_t>(seconds) * 1000 +
         static_cast<uint64_t>((nanos + kNanosPerMs - 1) / kNanosPerMs);
}

}  // namespace

std::optional<uint64_t> TimestampToMs(const google::protobuf::Timestamp& time) {
  if (time.seconds() < kTimestampSecondsMin || time.seconds() > kTimestampSecondsMax) {
    return std::nullopt;
  }
  if (time.nanos() < 0 || time.nanos() > kNanosMax) return std::nullopt;
  if (time.seconds() < 0) return 0;
  return ToMs(time.seconds(), time.nanos());
}

std::optional<uint64_t> DurationToMs(const google::protobuf::Duration& duration) {
  if (duration.seconds() < 0 || duration.seconds() > kDurationSecondsMax) return std::nullopt;
  if (duration.nanos() < 0 || duration.nanos() > kNanosMax) return std::nullopt;
  return ToMs(duration.seconds(), duration.nanos());
}

void SetTimestamp(uint64_t ms, google::protobuf::Timestamp* time) {
  time->set_seconds(static_cast<int64_t>(ms / 1000));
  time->set_nanos(static_cast<int32_t>(ms % 1000) * kNanosPerMs);
}

void SetDuration(uint64_t ms, google::protobuf::Duration* duration) {
  SetDifference(static_cast<int64_t>(ms), duration);
}

void SetDifference(int64_t ms, google::protobuf::Duration* duration) {
  duration->set_seconds(ms / 1000);
  duration->set_nanos(static_cast<int32_t>(ms % 1000) * kNanosPerMs);
}

}  // namespace duetime::api
