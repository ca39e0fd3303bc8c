// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/settings.h"

#include <algorithm>

#include "server/protocol/object_codec.h"

namespace duetime::protocol {

const TopicSettingsPtr& DefaultTopicSettings() {
  static const auto* const defaults = new TopicSettingsPtr(std::make_shared<TopicSettings>());
  return *defaults;
}

const SubscriptionSettings& DefaultSubscriptionSettings() {
  static const auto* const defaults = [] {
    auto* const settings = new SubscriptionSettings;
    RetryPolicy* const retry = settings->mutable_retry();
    retry->set_min_backoff_ms(1'000);
    retry->set_max_backoff_ms(600'000);
    retry->set_multiplier_percent(200);
    retry->set_jitter_percent(20);
    settings->set_retention_policy(SubscriptionSettings::DROP);
    return settings;
  }();
  return *defaults;
}

uint64_t DefaultMinBackoffMs(uint64_t max_backoff_ms) {
  return std::min(DefaultSubscriptionSettings().retry().min_backoff_ms(), max_backoff_ms);
}

absl::Status CheckStored(const TopicSettings& settings) {
  return TopicSettings::BucketPolicy_IsValid(settings.minute_policy()) ? absl::OkStatus()
                                                                       : DamagedObjectError();
}

absl::Status CompleteStored(SubscriptionSettings* settings) {
  RetryPolicy* const retry = settings->mutable_retry();
  if (!retry->has_min_backoff_ms()) {
    retry->set_min_backoff_ms(DefaultMinBackoffMs(retry->max_backoff_ms()));
  }
  if (!retry->has_jitter_percent()) {
    retry->set_jitter_percent(DefaultSubscriptionSettings().retry().jitter_percent());
  }
  return settings->retention_policy() != SubscriptionSettings::NONE &&
                 SubscriptionSettings::RetentionPolicy_IsValid(settings->retention_policy())
             ? absl::OkStatus()
             : DamagedObjectError();
}

bool BoundsAge(const SubscriptionSettings& settings) { return settings.retention_ms() > 0; }

bool BoundsNumber(const SubscriptionSettings& settings) {
  return settings.retention_max_messages() > 0;
}

bool Retains(const SubscriptionSettings& settings) {
  return BoundsAge(settings) || BoundsNumber(settings);
}

bool TooOld(const SubscriptionSettings& settings, uint64_t due_ms, uint64_t now_ms) {
  return settings.retention_ms() > 0 && now_ms > due_ms + settings.retention_ms();
}

bool TooMany(const SubscriptionSettings& settings, uint64_t waiting, uint64_t shards) {
  const uint64_t max = settings.retention_max_messages();
  return max > 0 && waiting > (max + shards - 1) / shards;
}

bool MakesDeadLetters(const SubscriptionSettings& settings) {
  return settings.retry().max_attempts() > 0 ||
         (Retains(settings) && settings.retention_policy() == SubscriptionSettings::DEAD_LETTER);
}

}  // namespace duetime::protocol
