// SPDX-License-Identifier: Apache-2.0
//
// OrderJudge: the part of the history checker that judges the order of an ordering key's messages.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>

#include "tests/support/history.h"
#include "tests/support/history_judge.h"

namespace duetime::test {

// Judges the rule ORDER. Takes the events one by one.
//
// Within a run of the daemon and for each subscription of a key: (1) a delivery waits until each
// message of the key that was delivered earlier has a settlement, or a cancel that stops it; (2) of
// two messages, the one that was accepted before the call for the other began, and is not due
// later, is delivered first. After a clock step, a message that is due earlier need not wait for
// (1). A start of the daemon forgets everything, as a crash does.
//
// Memory: what is unsettled and has a key.
class OrderJudge {
 public:
  OrderJudge(int subscriptions, Violations* violations, Counts* counts)
      : subscriptions_(subscriptions), violations_(*violations), counts_(*counts) {}

  // REQUIRES: events come in order.
  void Take(const Event& event);

 private:
  // A key and a subscription.
  struct Lane {
    // The message that was delivered and, as far as the test knows, not settled.
    bool held = false;
    uint32_t holder = 0;
    // When, and with which deliver_time.
    int64_t held_ns = 0;
    int64_t held_ms = 0;
    // deliver_time and message of the accepted messages that were never delivered.
    std::set<std::pair<int64_t, uint32_t>> waiting;
  };
  // A message and a subscription.
  struct Place {
    uint64_t key = 0;
    int64_t begun_ns = 0;
    int64_t accepted_ns = 0;
    int64_t deliver_ms = 0;
    bool delivered = false;
  };

  static uint64_t PlaceOf(uint32_t message, int subscription) {
    return uint64_t{message} << 8 | static_cast<uint64_t>(subscription);
  }
  // Mixes the fingerprint of a key, so that the result is no other key's.
  static uint64_t LaneOf(uint64_t key, int subscription) {
    return key + static_cast<uint64_t>(subscription) * 0x9e3779b97f4a7c15u;
  }
  void Accept(const Event& event, int subscription);
  void Deliver(const Event& event);
  // The message has ended, or may have, or is no longer comparable.
  void Forget(uint32_t message, int subscription);

  const int subscriptions_;
  Violations& violations_;
  Counts& counts_;
  uint32_t run_ = 0;
  // The last clock step.
  int64_t step_ns_ = 0;
  std::unordered_map<uint64_t, Lane> lanes_;
  std::unordered_map<uint64_t, Place> places_;
};

}  // namespace duetime::test
