// SPDX-License-Identifier: Apache-2.0
#include "server/api/when.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/calendar/civil_time.h"
#include "server/calendar/zone.h"
#include "storage/message_id.h"

namespace duetime::api {
namespace {

constexpr absl::string_view kTimeReason = "DELIVER_TIME_OUT_OF_RANGE";

// The position of a field. Its path is made only for an error.
struct Place {
  int index = 0;
  absl::string_view name;
  std::string path() const { return FieldPath(index, name); }
};

absl::Status ResolveTimestamp(const google::protobuf::Timestamp& time, const Place& field,
                              When* when) {
  const std::optional<uint64_t> ms = TimestampToMs(time);
  if (!ms.has_value()) {
    return Invalid(kTimeReason, field.path(),
                   "not a valid timestamp: years 0001-9999, nanos 0 to 999999999");
  }
  when->deliver_ms = *ms;
  return absl::OkStatus();
}

absl::Status ResolveDelay(const google::protobuf::Duration& delay, const Place& field,
                          uint64_t now_ms, When* when) {
  const std::optional<uint64_t> ms = DurationToMs(delay);
  if (!ms.has_value())
    return Invalid(kTimeReason, field.path(), "negative or not a valid duration");
  // Cannot overflow: both are below 2^49.
  when->deliver_ms = now_ms + *ms;
  return absl::OkStatus();
}

absl::Status ResolveCivil(const v1::CivilTime& civil, const Place& place, When* when) {
  const std::string field = place.path();
  const auto time = calendar::ParseCivilTime(civil.local(), absl::StrCat(field, ".local"));
  if (!time.ok()) return time.status();
  const auto zone = calendar::FindZone(civil.time_zone(), absl::StrCat(field, ".time_zone"));
  if (!zone.ok()) return zone.status();
  const int64_t utc_ms = calendar::Resolve(*time, *zone).utc_ms;
  when->deliver_ms = static_cast<uint64_t>(std::max<int64_t>(utc_ms, 0));
  when->civil_time = civil.local();
  when->time_zone = civil.time_zone();
  return absl::OkStatus();
}

absl::Status CheckLatest(const When& when, const Place& field, uint64_t horizon_ms,
                         uint64_t now_ms) {
  if (when.deliver_ms <= LatestMs(horizon_ms, now_ms)) return absl::OkStatus();
  return OverLimit(kTimeReason, field.path(), when.deliver_ms - now_ms, horizon_ms, "ms ahead");
}

// The two requests have the same fields.
template <typename Request>
absl::Status Resolve(const Request& request, uint64_t horizon_ms, uint64_t now_ms, int index,
                     When* when) {
  *when = {};
  Place place{.index = index, .name = "deliver_time"};
  absl::Status status;
  switch (request.when_case()) {
    case Request::WHEN_NOT_SET:
      return Invalid("DELIVER_TIME_MISSING", place.path(),
                     "required: exactly one of deliver_time, delay and civil_time");
    case Request::kDeliverTime:
      status = ResolveTimestamp(request.deliver_time(), place, when);
      break;
    case Request::kDelay:
      place.name = "delay";
      status = ResolveDelay(request.delay(), place, now_ms, when);
      break;
    case Request::kCivilTime:
      place.name = "civil_time";
      status = ResolveCivil(request.civil_time(), place, when);
      break;
  }
  if (!status.ok()) return status;
  return CheckLatest(*when, place, horizon_ms, now_ms);
}

}  // namespace

uint64_t LatestMs(uint64_t horizon_ms, uint64_t now_ms) {
  const uint64_t latest = horizon_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + horizon_ms;
  return std::min(latest, storage::MessageId::kDueMax);
}

absl::Status ResolveWhen(const v1::ScheduleRequest& request, uint64_t horizon_ms, uint64_t now_ms,
                         int index, When* when) {
  return Resolve(request, horizon_ms, now_ms, index, when);
}

absl::Status ResolveWhen(const v1::RescheduleRequest& request, uint64_t horizon_ms, uint64_t now_ms,
                         When* when) {
  return Resolve(request, horizon_ms, now_ms, kSingle, when);
}

}  // namespace duetime::api
