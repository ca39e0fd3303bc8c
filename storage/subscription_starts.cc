// SPDX-License-Identifier: Apache-2.0
#include "storage/subscription_starts.h"

#include <algorithm>

#include "absl/strings/numbers.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kStartBytes = 4 + 8 + 8;
constexpr size_t kNameBytes = 8;

}  // namespace

std::string EncodeSubscriptionStart(const SubscriptionStart& start) {
  std::string bytes(kStartBytes, '\0');
  StoreBigEndian(static_cast<uint32_t>(start.topic), &bytes[0]);
  StoreBigEndian(start.first.high, &bytes[4]);
  StoreBigEndian(start.first.low, &bytes[12]);
  return bytes;
}

std::optional<SubscriptionStart> DecodeSubscriptionStart(absl::string_view bytes) {
  if (bytes.size() != kStartBytes) return std::nullopt;
  return SubscriptionStart{.topic = TopicId{LoadBigEndian<uint32_t>(&bytes[0])},
                           .first = {.high = LoadBigEndian<uint64_t>(&bytes[4]),
                                     .low = LoadBigEndian<uint64_t>(&bytes[12])}};
}

std::optional<SubscriptionId> SubscriptionOfName(absl::string_view name) {
  uint32_t number = 0;
  if (name.size() != kNameBytes || !absl::SimpleHexAtoi(name, &number)) return std::nullopt;
  return SubscriptionId{number};
}

bool SubscriptionStarts::Add(uint16_t shard, SubscriptionId subscription,
                             const SubscriptionStart& start) {
  std::vector<Start>& starts = starts_[{shard, start.topic}];
  const auto same = [&](const Start& one) { return one.subscription == subscription; };
  if (starts.size() == kTopicMax || std::any_of(starts.begin(), starts.end(), same)) return false;
  starts.push_back({subscription, start.first});
  return true;
}

void SubscriptionStarts::Remove(uint16_t shard, SubscriptionId subscription) {
  for (auto it = starts_.begin(); it != starts_.end();) {
    const auto here = it++;
    if (here->first.first != shard) continue;
    std::erase_if(here->second, [&](const Start& one) { return one.subscription == subscription; });
    if (here->second.empty()) starts_.erase(here);
  }
}

}  // namespace duetime::storage
