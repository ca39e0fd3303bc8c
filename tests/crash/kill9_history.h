// SPDX-License-Identifier: Apache-2.0
//
// What clients saw while a daemon was killed again and again, and the rules that it must obey.
// Pure: no clock, no network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace duetime::crash {

// How an operation ended, as its client knows.
enum class Ended : uint8_t {
  // It has not, and never will: the history ended first. Judged as kUnknown.
  kNot,
  kOk,
  // Refused in a way that means that nothing was changed.
  kRefused,
  // No answer, or one that says nothing: it may have happened or not.
  kUnknown,
};

// What a cancel found. kSettled: it had ended, and not by a cancel.
enum class Found : uint8_t { kCancelled, kInFlight, kSettled, kAlreadyCancelled, kNotFound };

// Moments are numbers that grow with each event of the whole history; runs of the daemon count
// from 1.
struct CancelEvent {
  uint64_t begun = 0;
  uint64_t over = 0;
  int run = 0;
  bool stop_redelivery = false;
  Ended ended = Ended::kNot;
  // With kOk.
  Found found = Found::kNotFound;
  bool redelivery_stopped = false;
  // With kSettled and kAlreadyCancelled: when it had ended.
  int64_t end_ms = 0;
};

struct DeliveryEvent {
  uint64_t at = 0;
  int run = 0;
  std::string id;
  int attempt = 0;
  bool maybe_redelivered = false;
  uint64_t token = 0;
  int64_t deliver_ms = 0;
  int64_t received_us = 0;
};

struct AckEvent {
  uint64_t begun = 0;
  uint64_t over = 0;
  uint64_t token = 0;
  Ended ended = Ended::kNot;
};

// One message, from the client's wish to its end.
struct MessageHistory {
  int64_t wanted_us = 0;
  int64_t delay_ms = 0;
  Ended scheduled = Ended::kNot;
  // When the answer came.
  uint64_t scheduled_at = 0;
  // With kOk.
  std::string id;
  int64_t deliver_ms = 0;

  std::vector<CancelEvent> cancels;
  std::vector<DeliveryEvent> deliveries;
  std::vector<AckEvent> acks;
};

// One broken promise.
struct Violation {
  // Which message, by its place in the history.
  size_t message = 0;
  // LOST, CANCELLED_DELIVERED, EARLY ...; see Check.
  std::string rule;
  std::string text;
};

// Judges a history that ended with a drain: everything that was still there was delivered and
// acked. Tombstones are kept for longer than the history, and no message has a time to live.
//
//   LOST                 accepted, and it ended without a reason: no ack (confirmed or unanswered),
//                        no cancel that explains it
//   CANCELLED_DELIVERED  a cancel said CANCELLED, and it was delivered, before or after
//   CANCELLED_TWICE      two cancels said CANCELLED
//   STOPPED_DELIVERED    a cancel ended its redelivery, and a later run delivered it
//   EARLY                received before its deliver_time, or the deliver_time is before what was
//                        asked for
//   ACKED_DELIVERED      a confirmed ack, and a later delivery
//   ACKED_TWICE          two confirmed acks
//   REFUSED_DELIVERED    refused when it was scheduled, and delivered
//   NOT_FOUND            a cancel said NOT_FOUND of a message that had been accepted
//   UNTRUE_END           a cancel said SETTLED or ALREADY_CANCELLED though nothing had begun to end
//                        it so
//   FORGOTTEN_END        it had ended, as its client was told, and a cancel found it otherwise
//   ENDED_DELIVERED      a cancel said that it had ended, and a later run delivered it
//   END_TIME             two times of one end
//   ATTEMPT              attempts below 1, repeated within a run, or a repeat that claims to be the
//                        first delivery
//   TOKEN                one lease token given twice
//   ID                   an id of two messages, or two ids or deliver_times of one
std::vector<Violation> Check(const std::vector<MessageHistory>& history);

}  // namespace duetime::crash
