// SPDX-License-Identifier: Apache-2.0
#include "storage/trace.h"

#include <cstring>

#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

// Index entry: expire_ms u64, version u8, outcome u8, id 16, content 16, three times u64.
constexpr uint8_t kIndexEntryVersion = 1;
constexpr size_t kIndexEntryBytes = 8 + 1 + 1 + 16 + 16 + 3 * 8;

// Trace: expire_ms u64, version u8, state u8; then where it was moved to, due_ms u64, ...
constexpr uint8_t kTraceVersion = 1;
constexpr uint8_t kMoved = 0;
constexpr size_t kTraceHeadBytes = 8 + 1 + 1;
constexpr size_t kMovedBytes = kTraceHeadBytes + 8;
// ... or how it ended: flags u8, topic u32, attempts u32, payload_bytes u32, six u64, the key.
constexpr size_t kFateBytes = kTraceHeadBytes + 1 + 3 * 4 + 6 * 8;
constexpr uint8_t kRedeliveryStopped = 1;

// Writes numbers one after the other.
class Writer {
 public:
  explicit Writer(char* to) : to_(to) {}

  template <typename... T>
  void Put(T... values) {
    (PutOne(values), ...);
  }
  // As in a key.
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

// Reads them back. REQUIRES: there are enough bytes.
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
  return absl::DataLossError(absl::StrCat(what, " of ", bytes.size(), " bytes that nobody wrote"));
}

std::string EncodeFate(const Fate& fate) {
  std::string bytes(kFateBytes + fate.key.size(), '\0');
  Writer writer(bytes.data());
  writer.Put(fate.expire_ms, kTraceVersion, static_cast<uint8_t>(fate.state));
  writer.Put(fate.redelivery_stopped ? kRedeliveryStopped : uint8_t{0});
  writer.Put(static_cast<uint32_t>(fate.topic), fate.attempts, fate.payload_bytes);
  writer.Put(fate.deliver_ms, fate.accept_ms, fate.fire_ms, fate.dispatch_ms, fate.end_ms,
             fate.revision);
  if (!fate.key.empty()) std::memcpy(&bytes[kFateBytes], fate.key.data(), fate.key.size());
  return bytes;
}

// Reads what follows the state. REQUIRES: at least kFateBytes.
std::optional<Fate> DecodeFate(absl::string_view bytes) {
  Fate fate;
  uint8_t flags = 0;
  uint32_t topic = 0;
  Reader reader(bytes.data() + kTraceHeadBytes);
  reader.Get(&flags, &topic, &fate.attempts, &fate.payload_bytes);
  reader.Get(&fate.deliver_ms, &fate.accept_ms, &fate.fire_ms, &fate.dispatch_ms, &fate.end_ms,
             &fate.revision);
  if ((flags & ~unsigned{kRedeliveryStopped}) != 0) return std::nullopt;
  fate.topic = TopicId{topic};
  fate.redelivery_stopped = flags != 0;
  fate.key = std::string(bytes.substr(kFateBytes));
  return fate;
}

}  // namespace

std::string EncodeIndexEntry(const IndexEntry& entry) {
  std::string bytes(kIndexEntryBytes, '\0');
  Writer writer(bytes.data());
  writer.Put(entry.expire_ms, kIndexEntryVersion, entry.outcome);
  writer.Put(entry.id);
  writer.Put(entry.content.high, entry.content.low);
  writer.Put(entry.deliver_ms, entry.accept_ms, entry.old_deliver_ms);
  return bytes;
}

absl::StatusOr<IndexEntry> DecodeIndexEntry(absl::string_view bytes) {
  if (bytes.size() != kIndexEntryBytes) return Damaged("an index entry", bytes);
  IndexEntry entry;
  uint8_t version = 0;
  Reader reader(bytes.data());
  reader.Get(&entry.expire_ms, &version, &entry.outcome);
  reader.Get(&entry.id);
  reader.Get(&entry.content.high, &entry.content.low);
  reader.Get(&entry.deliver_ms, &entry.accept_ms, &entry.old_deliver_ms);
  if (version != kIndexEntryVersion) return Damaged("an index entry", bytes);
  return entry;
}

std::string EncodeTrace(const Trace& trace) {
  if (trace.fate.has_value()) return EncodeFate(*trace.fate);
  std::string bytes(kMovedBytes, '\0');
  Writer(bytes.data()).Put(uint64_t{0}, kTraceVersion, kMoved, trace.due_ms);
  return bytes;
}

absl::StatusOr<Trace> DecodeTrace(absl::string_view bytes) {
  if (bytes.size() < kMovedBytes) return Damaged("a trace", bytes);
  Trace trace;
  uint64_t expire_ms = 0;
  uint8_t version = 0;
  uint8_t state = 0;
  Reader reader(bytes.data());
  reader.Get(&expire_ms, &version, &state);
  if (version != kTraceVersion) return Damaged("a trace", bytes);
  if (state == kMoved) {
    if (bytes.size() != kMovedBytes || expire_ms != 0) return Damaged("a trace", bytes);
    reader.Get(&trace.due_ms);
    return trace;
  }
  if (state > static_cast<uint8_t>(EndState::kDropped) || bytes.size() < kFateBytes) {
    return Damaged("a trace", bytes);
  }
  trace.fate = DecodeFate(bytes);
  if (!trace.fate.has_value()) return Damaged("a trace", bytes);
  trace.fate->expire_ms = expire_ms;
  trace.fate->state = EndState{state};
  return trace;
}

std::optional<uint64_t> ExpireTimeOf(absl::string_view bytes) {
  if (bytes.size() < sizeof(uint64_t)) return std::nullopt;
  return LoadLittleEndian<uint64_t>(bytes.data());
}

}  // namespace duetime::storage
