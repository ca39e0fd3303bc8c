// SPDX-License-Identifier: Apache-2.0
//
// Converts the settings of a subscription to a SubscriptionSettingsRecord (objects.proto) and back.
// The catalog and every shard keep such a record. An absent field has its present default. The
// record is a template argument, so that no header names generated code.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "server/protocol/object_codec.h"
#include "server/protocol/subscription_state.h"

namespace duetime::protocol {

template <typename Record>
void Write(const SubscriptionSettings& settings, Record* record) {
  record->set_lease_ms(settings.lease_ms);
  auto* const retry = record->mutable_retry();
  retry->set_min_backoff_ms(settings.retry.min_backoff_ms);
  retry->set_max_backoff_ms(settings.retry.max_backoff_ms);
  retry->set_multiplier_percent(settings.retry.multiplier_percent);
  retry->set_jitter_percent(settings.retry.jitter_percent);
  retry->set_max_attempts(settings.retry.max_attempts);
  record->set_dead_letter_name(settings.dead_letter_name);
  record->set_dead_letter(static_cast<uint32_t>(settings.dead_letter));
  record->set_paused(settings.paused);
  record->set_retention_ms(settings.retention_ms);
  record->set_retention_max_messages(settings.retention_max_messages);
  record->set_retention_policy(static_cast<uint32_t>(settings.retention_policy));
}

// DATA_LOSS if a number is no enumerator.
template <typename Record>
absl::Status ReadSettings(const Record& record, SubscriptionSettings* settings) {
  settings->lease_ms = record.lease_ms();
  RetryPolicy& retry = settings->retry;
  const auto& stored = record.retry();
  retry = {};
  retry.max_backoff_ms = stored.max_backoff_ms();
  retry.min_backoff_ms = stored.has_min_backoff_ms()
                             ? stored.min_backoff_ms()
                             : RetryPolicy::DefaultMinBackoffMs(retry.max_backoff_ms);
  retry.multiplier_percent = stored.multiplier_percent();
  if (stored.has_jitter_percent()) retry.jitter_percent = stored.jitter_percent();
  retry.max_attempts = stored.max_attempts();
  settings->dead_letter_name = record.dead_letter_name();
  settings->dead_letter = storage::TopicId{record.dead_letter()};
  settings->paused = record.paused();
  settings->retention_ms = record.retention_ms();
  settings->retention_max_messages = record.retention_max_messages();
  settings->retention_policy = EnumOf<RetentionPolicy>(record.retention_policy());
  return settings->retention_policy < RetentionPolicy::kDrop ||
                 settings->retention_policy > RetentionPolicy::kDeadLetter
             ? DamagedObjectError()
             : absl::OkStatus();
}

}  // namespace duetime::protocol
