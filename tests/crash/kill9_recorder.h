// SPDX-License-Identifier: Apache-2.0
//
// Recorder: records the history of a crash test as it happens.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/kill9_history.h"

namespace duetime::crash {

// Event counts. A run with too few events proves nothing.
struct Tally {
  int64_t scheduled = 0;
  int64_t schedule_unknown = 0;
  int64_t schedule_refused = 0;
  int64_t cancelled = 0;
  int64_t cancel_in_flight = 0;
  int64_t cancel_already = 0;
  int64_t cancel_settled = 0;
  int64_t cancel_not_found = 0;
  int64_t cancel_unknown = 0;
  int64_t deliveries = 0;
  // Deliveries of messages that an earlier run had delivered.
  int64_t redelivered_by_later_run = 0;
  // Deliveries of messages whose schedule had no answer.
  int64_t unknown_delivered = 0;
  int64_t acks_confirmed = 0;
  int64_t acks_refused = 0;
  int64_t acks_unknown = 0;
};

// Collects the calls and deliveries of all client threads. Thread-safe; one lock suffices, because
// the network is slower.
class Recorder {
 public:
  // Records that a client is about to schedule a message with this delay. Returns the message's
  // number, which travels in the payload.
  size_t Wanted(int64_t delay_ms);
  void Scheduled(size_t number, Ended ended, const std::string& id, int64_t deliver_ms);

  // Returns the cancel's index in the message's history, for CancelOver.
  size_t CancelBegun(size_t number, int run, bool stop_redelivery);
  void CancelOver(size_t number, size_t cancel, const CancelEvent& result);

  // Sets `event.at`.
  void Delivered(size_t number, DeliveryEvent event);

  void AckBegun(size_t number, uint64_t token);
  void AckOver(size_t number, uint64_t token, Ended ended);

  // Number and id of one of the messages that were accepted last.
  std::optional<std::pair<size_t, std::string>> PickRecent(std::mt19937_64* random) const;

  // Number and id of every message with an OK answer.
  std::vector<std::pair<size_t, std::string>> Accepted() const;

  size_t size() const;
  // REQUIRES: every client has ended.
  std::vector<MessageHistory> TakeHistory();

 private:
  uint64_t NextMoment() { return ++moment_; }

  mutable std::mutex mutex_;
  // mutex_ guards all members below.
  uint64_t moment_ = 0;
  std::vector<MessageHistory> history_;
  // A ring of the numbers of the messages that were accepted last.
  std::vector<size_t> recent_;
  size_t recent_next_ = 0;
};

Tally Count(const std::vector<MessageHistory>& history);

// This machine's wall clock, in microseconds.
int64_t NowMicros();

}  // namespace duetime::crash
