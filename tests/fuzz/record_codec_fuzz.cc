// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes the codecs of message records, index entries, locators, backlog entries, progress, and
// records of a shared log.
// Decodes any bytes, encodes any message, and checks that the codec notices damage.
#define XXH_INLINE_ALL
#include <cstdint>
#include <string>
#include <utility>
#include <vector>
#include <xxhash.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "storage/byte_order.h"
#include "storage/journal_record.h"
#include "storage/locator.h"
#include "storage/message_record.h"
#include "storage/value_codec.h"
#include "tests/fuzz/byte_reader.h"
#include "tests/fuzz/target.h"

namespace {

using duetime::storage::DeadLetterOrigin;
using duetime::storage::DeadLetterReason;
using duetime::storage::DecodeMessageHead;
using duetime::storage::DecodeMessageHeader;
using duetime::storage::DecodeMessageRecord;
using duetime::storage::EncodeMessageRecord;
using duetime::storage::LatePolicy;
using duetime::storage::MessageHead;
using duetime::storage::MessageHeader;
using duetime::storage::MessageId;
using duetime::storage::MessageRecord;
using duetime::storage::TopicId;
using duetime::test::ByteReader;

void CheckSameHeader(const MessageHeader& a, const MessageHeader& b) {
  DT_CHECK_EQ(static_cast<uint32_t>(a.topic), static_cast<uint32_t>(b.topic));
  DT_CHECK_EQ(a.deliver_ms, b.deliver_ms);
  DT_CHECK_EQ(a.accept_ms, b.accept_ms);
  DT_CHECK_EQ(a.flags, b.flags);
}

// Checks that decoded bytes encode to the same bytes, and that every refusal is DATA_LOSS.
void CheckDecode(absl::string_view bytes) {
  MessageHeader header;
  const absl::Status header_status = DecodeMessageHeader(bytes, &header);
  DT_CHECK(header_status.ok() || absl::IsDataLoss(header_status));
  absl::string_view head;
  const absl::Status head_status = MessageHead(bytes, &head);
  DT_CHECK(head_status.code() == header_status.code());
  MessageRecord of_head;
  if (head_status.ok()) {
    const absl::Status decoded = DecodeMessageHead(head, &of_head);
    DT_CHECK(decoded.ok() || absl::IsDataLoss(decoded));
  }

  MessageRecord record;
  const absl::Status status = DecodeMessageRecord(bytes, &record);
  DT_CHECK(status.ok() || absl::IsDataLoss(status));
  if (!status.ok()) return;
  DT_CHECK(header_status.ok());
  CheckSameHeader(header, record.header);
  DT_CHECK(EncodeMessageRecord(record) == bytes);

  DT_CHECK(DecodeMessageHead(head, &of_head).ok());
  of_head.payload = record.payload;
  DT_CHECK(EncodeMessageRecord(of_head) == EncodeMessageRecord(record));
}

// Owns the texts to which a record's views point.
struct Texts {
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<std::pair<std::string, std::string>> labels;
  std::string key;
  std::string ordering_key;
  std::string civil_time;
  std::string time_zone;
  std::string recurrence;
  std::string origin_topic_name;
  std::string origin_subscription_name;
  std::string origin_key;
  std::string origin_reason_text;
  std::string payload;
};

std::vector<std::pair<std::string, std::string>> ReadPairs(ByteReader* reader) {
  std::vector<std::pair<std::string, std::string>> pairs(reader->Byte() % 5);
  for (auto& [key, value] : pairs) {
    key = reader->Bytes(reader->Byte());
    value = reader->Bytes(reader->Byte());
  }
  return pairs;
}

DeadLetterOrigin ReadOrigin(ByteReader* reader, Texts* texts) {
  DeadLetterOrigin origin;
  origin.origin_topic = TopicId{static_cast<uint32_t>(reader->Word())};
  origin.id = {reader->Word(), reader->Word()};
  origin.attempts = static_cast<uint32_t>(reader->Word());
  origin.reason = DeadLetterReason{static_cast<uint8_t>(1 + reader->Byte() % 4)};
  origin.first_dispatch_ms = reader->Word();
  origin.last_dispatch_ms = reader->Word();
  origin.deliver_ms = reader->Word();
  origin.accept_ms = reader->Word();
  for (std::string* text : {&texts->origin_topic_name, &texts->origin_subscription_name,
                            &texts->origin_key, &texts->origin_reason_text}) {
    *text = reader->Bytes(reader->Byte());
  }
  origin.topic_name = texts->origin_topic_name;
  origin.subscription_name = texts->origin_subscription_name;
  origin.key = texts->origin_key;
  origin.reason_text = texts->origin_reason_text;
  origin.ttl_ms = reader->Word();
  if (origin.ttl_ms != 0) origin.late_policy = LatePolicy{static_cast<uint8_t>(reader->Byte() % 3)};
  return origin;
}

MessageRecord ReadRecord(ByteReader* reader, Texts* texts) {
  MessageRecord record;
  record.header = {.topic = TopicId{static_cast<uint32_t>(reader->Word())},
                   .deliver_ms = reader->Word(),
                   .accept_ms = reader->Word()};
  const uint8_t fields = reader->Byte();
  const bool dead_letter = reader->Byte() % 2 != 0;
  texts->attributes = ReadPairs(reader);
  if ((fields & 1) != 0) texts->labels = ReadPairs(reader);
  if ((fields & 2) != 0) texts->key = reader->Bytes(reader->Byte());
  if ((fields & 4) != 0) texts->ordering_key = reader->Bytes(reader->Byte());
  if ((fields & 8) != 0) {
    record.ttl_ms = reader->Word();
    record.late_policy = LatePolicy{static_cast<uint8_t>(reader->Byte() % 3)};
  }
  if ((fields & 16) != 0) record.spread_ms = reader->Word();
  if ((fields & 32) != 0) {
    texts->civil_time = reader->Bytes(reader->Byte());
    texts->time_zone = reader->Bytes(reader->Byte());
  }
  if ((fields & 64) != 0) {
    record.occurrence = reader->Word();
    texts->recurrence = reader->Bytes(reader->Byte());
  }
  if ((fields & 128) != 0) {
    record.revision = reader->Word();
    record.update_ms = reader->Word();
  }
  if (dead_letter) record.dead_letter = ReadOrigin(reader, texts);
  texts->payload = reader->Bytes(SIZE_MAX);
  record.attributes.assign(texts->attributes.begin(), texts->attributes.end());
  record.labels.assign(texts->labels.begin(), texts->labels.end());
  record.key = texts->key;
  record.ordering_key = texts->ordering_key;
  record.civil_time = texts->civil_time;
  record.time_zone = texts->time_zone;
  record.recurrence = texts->recurrence;
  record.payload = texts->payload;
  return record;
}

void CheckSame(const MessageRecord& a, const MessageRecord& b) {
  DT_CHECK(a.attributes == b.attributes);
  DT_CHECK(a.labels == b.labels);
  DT_CHECK(a.key == b.key);
  DT_CHECK(a.ordering_key == b.ordering_key);
  DT_CHECK_EQ(a.ttl_ms, b.ttl_ms);
  DT_CHECK(a.ttl_ms == 0 || a.late_policy == b.late_policy);
  DT_CHECK_EQ(a.spread_ms, b.spread_ms);
  DT_CHECK(a.civil_time == b.civil_time);
  DT_CHECK(a.civil_time.empty() || a.time_zone == b.time_zone);
  DT_CHECK(a.recurrence == b.recurrence);
  DT_CHECK(a.recurrence.empty() || a.occurrence == b.occurrence);
  DT_CHECK_EQ(a.revision, b.revision);
  DT_CHECK(a.revision == 0 || a.update_ms == b.update_ms);
  DT_CHECK(a.dead_letter == b.dead_letter);
  DT_CHECK(a.payload == b.payload);
}

// Makes a message from the input, and checks that the codec keeps it and notices damage.
void CheckRoundTrip(ByteReader* reader) {
  const uint8_t flip_at = reader->Byte();
  const uint8_t flip_bit = reader->Byte() % 8;
  Texts texts;
  const MessageRecord given = ReadRecord(reader, &texts);

  std::string bytes = EncodeMessageRecord(given);
  MessageRecord record;
  DT_CHECK(DecodeMessageRecord(bytes, &record).ok());
  MessageHeader header = given.header;
  header.flags = record.header.flags;
  CheckSameHeader(record.header, header);
  CheckSame(given, record);
  CheckDecode(bytes);

  // The codec notices any flipped bit, and a missing last byte.
  const size_t at = flip_at * bytes.size() / 256;
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << flip_bit));
  DT_CHECK(absl::IsDataLoss(DecodeMessageRecord(bytes, &record)));
  bytes[at] = static_cast<char>(bytes[at] ^ (1 << flip_bit));
  bytes.pop_back();
  DT_CHECK(absl::IsDataLoss(DecodeMessageRecord(bytes, &record)));
}

