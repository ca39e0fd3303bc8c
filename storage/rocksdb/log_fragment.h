// SPDX-License-Identifier: Apache-2.0
//
// The pieces of which RocksDB's logs and manifests consist: its "Write Ahead Log File Format",
// without recycling and compression.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// A file is a sequence of blocks of this size; the last one can be shorter. A fragment lies in one
// block. A remainder of a block that is shorter than a head is padding.
inline constexpr size_t kLogBlockBytes = 32768;

// A record, or a part of one.
struct LogFragment {
  // The head of a fragment: checksum u32, length u16, type u8.
  static constexpr size_t kHeadBytes = 7;
  enum Type : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

  uint8_t type = 0;
  absl::string_view body;

  bool begins_record() const { return type == kFull || type == kFirst; }
  bool ends_record() const { return type == kFull || type == kLast; }
};

// Takes the next fragment from a block; nullopt if it is damaged. REQUIRES: `block` has at least
// LogFragment::kHeadBytes.
std::optional<LogFragment> NextLogFragment(absl::string_view* block);

// Removes a damaged fragment from a block. If its head cannot be right either, removes the rest of
// the block: the bytes within a record may look like fragments. REQUIRES: as NextLogFragment.
void SkipLogFragment(absl::string_view* block);

// Appends the fragments of a record to `out`. `file_bytes` is where they begin in their file.
void AppendLogRecord(absl::string_view record, uint64_t file_bytes, std::string* out);

}  // namespace duetime::storage
