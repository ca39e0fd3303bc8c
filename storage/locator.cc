// SPDX-License-Identifier: Apache-2.0
#include "storage/locator.h"

#include <array>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "storage/byte_order.h"
#include "storage/varint.h"

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
constexpr size_t kLetterBytes = 16;
constexpr size_t kMovedBytes = kLocatorHeadBytes + 8;
// or for an ended one: flags u8, topic u32, attempts u32, payload_bytes u32, six u64, with
// kHasLetters the number of dead letters u8 and their ids, the key.
constexpr size_t kTombstoneBytes =
    kLocatorHeadBytes + 1 + 3 * sizeof(uint32_t) + 6 * sizeof(uint64_t);
constexpr uint8_t kRedeliveryStopped = 1;
constexpr uint8_t kHasLetters = 2;

// Tombstones of several messages: expire_ms u64, version u8, state u8, flags u8, topic u32,
// end_ms u64, then for each its low half of the id u64 (big-endian), varints, the key, and with
// kHasLetters the number of dead letters u8 and their ids.
constexpr uint8_t kTombstoneRowVersion = 2;
constexpr size_t kRowHeadBytes = kLocatorHeadBytes + 1 + sizeof(uint32_t) + sizeof(uint64_t);
// AddTombstone refuses a row of this size, because a reader decodes the whole row.
constexpr size_t kFullRowBytes = 4096;

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

uint8_t FlagsOf(const Tombstone& tombstone) {
  return static_cast<uint8_t>((tombstone.redelivery_stopped ? kRedeliveryStopped : 0) |
                              (tombstone.dead_letters.empty() ? 0 : kHasLetters));
}

// Nothing without dead letters.
void AppendLetters(const Tombstone& tombstone, std::string* bytes) {
  if (tombstone.dead_letters.empty()) return;
  DT_CHECK_LE(tombstone.dead_letters.size(), kDeadLettersNamedMax);
  bytes->push_back(static_cast<char>(tombstone.dead_letters.size()));
  for (const MessageId& id : tombstone.dead_letters) {
    bytes->resize(bytes->size() + kLetterBytes);
    Writer(&(*bytes)[bytes->size() - kLetterBytes]).Put(id);
  }
}

// Takes what AppendLetters wrote from the front. Returns false for other bytes.
bool TakeLetters(absl::string_view* bytes, std::vector<MessageId>* letters) {
  letters->clear();
  if (bytes->empty()) return false;
  const auto count = static_cast<uint8_t>(bytes->front());
  bytes->remove_prefix(1);
  if (count == 0 || count > kDeadLettersNamedMax || bytes->size() < count * kLetterBytes)
    return false;
  for (uint8_t i = 0; i < count; ++i) {
    Reader(bytes->data()).Get(&letters->emplace_back());
    bytes->remove_prefix(kLetterBytes);
    if (letters->back() == MessageId{}) return false;
  }
  return true;
}

std::string EncodeTombstone(const Tombstone& tombstone) {
  std::string bytes(kTombstoneBytes, '\0');
  Writer writer(bytes.data());
  writer.Put(tombstone.expire_ms, kLocatorVersion, static_cast<uint8_t>(tombstone.state));
  writer.Put(FlagsOf(tombstone));
  writer.Put(static_cast<uint32_t>(tombstone.topic), tombstone.attempts, tombstone.payload_bytes);
  writer.Put(tombstone.deliver_ms, tombstone.accept_ms, tombstone.fire_ms, tombstone.dispatch_ms,
             tombstone.end_ms, tombstone.revision);
  AppendLetters(tombstone, &bytes);
  return bytes + tombstone.key;
}

// Sets how a message ended. Returns false for bytes that no encoder writes.
bool SetEnd(uint8_t state, uint8_t flags, uint32_t topic, Tombstone* tombstone) {
  if (state == kMoved || state > static_cast<uint8_t>(EndState::kDropped)) return false;
  if ((flags & ~(kRedeliveryStopped | kHasLetters)) != 0) return false;
  tombstone->state = EndState{state};
  tombstone->topic = TopicId{topic};
  tombstone->redelivery_stopped = (flags & kRedeliveryStopped) != 0;
  return true;
}

// Decodes the bytes after the state. REQUIRES: at least kTombstoneBytes.
std::optional<Tombstone> DecodeTombstone(uint8_t state, absl::string_view bytes) {
  Tombstone tombstone;
  uint8_t flags = 0;
  uint32_t topic = 0;
  Reader reader(bytes.data() + kLocatorHeadBytes);
  reader.Get(&flags, &topic, &tombstone.attempts, &tombstone.payload_bytes);
  reader.Get(&tombstone.deliver_ms, &tombstone.accept_ms, &tombstone.fire_ms,
             &tombstone.dispatch_ms, &tombstone.end_ms, &tombstone.revision);
  if (!SetEnd(state, flags, topic, &tombstone)) return std::nullopt;
  bytes.remove_prefix(kTombstoneBytes);
  if ((flags & kHasLetters) != 0 && !TakeLetters(&bytes, &tombstone.dead_letters)) {
    return std::nullopt;
  }
  tombstone.key = std::string(bytes);
  return tombstone;
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
  if (bytes.size() < kTombstoneBytes) return Damaged("a locator", bytes);
  locator.tombstone = DecodeTombstone(state, bytes);
  if (!locator.tombstone.has_value()) return Damaged("a locator", bytes);
  locator.tombstone->expire_ms = expire_ms;
  return locator;
}

using RowHead = std::array<char, kRowHeadBytes>;

