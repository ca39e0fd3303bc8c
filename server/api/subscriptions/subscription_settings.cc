// SPDX-License-Identifier: Apache-2.0
#include "server/api/subscriptions/subscription_settings.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/validation_error.h"

namespace duetime::api {
namespace {

using protocol::RetryPolicy;
using protocol::SubscriptionSettings;

static_assert(int{v1::RETENTION_POLICY_DROP} == int{SubscriptionSettings::DROP});
static_assert(int{v1::RETENTION_POLICY_DEAD_LETTER} == int{SubscriptionSettings::DEAD_LETTER});

constexpr absl::string_view kSubscriptionReason = "INVALID_SUBSCRIPTION_SETTINGS";
constexpr int32_t kAttemptsMax = 1'000'000;
constexpr double kMultiplierMax = 100;

// Reads a duration from `min_ms` to `max_ms`. `min_ms` is 0 or 1000.
absl::Status ReadDuration(const google::protobuf::Duration& duration, const std::string& field,
                          uint64_t min_ms, uint64_t max_ms, uint64_t* ms) {
  const std::optional<uint64_t> read = DurationToMs(duration);
  if (!read.has_value())
    return Invalid(kSubscriptionReason, field, "negative or not a valid duration");
  // Check the seconds as well, because DurationToMs rounds 999.5 ms up to 1 s.
  if (*read < min_ms || duration.seconds() < static_cast<int64_t>(min_ms / 1'000)) {
    return Invalid(kSubscriptionReason, field, absl::StrCat("less than ", min_ms, " ms"),
                   {{"limit_min_ms", absl::StrCat(min_ms)}});
  }
  if (*read > max_ms) return OverLimit(kSubscriptionReason, field, *read, max_ms, "ms");
  *ms = *read;
  return absl::OkStatus();
}

// Reads a number with two decimals, in hundredths. The negated condition also refuses NaN.
absl::Status ReadHundredths(double value, double min, double max, const std::string& field,
                            uint32_t* hundredths) {
  if (!(value >= min && value <= max)) {
    return Invalid(kSubscriptionReason, field, absl::StrCat("not within ", min, " to ", max),
                   {{"limit_min", absl::StrCat(min)}, {"limit_max", absl::StrCat(max)}});
  }
  *hundredths = static_cast<uint32_t>(std::lround(value * 100));
  return absl::OkStatus();
}

absl::Status ReadRetry(const v1::RetryPolicy& proto, absl::string_view path, RetryPolicy* retry) {
  *retry = protocol::DefaultSubscriptionSettings().retry();
  uint64_t min_ms = retry->min_backoff_ms();
  uint64_t max_ms = retry->max_backoff_ms();
  uint32_t multiplier = retry->multiplier_percent();
  uint32_t jitter = retry->jitter_percent();
  absl::Status status;
  if (proto.has_min_backoff()) {
    status = ReadDuration(proto.min_backoff(), absl::StrCat(path, ".min_backoff"), 0, kBackoffMsMax,
                          &min_ms);
  }
  if (status.ok() && proto.has_max_backoff()) {
    status = ReadDuration(proto.max_backoff(), absl::StrCat(path, ".max_backoff"), 0, kBackoffMsMax,
                          &max_ms);
  }
  // A default follows the value that is given.
  if (!proto.has_max_backoff()) {
    max_ms = std::max(max_ms, min_ms);
  } else if (!proto.has_min_backoff()) {
    min_ms = protocol::DefaultMinBackoffMs(max_ms);
  }
  if (status.ok() && proto.multiplier() != 0) {
    status = ReadHundredths(proto.multiplier(), 1, kMultiplierMax,
                            absl::StrCat(path, ".multiplier"), &multiplier);
  }
  if (status.ok() && proto.has_jitter()) {
    status = ReadHundredths(proto.jitter(), 0, 1, absl::StrCat(path, ".jitter"), &jitter);
  }
  if (!status.ok()) return status;
  const std::string attempts = absl::StrCat(path, ".max_attempts");
  if (proto.max_attempts() < 0) return Invalid(kSubscriptionReason, attempts, "negative");
  if (proto.max_attempts() > kAttemptsMax) {
    return OverLimit(kSubscriptionReason, attempts, static_cast<uint64_t>(proto.max_attempts()),
                     kAttemptsMax, "attempts");
  }
  retry->set_min_backoff_ms(min_ms);
  retry->set_max_backoff_ms(max_ms);
  retry->set_multiplier_percent(multiplier);
  retry->set_jitter_percent(jitter);
  retry->set_max_attempts(static_cast<uint32_t>(proto.max_attempts()));
  return absl::OkStatus();
}

absl::Status ReadRetention(const v1::SubscriptionSettings& proto, const RequestLimits& limits,
                           absl::string_view path, SubscriptionSettings* settings) {
  const google::protobuf::Duration& retention = proto.retention();
  if (retention.seconds() != 0 || retention.nanos() != 0) {
    uint64_t retention_ms = 0;
    absl::Status status = ReadDuration(retention, absl::StrCat(path, ".retention"), 1'000,
                                       limits.horizon_ms, &retention_ms);
    if (!status.ok()) return status;
    settings->set_retention_ms(retention_ms);
  }
  if (proto.retention_max_messages() < 0) {
    return Invalid(kSubscriptionReason, absl::StrCat(path, ".retention_max_messages"), "negative");
  }
  settings->set_retention_max_messages(static_cast<uint64_t>(proto.retention_max_messages()));
  if (!v1::RetentionPolicy_IsValid(proto.retention_policy())) {
    return Invalid(kSubscriptionReason, absl::StrCat(path, ".retention_policy"),
                   absl::StrCat("unknown value ", proto.retention_policy()),
                   {{"value", absl::StrCat(proto.retention_policy())}});
  }
  if (proto.retention_policy() != v1::RETENTION_POLICY_UNSPECIFIED) {
    settings->set_retention_policy(
        static_cast<SubscriptionSettings::RetentionPolicy>(proto.retention_policy()));
  }
  return absl::OkStatus();
}

// Reads everything, and does not compare the backoffs.
absl::Status ReadSettings(const v1::SubscriptionSettings& proto, absl::string_view topic,
                          const RequestLimits& limits, absl::string_view path,
                          SubscriptionSettings* settings) {
  *settings = protocol::DefaultSubscriptionSettings();
  absl::Status status;
  if (proto.has_lease_duration()) {
    uint64_t lease_ms = 0;
    status = ReadDuration(proto.lease_duration(), absl::StrCat(path, ".lease_duration"),
                          kLeaseMsMin, kLeaseMsMax, &lease_ms);
    settings->set_lease_ms(lease_ms);
  }
  if (status.ok()) {
    status = ReadRetry(proto.retry(), absl::StrCat(path, ".retry"), settings->mutable_retry());
  }
  if (status.ok()) status = ReadRetention(proto, limits, path, settings);
  if (!status.ok()) return status;
  settings->set_paused(proto.paused());
  settings->set_dead_letter_name(proto.dead_letter_topic());
  if (proto.dead_letter_topic().empty()) return absl::OkStatus();
  const std::string field = absl::StrCat(path, ".dead_letter_topic");
  if (proto.dead_letter_topic() == topic) {
    return Invalid(kSubscriptionReason, field,
                   "the topic itself: its dead letters would come back to it");
  }
  return ValidateName(kSubscriptionReason, field, proto.dead_letter_topic(), kTopicBytesMax);
}

// INVALID_SUBSCRIPTION_SETTINGS if the longest backoff is below the shortest. `names_max`: the
// request gives the longest one.
absl::Status CheckBackoff(const RetryPolicy& retry, absl::string_view path, bool names_max) {
  const uint64_t min_ms = retry.min_backoff_ms();
  const uint64_t max_ms = retry.max_backoff_ms();
  if (max_ms >= min_ms) return absl::OkStatus();
  if (names_max) {
    return Invalid(kSubscriptionReason, absl::StrCat(path, ".max_backoff"),
                   "less than min_backoff");
  }
  return Invalid(kSubscriptionReason, absl::StrCat(path, ".min_backoff"),
                 absl::StrCat(min_ms, " ms, more than max_backoff, ", max_ms,
                              " ms, which update_mask does not name"),
                 {{"value", absl::StrCat(min_ms)}, {"limit", absl::StrCat(max_ms)}});
}

}  // namespace

absl::Status ValidateSubscription(absl::string_view name, const std::string& field,
                                  absl::string_view* valid) {
  *valid = name.empty() ? kDefaultSubscription : name;
  return ValidateName("INVALID_SUBSCRIPTION", field, *valid, kSubscriptionBytesMax);
}

absl::Status ValidateSubscriptionSettings(const v1::SubscriptionSettings& proto,
                                          absl::string_view topic, const RequestLimits& limits,
                                          absl::string_view path, SubscriptionSettings* settings) {
  absl::Status status = ReadSettings(proto, topic, limits, path, settings);
  if (!status.ok()) return status;
  return CheckBackoff(settings->retry(), absl::StrCat(path, ".retry"), /*names_max=*/true);
}

absl::Status ApplySubscriptionMask(const SettingsMask& mask, const v1::SubscriptionSettings& from,
                                   absl::string_view topic, const RequestLimits& limits,
                                   SubscriptionSettings* settings) {
  constexpr absl::string_view kPath = "subscription.settings";
  v1::SubscriptionSettings merged;
  ToProto(*settings, &merged);
  // A default follows the value that is given, as it does where all settings are given.
  const RetryPolicy& defaults = protocol::DefaultSubscriptionSettings().retry();
  const RetryPolicy& retry = settings->retry();
  if (retry.min_backoff_ms() == defaults.min_backoff_ms()) {
    merged.mutable_retry()->clear_min_backoff();
  }
  if (retry.max_backoff_ms() == defaults.max_backoff_ms()) {
    merged.mutable_retry()->clear_max_backoff();
  }
  mask.Apply(from, &merged);
  absl::Status status =
      ReadSettings(merged, mask.Names("dead_letter_topic") ? topic : "",
                   mask.Names("retention") ? limits : LimitsOfStored(), kPath, settings);
  if (!status.ok()) return status;
  return CheckBackoff(settings->retry(), absl::StrCat(kPath, ".retry"),
                      mask.Names("retry.max_backoff"));
}

void ToProto(const SubscriptionSettings& settings, v1::SubscriptionSettings* proto) {
  if (settings.lease_ms() > 0) SetDuration(settings.lease_ms(), proto->mutable_lease_duration());
  const RetryPolicy& retry = settings.retry();
  v1::RetryPolicy* to = proto->mutable_retry();
  SetDuration(retry.min_backoff_ms(), to->mutable_min_backoff());
  SetDuration(retry.max_backoff_ms(), to->mutable_max_backoff());
  to->set_multiplier(retry.multiplier_percent() / 100.0);
  to->set_jitter(retry.jitter_percent() / 100.0);
  to->set_max_attempts(static_cast<int32_t>(retry.max_attempts()));
  proto->set_dead_letter_topic(settings.dead_letter_name());
  proto->set_paused(settings.paused());
  if (settings.retention_ms() > 0) SetDuration(settings.retention_ms(), proto->mutable_retention());
  proto->set_retention_max_messages(static_cast<int64_t>(settings.retention_max_messages()));
  proto->set_retention_policy(static_cast<v1::RetentionPolicy>(settings.retention_policy()));
}

}  // namespace duetime::api
