// SPDX-License-Identifier: Apache-2.0
#include "storage/message_record.h"

// The hash is inlined from its header: no library to link, no call per message.
#define XXH_INLINE_ALL
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <xxhash.h>

#include "absl/strings/str_cat.h"

#include "storage/attempts.h"
#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kHeaderBytes = 32;
constexpr uint8_t kVersion = 2;

// Offsets of the header's fields. Every field before the checksum has exactly one valid value (the
// flags: the one that the sections require), so the checksum covers only the bytes after it.
constexpr size_t kVersionAt = 0;
constexpr size_t kFlagsAt = 1;
constexpr size_t kReservedAt = 2;
constexpr size_t kChecksumAt = 4;
constexpr size_t kTopicAt = 8;
constexpr size_t kSectionsBytesAt = 12;
constexpr size_t kDeliverAt = 16;
constexpr size_t kAcceptAt = 24;
constexpr size_t kCheckedFrom = kTopicAt;

// The kinds of sections. They are written in the order of their tags, so that equal messages have
// equal bytes.
enum class Tag : uint8_t {
  kAttribute = 1,  // a pair; any number of them
  kLabel = 2,      // a pair; any number of them
  kKey = 3,
  kOrderingKey = 4,
  kExpiry = 5,         // ttl_ms u64, late_policy u8
  kSpread = 6,         // u64
  kCivil = 7,          // a pair: local time, zone
  kOccurrence = 8,     // number u64, recurrence
  kRevision = 9,       // revision u64, update_ms u64
  kDeadLetter = 10,    // the origin: its numbers, then its texts
  kOriginExpiry = 11,  // as kExpiry; only after kDeadLetter
  kHops = 12,          // u64; only after kDeadLetter, and only above 1
  kLastAttempts = 13,  // as in a progress record; only after kDeadLetter
};

constexpr size_t kSectionHeadBytes = 5;  // tag u8, length u32
constexpr size_t kPairHeadBytes = 2;     // length of the first text, u16
constexpr size_t kNumberBytes = 8;
constexpr size_t kExpiryBytes = kNumberBytes + 1;
constexpr size_t kRevisionBytes = 2 * kNumberBytes;
// topic u32, id 16 bytes as in a key, attempts u32, reason u8, four u64. Then the texts; each but
// the last begins with its length u16.
constexpr size_t kOriginNumbersBytes = 4 + 16 + 4 + 1 + 4 * kNumberBytes;
constexpr size_t kOriginTextHeads = 3;

uint32_t Checksum(absl::string_view bytes) {
  return static_cast<uint32_t>(
      XXH3_64bits(bytes.data() + kCheckedFrom, bytes.size() - kCheckedFrom));
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("message record: ", what));
}

size_t OriginBytes(const DeadLetterOrigin& origin) {
  return kOriginNumbersBytes + kOriginTextHeads * kPairHeadBytes + origin.topic_name.size() +
         origin.subscription_name.size() + origin.key.size() + origin.reason_text.size();
}

// Computes the size of the sections.
class SectionSizer {
 public:
  void Text(Tag, absl::string_view text) { Add(text.size()); }
  void Pair(Tag, absl::string_view first, absl::string_view second) {
    Add(kPairHeadBytes + first.size() + second.size());
  }
  void Number(Tag, uint64_t) { Add(kNumberBytes); }
  void Expiry(Tag, uint64_t, LatePolicy) { Add(kExpiryBytes); }
  void NumberAndText(Tag, uint64_t, absl::string_view text) { Add(kNumberBytes + text.size()); }
  void Numbers(Tag, uint64_t, uint64_t) { Add(kRevisionBytes); }
  void Origin(Tag, const DeadLetterOrigin& origin) { Add(OriginBytes(origin)); }

  size_t bytes() const { return bytes_; }

 private:
  void Add(size_t body) { bytes_ += kSectionHeadBytes + body; }

  size_t bytes_ = 0;
};

// Writes the sections.
class SectionWriter {
 public:
  explicit SectionWriter(char* to) : to_(to) {}

