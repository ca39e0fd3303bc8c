// SPDX-License-Identifier: Apache-2.0
//
// The sequential model of one key: the effect and the answer of each operation when operations come
// one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/crash/linear_history.h"

namespace duetime::linear {

// One message that has, or had, the key.
struct Message {
  enum class End : uint8_t { kPending, kAcked, kCancelled };
  enum class Lease : uint8_t { kNone, kToken, kHidden };

  // Empty: an unanswered call made the message, and no answer has shown the id since.
  std::string id;
  int64_t content = -1;
  int64_t deliver_ms = 0;
  // Empty: unknown.
  std::string etag;
  End end = End::kPending;
  // Delivered or perhaps delivered, so it can be neither replaced nor moved.
  bool touched = false;
  // Accepted by an earlier run of the daemon.
  bool old = false;
  // kHidden: handed out, but the daemon was killed before a client read it.
  Lease lease = Lease::kNone;
  uint64_t token = 0;
  // Deliveries in this run.
  int attempts = 0;
};

// The key and the messages that still matter.
struct State {
  std::vector<Message> messages;
  // Index of the message that has the key. -1: no message ever had it.
  int holder = -1;

  // Two states are equal if and only if their texts are equal.
  std::string Text() const;
};

// Appends each state that `operation` may leave if it takes effect atomically on `state` and gives
// the recorded answer. Appends nothing if that answer is impossible. Without an answer: appends
// each state that the operation may leave if it takes effect.
//
// Two events need no client: the daemon may hand out a due message that no client reads, and a
// message that an earlier run released may count as perhaps delivered. Only an answer shows such an
// event, so the model applies the event when an answer shows it.
void Step(const State& state, const Operation& operation, std::vector<State>* out);

// The daemon was killed and starts again: no subscriber holds a message.
void Restart(State* state);

// How far ahead of its clock the daemon may release messages (claim_ahead_ms), with some margin.
// After a crash these messages count as perhaps delivered.
constexpr int64_t kClaimAheadMs = 250;

}  // namespace duetime::linear
