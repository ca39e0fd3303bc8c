// SPDX-License-Identifier: Apache-2.0
//
// The last attempts of a subscription to deliver a message, as a progress record keeps them.
// FORMAT.md documents the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

namespace duetime::storage {

// Why an attempt ended without a settlement. The numbers are on disk.
enum class AttemptEnd : uint8_t {
  kNacked = 1,
  kLeaseLost = 2,
  kStreamEnded = 3,
  // The subscriber gave the message back without beginning it.
  kReleased = 4,
  // The server took the message back: it stops, the subscription was deleted, or the message was
  // not sent.
  kTakenBack = 5,
  // The stream or the lease ended, and the subscriber, which reports the messages that it begins,
  // had not reported this one.
  kNotBegun = 6,
  // The stream ended, and the subscriber had reported the message as begun.
  kBegunStreamEnded = 7,
};

// An attempt that ended without a settlement. The texts are views.
struct Attempt {
  // Counts the deliveries from 1.
  uint32_t number = 0;
  AttemptEnd end{};
  // When the attempt ended, UTC milliseconds.
  uint64_t end_ms = 0;
  // From the delivery to the end. 0 if the clock was set back meanwhile.
  uint64_t held_ms = 0;
  // From the end to the earliest time of the next attempt.
  uint64_t delay_ms = 0;
  // The subscriber's name for itself; empty if it gave none.
  absl::string_view client_id = {};
  // The subscriber's reason; empty if it gave none.
  absl::string_view reason = {};

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

inline constexpr size_t kLastAttemptsMax = 5;
inline constexpr size_t kLastAttemptsBytesMax = 512;

// Returns `last_attempts` with one attempt more. Cuts its texts, and cuts or drops the oldest
// attempts, so that the result keeps the two limits. Bytes that DecodeAttempts refuses, and
// attempts that are not before this one, are left out. REQUIRES: the texts are UTF-8.
std::string AddAttempt(absl::string_view last_attempts, const Attempt& attempt);

// Returns the attempts, the oldest first; their texts point into `bytes`. nullopt for bytes that
// AddAttempt does not return.
using Attempts = absl::InlinedVector<Attempt, kLastAttemptsMax + 1>;
std::optional<Attempts> DecodeAttempts(absl::string_view bytes);

}  // namespace duetime::storage
