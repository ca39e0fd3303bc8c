// SPDX-License-Identifier: Apache-2.0
//
// Code that the encoders of objects.proto share. The records are template arguments, so that no
// header names generated code.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/check.h"
#include "storage/locator.h"
#include "storage/types.h"

namespace duetime::protocol {

// The first byte of an operation or a recurrence whose rest is a record of objects.proto.
inline constexpr char kRecordVersion = 2;

inline absl::Status DamagedObjectError() {
  return absl::DataLossError("an object on disk has an invalid encoding");
}

template <typename Record>
std::string EncodeObject(const Record& record, char version = kRecordVersion) {
  std::string bytes(1, version);
  // Writing fails only for a record without a required field or of more than 2 GiB.
  DT_CHECK(record.AppendToString(&bytes));
  return bytes;
}

template <typename Record>
absl::Status DecodeObject(absl::string_view bytes, Record* record, char version = kRecordVersion) {
  if (bytes.empty() || bytes[0] != version ||
      !record->ParseFromArray(bytes.data() + 1, static_cast<int>(bytes.size() - 1))) {
    return DamagedObjectError();
  }
  return absl::OkStatus();
}

// Returns 0, which no enumerator has, if the number does not fit.
template <typename Enum>
Enum EnumOf(uint64_t number) {
  return number > std::numeric_limits<uint8_t>::max() ? Enum{} : static_cast<Enum>(number);
}

template <typename Record>
void Write(const storage::MessageKey& key, Record* record) {
  record->set_due_ms(key.due_ms);
  record->set_id_high(key.id.high);
  record->set_id_low(key.id.low);
}

template <typename Record>
storage::MessageKey ReadKey(const Record& record) {
  return {.due_ms = record.due_ms(), .id = {.high = record.id_high(), .low = record.id_low()}};
}

template <typename Record>
void Write(const storage::Fingerprint& fingerprint, Record* record) {
  record->set_high(fingerprint.high);
  record->set_low(fingerprint.low);
}

template <typename Record>
storage::Fingerprint ReadFingerprint(const Record& record) {
  return {.high = record.high(), .low = record.low()};
}

}  // namespace duetime::protocol
