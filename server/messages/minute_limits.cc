// SPDX-License-Identifier: Apache-2.0
#include "server/messages/minute_limits.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/messages/schedule_errors.h"
#include "server/protocol/commands.h"
#include "storage/time_units.h"

namespace duetime::messages {

using scheduler::MinuteOf;
using storage::kMinuteMs;
using storage::MessageId;
using storage::TopicId;

void MinuteLimits::Set(const protocol::TopicCommand& command) {
  const protocol::TopicSettings& settings = *command.settings;
  const bool limited = settings.minute_max() > 0;
  writer_->CountMinutes(command.topic, limited);
  if (!limited) {
    limits_.erase(command.topic);
    return;
  }
  DT_CHECK_GT(shard_count_, 0);
  const uint64_t share = (settings.minute_max() - 1) / shard_count_ + 1;
  limits_[command.topic] = {.messages = settings.minute_max(),
                            .share = static_cast<int64_t>(std::min<uint64_t>(share, INT64_MAX)),
                            .policy = settings.minute_policy(),
                            // The unit of the spread is a minute.
                            .spread_ms = settings.minute_spread_ms() / kMinuteMs * kMinuteMs};
}

absl::Status MinuteLimits::Place(base::Now now, TopicId topic, const Request& request,
                                 Placement* placement) const {
  *placement = {.deliver_ms = request.deliver_ms, .over = false};
  const auto it = limits_.find(topic);
  if (it == limits_.end() || request.deliver_ms <= now.wall_ms) return absl::OkStatus();
  const Limit& limit = it->second;
  const uint64_t minute_ms = MinuteOf(request.deliver_ms);
  const bool counted = request.present_ms > 0 && MinuteOf(request.present_ms) == minute_ms;
  const absl::StatusOr<int64_t> messages = writer_->minutes().At(topic, minute_ms);
  if (!messages.ok()) return base::StorageFailedError();
  const int64_t others = *messages - (counted ? 1 : 0);
  if (others < limit.share) return absl::OkStatus();
  if (limit.policy == protocol::TopicSettings::WARN) {
    placement->over = true;
    return absl::OkStatus();
  }
  if (counted || request.keeps_time) return absl::OkStatus();
  if (limit.policy == protocol::TopicSettings::SPREAD)
    return Spread(topic, limit, request, placement);
  return BucketFullError(minute_ms, limit.messages);
}

absl::Status MinuteLimits::Spread(TopicId topic, const Limit& limit, const Request& request,
                                  Placement* placement) const {
  DT_CHECK(limit.policy == protocol::TopicSettings::SPREAD);
  const uint64_t latest_ms =
      std::min({request.deliver_ms + limit.spread_ms, request.latest_ms, MessageId::kDueMax});
  const uint64_t minute_ms = MinuteOf(request.deliver_ms);
  const uint64_t in_minute_ms = request.deliver_ms - minute_ms;
  // In a later minute the message keeps its second, and must not pass latest_ms.
  uint64_t until_ms = minute_ms + kMinuteMs;
  if (latest_ms > request.deliver_ms) until_ms += MinuteOf(latest_ms - request.deliver_ms);
  const uint64_t present_ms = MinuteOf(request.present_ms);
  const bool may_stay = present_ms > minute_ms && present_ms < until_ms;
  if (may_stay) until_ms = present_ms;
  auto room_ms = writer_->minutes().FirstBelow(topic, limit.share, minute_ms + kMinuteMs, until_ms);
  if (!room_ms.ok()) return base::StorageFailedError();
  if (!room_ms->has_value() && may_stay) *room_ms = present_ms;
  if (!room_ms->has_value()) return BucketFullError(minute_ms, limit.messages);
  placement->deliver_ms = **room_ms + in_minute_ms;
  DT_CHECK_GT(placement->deliver_ms, request.deliver_ms);
  return absl::OkStatus();
}

bool MinuteLimits::Over(base::Now now, TopicId topic, uint64_t due_ms) const {
  const auto it = limits_.find(topic);
  if (it == limits_.end() || it->second.policy != protocol::TopicSettings::WARN ||
      due_ms <= now.wall_ms) {
    return false;
  }
  const absl::StatusOr<int64_t> messages = writer_->minutes().At(topic, MinuteOf(due_ms));
  return messages.ok() && *messages > it->second.share;
}

}  // namespace duetime::messages
