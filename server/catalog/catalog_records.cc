// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_records.h"

#include <utility>

#include "server/base/check.h"
#include "server/catalog/catalog.pb.h"
#include "server/protocol/settings.h"

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
  *record.mutable_settings() = topic.settings;
  return Serialize(record);
}

absl::StatusOr<StoredTopic> DecodeTopic(absl::string_view bytes) {
  internal::TopicRecord record;
  if (!Parse(bytes, &record)) return DamagedError();
  if (!internal::TopicRecord::State_IsValid(record.state()) ||
      !protocol::CheckStored(record.settings()).ok()) {
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
  topic.settings = std::move(*record.mutable_settings());
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
  *record.mutable_settings() = subscription.settings;
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
  subscription.settings = std::move(*record.mutable_settings());
  absl::Status status = protocol::CompleteStored(&subscription.settings);
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