// Checks that decoded index entries and locators encode to the same bytes.
void CheckLocatorDecode(const std::string& bytes) {
  const auto entry = duetime::storage::DecodeIndexEntry(bytes);
  DT_CHECK(entry.ok() || absl::IsDataLoss(entry.status()));
  if (entry.ok()) {
    DT_CHECK(EncodeIndexEntry(*entry) == bytes);
    DT_CHECK(duetime::storage::ExpireTimeOf(bytes) == entry->expire_ms);
  }
  // In a row of several tombstones, the id of the first one follows the 23 bytes of the head.
  MessageId id{.high = 1, .low = 2};
  if (bytes.size() > 31) id.low = duetime::storage::LoadBigEndian<uint64_t>(&bytes[23]);
  const auto read = duetime::storage::ReadTraceRow(id, bytes, id);
  DT_CHECK(read.ok() || absl::IsDataLoss(read.status()));
  if (!read.ok()) return;
  const auto& tombstone = (*read)->tombstone;
  std::string first;
  DT_CHECK(
      EncodeLocator(**read) == bytes ||
      (duetime::storage::AddTombstone(id, *tombstone, &first) && absl::StartsWith(bytes, first)));
  DT_CHECK(duetime::storage::ExpireTimeOf(bytes) ==
           (tombstone.has_value() ? tombstone->expire_ms : 0));
}