  void Text(Tag tag, absl::string_view text) {
    Begin(tag, text.size());
    Bytes(text);
  }
  void Pair(Tag tag, absl::string_view first, absl::string_view second) {
    Begin(tag, kPairHeadBytes + first.size() + second.size());
    Integer(static_cast<uint16_t>(first.size()));
    Bytes(first);
    Bytes(second);
  }
  void Number(Tag tag, uint64_t number) {
    Begin(tag, kNumberBytes);
    Integer(number);
  }
  void Expiry(Tag tag, uint64_t ttl_ms, LatePolicy policy) {
    Begin(tag, kExpiryBytes);
    Integer(ttl_ms);
    Integer(static_cast<uint8_t>(policy));
  }
  void NumberAndText(Tag tag, uint64_t number, absl::string_view text) {
    Begin(tag, kNumberBytes + text.size());
    Integer(number);
    Bytes(text);
  }
  void Numbers(Tag tag, uint64_t first, uint64_t second) {
    Begin(tag, kRevisionBytes);
    Integer(first);
    Integer(second);
  }
  void Origin(Tag tag, const DeadLetterOrigin& origin) {
    Begin(tag, OriginBytes(origin));
    Integer(static_cast<uint32_t>(origin.origin_topic));
    StoreBigEndian(origin.id.high, to_);
    StoreBigEndian(origin.id.low, to_ + kNumberBytes);
    to_ += 2 * kNumberBytes;
    Integer(origin.attempts);
    Integer(static_cast<uint8_t>(origin.reason));
    for (const uint64_t time_ms :
         {origin.first_dispatch_ms, origin.last_dispatch_ms, origin.deliver_ms, origin.accept_ms}) {
      Integer(time_ms);
    }
    for (const absl::string_view text : {origin.topic_name, origin.subscription_name, origin.key}) {
      Integer(static_cast<uint16_t>(text.size()));
      Bytes(text);
    }
    Bytes(origin.reason_text);
  }

  void Bytes(absl::string_view bytes) {
    if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }

 private:
  void Begin(Tag tag, size_t length) {
    Integer(static_cast<uint8_t>(tag));
    Integer(static_cast<uint32_t>(length));
  }
  template <typename T>
  void Integer(T value) {
    StoreLittleEndian(value, to_);
    to_ += sizeof(T);
  }

  char* to_;
};

// Calls the visitor for every section of the record, in order.
template <typename Visitor>
void VisitSections(const MessageRecord& record, Visitor* visitor) {
  for (const auto& [key, value] : record.attributes) visitor->Pair(Tag::kAttribute, key, value);
  for (const auto& [key, value] : record.labels) visitor->Pair(Tag::kLabel, key, value);
  if (!record.key.empty()) visitor->Text(Tag::kKey, record.key);
  if (!record.ordering_key.empty()) visitor->Text(Tag::kOrderingKey, record.ordering_key);
  if (record.ttl_ms != 0) visitor->Expiry(Tag::kExpiry, record.ttl_ms, record.late_policy);
  if (record.spread_ms != 0) visitor->Number(Tag::kSpread, record.spread_ms);
  if (!record.civil_time.empty()) {
    visitor->Pair(Tag::kCivil, record.civil_time, record.time_zone);
  }
  if (!record.recurrence.empty()) {
    visitor->NumberAndText(Tag::kOccurrence, record.occurrence, record.recurrence);
  }
  if (record.revision != 0) {
    visitor->Numbers(Tag::kRevision, record.revision, record.update_ms);
  }
  if (!record.dead_letter.has_value()) return;
  const DeadLetterOrigin& origin = *record.dead_letter;
  visitor->Origin(Tag::kDeadLetter, origin);
  if (origin.ttl_ms != 0) visitor->Expiry(Tag::kOriginExpiry, origin.ttl_ms, origin.late_policy);
  if (origin.hops > 1) visitor->Number(Tag::kHops, origin.hops);
  if (!origin.last_attempts.empty()) visitor->Text(Tag::kLastAttempts, origin.last_attempts);
}

