// SPDX-License-Identifier: Apache-2.0
//
// A recurrence as it is asked for, and where it is.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/calendar/recurrence_rule.h"
#include "storage/locator.h"
#include "storage/types.h"

namespace duetime::protocol {

// What to do when an occurrence is due while the one before it has not ended.
enum class Overlap : uint8_t { kAllow = 1, kSkip = 2 };
// What to do with occurrences whose time passed unnoticed.
enum class Misfire : uint8_t { kFireOnce = 1, kFireAll = 2, kSkip = 3 };
enum class RecurrenceStatus : uint8_t { kActive = 1, kPaused = 2, kCompleted = 3 };

struct RecurrenceSpec {
  storage::TopicId topic{};
  calendar::RecurrenceRule rule;
  Overlap overlap = Overlap::kAllow;
  Misfire misfire = Misfire::kFireOnce;
  // EncodeMessageRecord's bytes of a message like those to be made; its times mean nothing.
  std::string message;
  // Tells a repeat of the request that made it from another of the same name.
  storage::Fingerprint content;
};

// Kept as an object (ObjectKind::kRecurrence, its name) of the shard of SlotOfName("", name), where
// its occurrences are, too.
struct RecurrenceState {
  std::string name;
  RecurrenceSpec spec;
  RecurrenceStatus status = RecurrenceStatus::kActive;
  uint64_t revision = 0;
  uint64_t create_ms = 0;
  // 0: it was never changed.
  uint64_t update_ms = 0;
  // RecurrenceEngine made, the pending one included, and passed over.
  uint64_t made = 0;
  uint64_t skipped = 0;
  // The nominal time of the last one made; 0: none was.
  uint64_t nominal_ms = 0;
  // The one that is pending, not due yet or not yet noticed to be; no id if there is none.
  storage::MessageKey current;
  uint64_t current_deliver_ms = 0;
  // The one before it, for Overlap::kSkip.
  storage::MessageKey previous;
};

std::string EncodeRecurrence(const RecurrenceState& state);
absl::StatusOr<RecurrenceState> DecodeRecurrence(absl::string_view name, absl::string_view bytes);

}  // namespace duetime::protocol
