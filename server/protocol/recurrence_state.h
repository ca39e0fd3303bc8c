// SPDX-License-Identifier: Apache-2.0
//
// A recurrence: its request, and its progress.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/calendar/recurrence_rule.h"
#include "storage/locator.h"
#include "storage/types.h"

namespace duetime::protocol {

// What to do when an occurrence is due and the previous occurrence has not ended.
enum class Overlap : uint8_t { kAllow = 1, kSkip = 2 };
// What to do with occurrences whose time passed while no server ran or the recurrence was paused.
enum class Misfire : uint8_t { kFireOnce = 1, kFireAll = 2, kSkip = 3 };
enum class RecurrenceStatus : uint8_t { kActive = 1, kPaused = 2, kCompleted = 3 };

struct RecurrenceSpec {
  storage::TopicId topic{};
  calendar::RecurrenceRule rule;
  Overlap overlap = Overlap::kAllow;
  Misfire misfire = Misfire::kFireOnce;
  // The template of the occurrences, encoded by EncodeMessageRecord. Its times are meaningless.
  std::string message;
  // Distinguishes a repeat of the create request from another request with the same name.
  storage::Fingerprint content;
};

// The state of a recurrence. The slot SlotOfName("", name) decides the shard of the recurrence and
// of its occurrences. That shard keeps the state as an object (ObjectKind::kRecurrence, under its
// name).
struct RecurrenceState {
  std::string name;
  RecurrenceSpec spec;
  RecurrenceStatus status = RecurrenceStatus::kActive;
  uint64_t revision = 0;
  uint64_t create_ms = 0;
  // When a call last changed the recurrence. 0: never.
  uint64_t update_ms = 0;
  // Occurrences made, including the pending one, and occurrences skipped.
  uint64_t made = 0;
  uint64_t skipped = 0;
  // The nominal time of the last occurrence made. 0: none yet.
  uint64_t nominal_ms = 0;
  // The pending occurrence: it is not due, or the engine has not consumed it yet. No id: there is
  // none.
  storage::MessageKey current;
  uint64_t current_deliver_ms = 0;
  // The occurrence before `current`, for Overlap::kSkip.
  storage::MessageKey previous;
};

// The size of a recurrence in memory, which is mostly its template.
inline size_t AnswerSize(const RecurrenceState& state) {
  return sizeof(state) + state.spec.message.size();
}

// NOT_FOUND RECURRENCE_NOT_FOUND.
absl::Status RecurrenceNotFoundError(const std::string& name);

std::string EncodeRecurrence(const RecurrenceState& state);
absl::StatusOr<RecurrenceState> DecodeRecurrence(absl::string_view name, absl::string_view bytes);

}  // namespace duetime::protocol