// Checks the same for the small values.
void CheckValueDecode(const std::string& bytes) {
  if (const auto entry = duetime::storage::DecodeBacklogEntry(bytes); entry.has_value()) {
    DT_CHECK(EncodeBacklogEntry(*entry) == bytes);
  }
  if (const auto progress = duetime::storage::DecodeProgress(bytes); progress.has_value()) {
    DT_CHECK(EncodeProgress(*progress) == bytes);
  }
  if (const auto claim = duetime::storage::DecodeClaim(bytes); claim.has_value()) {
    DT_CHECK(duetime::storage::EncodeClaim(claim->first, claim->second) == bytes);
  }
}

// Adds the right checksum to the bytes. If they decode, the result encodes to the same fields.
void CheckJournalRecordDecode(std::string bytes) {
  char checksum[sizeof(uint64_t)];
  duetime::storage::StoreLittleEndian<uint64_t>(XXH3_64bits(bytes.data(), bytes.size()), checksum);
  bytes.append(checksum, sizeof(checksum));
  const auto head = duetime::storage::DecodeJournalRecordHead(bytes);
  DT_CHECK(head.ok() || absl::IsDataLoss(head.status()) || absl::IsUnimplemented(head.status()));
  if (!head.ok()) return;
  const auto group = duetime::storage::DecodeJournalGroup(bytes);
  DT_CHECK(group.ok() || absl::IsInternal(group.status()) || absl::IsUnimplemented(group.status()));
  if (group.ok() && head->kind != duetime::storage::JournalRecordHead::Kind::kEpoch) {
    // Between the version, which may be an older one, and the checksum.
    const std::string own = EncodeJournalRecord(*head, *group);
    const size_t fields = bytes.size() - 1 - sizeof(checksum);
    DT_CHECK(own.size() == bytes.size() && own.compare(1, fields, bytes, 1, fields) == 0);
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(data, data + size);
  CheckDecode(input);
  CheckLocatorDecode(input);
  CheckValueDecode(input);
  CheckJournalRecordDecode(input);
  ByteReader reader(data, size);
  CheckRoundTrip(&reader);
  return 0;
}
