// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/schedule_validation.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/base/name_char.h"

namespace duetime::api {
namespace {

absl::Status ValidateAttributes(const v1::ScheduleRequest& request, const RequestLimits& limits,
                                int index, ValidSchedule* valid) {
  constexpr absl::string_view kReason = "INVALID_ATTRIBUTES";
  valid->attributes.clear();
  const auto& attributes = request.attributes();
  if (attributes.empty()) return absl::OkStatus();
  const std::string field = FieldPath(index, "attributes");
  if (attributes.size() > limits.attributes_max) {
    return OverLimit(kReason, field, attributes.size(), limits.attributes_max, "pairs");
  }
  size_t bytes = 0;
  for (const auto& [key, value] : attributes) {
    if (key.empty()) return Invalid(kReason, field, "a key is empty");
    if (key.size() > kAttributeKeyBytesMax) {
      return OverLimit(kReason, field, key.size(), kAttributeKeyBytesMax, "bytes in a key");
    }
    bytes += key.size() + value.size();
    valid->attributes.emplace_back(key, value);
  }
  if (bytes > limits.attributes_bytes_max) {
    return OverLimit(kReason, field, bytes, limits.attributes_bytes_max, "bytes");
  }
  return absl::OkStatus();
}

bool IsPlain(const v1::ScheduleRequest& request) {
  return request.key().empty() && request.ordering_key().empty() && request.request_id().empty() &&
         request.labels().empty() && request.on_conflict() == 0 && request.late_policy() == 0 &&
         !request.has_max_wait() && !request.only_if_exists() && !request.validate_only() &&
         request.lifetime_case() == v1::ScheduleRequest::LIFETIME_NOT_SET &&
         !request.has_spread() && !request.has_civil_time();
}

// INVALID_KEY, INVALID_ORDERING_KEY, INVALID_REQUEST_ID.
absl::Status ValidateNames(const v1::ScheduleRequest& request, int index, ValidSchedule* valid) {
  valid->key = request.key();
  valid->ordering_key = request.ordering_key();
  valid->request_id = request.request_id();
  if (valid->key.size() > kKeyBytesMax) return ValidateKey(valid->key, FieldPath(index, "key"));
  if (valid->ordering_key.size() > kOrderingKeyBytesMax) {
    return OverLimit("INVALID_ORDERING_KEY", FieldPath(index, "ordering_key"),
                     valid->ordering_key.size(), kOrderingKeyBytesMax, "bytes");
  }
  if (!valid->key.empty() && !valid->ordering_key.empty() && valid->key != valid->ordering_key) {
    return Invalid("INVALID_ORDERING_KEY", FieldPath(index, "ordering_key"),
                   "with a key it must be equal to the key, which decides the shard");
  }
  if (valid->request_id.size() > kRequestIdBytesMax) {
    return OverLimit("INVALID_REQUEST_ID", FieldPath(index, "request_id"), valid->request_id.size(),
                     kRequestIdBytesMax, "bytes");
  }
  return absl::OkStatus();
}

// INVALID_ON_CONFLICT.
absl::Status ValidateConflict(const v1::ScheduleRequest& request, const RequestLimits& limits,
                              int index, ValidSchedule* valid) {
  constexpr absl::string_view kReason = "INVALID_ON_CONFLICT";
  using Proto = v1::ScheduleRequest;
  using protocol::OnConflict;
  switch (request.on_conflict()) {
    case Proto::ON_CONFLICT_UNSPECIFIED:
    case Proto::ON_CONFLICT_FAIL:
      valid->on_conflict = OnConflict::kFail;
      break;
    case Proto::ON_CONFLICT_REPLACE:
      valid->on_conflict = OnConflict::kReplace;
      break;
    case Proto::ON_CONFLICT_KEEP_TIME:
      valid->on_conflict = OnConflict::kKeepTime;
      break;
    case Proto::ON_CONFLICT_PUSH_BACK:
      valid->on_conflict = OnConflict::kPushBack;
      break;
    case Proto::ON_CONFLICT_ONCE:
      valid->on_conflict = OnConflict::kOnce;
      break;
    default:
      return Invalid(kReason, FieldPath(index, "on_conflict"),
                     absl::StrCat("unknown value ", request.on_conflict()),
                     {{"value", absl::StrCat(request.on_conflict())}});
  }
  if (valid->key.empty() && request.on_conflict() != Proto::ON_CONFLICT_UNSPECIFIED) {
    return Invalid(kReason, FieldPath(index, "on_conflict"), "only with a key");
  }
  valid->only_if_exists = request.only_if_exists();
  if (valid->only_if_exists && (valid->key.empty() || !protocol::Replaces(valid->on_conflict))) {
    return Invalid(kReason, FieldPath(index, "only_if_exists"),
                   "only with a key and REPLACE, KEEP_TIME or PUSH_BACK");
  }
  valid->max_wait_ms = 0;
  if (!request.has_max_wait()) return absl::OkStatus();
  const std::string field = FieldPath(index, "max_wait");
  if (valid->on_conflict != OnConflict::kPushBack) {
    return Invalid(kReason, field, "only with PUSH_BACK");
  }
  const std::optional<uint64_t> ms = DurationToMs(request.max_wait());
  if (!ms.has_value()) return Invalid(kReason, field, "negative or not a valid duration");
  if (*ms > limits.horizon_ms) return OverLimit(kReason, field, *ms, limits.horizon_ms, "ms");
  valid->max_wait_ms = *ms;
  return absl::OkStatus();
}

// INVALID_SPREAD. Needs valid->when.
absl::Status ValidateSpread(const v1::ScheduleRequest& request, const RequestLimits& limits,
                            uint64_t now_ms, int index, ValidSchedule* valid) {
  valid->spread_ms = 0;
  if (!request.has_spread()) return absl::OkStatus();
  const std::string field = FieldPath(index, "spread");
  const std::optional<uint64_t> ms = DurationToMs(request.spread());
  if (!ms.has_value()) {
    return Invalid("INVALID_SPREAD", field, "negative or not a valid duration");
  }
  if (valid->when.deliver_ms + *ms > LatestMs(limits.horizon_ms, now_ms)) {
    return OverLimit("INVALID_SPREAD", field, valid->when.deliver_ms + *ms - now_ms,
                     limits.horizon_ms, "ms ahead at its end");
  }
  valid->spread_ms = *ms;
  return absl::OkStatus();
}

absl::Status ValidateExpireTime(const v1::ScheduleRequest& request, const std::string& field,
                                ValidSchedule* valid) {
  using protocol::OnConflict;
  if (valid->spread_ms > 0 || valid->on_conflict == OnConflict::kKeepTime ||
      valid->on_conflict == OnConflict::kPushBack) {
    return Invalid("INVALID_TTL", field,
                   "not with spread, KEEP_TIME or PUSH_BACK, whose deliver_time is not known "
                   "beforehand: use ttl");
  }
  const std::optional<uint64_t> ms = TimestampToMs(request.expire_time());
  if (!ms.has_value()) {
    return Invalid("INVALID_TTL", field,
                   "not a valid timestamp: years 0001-9999, nanos 0 to 999999999");
  }
  if (*ms <= valid->when.deliver_ms) {
    return Invalid("INVALID_TTL", field, "not after the deliver_time");
  }
  valid->ttl_ms = *ms - valid->when.deliver_ms;
  valid->expire_ms = *ms;
  return absl::OkStatus();
}

// INVALID_TTL, INVALID_LATE_POLICY. Needs when, spread and on_conflict.
absl::Status ValidateLifetime(const v1::ScheduleRequest& request, const RequestLimits& limits,
                              int index, ValidSchedule* valid) {
  valid->ttl_ms = valid->expire_ms = 0;
  std::string field;
  if (request.has_ttl()) {
    field = FieldPath(index, "ttl");
    const std::optional<uint64_t> ms = DurationToMs(request.ttl());
    if (!ms.has_value() || *ms == 0) {
      return Invalid("INVALID_TTL", field, "not more than 0 or not a valid duration");
    }
    valid->ttl_ms = *ms;
  } else if (request.has_expire_time()) {
    field = FieldPath(index, "expire_time");
    if (absl::Status status = ValidateExpireTime(request, field, valid); !status.ok()) {
      return status;
    }
  }
  if (valid->ttl_ms > limits.horizon_ms) {
    return OverLimit("INVALID_TTL", field, valid->ttl_ms, limits.horizon_ms, "ms");
  }
  return ValidateLatePolicy(request.late_policy(), FieldPath(index, "late_policy"),
                            &valid->late_policy);
}

}  // namespace

absl::Status ValidateLatePolicy(v1::Message::LatePolicy policy, const std::string& field,
                                storage::LatePolicy* valid) {
  constexpr absl::string_view kReason = "INVALID_LATE_POLICY";
  switch (policy) {
    case v1::Message::LATE_POLICY_UNSPECIFIED:
    case v1::Message::LATE_POLICY_DELIVER:
      *valid = storage::LatePolicy::kDeliver;
      return absl::OkStatus();
    case v1::Message::LATE_POLICY_DROP:
      *valid = storage::LatePolicy::kDrop;
      return absl::OkStatus();
    case v1::Message::LATE_POLICY_DEAD_LETTER:
      *valid = storage::LatePolicy::kDeadLetter;
      return absl::OkStatus();
    default:
      return Invalid(kReason, field, absl::StrCat("unknown value ", policy),
                     {{"value", absl::StrCat(policy)}});
  }
}

absl::Status ValidateLabels(const google::protobuf::Map<std::string, std::string>& labels,
                            size_t labels_max, const std::string& field,
                            ValidSchedule::Pairs* valid) {
  constexpr absl::string_view kReason = "INVALID_LABELS";
  if (labels.size() > labels_max) {
    return OverLimit(kReason, field, labels.size(), labels_max, "pairs");
  }
  for (const auto& [key, value] : labels) {
    if (absl::Status status = ValidateName(kReason, field, key, kLabelKeyBytesMax); !status.ok()) {
      return status;
    }
    if (value.size() > kLabelValueBytesMax) {
      return OverLimit(kReason, field, value.size(), kLabelValueBytesMax, "bytes in a value");
    }
    valid->emplace_back(key, value);
  }
  return absl::OkStatus();
}

absl::Status ApplyTopicSettings(const TopicSettings& settings, int index, ValidSchedule* valid) {
  if (settings.max_payload_bytes() > 0 && valid->payload.size() > settings.max_payload_bytes()) {
    return OverLimit("PAYLOAD_TOO_LARGE", FieldPath(index, "payload"), valid->payload.size(),
                     settings.max_payload_bytes(), "bytes (of the topic)");
  }
  if (valid->plain) {
    valid->ttl_ms = 0;
    valid->late_policy = storage::LatePolicy::kDeliver;
  }
  if (valid->ttl_ms == 0) valid->ttl_ms = settings.default_ttl_ms();
  if (valid->ttl_ms == 0 && valid->late_policy != storage::LatePolicy::kDeliver) {
    return Invalid("INVALID_LATE_POLICY", FieldPath(index, "late_policy"),
                   "DROP and DEAD_LETTER need a ttl or an expire_time");
  }
  return absl::OkStatus();
}

absl::Status CheckOnce(uint64_t tombstone_retention_ms, int index, const ValidSchedule& valid) {
  const bool once = !valid.plain && valid.on_conflict == protocol::OnConflict::kOnce;
  if (!once || tombstone_retention_ms > 0) return absl::OkStatus();
  return Invalid("INVALID_ON_CONFLICT", FieldPath(index, "on_conflict"),
                 "ONCE needs a tombstone_retention of the topic, which is 0: the server would not "
                 "know the message after its end");
}

absl::Status ValidateSchedule(const v1::ScheduleRequest& request, const RequestLimits& limits,
                              uint64_t now_ms, int index, ValidSchedule* valid) {
  if (request.topic().empty() || request.topic().size() > kTopicBytesMax ||
      !std::all_of(request.topic().begin(), request.topic().end(), base::IsNameChar)) {
    return ValidateTopic(request.topic(), FieldPath(index, "topic"));
  }
  if (request.payload().size() > limits.payload_bytes_max) {
    return OverLimit("PAYLOAD_TOO_LARGE", FieldPath(index, "payload"), request.payload().size(),
                     limits.payload_bytes_max, "bytes");
  }
  absl::Status status = ValidateAttributes(request, limits, index, valid);
  if (status.ok()) status = ResolveWhen(request, limits.horizon_ms, now_ms, index, &valid->when);
  if (!status.ok()) return status;
  valid->topic = request.topic();
  valid->payload = request.payload();
  valid->plain = IsPlain(request);
  if (valid->plain) return absl::OkStatus();
  valid->labels.clear();
  valid->validate_only = request.validate_only();
  status = ValidateNames(request, index, valid);
  if (status.ok()) status = ValidateConflict(request, limits, index, valid);
  if (status.ok()) status = ValidateSpread(request, limits, now_ms, index, valid);
  if (status.ok()) status = ValidateLifetime(request, limits, index, valid);
  if (status.ok()) {
    status = ValidateLabels(request.labels(), limits.labels_max, FieldPath(index, "labels"),
                            &valid->labels);
  }
  return status;
}

}  // namespace duetime::api