RowHead EncodeRowHead(const Tombstone& tombstone) {
  RowHead head{};
  Writer writer(head.data());
  writer.Put(tombstone.expire_ms, kTombstoneRowVersion, static_cast<uint8_t>(tombstone.state));
  writer.Put(FlagsOf(tombstone));
  writer.Put(static_cast<uint32_t>(tombstone.topic), tombstone.end_ms);
  return head;
}

// Times are close to each other, so their differences are small.
void AppendDifference(uint64_t value, uint64_t base, std::string* bytes) {
  AppendVarint(ZigZag(static_cast<int64_t>(value - base)), bytes);
}

// Takes one message of a row with these flags from the front. Returns false for bytes that
// AddTombstone does not write.
bool TakeTombstone(uint8_t flags, absl::string_view* bytes, MessageId* id, Tombstone* tombstone) {
  if (bytes->size() < sizeof(uint64_t)) return false;
  id->low = LoadBigEndian<uint64_t>(bytes->data());
  bytes->remove_prefix(sizeof(uint64_t));
  constexpr size_t kNumbers = 7;
  std::array<uint64_t, kNumbers> numbers{};
  for (uint64_t& number : numbers) {
    const std::optional<uint64_t> taken = TakeVarint(bytes);
    if (!taken.has_value()) return false;
    number = *taken;
  }
  const auto [attempts, payload_bytes, deliver, accept, fire, dispatch, key_bytes] = numbers;
  constexpr uint64_t kMax32 = std::numeric_limits<uint32_t>::max();
  if (attempts > kMax32 || payload_bytes > kMax32 || key_bytes > bytes->size()) return false;
  const auto add = [](uint64_t base, uint64_t difference) {
    return base + static_cast<uint64_t>(UnZigZag(difference));
  };
  tombstone->attempts = static_cast<uint32_t>(attempts);
  tombstone->payload_bytes = static_cast<uint32_t>(payload_bytes);
  tombstone->deliver_ms = add(id->due_ms(), deliver);
  tombstone->accept_ms = add(tombstone->deliver_ms, accept);
  tombstone->fire_ms = add(tombstone->deliver_ms, fire);
  tombstone->dispatch_ms = add(tombstone->fire_ms, dispatch);
  tombstone->key.assign(bytes->data(), key_bytes);
  bytes->remove_prefix(key_bytes);
  return (flags & kHasLetters) == 0 || TakeLetters(bytes, &tombstone->dead_letters);
}

// ReadTraceRow for a row of tombstones.
absl::StatusOr<std::optional<Locator>> FindInRow(const MessageId& row, absl::string_view bytes,
                                                 const MessageId& id) {
  const auto damaged = [bytes] { return Damaged("a row of tombstones", bytes); };
  if (bytes.size() <= kRowHeadBytes) return damaged();
  Tombstone tombstone;
  uint8_t version = 0;
  uint8_t state = 0;
  uint8_t flags = 0;
  uint32_t topic = 0;
  Reader reader(bytes.data());
  reader.Get(&tombstone.expire_ms, &version, &state, &flags, &topic, &tombstone.end_ms);
  if (!SetEnd(state, flags, topic, &tombstone)) return damaged();
  std::optional<Locator> found;
  absl::string_view rest = bytes.substr(kRowHeadBytes);
  for (MessageId next = row; !rest.empty();) {
    const bool first = rest.size() == bytes.size() - kRowHeadBytes;
    if (!TakeTombstone(flags, &rest, &next, &tombstone) || (first && next != row)) return damaged();
    if (next == id && !found.has_value()) found = Locator{.due_ms = 0, .tombstone = tombstone};
  }
  return found;
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

bool AddTombstone(const MessageId& id, const Tombstone& tombstone, std::string* row) {
  DT_CHECK_EQ(tombstone.revision, 0u);
  const RowHead head = EncodeRowHead(tombstone);
  const absl::string_view head_bytes(head.data(), head.size());
  if (row->empty()) {
    row->assign(head_bytes.data(), head_bytes.size());
  } else if (row->size() >= kFullRowBytes || !absl::StartsWith(*row, head_bytes)) {
    return false;
  }
  std::array<char, sizeof(uint64_t)> low{};
  StoreBigEndian(id.low, low.data());
  row->append(low.data(), low.size());
  AppendVarint(tombstone.attempts, row);
  AppendVarint(tombstone.payload_bytes, row);
  AppendDifference(tombstone.deliver_ms, id.due_ms(), row);
  AppendDifference(tombstone.accept_ms, tombstone.deliver_ms, row);
  AppendDifference(tombstone.fire_ms, tombstone.deliver_ms, row);
  AppendDifference(tombstone.dispatch_ms, tombstone.fire_ms, row);
  AppendVarint(tombstone.key.size(), row);
  row->append(tombstone.key);
  AppendLetters(tombstone, row);
  return true;
}

absl::StatusOr<std::optional<Locator>> ReadTraceRow(const MessageId& row, absl::string_view bytes,
                                                    const MessageId& id) {
  if (bytes.size() >= kLocatorHeadBytes && bytes[sizeof(uint64_t)] == kTombstoneRowVersion) {
    return FindInRow(row, bytes, id);
  }
  absl::StatusOr<Locator> locator = DecodeLocator(bytes);
  if (!locator.ok()) return locator.status();
  if (row != id) return std::optional<Locator>();
  return std::optional<Locator>(*std::move(locator));
}

std::optional<uint64_t> ExpireTimeOf(absl::string_view bytes) {
  if (bytes.size() < sizeof(uint64_t)) return std::nullopt;
  return LoadLittleEndian<uint64_t>(bytes.data());
}

}  // namespace duetime::storage
