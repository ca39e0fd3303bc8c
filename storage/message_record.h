// SPDX-License-Identifier: Apache-2.0
//
// The bytes of one message on disk: a fixed header, its attributes, its payload. Documented in FORMAT.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/types.h"

namespace duetime::storage {

// The fixed header, 32 bytes little-endian on disk.
struct MessageHeader {
  TopicId topic{};
  // When the message may be delivered, UTC milliseconds. Equals the due time of its key, or lies before it when the
  // message was already due as it was accepted.
  uint64_t deliver_ms = 0;
  // When the server accepted it, UTC milliseconds.
  uint64_t accept_ms = 0;
};

// A decoded record. The views point into the bytes that were decoded.
struct MessageRecord {
  MessageHeader header;
  std::vector<std::pair<absl::string_view, absl::string_view>> attributes;
  absl::string_view payload;
};

// Encodes a record. Thread-safe; called on the gRPC threads so that this work is parallel.
// REQUIRES: each attribute key is shorter than 64 KiB and everything together shorter than 2 GiB.
std::string EncodeMessageRecord(
    const MessageHeader& header,
    const std::vector<std::pair<absl::string_view, absl::string_view>>& attributes,
    absl::string_view payload);

// Decodes and verifies a record. DATA_LOSS if it is truncated, of an unknown version, or its checksum does not match.
absl::Status DecodeMessageRecord(absl::string_view bytes, MessageRecord* record);

// Decodes the fixed header only, without verifying the checksum: what the loader needs. DATA_LOSS if it is truncated or of
// an unknown version. Cost: O(1).
absl::Status DecodeMessageHeader(absl::string_view bytes, MessageHeader* header);

}  // namespace duetime::storage
