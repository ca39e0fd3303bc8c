// SPDX-License-Identifier: Apache-2.0
//
// What is remembered about a message beside its record: the names it goes by, where it was moved
// to, how it ended. Encoded as documented in FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/types.h"

namespace duetime::storage {

// 128 bits of hash over the content of a request: two requests with the same one ask for the same.
struct Fingerprint {
  uint64_t high = 0;
  uint64_t low = 0;

  friend constexpr bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

// What a name in the index says.
struct IndexEntry {
  MessageId id;
  Fingerprint content;
  // UTC milliseconds from which on the entry does not count and may be dropped. 0: as long as its
  // message is pending.
  uint64_t expire_ms = 0;
  // What the request was answered (used for request ids only): what was done, and the times.
  uint8_t outcome = 0;
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  uint64_t old_deliver_ms = 0;

  friend constexpr bool operator==(const IndexEntry&, const IndexEntry&) = default;
};

// How a message ended.
enum class EndState : uint8_t {
  kAcked = 1,
  kCancelled = 2,
  kExpired = 3,
  kDeadLettered = 4,
  // An occurrence that was passed over because the one before it had not ended.
  kSkipped = 5,
  // Given up: its subscription kept it long enough, or the last one that wanted it was deleted.
  kDropped = 6,
};

// What is known of a message after its end. Times in UTC milliseconds.
struct Fate {
  EndState state{};
  TopicId topic{};
  uint32_t attempts = 0;
  uint32_t payload_bytes = 0;
  uint64_t deliver_ms = 0;
  uint64_t accept_ms = 0;
  // When it was fired, and handed out for the first time, by the run in which it ended; 0: never.
  uint64_t fire_ms = 0;
  uint64_t dispatch_ms = 0;
  uint64_t end_ms = 0;
  // From when on the fate does not count and may be dropped.
  uint64_t expire_ms = 0;
  uint64_t revision = 0;
  // Was cancelled although it had been, or may have been, delivered.
  bool redelivery_stopped = false;
  std::string key;

  friend bool operator==(const Fate&, const Fate&) = default;
};

// What an id leads to when there is no message at its own place.
struct Trace {
  // Where it is now (the due time of its key). Means nothing with a fate.
  uint64_t due_ms = 0;
  std::optional<Fate> fate;

  friend bool operator==(const Trace&, const Trace&) = default;
};

std::string EncodeIndexEntry(const IndexEntry& entry);
// DATA_LOSS for bytes that no encoder wrote.
absl::StatusOr<IndexEntry> DecodeIndexEntry(absl::string_view bytes);

std::string EncodeTrace(const Trace& trace);
absl::StatusOr<Trace> DecodeTrace(absl::string_view bytes);

// When the encoded entry or trace may be dropped; 0: not by its age. Both encodings begin with it,
// so that a compaction can tell without decoding the rest. Nothing for bytes that are too short.
std::optional<uint64_t> ExpireTimeOf(absl::string_view bytes);

}  // namespace duetime::storage
