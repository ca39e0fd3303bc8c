// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_records.h"

#include "server/base/check.h"
#include "server/catalog/catalog.pb.h"
#include "server/protocol/settings_codec.h"

namespace duetime::catalog {
namespace {

absl::Status DamagedError() {
  return absl::DataLossError("a record of the catalog on disk is damaged");
}

template <typename Record>
bool Parse(absl::string_view bytes, Record* record) {
  return record->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

template <typename Record>
std::string Serialize(const Record& record) {
  std::string bytes;
  // Writing fails only for a record without a required field or of more than 2 GiB.
  DT_CHECK(record.SerializeToString(&bytes));
  return bytes;
}

}  // namespace

std::string EncodeTopic(const StoredTopic& topic) {
  internal::TopicRecord record;
  record.set_state(static_cast<internal::TopicRecord::State>(topic.phase));
  record.set_free_ms(topic.free_ms);
  record.set_longest_retention_ms(topic.longest_retention_ms);
  record.set_first_epoch(topic.first_id.epoch());
  record.set_first_sequence(topic.first_id.sequence());
  internal::TopicSettingsRecord* const to = record.mutable_settings();
  const TopicSettings& from = topic.settings;
  to->set_max_pending(from.max_pending);
  to->set_max_payload_bytes(from.max_payload_bytes);
  to->set_default_ttl_ms(from.default_ttl_ms);
  if (from.tombstone_retention_ms.has_value())
    to->set_tombstone_retention_ms(*from.tombstone_retention_ms);
  to->set_rate_per_s(from.rate_per_s);
  to->set_burst(from.burst);
  to->set_paused(from.paused);
  to->set_paused_by_restore(from.paused_by_restore);
  to->set_minute_max(from.minute_max);
  to->set_minute_policy(static_cast<uint32_t>(from.minute_policy));
  to->set_minute_spread_ms(from.minute_spread_ms);
  to->set_dead_letter_topic(from.dead_letter_topic);
  return Serialize(record);
}

absl::StatusOr<StoredTopic> DecodeTopic(absl::string_view bytes) {
  internal::TopicRecord record;
  if (!Parse(bytes, &record)) return DamagedError();
  const internal::TopicSettingsRecord& from = record.settings();
  if (!internal::TopicRecord::State_IsValid(record.state()) ||
      from.minute_policy() > static_cast<uint32_t>(protocol::BucketPolicy::kSpread)) {
    return DamagedError();
  }
  StoredTopic topic;
  topic.phase = static_cast<TopicPhase>(record.state());
  topic.free_ms = record.free_ms();
  topic.longest_retention_ms = record.longest_retention_ms();
  if (record.first_epoch() > storage::MessageId::kEpochMax ||
      record.first_sequence() > storage::MessageId::kSequenceMax) {
    return DamagedError();
  }
  if (record.first_epoch() > 0) {
    topic.first_id = storage::MessageId::Make(record.first_epoch(), record.first_sequence(), 0, 0);
  }
  TopicSettings& to = topic.settings;
  to.max_pending = from.max_pending();
  to.max_payload_bytes = from.max_payload_bytes();
  to.default_ttl_ms = from.default_ttl_ms();
  if (from.has_tombstone_retention_ms()) to.tombstone_retention_ms = from.tombstone_retention_ms();
  to.rate_per_s = from.rate_per_s();
  to.burst = from.burst();
  to.paused = from.paused();
  to.paused_by_restore = from.paused_by_restore();
  to.minute_max = from.minute_max();
  to.minute_policy = static_cast<protocol::BucketPolicy>(from.minute_policy());
  to.minute_spread_ms = from.minute_spread_ms();
  to.dead_letter_topic = from.dead_letter_topic();
  return topic;
}

std::string EncodeSubscription(const StoredSubscription& subscription) {
  internal::SubscriptionRecord record;
  record.set_state(static_cast<internal::SubscriptionRecord::State>(subscription.phase));
  record.set_topic(static_cast<uint32_t>(subscription.topic));
  record.set_name(subscription.name);
  record.set_create_ms(subscription.create_ms);
  record.set_from_now(subscription.from_now);
  record.set_keep_messages(subscription.keep_messages);
  protocol::Write(subscription.settings, record.mutable_settings());
  return Serialize(record);
}

absl::StatusOr<StoredSubscription> DecodeSubscription(absl::string_view bytes) {
  internal::SubscriptionRecord record;
  if (!Parse(bytes, &record)) return DamagedError();
  if (!internal::SubscriptionRecord::State_IsValid(record.state()) || record.topic() == 0) {
    return DamagedError();
  }
  StoredSubscription subscription;
  subscription.phase = static_cast<SubscriptionPhase>(record.state());
  subscription.topic = storage::TopicId{record.topic()};
  subscription.name = record.name();
  subscription.create_ms = record.create_ms();
  subscription.from_now = record.from_now();
  subscription.keep_messages = record.keep_messages();
  absl::Status status = protocol::ReadSettings(record.settings(), &subscription.settings);
  if (!status.ok()) return status;
  return subscription;
}

std::string EncodeState(const StoredState& state) {
  internal::CatalogRecord record;
  record.set_next_subscription(state.next_subscription);
  record.set_longest_retention_ms(state.longest_retention_ms);
  return Serialize(record);
}

absl::StatusOr<StoredState> DecodeState(absl::string_view bytes) {
  internal::CatalogRecord record;
  if (!Parse(bytes, &record)) return DamagedError();
  return StoredState{.next_subscription = record.next_subscription(),
                     .longest_retention_ms = record.longest_retention_ms()};
}

}  // namespace duetime::catalog
