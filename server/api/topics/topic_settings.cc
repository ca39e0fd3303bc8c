// SPDX-License-Identifier: Apache-2.0
#include "server/api/topics/topic_settings.h"

#include <limits>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "storage/time_units.h"

namespace duetime::api {
namespace {

constexpr uint64_t kRateMax = 1'000'000;
using storage::kMinuteMs;
constexpr uint64_t kSpreadMsMax = storage::kDayMs;

constexpr absl::string_view kTopicReason = "INVALID_TOPIC_SETTINGS";

static_assert(int{v1::MinuteLimit::POLICY_WARN} == int{TopicSettings::WARN});
static_assert(int{v1::MinuteLimit::POLICY_REFUSE} == int{TopicSettings::REFUSE});
static_assert(int{v1::MinuteLimit::POLICY_SPREAD} == int{TopicSettings::SPREAD});

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
  uint64_t rate_per_s = 0;
  uint64_t burst = 0;
  absl::Status status =
      ReadAmount(rate.messages_per_second(), kRateMax, "messages", field, &rate_per_s);
  if (status.ok() && rate_per_s == 0) status = Invalid(kTopicReason, field, "less than 1");
  if (status.ok()) {
    status =
        ReadAmount(rate.burst(), kRateMax, "messages", absl::StrCat(path, ".rate.burst"), &burst);
  }
  settings->set_rate_per_s(rate_per_s);
  settings->set_burst(burst > 0 ? burst : rate_per_s);
  return status;
}

absl::Status ReadMinuteLimit(const v1::MinuteLimit& limit, absl::string_view path,
                             TopicSettings* settings) {
  const std::string field = absl::StrCat(path, ".minute_limit");
  if (limit.messages() < 1) {
    return Invalid(kTopicReason, absl::StrCat(field, ".messages"), "less than 1");
  }
  if (!v1::MinuteLimit::Policy_IsValid(limit.policy())) {
    return Invalid(kTopicReason, absl::StrCat(field, ".policy"), "unknown");
  }
  settings->set_minute_max(static_cast<uint64_t>(limit.messages()));
  settings->set_minute_policy(limit.policy() == v1::MinuteLimit::POLICY_UNSPECIFIED
                                  ? TopicSettings::WARN
                                  : static_cast<TopicSettings::BucketPolicy>(limit.policy()));
  const std::string spread = absl::StrCat(field, ".spread_max");
  if (settings->minute_policy() != TopicSettings::SPREAD) {
    return limit.has_spread_max() ? Invalid(kTopicReason, spread, "only with SPREAD")
                                  : absl::OkStatus();
  }
  uint64_t spread_ms = 0;
  absl::Status status = ReadDuration(limit.spread_max(), spread, kSpreadMsMax, &spread_ms);
  if (status.ok() && spread_ms < kMinuteMs) {
    status = Invalid(kTopicReason, spread, "less than a minute");
  }
  settings->set_minute_spread_ms(spread_ms);
  return status;
}

}  // namespace

absl::Status ValidateTopicSettings(const v1::TopicSettings& proto, absl::string_view topic,
                                   const RequestLimits& limits, absl::string_view path,
                                   TopicSettings* settings) {
  settings->Clear();
  uint64_t number = 0;
  absl::Status status = ReadAmount(proto.max_pending(), std::numeric_limits<int64_t>::max(),
                                   "messages", absl::StrCat(path, ".max_pending"), &number);
  settings->set_max_pending(number);
  if (status.ok()) {
    status = ReadAmount(proto.max_payload_bytes(), limits.payload_bytes_max, "bytes",
                        absl::StrCat(path, ".max_payload_bytes"), &number);
    settings->set_max_payload_bytes(number);
  }
  if (status.ok()) {
    status = ReadDuration(proto.default_ttl(), absl::StrCat(path, ".default_ttl"),
                          limits.horizon_ms, &number);
    settings->set_default_ttl_ms(number);
  }
  if (status.ok() && proto.has_tombstone_retention()) {
    status = ReadDuration(proto.tombstone_retention(), absl::StrCat(path, ".tombstone_retention"),
                          kTombstoneRetentionMsMax, &number);
    settings->set_tombstone_retention_ms(number);
  }
  if (status.ok() && proto.has_rate()) status = ReadRate(proto.rate(), path, settings);
  if (status.ok() && proto.has_minute_limit()) {
    status = ReadMinuteLimit(proto.minute_limit(), path, settings);
  }
  settings->set_paused(proto.paused());
  settings->set_dead_letter_topic(proto.dead_letter_topic());
  if (!status.ok() || proto.dead_letter_topic().empty()) return status;
  const std::string field = absl::StrCat(path, ".dead_letter_topic");
  if (proto.dead_letter_topic() == topic) {
    return Invalid(kTopicReason, field, "the topic itself: its dead letters would come back to it");
  }
  return ValidateName(kTopicReason, field, proto.dead_letter_topic(), kTopicBytesMax);
}

absl::Status ApplyTopicMask(const SettingsMask& mask, const v1::TopicSettings& from,
                            absl::string_view topic, const RequestLimits& limits,
                            TopicSettings* settings) {
  v1::TopicSettings merged;
  ToProto(*settings, &merged);
  if (settings->burst() == settings->rate_per_s() && merged.has_rate()) {
    merged.mutable_rate()->clear_burst();
  }
  mask.Apply(from, &merged);
  RequestLimits of_named = LimitsOfStored();
  if (mask.Names("default_ttl")) of_named.horizon_ms = limits.horizon_ms;
  if (mask.Names("max_payload_bytes")) of_named.payload_bytes_max = limits.payload_bytes_max;
  return ValidateTopicSettings(merged, mask.Names("dead_letter_topic") ? topic : "", of_named,
                               "topic.settings", settings);
}

void ToProto(const TopicSettings& settings, v1::TopicSettings* proto) {
  proto->set_max_pending(static_cast<int64_t>(settings.max_pending()));
  proto->set_max_payload_bytes(static_cast<int64_t>(settings.max_payload_bytes()));
  if (settings.default_ttl_ms() > 0) {
    SetDuration(settings.default_ttl_ms(), proto->mutable_default_ttl());
  }
  if (settings.has_tombstone_retention_ms()) {
    SetDuration(settings.tombstone_retention_ms(), proto->mutable_tombstone_retention());
  }
  if (settings.rate_per_s() > 0) {
    proto->mutable_rate()->set_messages_per_second(static_cast<int64_t>(settings.rate_per_s()));
    proto->mutable_rate()->set_burst(static_cast<int64_t>(settings.burst()));
  }
  if (settings.minute_max() > 0) {
    v1::MinuteLimit* const limit = proto->mutable_minute_limit();
    limit->set_messages(static_cast<int64_t>(settings.minute_max()));
    limit->set_policy(static_cast<v1::MinuteLimit::Policy>(settings.minute_policy()));
    if (settings.minute_spread_ms() > 0) {
      SetDuration(settings.minute_spread_ms(), limit->mutable_spread_max());
    }
  }
  proto->set_paused(settings.paused());
  proto->set_dead_letter_topic(settings.dead_letter_topic());
}

}  // namespace duetime::api
