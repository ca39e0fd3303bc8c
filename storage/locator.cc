// SPDX-License-Identifier: Apache-2.0
#include "storage/locator.h"

#include <cstring>

#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

// Index entry: expire_ms u64, version u8, outcome u8, id 16, content 16, three times u64. Version 2
// has another id.
constexpr uint8_t kIndexEntryVersion = 1;
constexpr uint8_t kIndexEntryWithPrevious = 2;
constexpr size_t kIndexEntryBytes = 8 + 1 + 1 + 16 + 16 + 3 * 8;
constexpr size_t kIndexEntryWithPreviousBytes = kIndexEntryBytes + 16;

// Locator: expire_ms u64, version u8, state u8, then for a moved message due_ms u64,
constexpr uint8_t kLocatorVersion = 1;
constexpr uint8_t kMoved = 0;
constexpr size_t kLocatorHeadBytes = 8 + 1 + 1;
constexpr size_t kMovedBytes = kLocatorHeadBytes + 8;
// or for an ended one: flags u8, topic u32, attempts u32, payload_bytes u32, six u64, the key.
constexpr size_t kTombstoneBytes =
    kLocatorHeadBytes + 1 + 3 * sizeof(uint32_t) + 6 * sizeof(uint64_t);
constexpr uint8_t kRedeliveryStopped = 1;

// Writes numbers in sequence.
class Writer {
 public:
  explicit Writer(char* to) : to_(to) {}

  template <typename... T>
  void Put(T... values) {
    (PutOne(values), ...);
  }
  // Big-endian, as in a key.
  void Put(const MessageId& id) {
    StoreBigEndian(id.high, to_);
    StoreBigEndian(id.low, to_ + 8);
    to_ += 16;
  }

 private:
  template <typename T>
  void PutOne(T value) {
    StoreLittleEndian(value, to_);
    to_ += sizeof(T);
  }

  char* to_;
};

// Reads numbers in sequence. REQUIRES: there are enough bytes.
class Reader {
 public:
  explicit Reader(const char* from) : from_(from) {}

  template <typename... T>
  void Get(T*... values) {
    (GetOne(values), ...);
  }
  void Get(MessageId* id) {
    id->high = LoadBigEndian<uint64_t>(from_);
    id->low = LoadBigEndian<uint64_t>(from_ + 8);
    from_ += 16;
  }

 private:
  template <typename T>
  void GetOne(T* value) {
    *value = LoadLittleEndian<T>(from_);
    from_ += sizeof(T);
  }

  const char* from_;
};

absl::Status Damaged(absl::string_view what, absl::string_view bytes) {
  return absl::DataLossError(
      absl::StrCat(what, " of ", bytes.size(), " bytes that cannot be decoded"));
}

std::string EncodeTombstone(const Tombstone& tombstone) {
  std::string bytes(kTombstoneBytes + tombstone.key.size(), '\0');
  Writer writer(bytes.data());
  writer.Put(tombstone.expire_ms, kLocatorVersion, static_cast<uint8_t>(tombstone.state));
  writer.Put(tombstone.redelivery_stopped ? kRedeliveryStopped : uint8_t{0});
  writer.Put(static_cast<uint32_t>(tombstone.topic), tombstone.attempts, tombstone.payload_bytes);
  writer.Put(tombstone.deliver_ms, tombstone.accept_ms, tombstone.fire_ms, tombstone.dispatch_ms,
             tombstone.end_ms, tombstone.revision);
  if (!tombstone.key.empty())
    std::memcpy(&bytes[kTombstoneBytes], tombstone.key.data(), tombstone.key.size());
  return bytes;
}