// Checks the header, which needs no decoding of sections. `bytes` may be a head.
absl::Status CheckHead(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes) {
    return Damaged(absl::StrCat(bytes.size(), " bytes; the header alone has ", kHeaderBytes));
  }
  const uint8_t version = static_cast<uint8_t>(bytes[kVersionAt]);
  if (version != kVersion) {
    return Damaged(absl::StrCat("version ", version, "; this program knows version ", kVersion));
  }
  const unsigned unknown_flags =
      static_cast<uint8_t>(bytes[kFlagsAt]) & ~unsigned{MessageFlags::kAll};
  if (unknown_flags != 0 || LoadLittleEndian<uint16_t>(&bytes[kReservedAt]) != 0) {
    return Damaged("unknown flags");
  }
  if (LoadLittleEndian<uint32_t>(&bytes[kSectionsBytesAt]) > bytes.size() - kHeaderBytes) {
    return Damaged("truncated within its sections");
  }
  return absl::OkStatus();
}

size_t HeadBytes(absl::string_view bytes) {
  return kHeaderBytes + LoadLittleEndian<uint32_t>(&bytes[kSectionsBytesAt]);
}

void LoadHeader(absl::string_view bytes, MessageHeader* header) {
  header->topic = TopicId{LoadLittleEndian<uint32_t>(&bytes[kTopicAt])};
  header->deliver_ms = LoadLittleEndian<uint64_t>(&bytes[kDeliverAt]);
  header->accept_ms = LoadLittleEndian<uint64_t>(&bytes[kAcceptAt]);
  header->flags = static_cast<uint8_t>(bytes[kFlagsAt]);
}

bool DecodePair(absl::string_view body, absl::string_view* first, absl::string_view* second) {
  if (body.size() < kPairHeadBytes) return false;
  const size_t first_bytes = LoadLittleEndian<uint16_t>(body.data());
  if (first_bytes > body.size() - kPairHeadBytes) return false;
  *first = body.substr(kPairHeadBytes, first_bytes);
  *second = body.substr(kPairHeadBytes + first_bytes);
  return true;
}

bool AddPair(absl::string_view body, MessageRecord::Pairs* pairs) {
  absl::string_view first;
  absl::string_view second;
  if (!DecodePair(body, &first, &second)) return false;
  pairs->emplace_back(first, second);
  return true;
}

bool DecodeExpiry(absl::string_view body, uint64_t* ttl_ms, LatePolicy* late_policy) {
  if (body.size() != kExpiryBytes) return false;
  const uint8_t policy = static_cast<uint8_t>(body[kNumberBytes]);
  if (policy > static_cast<uint8_t>(LatePolicy::kDeadLetter)) return false;
  *ttl_ms = LoadLittleEndian<uint64_t>(body.data());
  *late_policy = LatePolicy{policy};
  return *ttl_ms != 0;
}

bool DecodeOrigin(absl::string_view body, MessageRecord* record) {
  if (body.size() < kOriginNumbersBytes) return false;
  const char* const bytes = body.data();
  const uint8_t reason = static_cast<uint8_t>(bytes[24]);
  if (reason < static_cast<uint8_t>(DeadLetterReason::kMaxAttempts) ||
      reason > static_cast<uint8_t>(DeadLetterReason::kRetention)) {
    return false;
  }
  DeadLetterOrigin& origin = record->dead_letter.emplace();
  origin.origin_topic = TopicId{LoadLittleEndian<uint32_t>(bytes)};
  origin.id = {LoadBigEndian<uint64_t>(bytes + 4), LoadBigEndian<uint64_t>(bytes + 12)};
  origin.attempts = LoadLittleEndian<uint32_t>(bytes + 20);
  origin.reason = DeadLetterReason{reason};
  origin.first_dispatch_ms = LoadLittleEndian<uint64_t>(bytes + 25);
  origin.last_dispatch_ms = LoadLittleEndian<uint64_t>(bytes + 33);
  origin.deliver_ms = LoadLittleEndian<uint64_t>(bytes + 41);
  origin.accept_ms = LoadLittleEndian<uint64_t>(bytes + 49);
  // Each text ends where the rest begins.
  absl::string_view rest = body.substr(kOriginNumbersBytes);
  for (absl::string_view* text : {&origin.topic_name, &origin.subscription_name, &origin.key}) {
    if (!DecodePair(rest, text, &rest)) return false;
  }
  origin.reason_text = rest;
  return true;
}

