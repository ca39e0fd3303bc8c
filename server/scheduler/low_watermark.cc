// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/low_watermark.h"

#include <algorithm>

#include "server/base/check.h"

namespace duetime::scheduler {

void LowWatermark::Pin(uint64_t due_ms, uint32_t cookie) {
  Bucket& bucket = buckets_[due_ms >> kBucketBits];
  ++bucket.holders;
  ++pinned_;
  if (cookie != kNoCookie) bucket.cookies.push_back(cookie);
}

void LowWatermark::Release(uint64_t due_ms) {
  const auto it = buckets_.find(due_ms >> kBucketBits);
  DT_CHECK(it != buckets_.end());
  DT_CHECK_GT(it->second.holders, 0u);
  --pinned_;
  if (--it->second.holders == 0) buckets_.erase(it);
}

uint64_t LowWatermark::LowestPinned(uint64_t limit_ms) const {
  if (buckets_.empty()) return limit_ms;
  return std::min(limit_ms, buckets_.begin()->first << kBucketBits);
}

std::vector<uint32_t> LowWatermark::TakeCookies(uint64_t before_ms) {
  std::vector<uint32_t> cookies;
  for (auto it = buckets_.begin();
       it != buckets_.end() && ((it->first + 1) << kBucketBits) <= before_ms; ++it) {
    cookies.insert(cookies.end(), it->second.cookies.begin(), it->second.cookies.end());
    it->second.cookies = {};
  }
  return cookies;
}

}  // namespace duetime::scheduler
