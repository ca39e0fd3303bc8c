// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/subscription_state.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/protocol/object_codec.h"
#include "server/protocol/objects.pb.h"

namespace duetime::protocol {
namespace {

// The first byte.
constexpr char kVersion = 3;

}  // namespace

std::string SubscriptionObjectName(storage::SubscriptionId id) {
  return absl::StrCat(absl::Hex(static_cast<uint32_t>(id), absl::kZeroPad8));
}

std::string EncodeSubscription(const SubscriptionState& state) {
  internal::SubscriptionStateRecord record;
  record.set_topic(static_cast<uint32_t>(state.topic));
  record.set_topic_name(state.topic_name);
  record.set_name(state.name);
  *record.mutable_settings() = state.settings;
  record.set_start_high(state.start.high);
  record.set_start_low(state.start.low);
  record.set_create_ms(state.create_ms);
  record.set_fill_until_ms(state.fill_until_ms);
  record.set_deleting(state.deleting);
  record.set_deleted(state.deleted);
  return EncodeObject(record, kVersion);
}

absl::StatusOr<SubscriptionState> DecodeSubscription(absl::string_view name,
                                                     absl::string_view bytes) {
  uint32_t id = 0;
  if (name.size() != 8 || !absl::SimpleHexAtoi(name, &id)) return DamagedObjectError();
  internal::SubscriptionStateRecord record;
  absl::Status status = DecodeObject(bytes, &record, kVersion);
  if (!status.ok()) return status;
  SubscriptionState state;
  state.id = storage::SubscriptionId{id};
  state.topic = storage::TopicId{record.topic()};
  state.topic_name = record.topic_name();
  state.name = record.name();
  state.start = {.high = record.start_high(), .low = record.start_low()};
  state.create_ms = record.create_ms();
  state.fill_until_ms = record.fill_until_ms();
  state.deleting = record.deleting();
  state.deleted = record.deleted();
  state.settings = std::move(*record.mutable_settings());
  status = CompleteStored(&state.settings);
  if (!status.ok()) return status;
  return state;
}

}  // namespace duetime::protocol