bool DecodeHops(absl::string_view body, uint32_t* hops) {
  if (body.size() != kNumberBytes) return false;
  const uint64_t stored = LoadLittleEndian<uint64_t>(body.data());
  *hops = static_cast<uint32_t>(stored);
  return stored > 1 && stored == *hops;
}

// Decodes one section. False if the tag is unknown, or if no encoder writes such bytes; an encoder
// omits a section that is empty.
bool DecodeSection(uint8_t tag, absl::string_view body, MessageRecord* record) {
  switch (Tag{tag}) {
    case Tag::kAttribute:
      return AddPair(body, &record->attributes);
    case Tag::kLabel:
      return AddPair(body, &record->labels);
    case Tag::kKey:
      record->key = body;
      return !body.empty();
    case Tag::kOrderingKey:
      record->ordering_key = body;
      return !body.empty();
    case Tag::kExpiry:
      return DecodeExpiry(body, &record->ttl_ms, &record->late_policy);
    case Tag::kSpread:
      if (body.size() != kNumberBytes) return false;
      record->spread_ms = LoadLittleEndian<uint64_t>(body.data());
      return record->spread_ms != 0;
    case Tag::kCivil:
      return DecodePair(body, &record->civil_time, &record->time_zone) &&
             !record->civil_time.empty();
    case Tag::kOccurrence:
      if (body.size() <= kNumberBytes) return false;
      record->occurrence = LoadLittleEndian<uint64_t>(body.data());
      record->recurrence = body.substr(kNumberBytes);
      return true;
    case Tag::kRevision:
      if (body.size() != kRevisionBytes) return false;
      record->revision = LoadLittleEndian<uint64_t>(body.data());
      record->update_ms = LoadLittleEndian<uint64_t>(&body[kNumberBytes]);
      return record->revision != 0;
    case Tag::kDeadLetter:
      return DecodeOrigin(body, record);
    case Tag::kOriginExpiry:
      return record->dead_letter.has_value() &&
             DecodeExpiry(body, &record->dead_letter->ttl_ms, &record->dead_letter->late_policy);
    case Tag::kHops:
      return record->dead_letter.has_value() && DecodeHops(body, &record->dead_letter->hops);
    case Tag::kLastAttempts:
      if (!record->dead_letter.has_value() || body.empty()) return false;
      record->dead_letter->last_attempts = body;
      return DecodeAttempts(body).has_value();
  }
  return false;
}

// Decodes all sections. An error here, after the checksum matched, means that an unknown program or
// a bug wrote the record. In both cases the server cannot deliver the message as the producer sent
// it.
absl::Status DecodeSections(absl::string_view sections, MessageRecord* record) {
  uint8_t tag_before = 0;
  while (!sections.empty()) {
    if (sections.size() < kSectionHeadBytes) return Damaged("truncated section");
    const uint8_t tag = static_cast<uint8_t>(sections[0]);
    const uint32_t length = LoadLittleEndian<uint32_t>(&sections[1]);
    sections.remove_prefix(kSectionHeadBytes);
    if (length > sections.size()) return Damaged("truncated section");
    const bool repeats = tag == tag_before && Tag{tag} <= Tag::kLabel;
    if ((tag <= tag_before && !repeats) ||
        !DecodeSection(tag, sections.substr(0, length), record)) {
      return Damaged(absl::StrCat("section ", tag, " is unknown, invalid, or out of order"));
    }
    sections.remove_prefix(length);
    tag_before = tag;
  }
  return absl::OkStatus();
}

// Clears a record but keeps the memory of its vectors.
void Clear(MessageRecord* record) {
  MessageRecord empty;
  empty.attributes.swap(record->attributes);
  empty.labels.swap(record->labels);
  empty.attributes.clear();
  empty.labels.clear();
  *record = std::move(empty);
}

