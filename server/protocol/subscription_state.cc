// SPDX-License-Identifier: Apache-2.0
#include "server/protocol/subscription_state.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/protocol/field_codec.h"

namespace duetime::protocol {
namespace {

// 1 was without the last field.
constexpr uint8_t kSubscriptionVersion = 2;
// Flags.
constexpr uint64_t kDeleting = 1;
constexpr uint64_t kDeleted = 2;
constexpr uint64_t kPaused = 4;

}  // namespace

std::string SubscriptionObjectName(storage::SubscriptionId id) {
  return absl::StrCat(absl::Hex(static_cast<uint32_t>(id), absl::kZeroPad8));
}

std::string EncodeSubscription(const SubscriptionState& state) {
  FieldWriter writer(kSubscriptionVersion);
  const SubscriptionSettings& settings = state.settings;
  const RetryPolicy& retry = settings.retry;
  writer.Number(static_cast<uint64_t>(state.topic)).Text(state.topic_name).Text(state.name);
  writer.Number((state.deleting ? kDeleting : 0) | (state.deleted ? kDeleted : 0) |
                (settings.paused ? kPaused : 0));
  writer.Number(state.start.high).Number(state.start.low).Number(state.create_ms);
  writer.Number(state.fill_until_ms);
  writer.Number(settings.lease_ms).Number(retry.min_backoff_ms).Number(retry.max_backoff_ms);
  writer.Number(retry.multiplier_percent).Number(retry.jitter_percent).Number(retry.max_attempts);
  writer.Text(settings.dead_letter_name).Number(static_cast<uint64_t>(settings.dead_letter));
  writer.Number(settings.retention_ms).Number(static_cast<uint64_t>(settings.retention_policy));
  writer.Number(settings.retention_max_messages);
  return writer.Take();
}

absl::StatusOr<SubscriptionState> DecodeSubscription(absl::string_view name,
                                                     absl::string_view bytes) {
  const bool first_version = !bytes.empty() && bytes[0] == 1;
  FieldReader reader(bytes, first_version ? 1 : kSubscriptionVersion);
  SubscriptionState state;
  SubscriptionSettings& settings = state.settings;
  RetryPolicy& retry = settings.retry;
  uint32_t id = 0;
  const bool named = name.size() == 8 && absl::SimpleHexAtoi(name, &id);
  state.id = storage::SubscriptionId{id};
  state.topic = static_cast<storage::TopicId>(reader.Number());
  state.topic_name = reader.Text();
  state.name = reader.Text();
  const uint64_t flags = reader.Number();
  state.deleting = (flags & kDeleting) != 0;
  state.deleted = (flags & kDeleted) != 0;
  settings.paused = (flags & kPaused) != 0;
  state.start.high = reader.Number();
  state.start.low = reader.Number();
  state.create_ms = reader.Number();
  state.fill_until_ms = reader.Number();
  settings.lease_ms = reader.Number();
  retry.min_backoff_ms = reader.Number();
  retry.max_backoff_ms = reader.Number();
  retry.multiplier_percent = static_cast<uint32_t>(reader.Number());
  retry.jitter_percent = static_cast<uint32_t>(reader.Number());
  retry.max_attempts = static_cast<uint32_t>(reader.Number());
  settings.dead_letter_name = reader.Text();
  settings.dead_letter = static_cast<storage::TopicId>(reader.Number());
  settings.retention_ms = reader.Number();
  const uint64_t policy = reader.Number();
  if (!first_version) settings.retention_max_messages = reader.Number();
  if (absl::Status status = reader.Done(); !status.ok()) return status;
  if (!named || flags > (kDeleting | kDeleted | kPaused) || policy < 1 || policy > 2) {
    return absl::DataLossError("the store holds a subscription that nobody wrote");
  }
  settings.retention_policy = static_cast<RetentionPolicy>(policy);
  return state;
}

}  // namespace duetime::protocol
