// SPDX-License-Identifier: Apache-2.0
#include "storage/key_codec.h"

#include <algorithm>
#include <limits>

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kShardBytes = 2;
constexpr size_t kTopicBytes = 4;
constexpr size_t kSubscriptionBytes = 4;
constexpr size_t kRowBytes = 1;
constexpr size_t kKindBytes = 1;
constexpr size_t kPlaceBytes = 8 + 16;  // due_ms, id
constexpr absl::string_view kTopicPrefix = "topic/";

// Builds a key.
class KeyWriter {
 public:
  KeyWriter& Text(absl::string_view text) {
    std::memcpy(&bytes_[size_], text.data(), text.size());
    size_ += text.size();
    return *this;
  }

  template <typename T>
  KeyWriter& Number(T value) {
    StoreBigEndian(value, &bytes_[size_]);
    size_ += sizeof(T);
    return *this;
  }

  KeyWriter& Place(const MessageKey& key) {
    return Number(key.due_ms).Number(key.id.high).Number(key.id.low);
  }

  StoreKey In(ColumnFamily family) const {
    return StoreKey(family, absl::string_view(bytes_.data(), size_));
  }

 private:
  std::array<char, 64> bytes_{};
  size_t size_ = 0;
};

MessageKey LoadPlace(const char* bytes) {
  return MessageKey{LoadBigEndian<uint64_t>(bytes), MessageId{LoadBigEndian<uint64_t>(bytes + 8),
                                                              LoadBigEndian<uint64_t>(bytes + 16)}};
}

MessageKey PlaceAfterHead(absl::string_view bytes, size_t head) {
  std::array<char, kPlaceBytes> place{};
  if (bytes.size() > head) bytes.substr(head).copy(place.data(), place.size());
  if (bytes.size() > head + place.size()) {
    // The key is less than `bytes`: the next one is wanted.
    for (size_t i = place.size(); i > 0 && ++place[i - 1] == 0; --i) {
    }
  }
  return LoadPlace(place.data());
}

}  // namespace

StoreKey::StoreKey(ColumnFamily family, absl::string_view bytes) {
  block_[0] = static_cast<char>(family);
  std::memcpy(&block_[1], bytes.data(), std::min(bytes.size(), kBytesMax));
  block_[kLengthAt] = static_cast<char>(std::min(bytes.size(), kBytesMax + 1));
}

StoreKey EncodeMessageKey(uint16_t shard, const MessageKey& key) {
  return KeyWriter().Number(shard).Place(key).In(ColumnFamily::kMessages);
}

StoreKey EncodeBacklogKey(uint16_t shard, SubscriptionId subscription, const MessageKey& key) {
  return KeyWriter()
      .Number(shard)
      .Number(static_cast<uint32_t>(subscription))
      .Place(key)
      .In(ColumnFamily::kBacklog);
}

StoreKey BacklogEnd(uint16_t shard, SubscriptionId subscription) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  return EncodeBacklogKey(shard, subscription, MessageKey{kMax, MessageId{kMax, kMax}});
}

StoreKey EncodeProgressKey(uint16_t shard, const MessageKey& key, SubscriptionId subscription) {
  return KeyWriter()
      .Number(shard)
      .Place(key)
      .Number(static_cast<uint32_t>(subscription))
      .In(ColumnFamily::kProgress);
}

StoreKey ProgressBegin(uint16_t shard, const MessageKey& key) {
  return KeyWriter().Number(shard).Place(key).In(ColumnFamily::kProgress);
}

StoreKey ProgressEnd(uint16_t shard, const MessageKey& key) {
  MessageKey next = key;
  // The high half of an id begins with its version and is never all ones.
  if (++next.id.low == 0) ++next.id.high;
  return ProgressBegin(shard, next);
}

StoreKey EncodeLocatorKey(uint16_t shard, const MessageId& id) {
  return KeyWriter().Number(shard).Number(id.high).Number(id.low).In(ColumnFamily::kLocators);
}

StoreKey EncodeCountKey(uint16_t shard, TopicId topic, CountRow row, uint64_t start_ms) {
  return KeyWriter()
      .Number(shard)
      .Number(static_cast<uint32_t>(topic))
      .Number(static_cast<uint8_t>(row))
      .Number(start_ms)
      .In(ColumnFamily::kCounts);
}

NameKey::NameKey(ColumnFamily family, absl::string_view head, absl::string_view name)
    : family_(family) {
  bytes_.reserve(head.size() + name.size() + 1);
  bytes_.assign(head.begin(), head.end());
  bytes_.insert(bytes_.end(), name.begin(), name.end());
}

NameKey NameKey::OfIndex(uint16_t shard, TopicId topic, uint8_t kind, absl::string_view name) {
  const StoreKey head = KeyWriter()
                            .Number(shard)
                            .Number(static_cast<uint32_t>(topic))
                            .Number(kind)
                            .In(ColumnFamily::kIndex);
  return NameKey(head.family(), head.bytes(), name);
}

NameKey NameKey::OfObject(uint8_t kind, uint16_t shard, absl::string_view name) {
  const StoreKey head = KeyWriter().Number(kind).Number(shard).In(ColumnFamily::kObjects);
  return NameKey(head.family(), head.bytes(), name);
}

NameKey NameKey::After() const {
  NameKey after = *this;
  after.bytes_.push_back('\0');
  return after;
}

NameKey NameKey::EndOfPrefix() const {
  NameKey end = *this;
  // The bytes before the name are never all ones, so the loop ends within the key.
  while (end.bytes_.back() == '\xff') end.bytes_.pop_back();
  end.bytes_.back() = static_cast<char>(end.bytes_.back() + 1);
  return end;
}

