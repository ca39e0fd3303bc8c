// SPDX-License-Identifier: Apache-2.0
//
// Writes and reads objects that consist of a version byte and a sequence of numbers and texts.
// Little-endian. FORMAT.md lists the fields of each object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/byte_order.h"

namespace duetime::protocol {

class FieldWriter {
 public:
  explicit FieldWriter(uint8_t version) { bytes_.push_back(static_cast<char>(version)); }

  FieldWriter& Number(uint64_t value) {
    char bytes[sizeof(value)];
    storage::StoreLittleEndian(value, bytes);
    bytes_.append(bytes, sizeof(bytes));
    return *this;
  }
  FieldWriter& Zeros(size_t count) {
    for (size_t i = 0; i < count; ++i) Number(0);
    return *this;
  }
  FieldWriter& Text(absl::string_view text) {
    Number(text.size());
    bytes_.append(text.data(), text.size());
    return *this;
  }

  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads the bytes of a FieldWriter. After the first missing field every read returns zero or "",
// and Done() returns an error.
class FieldReader {
 public:
  FieldReader(absl::string_view bytes, uint8_t version) : rest_(bytes) {
    ok_ = !rest_.empty() && static_cast<uint8_t>(rest_[0]) == version;
    if (ok_) rest_.remove_prefix(1);
  }

  uint64_t Number() {
    if (!ok_ || rest_.size() < sizeof(uint64_t)) {
      ok_ = false;
      return 0;
    }
    const auto value = storage::LoadLittleEndian<uint64_t>(rest_.data());
    rest_.remove_prefix(sizeof(value));
    return value;
  }
  std::string Text() {
    const uint64_t size = Number();
    if (!ok_ || rest_.size() < size) {
      ok_ = false;
      return "";
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }

  // False after a missing field.
  bool ok() const { return ok_; }

  // DATA_LOSS if a field was missing or bytes are left over.
  absl::Status Done() const {
    if (ok_ && rest_.empty()) return absl::OkStatus();
    return absl::DataLossError("an object on disk has an invalid encoding");
  }

 private:
  absl::string_view rest_;
  bool ok_ = false;
};

}  // namespace duetime::protocol