// Decodes the bytes after the state. REQUIRES: at least kTombstoneBytes.
std::optional<Tombstone> DecodeTombstone(absl::string_view bytes) {
  Tombstone tombstone;
  uint8_t flags = 0;
  uint32_t topic = 0;
  Reader reader(bytes.data() + kLocatorHeadBytes);
  reader.Get(&flags, &topic, &tombstone.attempts, &tombstone.payload_bytes);
  reader.Get(&tombstone.deliver_ms, &tombstone.accept_ms, &tombstone.fire_ms,
             &tombstone.dispatch_ms, &tombstone.end_ms, &tombstone.revision);
  if ((flags & ~unsigned{kRedeliveryStopped}) != 0) return std::nullopt;
  tombstone.topic = TopicId{topic};
  tombstone.redelivery_stopped = flags != 0;
  tombstone.key = std::string(bytes.substr(kTombstoneBytes));
  return tombstone;
}

}  // namespace

std::string EncodeIndexEntry(const IndexEntry& entry) {
  const bool previous = entry.previous != MessageId{};
  std::string bytes(previous ? kIndexEntryWithPreviousBytes : kIndexEntryBytes, '\0');
  Writer writer(bytes.data());
  writer.Put(entry.expire_ms, previous ? kIndexEntryWithPrevious : kIndexEntryVersion,
             entry.outcome);
  writer.Put(entry.id);
  writer.Put(entry.content.high, entry.content.low);
  writer.Put(entry.deliver_ms, entry.accept_ms, entry.old_deliver_ms);
  if (previous) writer.Put(entry.previous);
  return bytes;
}

absl::StatusOr<IndexEntry> DecodeIndexEntry(absl::string_view bytes) {
  const bool previous = bytes.size() == kIndexEntryWithPreviousBytes;
  if (!previous && bytes.size() != kIndexEntryBytes) return Damaged("an index entry", bytes);
  IndexEntry entry;
  uint8_t version = 0;
  Reader reader(bytes.data());
  reader.Get(&entry.expire_ms, &version, &entry.outcome);
  reader.Get(&entry.id);
  reader.Get(&entry.content.high, &entry.content.low);
  reader.Get(&entry.deliver_ms, &entry.accept_ms, &entry.old_deliver_ms);
  const uint8_t expected = previous ? kIndexEntryWithPrevious : kIndexEntryVersion;
  if (version != expected) return Damaged("an index entry", bytes);
  if (!previous) return entry;
  reader.Get(&entry.previous);
  if (entry.previous == MessageId{}) return Damaged("an index entry", bytes);
  return entry;
}

std::string EncodeLocator(const Locator& locator) {
  if (locator.tombstone.has_value()) return EncodeTombstone(*locator.tombstone);
  std::string bytes(kMovedBytes, '\0');
  Writer(bytes.data()).Put(uint64_t{0}, kLocatorVersion, kMoved, locator.due_ms);
  return bytes;
}

absl::StatusOr<Locator> DecodeLocator(absl::string_view bytes) {
  if (bytes.size() < kMovedBytes) return Damaged("a locator", bytes);
  Locator locator;
  uint64_t expire_ms = 0;
  uint8_t version = 0;
  uint8_t state = 0;
  Reader reader(bytes.data());
  reader.Get(&expire_ms, &version, &state);
  if (version != kLocatorVersion) return Damaged("a locator", bytes);
  if (state == kMoved) {
    if (bytes.size() != kMovedBytes || expire_ms != 0) return Damaged("a locator", bytes);
    reader.Get(&locator.due_ms);
    return locator;
  }
  if (state > static_cast<uint8_t>(EndState::kDropped) || bytes.size() < kTombstoneBytes) {
    return Damaged("a locator", bytes);
  }
  locator.tombstone = DecodeTombstone(bytes);
  if (!locator.tombstone.has_value()) return Damaged("a locator", bytes);
  locator.tombstone->expire_ms = expire_ms;
  locator.tombstone->state = EndState{state};
  return locator;
}

std::optional<uint64_t> ExpireTimeOf(absl::string_view bytes) {
  if (bytes.size() < sizeof(uint64_t)) return std::nullopt;
  return LoadLittleEndian<uint64_t>(bytes.data());
}

}  // namespace duetime::storage
