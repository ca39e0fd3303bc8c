// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb/manifest.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

// The tags of RocksDB's VersionEdit, without those of features that duetime does not use.
enum EditTag : uint32_t {
  kComparator = 1,
  kLogNumber = 2,
  kNextFileNumber = 3,
  kLastSequence = 4,
  kCompactCursor = 5,
  kDeletedFile = 6,
  kPrevLogNumber = 9,
  kMinLogNumberToKeep = 10,
  kNewFile4 = 103,
  kColumnFamily = 200,
  kColumnFamilyAdd = 201,
  kMaxColumnFamily = 203,
  // Greater tags have a length, so that older programs can skip them.
  kSkippable = 1 << 13,
};
constexpr uint32_t kEndOfFileFields = 1;
constexpr size_t kKeyTailBytes = 8;

// Reads RocksDB's varints and counted bytes from a record. After the first failure every read
// returns 0 or "" and ok() is false.
class Fields {
 public:
  explicit Fields(absl::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  bool more() const { return ok_ && !bytes_.empty(); }

  uint64_t Number() {
    uint64_t number = 0;
    for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      number |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return number;
    }
    ok_ = false;
    return 0;
  }

  absl::string_view Bytes() {
    const uint64_t size = Number();
    if (size > bytes_.size()) ok_ = false;
    const absl::string_view bytes = bytes_.substr(0, ok_ ? size : 0);
    bytes_.remove_prefix(ok_ ? size : bytes_.size());
    return bytes;
  }
  void SkipBytes() { Bytes(); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

// One record of a manifest: RocksDB's VersionEdit.
struct Edit {
  uint32_t family = 0;
  std::optional<std::string> added_family;
  std::optional<uint64_t> log;
  std::optional<uint64_t> last_sequence;
  uint64_t next_file = 0;
  uint64_t log_to_keep = 0;
  std::vector<uint64_t> deleted;
  struct Table {
    uint64_t number = 0;
    uint64_t bytes = 0;
    ManifestTable place;
  };
  std::vector<Table> added;
};

// The key in RocksDB's form: 8 bytes with its sequence number and type follow it.
std::string ReadKey(Fields* fields) {
  const absl::string_view bytes = fields->Bytes();
  return std::string(bytes.substr(0, bytes.size() - std::min(kKeyTailBytes, bytes.size())));
}

void ReadNewFile(Fields* fields, Edit* edit) {
  Edit::Table& table = edit->added.emplace_back();
  table.place.level = static_cast<uint32_t>(fields->Number());
  table.number = fields->Number();
  table.bytes = fields->Number();
  table.place.first = ReadKey(fields);
  table.place.last = ReadKey(fields);
  fields->Number();  // The smallest sequence number.
  fields->Number();  // The largest one. The edit's last_sequence covers it.
  while (fields->more() && fields->Number() != kEndOfFileFields) fields->SkipBytes();
}

bool ReadField(uint64_t tag, Fields* fields, Edit* edit) {
  switch (tag) {
    case kLogNumber:
      edit->log = fields->Number();
      return true;
    case kNextFileNumber:
      edit->next_file = fields->Number();
      return true;
    case kLastSequence:
      edit->last_sequence = fields->Number();
      return true;
    case kMinLogNumberToKeep:
      edit->log_to_keep = fields->Number();
      return true;
    case kDeletedFile:
      fields->Number();  // The level.
      edit->deleted.push_back(fields->Number());
      return true;
    case kNewFile4:
      ReadNewFile(fields, edit);
      return true;
    case kColumnFamily:
      edit->family = static_cast<uint32_t>(fields->Number());
      return true;
    case kColumnFamilyAdd:
      edit->added_family = std::string(fields->Bytes());
      return true;
    case kCompactCursor:
      fields->Number();
      fields->SkipBytes();
      return true;
    case kPrevLogNumber:
    case kMaxColumnFamily:
      fields->Number();
      return true;
    case kComparator:
      fields->SkipBytes();
      return true;
    default:
      fields->SkipBytes();
      return tag > kSkippable;
  }
}

// Returns nullopt if the record has a field that this function does not know.
std::optional<Edit> ReadEdit(absl::string_view record) {
  Fields fields(record);
  Edit edit;
  while (fields.more()) {
    if (!ReadField(fields.Number(), &fields, &edit)) return std::nullopt;
  }
  return fields.ok() ? std::optional<Edit>(std::move(edit)) : std::nullopt;
}

void Apply(const Edit& edit, ManifestState* state) {
  state->last_sequence = edit.last_sequence.value_or(state->last_sequence);
  state->next_file = std::max(state->next_file, edit.next_file);
  state->log_to_keep = std::max(state->log_to_keep, edit.log_to_keep);
  if (edit.added_family.has_value()) {
    state->family_logs.try_emplace(edit.family, 0);
    state->family_names[edit.family] = *edit.added_family;
  }
  if (edit.log.has_value()) {
    uint64_t& log = state->family_logs[edit.family];
    log = std::max(log, *edit.log);
  }
  // A table that moves to another level is deleted and added in one record.
  for (const uint64_t number : edit.deleted) {
    state->tables.erase(number);
    state->table_places.erase(number);
  }
  for (const Edit::Table& table : edit.added) {
    state->tables[table.number] = table.bytes;
    state->table_places[table.number] = table.place;
    state->table_places[table.number].family = edit.family;
  }
}

// Writes what Fields reads.
class FieldWriter {
 public:
  FieldWriter& Number(uint64_t number) {
    for (; number >= 0x80; number >>= 7) {
      bytes_.push_back(static_cast<char>((number & 0x7f) | 0x80));
    }
    bytes_.push_back(static_cast<char>(number));
    return *this;
  }
  FieldWriter& Bytes(absl::string_view bytes) {
    Number(bytes.size());
    bytes_.append(bytes.data(), bytes.size());
    return *this;
  }
  FieldWriter& Family(uint32_t family) {
    return family == 0 ? *this : Number(kColumnFamily).Number(family);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

constexpr absl::string_view kByteOrder = "leveldb.BytewiseComparator";
// Sequence numbers have 56 bits. The byte before them is the type of a value.
constexpr uint64_t kSequenceMax = (uint64_t{1} << 56) - 1;
constexpr uint64_t kValueType = 1;

std::string KeyWithTail(absl::string_view key, uint64_t sequence) {
  std::string bytes(key.data(), key.size());
  bytes.resize(key.size() + kKeyTailBytes);
  StoreLittleEndian(sequence << 8 | kValueType, &bytes[key.size()]);
  return bytes;
}

}  // namespace

uint64_t ManifestState::first_log() const {
  const auto least =
      std::min_element(family_logs.begin(), family_logs.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return std::max(log_to_keep, least == family_logs.end() ? 0 : least->second);
}

void ManifestReader::AddBlock(absl::string_view block) {
  const uint64_t block_end = block_begin_ + block.size();
  const bool last = block.size() < kLogBlockBytes;
  block_begin_ = block_end;
  while (!broken_ && block.size() >= LogFragment::kHeadBytes) {
    const std::optional<LogFragment> fragment = NextLogFragment(&block);
    if (!fragment.has_value() || fragment->begins_record() == in_record_) {
      broken_ = true;
      return;
    }
    AddFragment(*fragment, block_end - block.size());
  }
  // The end of the file cuts off a head.
  if (last && !block.empty()) broken_ = true;
}

void ManifestReader::AddFragment(const LogFragment& fragment, uint64_t end) {
  if (fragment.begins_record()) record_.clear();
  record_.append(fragment.body.data(), fragment.body.size());
  in_record_ = !fragment.ends_record();
  if (in_record_) return;
  const std::optional<Edit> edit = ReadEdit(record_);
  if (!edit.has_value()) {
    unknown_ = true;
    broken_ = true;
    return;
  }
  // RocksDB writes these numbers in ascending order. If one goes back, old records were appended,
  // and RocksDB would abort the process.
  if (edit->last_sequence.value_or(state_.last_sequence) < state_.last_sequence) {
    broken_ = true;
    return;
  }
  Apply(*edit, &state_);
  whole_bytes_ = end;
}

std::string FirstEdit() {
  return FieldWriter().Number(kComparator).Bytes(kByteOrder).Number(kLogNumber).Number(0).Take();
}

std::string FamilyEdit(uint32_t family, absl::string_view name) {
  FieldWriter edit;
  edit.Number(kComparator).Bytes(kByteOrder).Number(kLogNumber).Number(0);
  edit.Number(kMaxColumnFamily).Number(family);
  return edit.Family(family).Number(kColumnFamilyAdd).Bytes(name).Take();
}

std::string TableLostEdit(uint64_t number, const ManifestTable& place) {
  FieldWriter edit;
  edit.Number(kDeletedFile).Number(place.level).Number(number);
  return edit.Family(place.family).Take();
}

std::string TableFoundEdit(uint32_t family, uint64_t number, uint64_t bytes, uint64_t sequence) {
  FieldWriter edit;
  // Of level 0.
  edit.Number(kNewFile4).Number(0).Number(number).Number(bytes);
  edit.Bytes(KeyWithTail("", kSequenceMax)).Bytes(KeyWithTail(std::string(64, '\xff'), 0));
  edit.Number(sequence).Number(sequence).Number(kEndOfFileFields);
  return edit.Family(family).Take();
}

std::string LastEdit(uint64_t next_file, uint64_t last_sequence) {
  FieldWriter edit;
  edit.Number(kNextFileNumber).Number(next_file);
  return edit.Number(kLastSequence).Number(last_sequence).Take();
}

}  // namespace duetime::storage
