// SPDX-License-Identifier: Apache-2.0
//
// Decodes the objects of data directories up to format 3 (storage/FORMAT.md): operations and
// recurrences of version 1, and subscriptions of versions 1 and 2. The next change of an object
// writes the newest version.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/protocol/operation.h"
#include "server/protocol/recurrence_state.h"
#include "server/protocol/subscription_state.h"

namespace duetime::protocol {

// The first byte of these objects.
inline constexpr char kOldObjectVersion = 1;

inline bool IsOldObject(absl::string_view bytes) {
  return !bytes.empty() && bytes[0] == kOldObjectVersion;
}
inline bool IsOldSubscription(absl::string_view bytes) {
  return !bytes.empty() && (bytes[0] == 1 || bytes[0] == 2);
}

// DATA_LOSS for bytes that no encoder wrote. The callers of the first two check the enumerators.
absl::StatusOr<Operation> DecodeOldOperation(absl::string_view name, absl::string_view bytes);
absl::StatusOr<RecurrenceState> DecodeOldRecurrence(absl::string_view name,
                                                    absl::string_view bytes);
// REQUIRES: IsOldSubscription(bytes).
absl::StatusOr<SubscriptionState> DecodeOldSubscription(storage::SubscriptionId id,
                                                        absl::string_view bytes);

// Returns the bytes that version 1 would write for a new object of this spec. Their hash shows
// whether a request repeats an earlier one. The hashes are on disk, so the bytes never change. The
// id of a filter, which version 1 does not have, follows these bytes.
std::string ContentOf(const OperationSpec& spec);
std::string ContentOf(const RecurrenceSpec& spec);

}  // namespace duetime::protocol
