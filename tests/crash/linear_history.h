// SPDX-License-Identifier: Apache-2.0
//
// The requests of concurrent clients about one key, and their answers, while the daemon was killed
// again and again. Plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace duetime::linear {

enum class Kind : uint8_t { kSchedule, kReschedule, kCancel, kGet, kDeliver, kAck, kNack };

enum class OnConflict : uint8_t { kFail, kReplace, kKeepTime, kPushBack, kOnce };

enum class Answer : uint8_t {
  // No answer: the operation took effect at any time until the daemon was dead, or never.
  kUnknown,
  // Answers to a schedule.
  kCreated,
  kReplaced,
  kUnchanged,
  kMismatch,
  kNothingToReplace,
  // Answers to a cancel or a reschedule; kNotFound also to a get.
  kDone,
  kInFlight,
  kSettled,
  kAlreadyCancelled,
  kEtagMismatch,
  kNotFound,
  // Answer to a get, and the mark of a delivery.
  kFound,
  // Answers to an ack or a nack.
  kConfirmed,
  kLeaseLost,
};

// The state of a message according to an answer. kWaiting: pending, and no subscriber has the
// message.
enum class Seen : uint8_t { kNothing, kWaiting, kInFlight, kAcked, kCancelled };

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// One call, or one delivery. A delivery is an operation of the daemon, and may take effect from the
// time at which the daemon read its clock for it. Moments are microseconds of one clock that agrees
// with the wall clock.
struct Operation {
  Kind kind{};
  int64_t begun_us = 0;
  // kNever without an answer; then the operation ended when the daemon was dead.
  int64_t over_us = kNever;

  // ---- The request

  // Empty: the target is the key.
  std::string target_id;
  OnConflict on_conflict{};
  bool only_if_exists = false;
  bool stop_redelivery = false;
  // Of a reschedule: the required etag. Empty: none is required.
  std::string if_etag;
  // Of a schedule: the number of its payload and time. Of a get and a delivery: the number that was
  // found, or -1 if the answer did not tell.
  int64_t content = -1;
  int64_t deliver_ms = 0;
  // The lease of a delivery, an ack or a nack.
  uint64_t token = 0;

  // ---- The answer

  Answer answer = Answer::kUnknown;
  std::string id;
  std::string previous_id;
  Seen seen = Seen::kNothing;
  std::string etag;
  int64_t told_deliver_ms = 0;
  int64_t old_deliver_ms = 0;
  bool redelivery_stopped = false;
  bool uncertain = false;
  int attempt = 0;
  bool maybe_redelivered = false;
};

// One line of text, for people.
std::string ToText(const Operation& operation);

// The operations of one run of the daemon, in any order. All operations ended when the daemon was
// dead.
struct Run {
  std::vector<Operation> operations;
  int64_t dead_us = 0;
};

}  // namespace duetime::linear
