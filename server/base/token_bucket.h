// SPDX-License-Identifier: Apache-2.0
//
// TokenBucket: the rate limiter that every limit of the server uses.
#pragma once

#include <algorithm>
#include <cstdint>

#include "server/base/check.h"

namespace duetime::base {

// A token bucket that keeps one number, without a clock and without a rate.
//
// A meter fills the bucket. The caller passes the reading of the meter: a clock for a constant
// rate, or a running sum for a rate that changes. The size gives the cost of a token and the
// capacity, both in units of the meter. This is the generic cell rate algorithm (GCRA; ATM Forum,
// Traffic Management Specification 4.0): the number is the reading at which the bucket is full.
//
// Guarantee: while the size stays, the tokens granted between two readings cost at most the
// distance of the readings plus one capacity. Cost: O(1). Copyable: a caller may keep the number in
// an atomic word. Thread safety: none.
class TokenBucket {
 public:
  // In units of the meter. REQUIRES: 0 < token <= capacity.
  struct Size {
    uint64_t token = 0;
    uint64_t capacity = 0;
  };

  constexpr TokenBucket() = default;
  constexpr explicit TokenBucket(uint64_t full_at) : full_at_(full_at) {}

  // Grants up to `wanted` tokens.
  uint64_t Take(uint64_t reading, const Size& size, uint64_t wanted) {
    DT_CHECK_GT(size.token, 0u);
    DT_CHECK_GE(size.capacity, size.token);
    full_at_ = std::max(full_at_, reading);
    const uint64_t granted = std::min(wanted, Level(reading, size) / size.token);
    full_at_ += granted * size.token;
    return granted;
  }

  // Puts tokens back that Take granted.
  void GiveBack(uint64_t reading, const Size& size, uint64_t tokens) {
    full_at_ -= std::min(full_at_, tokens * size.token);
    full_at_ = std::max(full_at_, reading);
  }

  // Returns how far the meter must advance until the bucket holds `goal`. REQUIRES: goal <=
  // capacity.
  uint64_t Missing(uint64_t reading, const Size& size, uint64_t goal) const {
    DT_CHECK_LE(goal, size.capacity);
    return goal - std::min(goal, Level(reading, size));
  }

  // Returns the overflow since the bucket was full, and resets it to zero.
  uint64_t TakeOverflow(uint64_t reading) {
    const uint64_t overflow = reading - std::min(full_at_, reading);
    full_at_ += overflow;
    return overflow;
  }

  void Empty(uint64_t reading, const Size& size) { full_at_ = reading + size.capacity; }

  // Keeps the level when the capacity grows by `amount`.
  void Grow(uint64_t amount) { full_at_ += amount; }

  // Limits the debt to one capacity. Call it after a change of the size.
  void Fit(uint64_t reading, const Size& size) {
    full_at_ = std::min(full_at_, reading + size.capacity);
  }

  uint64_t full_at() const { return full_at_; }

 private:
  uint64_t Level(uint64_t reading, const Size& size) const {
    const uint64_t limit = reading + size.capacity;
    return limit - std::min(limit, std::max(full_at_, reading));
  }

  uint64_t full_at_ = 0;
};

}  // namespace duetime::base
