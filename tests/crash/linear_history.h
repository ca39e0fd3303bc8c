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

enum class OnConflict : uint8_t { kFail, kReplace, kKeepTime, kPushBack };

enum class Answer : uint8_t {
  // None: it may have taken effect at any time until the daemon was dead, or never.
  kUnknown,
  // To a schedule.
  kCreated,
  kReplaced,
  kUnchanged,
  kMismatch,
  kNothingToReplace,
  // To a cancel or a reschedule; kNotFound also to a get.
  kDone,
  kInFlight,
  kSettled,
  kAlreadyCancelled,
  kEtagMismatch,
  kNotFound,
  // To a get, and for a delivery.
  kFound,
  // To an ack or a nack.
  kConfirmed,
  kLeaseLost,
};

// The state of a message according to an answer. kWaiting: pending, and no subscriber has it.
enum class Seen : uint8_t { kNothing, kWaiting, kInFlight, kAcked, kCancelled };

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// One call, or one message that was received (which is the daemon's operation: it may have taken
// effect since it read its clock for it). Moments are microseconds of one clock that agrees with
// the wall clock.
struct Operation {
  Kind kind{};
  int64_t begun_us = 0;
  // kNever without an answer, which means: when the daemon was dead.
  int64_t over_us = kNever;

  // ---- What was asked.

  // Empty: by key.
  std::string target_id;
  OnConflict on_conflict{};
  bool only_if_exists = false;
  bool stop_redelivery = false;
  // Of a reschedule: only if this is the etag. Empty: in any case.
  std::string if_etag;
  // Of a schedule: a number for payload and time as given together; for a get and a delivery: the
  // number that was found, -1 if the answer did not say.
  int64_t content = -1;
  int64_t deliver_ms = 0;
  // Of a delivery, an ack or a nack.
  uint64_t token = 0;

  // ---- What was told.

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

// For people, on one line.
std::string ToText(const Operation& operation);

// The operations of one life of the daemon, in any order. When it was dead, all of them were over.
struct Run {
  std::vector<Operation> operations;
  int64_t dead_us = 0;
};

}  // namespace duetime::linear
