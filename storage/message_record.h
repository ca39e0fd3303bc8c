// SPDX-License-Identifier: Apache-2.0
//
// The encoding of a message on disk: a fixed header, sections, the payload. Documented in
// FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/types.h"

namespace duetime::storage {

// Flags in the header that summarise the sections, so that most readers need not decode them.
struct MessageFlags {
  static constexpr uint8_t kKeyed = 1;        // has a user key
  static constexpr uint8_t kExpires = 2;      // has a time to live
  static constexpr uint8_t kOrdered = 4;      // has an ordering key
  static constexpr uint8_t kRecurs = 8;       // is an occurrence of a recurrence
  static constexpr uint8_t kLabelled = 16;    // has labels
  static constexpr uint8_t kDeadLetter = 32;  // is a dead letter
  static constexpr uint8_t kAll = 63;
};

// The fixed header, 32 bytes little-endian on disk.
struct MessageHeader {
  TopicId topic{};
  // The earliest delivery time, UTC milliseconds. It equals the due time of the message's key, or
  // is earlier if the message was already due when it was accepted.
  uint64_t deliver_ms = 0;
  // When the server accepted the message, UTC milliseconds. Changes and moves keep it.
  uint64_t accept_ms = 0;
  // MessageFlags. The encoder derives them from the record.
  uint8_t flags = 0;
};

// What to do with a message that is later than its time to live.
enum class LatePolicy : uint8_t { kDeliver = 0, kDrop = 1, kDeadLetter = 2 };

// Why a message became a dead letter.
enum class DeadLetterReason : uint8_t {
  // The subscription reached its limit of attempts.
  kMaxAttempts = 1,
  // A subscriber rejected it.
  kRejected = 2,
  // Its time to live had passed.
  kExpired = 3,
  // The subscription's retention ended.
  kRetention = 4,
};

// The origin of a dead letter, which is a new message in the dead-letter topic: these fields
// describe the original message. The views are as in MessageRecord; times are UTC milliseconds.
struct DeadLetterOrigin {
  TopicId origin_topic{};
  absl::string_view topic_name = {};
  // The subscription that dead-lettered it; empty if none did.
  absl::string_view subscription_name = {};
  // The original key; empty if none.
  absl::string_view key = {};
  MessageId id = {};
  // Delivery attempts.
  uint32_t attempts = 0;
  DeadLetterReason reason = DeadLetterReason::kMaxAttempts;
  // The subscriber's reason; empty if none.
  absl::string_view reason_text = {};
  // The first and last delivery, as far as the server knows; 0: never.
  uint64_t first_dispatch_ms = 0;
  uint64_t last_dispatch_ms = 0;
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  // Time to live and late policy, as in MessageRecord. A dead letter itself does not expire.
  uint64_t ttl_ms = 0;
  LatePolicy late_policy = LatePolicy::kDeliver;
  // How many dead-letter topics the message has been in, this one included; at least 1.
  uint32_t hops = 1;
  // The subscription's last attempts that ended without a settlement (attempts.h); empty if none is
  // known.
  absl::string_view last_attempts = {};

  friend bool operator==(const DeadLetterOrigin&, const DeadLetterOrigin&) = default;
};

// A decoded record. The views point into the decoded bytes. An empty or zero field has no section
// on disk. Every field has an initializer, so that a designated initializer may name only some of
// them.
struct MessageRecord {
  using Pairs = std::vector<std::pair<absl::string_view, absl::string_view>>;

  MessageHeader header = {};
  Pairs attributes = {};
  Pairs labels = {};
  absl::string_view key = {};
  absl::string_view ordering_key = {};
  // Time to live, counted from deliver_ms. 0: none, and then late_policy is not stored.
  uint64_t ttl_ms = 0;
  LatePolicy late_policy = LatePolicy::kDeliver;
  // The requested spread. deliver_ms is already the chosen point.
  uint64_t spread_ms = 0;
  // The requested local time and its zone, from which deliver_ms was resolved. A zone without a
  // time is not stored.
  absl::string_view civil_time = {};
  absl::string_view time_zone = {};
  // The recurrence that made the message, and the number of the occurrence, from 1. A number
  // without a recurrence is not stored.
  absl::string_view recurrence = {};
  uint64_t occurrence = 0;
  // How often the message was replaced or moved, and the time of the last change. A time without a
  // revision is not stored.
  uint64_t revision = 0;
  uint64_t update_ms = 0;
  // Set for a dead letter.
  std::optional<DeadLetterOrigin> dead_letter = std::nullopt;
  absl::string_view payload = {};
};

// Encodes a record; ignores header.flags. Thread-safe; runs on the gRPC threads, in parallel.
// REQUIRES: each attribute key, label key, civil time, and text of a dead letter's origin is
// shorter than 64 KiB, and the record is shorter than 2 GiB.
std::string EncodeMessageRecord(const MessageRecord& record);

// The MessageFlags that the encoder gives the record.
uint8_t MessageFlagsOf(const MessageRecord& record);

// Decodes and verifies a record. Overwrites `record` but reuses the memory of its vectors.
// DATA_LOSS if the bytes are truncated, of an unknown version, or do not match their checksum.
absl::Status DecodeMessageRecord(absl::string_view bytes, MessageRecord* record);

// Decodes the fixed header, without verifying the checksum, for the loader. DATA_LOSS if the bytes
// are truncated or of an unknown version. Cost: O(1).
absl::Status DecodeMessageHeader(absl::string_view bytes, MessageHeader* header);

// Returns the part of a record before its payload, which lists and filters need. DATA_LOSS as
// above. Cost: O(1).
absl::Status MessageHead(absl::string_view bytes, absl::string_view* head);

// False if the message of this head was certainly never replaced or moved. Cost: O(1).
bool MayBeRevised(absl::string_view head);

// Decodes a head. The payload stays empty, and the checksum, which covers the payload, is not
// verified.
absl::Status DecodeMessageHead(absl::string_view head, MessageRecord* record);

}  // namespace duetime::storage