StoreKey FormatVersionKey() { return StoreKey(ColumnFamily::kMeta, "format_version"); }
StoreKey StoreIdKey() { return StoreKey(ColumnFamily::kMeta, "store_id"); }
StoreKey EpochKey() { return StoreKey(ColumnFamily::kMeta, "epoch"); }
StoreKey ShardCountKey() { return StoreKey(ColumnFamily::kMeta, "shard_count"); }
StoreKey WitnessFileKey() { return StoreKey(ColumnFamily::kMeta, "witness_file"); }
StoreKey LogPlaceKey() { return StoreKey(ColumnFamily::kMeta, "log_place"); }
StoreKey UpgradeKey() { return StoreKey(ColumnFamily::kMeta, "upgrade"); }

StoreKey ClaimKey(uint16_t shard) {
  return KeyWriter().Text("claim/").Number(shard).In(ColumnFamily::kMeta);
}

StoreKey LowWatermarkKey(uint16_t shard) {
  return KeyWriter().Text("safe/").Number(shard).In(ColumnFamily::kMeta);
}

StoreKey BacklogClaimKey(uint16_t shard, SubscriptionId subscription) {
  return KeyWriter()
      .Text("backlog_claim/")
      .Number(shard)
      .Number(static_cast<uint32_t>(subscription))
      .In(ColumnFamily::kMeta);
}

StoreKey TopicKey(TopicId topic) {
  return KeyWriter()
      .Text(kTopicPrefix)
      .Number(static_cast<uint32_t>(topic))
      .In(ColumnFamily::kMeta);
}

StoreKey TopicKeysEnd() {
  return KeyWriter()
      .Text(kTopicPrefix)
      .Number(std::numeric_limits<uint64_t>::max())
      .In(ColumnFamily::kMeta);
}

std::optional<uint16_t> DecodeShard(absl::string_view bytes) {
  if (bytes.size() < kShardBytes) return std::nullopt;
  return LoadBigEndian<uint16_t>(bytes.data());
}

std::optional<MessageKey> DecodeMessageKey(absl::string_view bytes) {
  if (bytes.size() != kShardBytes + kPlaceBytes) return std::nullopt;
  return LoadPlace(bytes.data() + kShardBytes);
}

std::optional<BacklogPlace> DecodeBacklogKey(absl::string_view bytes) {
  if (bytes.size() != kShardBytes + kSubscriptionBytes + kPlaceBytes) return std::nullopt;
  return BacklogPlace{SubscriptionId{LoadBigEndian<uint32_t>(bytes.data() + kShardBytes)},
                      LoadPlace(bytes.data() + kShardBytes + kSubscriptionBytes)};
}

MessageKey PlaceInMessages(absl::string_view bytes) { return PlaceAfterHead(bytes, kShardBytes); }

MessageKey PlaceInBacklog(absl::string_view bytes) {
  return PlaceAfterHead(bytes, kShardBytes + kSubscriptionBytes);
}

std::optional<MessageId> DecodeLocatorKey(absl::string_view bytes) {
  if (bytes.size() != kShardBytes + 2 * sizeof(uint64_t)) return std::nullopt;
  return MessageId{.high = LoadBigEndian<uint64_t>(bytes.data() + kShardBytes),
                   .low = LoadBigEndian<uint64_t>(bytes.data() + kShardBytes + sizeof(uint64_t))};
}

std::optional<SubscriptionId> DecodeProgressKey(absl::string_view bytes) {
  if (bytes.size() != kProgressPrefixBytes + kSubscriptionBytes) return std::nullopt;
  return SubscriptionId{LoadBigEndian<uint32_t>(bytes.data() + kProgressPrefixBytes)};
}

std::optional<CountPlace> DecodeCountKey(absl::string_view bytes) {
  constexpr size_t kHeadBytes = kShardBytes + kTopicBytes + kRowBytes;
  if (bytes.size() != kHeadBytes + sizeof(uint64_t)) return std::nullopt;
  const CountRow row{static_cast<uint8_t>(bytes[kHeadBytes - kRowBytes])};
  if (row != CountRow::kTopic && row != CountRow::kDay && row != CountRow::kDone) {
    return std::nullopt;
  }
  return CountPlace{.shard = LoadBigEndian<uint16_t>(bytes.data()),
                    .topic = TopicId{LoadBigEndian<uint32_t>(bytes.data() + kShardBytes)},
                    .row = row,
                    .start_ms = LoadBigEndian<uint64_t>(bytes.data() + kHeadBytes)};
}

std::optional<absl::string_view> DecodeIndexKey(absl::string_view bytes) {
  constexpr size_t kHeadBytes = kShardBytes + kTopicBytes + kKindBytes;
  if (bytes.size() < kHeadBytes) return std::nullopt;
  return bytes.substr(kHeadBytes);
}

std::optional<absl::string_view> DecodeObjectKey(absl::string_view bytes) {
  constexpr size_t kHeadBytes = kKindBytes + kShardBytes;
  if (bytes.size() < kHeadBytes) return std::nullopt;
  return bytes.substr(kHeadBytes);
}

std::optional<TopicId> DecodeTopicKey(absl::string_view bytes) {
  if (bytes.size() != kTopicPrefix.size() + kTopicBytes) return std::nullopt;
  return TopicId{LoadBigEndian<uint32_t>(bytes.data() + kTopicPrefix.size())};
}

}  // namespace duetime::storage
