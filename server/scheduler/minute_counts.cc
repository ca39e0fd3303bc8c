// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/minute_counts.h"

#include <algorithm>
#include <vector>

#include "server/base/check.h"
#include "storage/time_units.h"

namespace duetime::scheduler {

using storage::BucketCount;
using storage::kMinuteMs;
using storage::TopicId;

namespace {

constexpr size_t kMinutesMax = 16'384;
// The minutes that FirstBelow reads at once.
constexpr size_t kPageMinutes = 60;

}  // namespace

void MinuteCounts::End(TopicId topic) {
  topics_.erase(topic);
  minutes_.erase(minutes_.lower_bound({topic, 0}), minutes_.upper_bound({topic, UINT64_MAX}));
}

void MinuteCounts::Add(TopicId topic, uint64_t minute_ms, int64_t messages) {
  DT_CHECK_EQ(minute_ms % kMinuteMs, 0u);
  if (!Has(topic)) return;
  auto it = minutes_.find({topic, minute_ms});
  if (it == minutes_.end()) {
    Forget();
    if (!Load(topic, minute_ms, 1).ok()) return;
    it = minutes_.find({topic, minute_ms});
    DT_CHECK(it != minutes_.end());
  }
  it->second.messages += messages;
  it->second.batch = writes_->open_sequence();
}

absl::StatusOr<int64_t> MinuteCounts::At(TopicId topic, uint64_t minute_ms) {
  DT_CHECK_EQ(minute_ms % kMinuteMs, 0u);
  if (!Has(topic)) {
    std::vector<BucketCount> counts;
    absl::Status status = store_->ScanCounts(shard_, topic, storage::CountLevel::kMinute,
                                             {minute_ms, minute_ms + kMinuteMs}, 1, &counts);
    if (!status.ok()) return read_status_ = status;
    return counts.empty() ? 0 : static_cast<int64_t>(counts[0].messages);
  }
  auto it = minutes_.find({topic, minute_ms});
  if (it == minutes_.end()) {
    Forget();
    if (absl::Status status = Load(topic, minute_ms, 1); !status.ok()) return status;
    it = minutes_.find({topic, minute_ms});
    DT_CHECK(it != minutes_.end());
  }
  return it->second.messages;
}

absl::StatusOr<std::optional<uint64_t>> MinuteCounts::FirstBelow(TopicId topic, int64_t max,
                                                                 uint64_t from_ms,
                                                                 uint64_t until_ms) {
  DT_CHECK_EQ(from_ms % kMinuteMs, 0u);
  if (!Has(topic)) {
    for (uint64_t at_ms = from_ms; at_ms < until_ms; at_ms += kMinuteMs) {
      const absl::StatusOr<int64_t> messages = At(topic, at_ms);
      if (!messages.ok()) return messages.status();
      if (*messages < max) return std::optional(at_ms);
    }
    return std::optional<uint64_t>();
  }
  Forget();
  auto it = minutes_.lower_bound({topic, from_ms});
  for (uint64_t at_ms = from_ms; at_ms < until_ms; at_ms += kMinuteMs, ++it) {
    if (it == minutes_.end() || it->first != Place{topic, at_ms}) {
      const auto left = static_cast<size_t>((until_ms - at_ms + kMinuteMs - 1) / kMinuteMs);
      absl::Status status = Load(topic, at_ms, std::min(left, kPageMinutes));
      if (!status.ok()) return status;
      it = minutes_.find({topic, at_ms});
      DT_CHECK(it != minutes_.end());
    }
    if (it->second.messages < max) return std::optional(at_ms);
  }
  return std::optional<uint64_t>();
}

absl::Status MinuteCounts::Load(TopicId topic, uint64_t minute_ms, size_t count) {
  DT_CHECK_GT(count, 0u);
  const uint64_t until_ms = minute_ms + count * kMinuteMs;
  std::vector<BucketCount> counts;
  absl::Status status = store_->ScanCounts(shard_, topic, storage::CountLevel::kMinute,
                                           {minute_ms, until_ms}, count, &counts);
  if (!status.ok()) return read_status_ = status;
  auto stored = counts.begin();
  for (uint64_t at_ms = minute_ms; at_ms < until_ms; at_ms += kMinuteMs) {
    Minute minute;
    if (stored != counts.end() && stored->start_ms == at_ms) {
      minute.messages = static_cast<int64_t>((stored++)->messages);
    }
    minutes_.emplace(Place{topic, at_ms}, minute);
  }
  return absl::OkStatus();
}

void MinuteCounts::Forget() {
  if (minutes_.size() < std::max(forget_at_, kMinutesMax)) return;
  const uint64_t open = writes_->open_sequence();
  DT_CHECK_GT(open, writes_->batches_in_flight());
  const uint64_t first_in_flight = open - writes_->batches_in_flight();
  for (auto it = minutes_.begin(); it != minutes_.end();) {
    it = it->second.batch < first_in_flight ? minutes_.erase(it) : std::next(it);
  }
  // Minutes that a batch in flight changes cannot be forgotten yet. Doubling the bound avoids a
  // walk for each call.
  forget_at_ = 2 * minutes_.size();
}

}  // namespace duetime::scheduler