// REQUIRES: CheckHead(head) returned OK.
absl::Status DecodeCheckedHead(absl::string_view head, MessageRecord* record) {
  Clear(record);
  LoadHeader(head, &record->header);
  if (absl::Status status = DecodeSections(head.substr(kHeaderBytes), record); !status.ok()) {
    return status;
  }
  if (record->header.flags != MessageFlagsOf(*record))
    return Damaged("flags that do not match its sections");
  return absl::OkStatus();
}

}  // namespace

uint8_t MessageFlagsOf(const MessageRecord& record) {
  unsigned flags = 0;
  if (!record.key.empty()) flags |= MessageFlags::kKeyed;
  if (record.ttl_ms != 0) flags |= MessageFlags::kExpires;
  if (!record.ordering_key.empty()) flags |= MessageFlags::kOrdered;
  if (!record.recurrence.empty()) flags |= MessageFlags::kRecurs;
  if (!record.labels.empty()) flags |= MessageFlags::kLabelled;
  if (record.dead_letter.has_value()) flags |= MessageFlags::kDeadLetter;
  return static_cast<uint8_t>(flags);
}

std::string EncodeMessageRecord(const MessageRecord& record) {
  SectionSizer sections;
  VisitSections(record, &sections);

  std::string bytes(kHeaderBytes + sections.bytes() + record.payload.size(), '\0');
  bytes[kVersionAt] = static_cast<char>(kVersion);
  bytes[kFlagsAt] = static_cast<char>(MessageFlagsOf(record));
  StoreLittleEndian(static_cast<uint32_t>(record.header.topic), &bytes[kTopicAt]);
  StoreLittleEndian(static_cast<uint32_t>(sections.bytes()), &bytes[kSectionsBytesAt]);
  StoreLittleEndian(record.header.deliver_ms, &bytes[kDeliverAt]);
  StoreLittleEndian(record.header.accept_ms, &bytes[kAcceptAt]);

  SectionWriter writer(bytes.data() + kHeaderBytes);
  VisitSections(record, &writer);
  writer.Bytes(record.payload);

  StoreLittleEndian(Checksum(bytes), &bytes[kChecksumAt]);
  return bytes;
}

absl::Status DecodeMessageRecord(absl::string_view bytes, MessageRecord* record) {
  if (absl::Status status = CheckHead(bytes); !status.ok()) return status;
  if (LoadLittleEndian<uint32_t>(&bytes[kChecksumAt]) != Checksum(bytes)) {
    return Damaged("checksum mismatch");
  }
  const size_t head_bytes = HeadBytes(bytes);
  absl::Status status = DecodeCheckedHead(bytes.substr(0, head_bytes), record);
  record->payload = bytes.substr(head_bytes);
  return status;
}

absl::Status DecodeMessageHeader(absl::string_view bytes, MessageHeader* header) {
  if (absl::Status status = CheckHead(bytes); !status.ok()) return status;
  LoadHeader(bytes, header);
  return absl::OkStatus();
}

absl::Status MessageHead(absl::string_view bytes, absl::string_view* head) {
  if (absl::Status status = CheckHead(bytes); !status.ok()) return status;
  *head = bytes.substr(0, HeadBytes(bytes));
  return absl::OkStatus();
}

bool MayBeRevised(absl::string_view head) {
  // The revision is the last section, except in a dead letter. The end of another section may look
  // like a revision.
  constexpr size_t kBytes = kSectionHeadBytes + kRevisionBytes;
  if (head.size() < kHeaderBytes + kBytes) return false;
  if ((static_cast<uint8_t>(head[kFlagsAt]) & MessageFlags::kDeadLetter) != 0) return true;
  const char* const section = head.data() + head.size() - kBytes;
  return static_cast<uint8_t>(section[0]) == static_cast<uint8_t>(Tag::kRevision) &&
         LoadLittleEndian<uint32_t>(section + 1) == kRevisionBytes;
}

absl::Status DecodeMessageHead(absl::string_view head, MessageRecord* record) {
  if (absl::Status status = CheckHead(head); !status.ok()) return status;
  if (head.size() != HeadBytes(head)) return Damaged("bytes after its head");
  return DecodeCheckedHead(head, record);
}

}  // namespace duetime::storage
