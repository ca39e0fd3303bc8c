// SPDX-License-Identifier: Apache-2.0
//
// The bytes of one message on disk: a fixed header, its sections, its payload. Documented in
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

// What the header says about the sections, so that most readers need not look into them.
struct MessageFlags {
  static constexpr uint8_t kKeyed = 1;        // has a user key
  static constexpr uint8_t kExpires = 2;      // has a time to live
  static constexpr uint8_t kOrdered = 4;      // has an ordering key
  static constexpr uint8_t kRecurs = 8;       // is an occurrence of a recurrence
  static constexpr uint8_t kLabelled = 16;    // has labels
  static constexpr uint8_t kDeadLetter = 32;  // says where it comes from as a dead letter
  static constexpr uint8_t kAll = 63;
};

// The fixed header, 32 bytes little-endian on disk.
struct MessageHeader {
  TopicId topic{};
  // When the message may be delivered, UTC milliseconds. Equals the due time of its key, or lies
  // before it when the message was already due as it was accepted.
  uint64_t deliver_ms = 0;
  // When the server accepted it, UTC milliseconds. Stays when the message is changed or moved.
  uint64_t accept_ms = 0;
  // MessageFlags. Set by the encoder from what the record holds.
  uint8_t flags = 0;
};

// What happens to a message that is later than its time to live.
enum class LatePolicy : uint8_t { kDeliver = 0, kDrop = 1, kDeadLetter = 2 };

// Why a message became a dead letter.
enum class DeadLetterReason : uint8_t {
  // It was delivered as often as its subscription allows.
  kMaxAttempts = 1,
  // A subscriber said so.
  kRejected = 2,
  // It was later than its time to live.
  kExpired = 3,
  // It waited in its subscription for as long as that keeps messages.
  kRetention = 4,
};

// Where a dead letter comes from. The message is one of its own, in a topic of its own; this is
// what it was before. The views are as MessageRecord's, times in UTC milliseconds.
struct DeadLetterOrigin {
  TopicId origin_topic{};
  absl::string_view topic_name = {};
  // Empty if no subscription gave it up.
  absl::string_view subscription_name = {};
  // The user key that it had, if any.
  absl::string_view key = {};
  MessageId id = {};
  // Deliveries begun.
  uint32_t attempts = 0;
  DeadLetterReason reason = DeadLetterReason::kMaxAttempts;
  // What the subscriber said, if anything.
  absl::string_view reason_text = {};
  // When it was handed out for the first and for the last time, as far as is known; 0: never.
  uint64_t first_dispatch_ms = 0;
  uint64_t last_dispatch_ms = 0;
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;

  friend bool operator==(const DeadLetterOrigin&, const DeadLetterOrigin&) = default;
};

// A decoded record. The views point into the bytes that were decoded. A field that is empty or zero
// has no section on disk. Every field has an initializer, so that a record can be written down by
// those that matter.
struct MessageRecord {
  using Pairs = std::vector<std::pair<absl::string_view, absl::string_view>>;

  MessageHeader header = {};
  Pairs attributes = {};
  Pairs labels = {};
  absl::string_view key = {};
  absl::string_view ordering_key = {};
  // Time to live, counted from deliver_ms: later than that, late_policy is applied. 0: none, and
  // the policy is not kept.
  uint64_t ttl_ms = 0;
  LatePolicy late_policy = LatePolicy::kDeliver;
  // The spread that was asked for; deliver_ms is already the point that was chosen.
  uint64_t spread_ms = 0;
  // The local time that deliver_ms was resolved from, as it was given, and its zone.
  // A zone without a time is not kept.
  absl::string_view civil_time = {};
  absl::string_view time_zone = {};
  // The recurrence that made the message, and its number in it, from 1. A number without a
  // recurrence is not kept.
  absl::string_view recurrence = {};
  uint64_t occurrence = 0;
  // How often it was replaced or moved since it was accepted, and when last. A time without a
  // revision is not kept.
  uint64_t revision = 0;
  uint64_t update_ms = 0;
  // Set for a dead letter.
  std::optional<DeadLetterOrigin> dead_letter = std::nullopt;
  absl::string_view payload = {};
};

// Encodes a record; header.flags is ignored. Thread-safe; called on the gRPC threads so that this
// work is parallel. REQUIRES: each attribute key, label key and civil time, and each text of a
// dead letter's origin, is shorter than 64 KiB, and everything together shorter than 2 GiB.
std::string EncodeMessageRecord(const MessageRecord& record);

// Decodes and verifies a record; `record` is overwritten and its vectors are reused. DATA_LOSS if
// it is truncated, of an unknown version, or its checksum does not match.
absl::Status DecodeMessageRecord(absl::string_view bytes, MessageRecord* record);

// Decodes the fixed header only, without verifying the checksum: what the loader needs. DATA_LOSS
// if it is truncated or of an unknown version. Cost: O(1).
absl::Status DecodeMessageHeader(absl::string_view bytes, MessageHeader* header);

// The part of a record before its payload: all that lists and filters need. DATA_LOSS as above.
// Cost: O(1).
absl::Status MessageHead(absl::string_view bytes, absl::string_view* head);

// False if such a part certainly has no revision: it was never replaced or moved. Cost: O(1).
bool MayBeRevised(absl::string_view head);

// Decodes such a part; the payload is empty, and the checksum, which covers the payload, is not
// verified.
absl::Status DecodeMessageHead(absl::string_view head, MessageRecord* record);

}  // namespace duetime::storage
