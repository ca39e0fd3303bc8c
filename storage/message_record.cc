// SPDX-License-Identifier: Apache-2.0
#include "storage/message_record.h"

// The hash is inlined from its header: no library to link, no call per message.
#define XXH_INLINE_ALL
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <xxhash.h>

#include "absl/strings/str_cat.h"

#include "storage/byte_order.h"

namespace duetime::storage {
namespace {

constexpr size_t kHeaderBytes = 32;
constexpr uint8_t kVersion = 1;

// Where each field of the header begins. The fields before the checksum have exactly one valid
// value each in this version, so the checksum need only cover what comes after it.
constexpr size_t kVersionAt = 0;
constexpr size_t kFlagsAt = 1;
constexpr size_t kReservedAt = 2;
constexpr size_t kChecksumAt = 4;
constexpr size_t kTopicAt = 8;
constexpr size_t kSectionsBytesAt = 12;
constexpr size_t kDeliverAt = 16;
constexpr size_t kAcceptAt = 24;
constexpr size_t kCheckedFrom = kTopicAt;

constexpr uint8_t kAttributeTag = 1;
constexpr size_t kSectionHeadBytes = 5;  // tag u8, length u32
constexpr size_t kKeyLengthBytes = 2;

uint32_t Checksum(absl::string_view bytes) {
  return static_cast<uint32_t>(
      XXH3_64bits(bytes.data() + kCheckedFrom, bytes.size() - kCheckedFrom));
}

char* Append(absl::string_view bytes, char* to) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("message record: ", what));
}

// Checks what can be checked without reading everything.
absl::Status CheckHead(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes) {
    return Damaged(absl::StrCat(bytes.size(), " bytes; the header alone has ", kHeaderBytes));
  }
  const uint8_t version = static_cast<uint8_t>(bytes[kVersionAt]);
  if (version != kVersion) {
    return Damaged(absl::StrCat("version ", version, "; this program knows ", kVersion));
  }
  if (bytes[kFlagsAt] != 0 || LoadLittleEndian<uint16_t>(&bytes[kReservedAt]) != 0) {
    return Damaged("unknown flags");
  }
  if (LoadLittleEndian<uint32_t>(&bytes[kSectionsBytesAt]) > bytes.size() - kHeaderBytes) {
    return Damaged("truncated within its sections");
  }
  return absl::OkStatus();
}

void LoadHeader(absl::string_view bytes, MessageHeader* header) {
  header->topic = TopicId{LoadLittleEndian<uint32_t>(&bytes[kTopicAt])};
  header->deliver_ms = LoadLittleEndian<uint64_t>(&bytes[kDeliverAt]);
  header->accept_ms = LoadLittleEndian<uint64_t>(&bytes[kAcceptAt]);
}

// Splits the sections region. The checksum has been verified, so an error here means a writer that
// this program does not know, or a fault of ours; either way the message cannot be handed out as it
// was given.
absl::Status DecodeSections(absl::string_view sections, MessageRecord* record) {
  while (!sections.empty()) {
    if (sections.size() < kSectionHeadBytes) return Damaged("truncated section");
    const uint8_t tag = static_cast<uint8_t>(sections[0]);
    const uint32_t length = LoadLittleEndian<uint32_t>(&sections[1]);
    sections.remove_prefix(kSectionHeadBytes);
    if (length > sections.size()) return Damaged("truncated section");
    const absl::string_view body = sections.substr(0, length);
    sections.remove_prefix(length);

    if (tag != kAttributeTag) return Damaged(absl::StrCat("unknown section ", tag));
    if (body.size() < kKeyLengthBytes) return Damaged("truncated attribute");
    const size_t key_bytes = LoadLittleEndian<uint16_t>(body.data());
    if (key_bytes > body.size() - kKeyLengthBytes) return Damaged("truncated attribute");
    record->attributes.emplace_back(body.substr(kKeyLengthBytes, key_bytes),
                                    body.substr(kKeyLengthBytes + key_bytes));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EncodeMessageRecord(
    const MessageHeader& header,
    const std::vector<std::pair<absl::string_view, absl::string_view>>& attributes,
    absl::string_view payload) {
  size_t sections_bytes = 0;
  for (const auto& [key, value] : attributes) {
    sections_bytes += kSectionHeadBytes + kKeyLengthBytes + key.size() + value.size();
  }

  std::string bytes(kHeaderBytes + sections_bytes + payload.size(), '\0');
  bytes[kVersionAt] = static_cast<char>(kVersion);
  StoreLittleEndian(static_cast<uint32_t>(header.topic), &bytes[kTopicAt]);
  StoreLittleEndian(static_cast<uint32_t>(sections_bytes), &bytes[kSectionsBytesAt]);
  StoreLittleEndian(header.deliver_ms, &bytes[kDeliverAt]);
  StoreLittleEndian(header.accept_ms, &bytes[kAcceptAt]);

  char* to = bytes.data() + kHeaderBytes;
  for (const auto& [key, value] : attributes) {
    *to = static_cast<char>(kAttributeTag);
    StoreLittleEndian(static_cast<uint32_t>(kKeyLengthBytes + key.size() + value.size()), to + 1);
    StoreLittleEndian(static_cast<uint16_t>(key.size()), to + kSectionHeadBytes);
    to = Append(key, to + kSectionHeadBytes + kKeyLengthBytes);
    to = Append(value, to);
  }
  Append(payload, to);

  StoreLittleEndian(Checksum(bytes), &bytes[kChecksumAt]);
  return bytes;
}

absl::Status DecodeMessageRecord(absl::string_view bytes, MessageRecord* record) {
  if (absl::Status status = CheckHead(bytes); !status.ok()) return status;
  if (LoadLittleEndian<uint32_t>(&bytes[kChecksumAt]) != Checksum(bytes)) {
    return Damaged("checksum mismatch");
  }
  LoadHeader(bytes, &record->header);
  record->attributes.clear();
  const size_t sections_bytes = LoadLittleEndian<uint32_t>(&bytes[kSectionsBytesAt]);
  record->payload = bytes.substr(kHeaderBytes + sections_bytes);
  return DecodeSections(bytes.substr(kHeaderBytes, sections_bytes), record);
}

absl::Status DecodeMessageHeader(absl::string_view bytes, MessageHeader* header) {
  if (absl::Status status = CheckHead(bytes); !status.ok()) return status;
  LoadHeader(bytes, header);
  return absl::OkStatus();
}

}  // namespace duetime::storage
