// SPDX-License-Identifier: Apache-2.0
//
// The observations of clients while a daemon was killed again and again, and the rules that these
// must obey. Pure: no clock, no network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace duetime::crash {

// The end of an operation as its client knows it.
enum class Ended : uint8_t {
  // The history ended before the operation. Judged as kUnknown.
  kNot,
  kOk,
  // The server refused, so nothing changed.
  kRefused,
  // No answer, or one that does not tell: the operation may have taken effect or not.
  kUnknown,
};

// The result of a cancel. kSettled: the message had ended, but not by a cancel.
enum class Found : uint8_t { kCancelled, kInFlight, kSettled, kAlreadyCancelled, kNotFound };

// Moments are numbers that grow with each event of the whole history. Runs of the daemon count from
// 1.
struct CancelEvent {
  uint64_t begun = 0;
  uint64_t over = 0;
  int run = 0;
  bool stop_redelivery = false;
  Ended ended = Ended::kNot;
  // Set if `ended` is kOk.
  Found found = Found::kNotFound;
  bool redelivery_stopped = false;
  // Set with kSettled and kAlreadyCancelled: when the message ended.
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

// One message, from the client's call to the message's end.
struct MessageHistory {
  int64_t wanted_us = 0;
  int64_t delay_ms = 0;
  Ended scheduled = Ended::kNot;
  // The moment of the answer.
  uint64_t scheduled_at = 0;
  // Set if `scheduled` is kOk.
  std::string id;
  int64_t deliver_ms = 0;

  std::vector<CancelEvent> cancels;
  std::vector<DeliveryEvent> deliveries;
  std::vector<AckEvent> acks;
};

// One broken promise.
struct Violation {
  // The message's index in the history.
  size_t message = 0;
  // LOST, CANCELLED_DELIVERED, EARLY ...; see Check.
  std::string rule;
  std::string text;
};

// Judges a history that ended with a drain, in which every remaining message was delivered and
// acked. Tombstones outlive the history, and no message has a time to live.
//
//   LOST                 an accepted message ended without a confirmed or unanswered ack and
//                        without a cancel that explains the end
//   CANCELLED_DELIVERED  a cancel answered CANCELLED, and the message was delivered before or after
//   CANCELLED_TWICE      two cancels answered CANCELLED
//   STOPPED_DELIVERED    a cancel stopped redelivery, and a later run delivered the message
//   EARLY                received before its deliver_time, or the deliver_time is before the
//                        requested time
//   ACKED_DELIVERED      delivered after a confirmed ack
//   ACKED_TWICE          two confirmed acks
//   REFUSED_DELIVERED    delivered although its schedule was refused
//   NOT_FOUND            a cancel answered NOT_FOUND for an accepted message
//   UNTRUE_END           a cancel answered SETTLED or ALREADY_CANCELLED, but no ack or cancel that
//                        could end the message had begun
//   FORGOTTEN_END        a client knew that the message had ended, and a later cancel denied it
//   ENDED_DELIVERED      a cancel answered that the message had ended, and a later run delivered it
//   END_TIME             two end times for one message
//   ATTEMPT              an attempt below 1, one repeated within a run, or a repeat that claims to
//                        be the first delivery
//   TOKEN                one lease token given twice
//   ID                   two messages with one id, or one message with two ids or deliver_times
std::vector<Violation> Check(const std::vector<MessageHistory>& history);

}  // namespace duetime::crash
