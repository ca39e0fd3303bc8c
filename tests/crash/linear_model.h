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

  // Empty: made by a call that was not answered, and not seen since.
  std::string id;
  int64_t content = -1;
  int64_t deliver_ms = 0;
  // Empty: not known.
  std::string etag;
  End end = End::kPending;
  // Delivered, or perhaps delivered: neither to be replaced nor to be moved.
  bool touched = false;
  // Accepted by an earlier run of the daemon.
  bool old = false;
  // kHidden: handed out, but the daemon was killed before anybody read it.
  Lease lease = Lease::kNone;
  uint64_t token = 0;
  // In this run.
  int attempts = 0;
};

// The key, and the messages that still matter.
struct State {
  std::vector<Message> messages;
  // Which of them has the key; -1: none ever had it.
  int holder = -1;

  // Two states are the same if and only if these are.
  std::string Text() const;
};

// Appends each state in which `operation` may leave `state` if it takes effect at once, as a whole,
// and is answered as it was; none if it cannot be answered so. Without an answer: each state in
// which it may leave it (that it does nothing is not among them).
//
// Two things happen without a client: a message that is due may be handed out and never be read,
// and a message that an earlier run released may count as perhaps delivered. Both only ever show in
// an answer, so they are taken to have happened when one tells.
void Step(const State& state, const Operation& operation, std::vector<State>* out);

// The daemon was killed and starts again: no subscriber holds a message.
void Restart(State* state);

// How far ahead of its clock the daemon may release messages (claim_ahead_ms), with some room. A
// crash makes these count as perhaps delivered.
constexpr int64_t kClaimAheadMs = 250;

}  // namespace duetime::linear
