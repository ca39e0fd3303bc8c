// SPDX-License-Identifier: Apache-2.0
#include "server/api/subscriptions/subscription_settings.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/base/error.h"

namespace duetime::api {
namespace {

using protocol::RetentionPolicy;
using protocol::RetryPolicy;
using protocol::SubscriptionSettings;

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
  *retry = {};
  absl::Status status;
  if (proto.has_min_backoff()) {
    status = ReadDuration(proto.min_backoff(), absl::StrCat(path, ".min_backoff"), 0, kBackoffMsMax,
                          &retry->min_backoff_ms);
  }
  if (status.ok() && proto.has_max_backoff()) {
    status = ReadDuration(proto.max_backoff(), absl::StrCat(path, ".max_backoff"), 0, kBackoffMsMax,
                          &retry->max_backoff_ms);
  }
  // A default follows the value that is given.
  if (!proto.has_max_backoff()) {
    retry->max_backoff_ms = std::max(retry->max_backoff_ms, retry->min_backoff_ms);
  } else if (!proto.has_min_backoff()) {
    retry->min_backoff_ms = RetryPolicy::DefaultMinBackoffMs(retry->max_backoff_ms);
  }
  if (status.ok() && proto.multiplier() != 0) {
    status = ReadHundredths(proto.multiplier(), 1, kMultiplierMax,
                            absl::StrCat(path, ".multiplier"), &retry->multiplier_percent);
  }
  if (status.ok() && proto.has_jitter()) {
    status =
        ReadHundredths(proto.jitter(), 0, 1, absl::StrCat(path, ".jitter"), &retry->jitter_percent);
  }
  if (!status.ok()) return status;
  const std::string attempts = absl::StrCat(path, ".max_attempts");
  if (proto.max_attempts() < 0) return Invalid(kSubscriptionReason, attempts, "negative");
  if (proto.max_attempts() > kAttemptsMax) {
    return OverLimit(kSubscriptionReason, attempts, static_cast<uint64_t>(proto.max_attempts()),
                     kAttemptsMax, "attempts");
  }
  retry->max_attempts = static_cast<uint32_t>(proto.max_attempts());
  return CheckBackoff(*retry, path);
}

absl::Status ReadRetention(const v1::SubscriptionSettings& proto, const RequestLimits& limits,
                           absl::string_view path, SubscriptionSettings* settings) {
  const std::string field = absl::StrCat(path, ".retention");
  const google::protobuf::Duration& retention = proto.retention();
  if (retention.seconds() != 0 || retention.nanos() != 0) {
    absl::Status status =
        ReadDuration(retention, field, 1'000, limits.horizon_ms, &settings->retention_ms);
    if (!status.ok()) return status;
  }
  if (proto.retention_max_messages() < 0) {
    return Invalid(kSubscriptionReason, absl::StrCat(path, ".retention_max_messages"), "negative");
  }
  settings->retention_max_messages = static_cast<uint64_t>(proto.retention_max_messages());
  switch (proto.retention_policy()) {
    case v1::RETENTION_POLICY_UNSPECIFIED:
    case v1::RETENTION_POLICY_DROP:
      settings->retention_policy = RetentionPolicy::kDrop;
      return absl::OkStatus();
    case v1::RETENTION_POLICY_DEAD_LETTER:
      settings->retention_policy = RetentionPolicy::kDeadLetter;
      return absl::OkStatus();
    default:
      return Invalid(kSubscriptionReason, absl::StrCat(path, ".retention_policy"),
                     absl::StrCat("unknown value ", proto.retention_policy()),
                     {{"value", absl::StrCat(proto.retention_policy())}});
  }
}

// Copies one field. False if no field has that name.
bool ApplyPath(absl::string_view path, const SubscriptionSettings& from,
               SubscriptionSettings* settings) {
  if (path == "settings") {
    *settings = from;
  } else if (path == "settings.lease_duration") {
    settings->lease_ms = from.lease_ms;
  } else if (path == "settings.retry") {
    settings->retry = from.retry;
  } else if (path == "settings.retry.min_backoff") {
    settings->retry.min_backoff_ms = from.retry.min_backoff_ms;
  } else if (path == "settings.retry.max_backoff") {
    settings->retry.max_backoff_ms = from.retry.max_backoff_ms;
  } else if (path == "settings.retry.multiplier") {
    settings->retry.multiplier_percent = from.retry.multiplier_percent;
  } else if (path == "settings.retry.jitter") {
    settings->retry.jitter_percent = from.retry.jitter_percent;
  } else if (path == "settings.retry.max_attempts") {
    settings->retry.max_attempts = from.retry.max_attempts;
  } else if (path == "settings.dead_letter_topic") {
    settings->dead_letter_name = from.dead_letter_name;
  } else if (path == "settings.paused") {
    settings->paused = from.paused;
  } else if (path == "settings.retention") {
    settings->retention_ms = from.retention_ms;
  } else if (path == "settings.retention_policy") {
    settings->retention_policy = from.retention_policy;
  } else if (path == "settings.retention_max_messages") {
    settings->retention_max_messages = from.retention_max_messages;
  } else {
    return false;
  }
  return true;
}

}  // namespace

absl::Status ValidateSubscription(absl::string_view name, const std::string& field,
                                  absl::string_view* valid) {
  *valid = name.empty() ? kDefaultSubscription : name;
  return ValidateName("INVALID_SUBSCRIPTION", field, *valid, kSubscriptionBytesMax);
}

absl::Status CheckBackoff(const RetryPolicy& retry, absl::string_view path) {
  if (retry.max_backoff_ms >= retry.min_backoff_ms) return absl::OkStatus();
  return Invalid(kSubscriptionReason, absl::StrCat(path, ".max_backoff"), "less than min_backoff");
}

absl::Status ValidateSubscriptionSettings(const v1::SubscriptionSettings& proto,
                                          absl::string_view topic, const RequestLimits& limits,
                                          absl::string_view path, SubscriptionSettings* settings) {
  *settings = {};
  absl::Status status;
  if (proto.has_lease_duration()) {
    status = ReadDuration(proto.lease_duration(), absl::StrCat(path, ".lease_duration"),
                          kLeaseMsMin, kLeaseMsMax, &settings->lease_ms);
  }
  if (status.ok())
    status = ReadRetry(proto.retry(), absl::StrCat(path, ".retry"), &settings->retry);
  if (status.ok()) status = ReadRetention(proto, limits, path, settings);
  if (!status.ok()) return status;
  settings->paused = proto.paused();
  settings->dead_letter_name = proto.dead_letter_topic();
  if (settings->dead_letter_name.empty()) return absl::OkStatus();
  const std::string field = absl::StrCat(path, ".dead_letter_topic");
  if (settings->dead_letter_name == topic) {
    return Invalid(kSubscriptionReason, field,
                   "the topic itself: its dead letters would come back to it");
  }
  return ValidateName(kSubscriptionReason, field, settings->dead_letter_name, kTopicBytesMax);
}

absl::Status ApplySubscriptionMask(const google::protobuf::FieldMask& mask,
                                   const SubscriptionSettings& from,
                                   SubscriptionSettings* settings) {
  constexpr absl::string_view kMaskReason = "INVALID_UPDATE_MASK";
  if (mask.paths().empty()) return Invalid(kMaskReason, "update_mask", "required");
  for (const std::string& path : mask.paths()) {
    if (!ApplyPath(path, from, settings)) {
      return Invalid(kMaskReason, "update_mask", "a path is not one of a subscription's settings");
    }
  }
  const std::string retry_path = "subscription.settings.retry";
  RetryPolicy* const retry = &settings->retry;
  const auto names = [&mask](absl::string_view field) {
    return std::any_of(mask.paths().begin(), mask.paths().end(),
                       [field](const std::string& path) { return absl::StartsWith(field, path); });
  };
  const bool names_max = names("settings.retry.max_backoff");
  if (retry->max_backoff_ms >= retry->min_backoff_ms) return absl::OkStatus();
  // A default follows the value that is given, as it does where all settings are given.
  if (!names_max && retry->max_backoff_ms == RetryPolicy{}.max_backoff_ms) {
    retry->max_backoff_ms = retry->min_backoff_ms;
    return absl::OkStatus();
  }
  if (!names("settings.retry.min_backoff") &&
      retry->min_backoff_ms == RetryPolicy{}.min_backoff_ms) {
    retry->min_backoff_ms = retry->max_backoff_ms;
    return absl::OkStatus();
  }
  if (names_max) return CheckBackoff(*retry, retry_path);
  return Invalid(kSubscriptionReason, retry_path + ".min_backoff",
                 absl::StrCat(retry->min_backoff_ms, " ms, more than max_backoff, ",
                              retry->max_backoff_ms, " ms, which update_mask does not name"),
                 {{"value", absl::StrCat(retry->min_backoff_ms)},
                  {"limit", absl::StrCat(retry->max_backoff_ms)}});
}

void ToProto(const SubscriptionSettings& settings, v1::SubscriptionSettings* proto) {
  if (settings.lease_ms > 0) SetDuration(settings.lease_ms, proto->mutable_lease_duration());
  const RetryPolicy& retry = settings.retry;
  v1::RetryPolicy* to = proto->mutable_retry();
  SetDuration(retry.min_backoff_ms, to->mutable_min_backoff());
  SetDuration(retry.max_backoff_ms, to->mutable_max_backoff());
  to->set_multiplier(retry.multiplier_percent / 100.0);
  to->set_jitter(retry.jitter_percent / 100.0);
  to->set_max_attempts(static_cast<int32_t>(retry.max_attempts));
  proto->set_dead_letter_topic(settings.dead_letter_name);
  proto->set_paused(settings.paused);
  if (settings.retention_ms > 0) SetDuration(settings.retention_ms, proto->mutable_retention());
  proto->set_retention_max_messages(static_cast<int64_t>(settings.retention_max_messages));
  proto->set_retention_policy(settings.retention_policy == RetentionPolicy::kDeadLetter
                                  ? v1::RETENTION_POLICY_DEAD_LETTER
                                  : v1::RETENTION_POLICY_DROP);
}

}  // namespace duetime::api
