// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/old_records.h"

#include <algorithm>
#include <string>

#include "server/base/name_char.h"
#include "storage/byte_order.h"

namespace duetime::catalog {
namespace {

// Version 1 consists of version, flags and four numbers. Version 2 adds six numbers and a name. Its
// last number is the length of the name.
constexpr uint8_t kVersion = 2;
constexpr uint8_t kDeleted = 1;
constexpr uint8_t kHasTombstoneRetention = 2;
constexpr uint8_t kPaused = 4;
constexpr size_t kNumbersOfVersion1 = 4;
constexpr size_t kNumbers = 10;

constexpr size_t BytesOf(size_t numbers) { return 2 + numbers * sizeof(uint64_t); }

uint64_t NumberAt(absl::string_view bytes, size_t index) {
  return storage::LoadLittleEndian<uint64_t>(bytes.data() + BytesOf(index));
}

}  // namespace

absl::StatusOr<StoredTopic> DecodeOldTopic(absl::string_view bytes) {
  const absl::Status damaged = absl::DataLossError("the settings of a topic on disk are damaged");
  if (bytes.size() < BytesOf(kNumbersOfVersion1)) return damaged;
  const auto version = static_cast<uint8_t>(bytes[0]);
  const auto flags = static_cast<uint8_t>(bytes[1]);
  StoredTopic topic;
  if ((flags & kDeleted) != 0) topic.phase = TopicPhase::kDeleted;
  TopicSettings& settings = topic.settings;
  settings.max_pending = NumberAt(bytes, 0);
  settings.max_payload_bytes = NumberAt(bytes, 1);
  settings.default_ttl_ms = NumberAt(bytes, 2);
  if ((flags & kHasTombstoneRetention) != 0) settings.tombstone_retention_ms = NumberAt(bytes, 3);
  if (version == 1) {
    const bool whole = bytes.size() == BytesOf(kNumbersOfVersion1);
    if (!whole || flags > (kDeleted | kHasTombstoneRetention)) return damaged;
    return topic;
  }
  if (version != kVersion || bytes.size() < BytesOf(kNumbers) ||
      bytes.size() - BytesOf(kNumbers) != NumberAt(bytes, kNumbers - 1) ||
      flags > (kDeleted | kHasTombstoneRetention | kPaused) ||
      NumberAt(bytes, 7) > static_cast<uint64_t>(protocol::BucketPolicy::kSpread)) {
    return damaged;
  }
  // protobuf writes a string that is not UTF-8, and refuses to read it.
  const absl::string_view name = bytes.substr(BytesOf(kNumbers));
  if (!std::all_of(name.begin(), name.end(), base::IsNameChar)) return damaged;
  settings.paused = (flags & kPaused) != 0;
  settings.rate_per_s = NumberAt(bytes, 4);
  settings.burst = NumberAt(bytes, 5);
  settings.minute_max = NumberAt(bytes, 6);
  settings.minute_policy = static_cast<protocol::BucketPolicy>(NumberAt(bytes, 7));
  settings.minute_spread_ms = NumberAt(bytes, 8);
  settings.dead_letter_topic = std::string(name);
  return topic;
}

}  // namespace duetime::catalog
