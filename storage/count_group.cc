// SPDX-License-Identifier: Apache-2.0
#include "storage/count_group.h"

#include <algorithm>
#include <tuple>

namespace duetime::storage {

void CountGroup::AddTo(const Owner& owner, uint64_t due_ms, const CountDelta& delta,
                       size_t look_back) {
  const uint64_t start_ms = due_ms - due_ms % kMinuteMs;
  const size_t first = minutes_.size() - std::min(minutes_.size(), look_back);
  for (size_t i = minutes_.size(); i-- > first;) {
    if (minutes_[i].start_ms == start_ms && minutes_[i].owner == owner) {
      minutes_[i].sum = Sum(minutes_[i].sum, delta);
      return;
    }
  }
  minutes_.push_back({owner, start_ms, delta});
}

void CountGroup::ForgetDone(uint16_t shard, SubscriptionId subscription) {
  const Owner owner{shard, TopicId{static_cast<uint32_t>(subscription)}, CountRow::kDone};
  std::erase_if(minutes_, [&](const Minute& minute) { return minute.owner == owner; });
}

void CountGroup::SortAndMerge() {
  std::sort(minutes_.begin(), minutes_.end(), [](const Minute& a, const Minute& b) {
    return std::tie(a.owner, a.start_ms) < std::tie(b.owner, b.start_ms);
  });
  size_t kept = 0;
  for (size_t i = 0; i < minutes_.size(); ++i) {
    if (kept != 0 && minutes_[kept - 1].owner == minutes_[i].owner &&
        minutes_[kept - 1].start_ms == minutes_[i].start_ms) {
      minutes_[kept - 1].sum = Sum(minutes_[kept - 1].sum, minutes_[i].sum);
    } else {
      minutes_[kept++] = minutes_[i];
    }
  }
  minutes_.resize(kept);
}

}  // namespace duetime::storage
