// SPDX-License-Identifier: Apache-2.0
#include "server/api/topics/topic_settings.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/protocol/commands.h"
#include "storage/time_units.h"

namespace duetime::api {
namespace {

constexpr uint64_t kRateMax = 1'000'000;
using storage::kMinuteMs;
constexpr uint64_t kSpreadMsMax = storage::kDayMs;

constexpr absl::string_view kTopicReason = "INVALID_TOPIC_SETTINGS";

absl::Status ReadDuration(const google::protobuf::Duration& duration, const std::string& field,
                          uint64_t limit_ms, uint64_t* ms) {
  const std::optional<uint64_t> read = DurationToMs(duration);
  if (!read.has_value()) return Invalid(kTopicReason, field, "negative or not a valid duration");
  if (*read > limit_ms) return OverLimit(kTopicReason, field, *read, limit_ms, "ms");
  *ms = *read;
  return absl::OkStatus();
}

// Reads a number from 0 to `limit`.
absl::Status ReadAmount(int64_t value, uint64_t limit, absl::string_view unit,
                        const std::string& field, uint64_t* amount) {
  if (value < 0) return Invalid(kTopicReason, field, "negative");
  *amount = static_cast<uint64_t>(value);
  return *amount <= limit ? absl::OkStatus() : OverLimit(kTopicReason, field, *amount, limit, unit);
}

absl::Status ReadRate(const v1::DeliveryRate& rate, absl::string_view path,
                      TopicSettings* settings) {
  const std::string field = absl::StrCat(path, ".rate.messages_per_second");
  absl::Status status =
      ReadAmount(rate.messages_per_second(), kRateMax, "messages", field, &settings->rate_per_s);
  if (status.ok() && settings->rate_per_s == 0)
    status = Invalid(kTopicReason, field, "less than 1");
  if (status.ok()) {
    status = ReadAmount(rate.burst(), kRateMax, "messages", absl::StrCat(path, ".rate.burst"),
                        &settings->burst);
  }
  if (settings->burst == 0) settings->burst = settings->rate_per_s;
  return status;
}

absl::Status ReadMinuteLimit(const v1::MinuteLimit& limit, absl::string_view path,
                             TopicSettings* settings) {
  using protocol::BucketPolicy;
  const std::string field = absl::StrCat(path, ".minute_limit");
  if (limit.messages() < 1) {
    return Invalid(kTopicReason, absl::StrCat(field, ".messages"), "less than 1");
  }
  settings->minute_max = static_cast<uint64_t>(limit.messages());
  switch (limit.policy()) {
    case v1::MinuteLimit::POLICY_UNSPECIFIED:
    case v1::MinuteLimit::POLICY_WARN:
      settings->minute_policy = BucketPolicy::kWarn;
      break;
    case v1::MinuteLimit::POLICY_REFUSE:
      settings->minute_policy = BucketPolicy::kRefuse;
      break;
    case v1::MinuteLimit::POLICY_SPREAD:
      settings->minute_policy = BucketPolicy::kSpread;
      break;
    default:
      return Invalid(kTopicReason, absl::StrCat(field, ".policy"), "unknown");
  }
  const std::string spread = absl::StrCat(field, ".spread_max");
  if (settings->minute_policy != BucketPolicy::kSpread) {
    return limit.has_spread_max() ? Invalid(kTopicReason, spread, "only with SPREAD")
                                  : absl::OkStatus();
  }
  absl::Status status =
      ReadDuration(limit.spread_max(), spread, kSpreadMsMax, &settings->minute_spread_ms);
  if (status.ok() && settings->minute_spread_ms < kMinuteMs) {
    status = Invalid(kTopicReason, spread, "less than a minute");
  }
  return status;
}

v1::MinuteLimit::Policy PolicyToProto(protocol::BucketPolicy policy) {
  switch (policy) {
    case protocol::BucketPolicy::kWarn:
      return v1::MinuteLimit::POLICY_WARN;
    case protocol::BucketPolicy::kRefuse:
      return v1::MinuteLimit::POLICY_REFUSE;
    case protocol::BucketPolicy::kSpread:
      return v1::MinuteLimit::POLICY_SPREAD;
  }
  return v1::MinuteLimit::POLICY_UNSPECIFIED;
}

// Copies one field. False if no field has that name.
bool ApplyPath(absl::string_view path, const TopicSettings& from, TopicSettings* settings) {
  if (path == "settings") {
    *settings = from;
  } else if (path == "settings.max_pending") {
    settings->max_pending = from.max_pending;
  } else if (path == "settings.max_payload_bytes") {
    settings->max_payload_bytes = from.max_payload_bytes;
  } else if (path == "settings.default_ttl") {
    settings->default_ttl_ms = from.default_ttl_ms;
  } else if (path == "settings.tombstone_retention") {
    settings->tombstone_retention_ms = from.tombstone_retention_ms;
  } else if (path == "settings.rate") {
    settings->rate_per_s = from.rate_per_s;
    settings->burst = from.burst;
  } else if (path == "settings.paused") {
    settings->paused = from.paused;
  } else if (path == "settings.minute_limit") {
    settings->minute_max = from.minute_max;
    settings->minute_policy = from.minute_policy;
    settings->minute_spread_ms = from.minute_spread_ms;
  } else if (path == "settings.dead_letter_topic") {
    settings->dead_letter_topic = from.dead_letter_topic;
  } else {
    return false;
  }
  return true;
}

}  // namespace

absl::Status ValidateTopicSettings(const v1::TopicSettings& proto, absl::string_view topic,
                                   const RequestLimits& limits, absl::string_view path,
                                   TopicSettings* settings) {
  *settings = {};
  absl::Status status =
      ReadAmount(proto.max_pending(), std::numeric_limits<int64_t>::max(), "messages",
                 absl::StrCat(path, ".max_pending"), &settings->max_pending);
  if (status.ok()) {
    status = ReadAmount(proto.max_payload_bytes(), limits.payload_bytes_max, "bytes",
                        absl::StrCat(path, ".max_payload_bytes"), &settings->max_payload_bytes);
  }
  if (status.ok()) {
    status = ReadDuration(proto.default_ttl(), absl::StrCat(path, ".default_ttl"),
                          limits.horizon_ms, &settings->default_ttl_ms);
  }
  if (status.ok() && proto.has_tombstone_retention()) {
    settings->tombstone_retention_ms = 0;
    status = ReadDuration(proto.tombstone_retention(), absl::StrCat(path, ".tombstone_retention"),
                          kTombstoneRetentionMsMax, &*settings->tombstone_retention_ms);
  }
  if (status.ok() && proto.has_rate()) status = ReadRate(proto.rate(), path, settings);
  if (status.ok() && proto.has_minute_limit()) {
    status = ReadMinuteLimit(proto.minute_limit(), path, settings);
  }
  settings->paused = proto.paused();
  settings->dead_letter_topic = proto.dead_letter_topic();
  if (!status.ok() || settings->dead_letter_topic.empty()) return status;
  const std::string field = absl::StrCat(path, ".dead_letter_topic");
  if (settings->dead_letter_topic == topic) {
    return Invalid(kTopicReason, field, "the topic itself: its dead letters would come back to it");
  }
  return ValidateName(kTopicReason, field, settings->dead_letter_topic, kTopicBytesMax);
}

absl::Status ApplyTopicMask(const google::protobuf::FieldMask& mask, const TopicSettings& from,
                            TopicSettings* settings) {
  constexpr absl::string_view kMaskReason = "INVALID_UPDATE_MASK";
  if (mask.paths().empty()) return Invalid(kMaskReason, "update_mask", "required");
  for (const std::string& path : mask.paths()) {
    if (!ApplyPath(path, from, settings)) {
      return Invalid(kMaskReason, "update_mask", "a path is not one of a topic's settings");
    }
  }
  return absl::OkStatus();
}

void ToProto(const TopicSettings& settings, v1::TopicSettings* proto) {
  proto->set_max_pending(static_cast<int64_t>(settings.max_pending));
  proto->set_max_payload_bytes(static_cast<int64_t>(settings.max_payload_bytes));
  if (settings.default_ttl_ms > 0) {
    SetDuration(settings.default_ttl_ms, proto->mutable_default_ttl());
  }
  if (settings.tombstone_retention_ms.has_value()) {
    SetDuration(*settings.tombstone_retention_ms, proto->mutable_tombstone_retention());
  }
  if (settings.rate_per_s > 0) {
    proto->mutable_rate()->set_messages_per_second(static_cast<int64_t>(settings.rate_per_s));
    proto->mutable_rate()->set_burst(static_cast<int64_t>(settings.burst));
  }
  if (settings.minute_max > 0) {
    v1::MinuteLimit* const limit = proto->mutable_minute_limit();
    limit->set_messages(static_cast<int64_t>(settings.minute_max));
    limit->set_policy(PolicyToProto(settings.minute_policy));
    if (settings.minute_spread_ms > 0) {
      SetDuration(settings.minute_spread_ms, limit->mutable_spread_max());
    }
  }
  proto->set_paused(settings.paused);
  proto->set_dead_letter_topic(settings.dead_letter_topic);
}

}  // namespace duetime::api
