// SPDX-License-Identifier: Apache-2.0
#include "storage/journal_record.h"

#define XXH_INLINE_ALL
#include <concepts>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "storage/byte_order.h"
#include "storage/value_codec.h"

namespace duetime::storage {
namespace {

// A new format of the values that records carry is a new version, because an older program would
// apply values that it cannot read. All versions have the same fields.
constexpr uint8_t kJournalVersion = 4;
// Versions 1 to 3 are of programs before 1.0.
constexpr uint8_t kJournalVersionMin = 4;
// version u8, kind u8, epoch u64, number u64, log u64
constexpr size_t kJournalHeadBytes = 26;
constexpr size_t kJournalChecksumBytes = 8;

// Writes fields; see VisitFields.
class JournalFieldsOut {
 public:
  template <std::unsigned_integral T>
  void operator()(T value) {
    char bytes[sizeof(T)];
    StoreLittleEndian(value, bytes);
    bytes_.append(bytes, sizeof(bytes));
  }
  template <typename E>
  requires std::is_enum_v<E>
  void operator()(E value) { (*this)(static_cast<std::underlying_type_t<E>>(value)); }
  void operator()(bool value) { (*this)(static_cast<uint8_t>(value ? 1 : 0)); }
  void operator()(const std::string& text) {
    DT_CHECK_LE(text.size(), std::numeric_limits<uint32_t>::max());
    (*this)(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  void operator()(const MessageId& id) {
    (*this)(id != MessageId{});
    if (id == MessageId{}) return;
    (*this)(id.high);
    (*this)(id.low);
  }
  void operator()(const std::optional<ClaimReturn>& back) {
    (*this)(back.has_value());
    if (!back.has_value()) return;
    (*this)(back->until_ms);
    (*this)(back->epoch);
  }

  std::string Take() { return std::move(bytes_); }
  absl::string_view bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Reads fields. After the first that is missing or bad, ok() is false and nothing more is read.
class JournalFieldsIn {
 public:
  explicit JournalFieldsIn(absl::string_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  void operator()(T& value) {
    const absl::string_view bytes = Bytes(sizeof(T));
    if (ok_) value = LoadLittleEndian<T>(bytes.data());
  }
  template <typename E>
  requires std::is_enum_v<E>
  void operator()(E& value) {
    std::underlying_type_t<E> number{};
    (*this)(number);
    value = E{number};
  }
  void operator()(bool& value) {
    uint8_t number = 0;
    (*this)(number);
    value = number != 0;
    ok_ = ok_ && number <= 1;
  }
  void operator()(std::string& text) {
    uint32_t size = 0;
    (*this)(size);
    const absl::string_view bytes = Bytes(size);
    text.assign(bytes.data(), bytes.size());
  }
  void operator()(MessageId& id) {
    bool present = false;
    (*this)(present);
    if (!present) return;
    (*this)(id.high);
    (*this)(id.low);
    ok_ = ok_ && id != MessageId{};
  }
  void operator()(std::optional<ClaimReturn>& back) {
    bool present = false;
    (*this)(present);
    if (!present) return;
    back.emplace();
    (*this)(back->until_ms);
    (*this)(back->epoch);
  }

  bool ok() const { return ok_; }
  bool empty() const { return rest_.empty(); }
  void Fail() { ok_ = false; }

 private:
  absl::string_view Bytes(size_t size) {
    ok_ = ok_ && rest_.size() >= size;
    if (!ok_) return {};
    const absl::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

template <typename AnyEntry, typename Io>
void VisitBacklogEntry(AnyEntry& entry, Io& io) {
  io(entry.attempts);
  io(entry.bytes);
  io(entry.maybe_delivered);
  io(entry.due_ms);
}

template <typename AnyProgress, typename Io>
void VisitProgress(AnyProgress& progress, Io& io) {
  io(progress.state);
  io(progress.listed);
  io(progress.attempts);
  io(progress.spared);
  io(progress.retry_ms);
  io(progress.reason);
  io(progress.dead_letter);
  io(progress.last_attempts);
}

// Calls `io` with each field that a record of its type uses, and returns true; false for an unknown
// type. The fields and their order are the format: a change of them, or a new type, is a new
// version. Readers know all versions that a log may still hold.
template <typename AnyRecord, typename Io>
bool VisitFields(AnyRecord& record, Io& io) {
  const auto key = [&] {
    io(record.key.due_ms);
    io(record.key.id.high);
    io(record.key.id.low);
  };
  io(record.shard);
  switch (record.type) {
    case RecordType::kAccept:
      io(record.topic);
      key();
      io(record.value);
      return true;
    case RecordType::kErase:
      io(record.topic);
      key();
      io(record.bytes);
      return true;
    case RecordType::kClaim:
      io(record.mark_ms);
      io(record.claim_return);
      return true;
    case RecordType::kLowWatermark:
      io(record.mark_ms);
      return true;
    case RecordType::kSpill:
      io(record.subscription);
      key();
      VisitBacklogEntry(record.backlog, io);
      return true;
    case RecordType::kUnspill:
    case RecordType::kBacklogClaim:
      io(record.subscription);
      key();
      return true;
    case RecordType::kUnprogress:
      io(record.subscription);
      key();
      io(record.progress.state);
      return true;
    case RecordType::kTopic:
      io(record.topic);
      io(record.value);
      return true;
    case RecordType::kIndex:
      io(record.topic);
      io(record.kind);
      io(record.name);
      io(record.value);
      return true;
    case RecordType::kLocator:
      key();
      io(record.value);
      return true;
    case RecordType::kObject:
      io(record.kind);
      io(record.name);
      io(record.value);
      return true;
    case RecordType::kUnobject:
      io(record.kind);
      io(record.name);
      return true;
    case RecordType::kProgress:
      io(record.subscription);
      key();
      VisitProgress(record.progress, io);
      return true;
  }
  return false;
}

void ReadGroup(JournalFieldsIn* in, std::vector<RecordBatch>* group) {
  uint32_t batches = 0;
  (*in)(batches);
  for (; in->ok() && batches > 0; --batches) {
    RecordBatch& batch = group->emplace_back();
    uint32_t records = 0;
    (*in)(records);
    for (; in->ok() && records > 0; --records) {
      Record& record = batch.emplace_back();
      (*in)(record.type);
      if (!VisitFields(record, *in) || !IsSound(record.progress)) in->Fail();
    }
  }
}

uint64_t ChecksumOf(absl::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace

std::string EncodeJournalRecord(const JournalRecordHead& head, std::span<const RecordBatch> group) {
  JournalFieldsOut out;
  out(kJournalVersion);
  out(head.kind);
  out(head.epoch);
  out(head.number);
  out(head.log);
  if (head.kind != JournalRecordHead::Kind::kEpoch) {
    out(static_cast<uint32_t>(group.size()));
    for (const RecordBatch& batch : group) {
      out(static_cast<uint32_t>(batch.size()));
      for (const Record& record : batch) {
        out(record.type);
        DT_CHECK(VisitFields(record, out) && IsSound(record.progress));
      }
    }
  }
  out(ChecksumOf(out.bytes()));
  return out.Take();
}

absl::StatusOr<JournalRecordHead> DecodeJournalRecordHead(absl::string_view bytes) {
  if (bytes.size() < kJournalHeadBytes + kJournalChecksumBytes) {
    return absl::DataLossError("a record of the log is too short");
  }
  const absl::string_view content = bytes.substr(0, bytes.size() - kJournalChecksumBytes);
  if (LoadLittleEndian<uint64_t>(&bytes[content.size()]) != ChecksumOf(content)) {
    return absl::DataLossError("a record of the log has a wrong checksum");
  }
  JournalFieldsIn in(content.substr(1));
  JournalRecordHead head;
  in(head.kind);
  in(head.epoch);
  in(head.number);
  in(head.log);
  if (head.kind != JournalRecordHead::Kind::kGroup &&
      head.kind != JournalRecordHead::Kind::kEpoch &&
      head.kind != JournalRecordHead::Kind::kReport) {
    return absl::UnimplementedError(
        absl::StrCat("a record of the log has the unknown kind ", static_cast<int>(head.kind)));
  }
  return head;
}

absl::StatusOr<std::vector<RecordBatch>> DecodeJournalGroup(absl::string_view bytes) {
  const auto version = static_cast<uint8_t>(bytes[0]);
  std::vector<RecordBatch> group;
  if (JournalRecordHead::Kind{static_cast<uint8_t>(bytes[1])} == JournalRecordHead::Kind::kEpoch) {
    return group;
  }
  if (version < kJournalVersionMin || version > kJournalVersion) {
    return absl::UnimplementedError(absl::StrCat("a record of the log has version ", version,
                                                 ", and this program knows ", kJournalVersionMin,
                                                 " to ", kJournalVersion));
  }
  JournalFieldsIn in(
      bytes.substr(kJournalHeadBytes, bytes.size() - kJournalHeadBytes - kJournalChecksumBytes));
  ReadGroup(&in, &group);
  if (!in.ok() || !in.empty()) return absl::InternalError("a record of the log is not valid");
  return group;
}

}  // namespace duetime::storage
