// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/minute_limits.h"

#include <algorithm>

#include "server/base/error.h"
#include "server/delivery/schedule_errors.h"

namespace duetime::delivery {

using scheduler::MinuteOf;
using storage::MessageId;
using storage::TopicId;

namespace {

constexpr uint64_t kMinuteMs = 60'000;

}  // namespace

void MinuteLimits::Set(const TopicCommand& command) {
  const bool limited = command.minute_max > 0;
  writer_->CountMinutes(command.topic, limited);
  if (!limited) {
    limits_.erase(command.topic);
    return;
  }
  // No limit is larger than what a shard can count.
  const uint64_t share = (command.minute_max - 1) / shard_count_ + 1;
  limits_[command.topic] = {.messages = command.minute_max,
                            .share = static_cast<int64_t>(std::min<uint64_t>(share, INT64_MAX)),
                            .policy = command.bucket_policy,
                            .spread_ms = uint64_t{command.spread_minutes_max} * kMinuteMs};
}

absl::Status MinuteLimits::Find(base::Now now, TopicId topic, const Wish& wish,
                                Place* place) const {
  *place = {.deliver_ms = wish.deliver_ms, .over = false};
  const auto it = limits_.find(topic);
  if (it == limits_.end() || wish.deliver_ms <= now.wall_ms) return absl::OkStatus();
  const Limit& limit = it->second;
  const uint64_t minute_ms = MinuteOf(wish.deliver_ms);
  const bool stays = wish.present_ms > 0 && MinuteOf(wish.present_ms) == minute_ms;
  const absl::StatusOr<int64_t> messages = writer_->minutes().At(topic, minute_ms);
  if (!messages.ok()) return base::StorageFailedError();
  const int64_t others = *messages - (stays ? 1 : 0);
  if (others < limit.share) return absl::OkStatus();
  if (limit.policy == BucketPolicy::kWarn) {
    place->over = true;
    return absl::OkStatus();
  }
  if (stays) return absl::OkStatus();
  if (limit.policy == BucketPolicy::kSpread) return Spread(topic, limit, wish, place);
  return BucketFullError(minute_ms, limit.messages);
}

absl::Status MinuteLimits::Spread(TopicId topic, const Limit& limit, const Wish& wish,
                                  Place* place) const {
  const uint64_t latest_ms =
      std::min({wish.deliver_ms + limit.spread_ms, wish.latest_ms, MessageId::kDueMax});
  const uint64_t minute_ms = MinuteOf(wish.deliver_ms);
  const uint64_t in_minute_ms = wish.deliver_ms - minute_ms;
  // Minutes where it would be no later than latest_ms.
  uint64_t until_ms = minute_ms + kMinuteMs;
  if (latest_ms > wish.deliver_ms) until_ms += MinuteOf(latest_ms - wish.deliver_ms);
  const uint64_t present_ms = MinuteOf(wish.present_ms);
  const bool may_stay = present_ms > minute_ms && present_ms < until_ms;
  if (may_stay) until_ms = present_ms;
  auto room_ms = writer_->minutes().FirstBelow(topic, limit.share, minute_ms + kMinuteMs, until_ms);
  if (!room_ms.ok()) return base::StorageFailedError();
  if (!room_ms->has_value() && may_stay) *room_ms = present_ms;
  if (!room_ms->has_value()) return BucketFullError(minute_ms, limit.messages);
  place->deliver_ms = **room_ms + in_minute_ms;
  return absl::OkStatus();
}

bool MinuteLimits::Over(base::Now now, TopicId topic, uint64_t due_ms) const {
  const auto it = limits_.find(topic);
  if (it == limits_.end() || it->second.policy != BucketPolicy::kWarn || due_ms <= now.wall_ms) {
    return false;
  }
  const absl::StatusOr<int64_t> messages = writer_->minutes().At(topic, MinuteOf(due_ms));
  return messages.ok() && *messages > it->second.share;
}

}  // namespace duetime::delivery
