// SPDX-License-Identifier: Apache-2.0
//
// How scenario files call what a shard says.
#pragma once

#include <map>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/delivery/commands.h"
#include "storage/message_record.h"

namespace duetime::delivery {

inline const std::map<MessageState, std::string> kStates = {
    {MessageState::kUnspecified, "-"},   {MessageState::kScheduled, "SCHEDULED"},
    {MessageState::kDue, "DUE"},         {MessageState::kInFlight, "IN_FLIGHT"},
    {MessageState::kAcked, "ACKED"},     {MessageState::kCancelled, "CANCELLED"},
    {MessageState::kExpired, "EXPIRED"}, {MessageState::kDeadLettered, "DEAD_LETTERED"},
    {MessageState::kSkipped, "SKIPPED"}, {MessageState::kDropped, "DROPPED"}};
inline const std::map<Outcome, std::string> kOutcomes = {
    {Outcome::kDone, "DONE"},
    {Outcome::kInFlight, "IN_FLIGHT"},
    {Outcome::kSettled, "SETTLED"},
    {Outcome::kAlreadyCancelled, "ALREADY_CANCELLED"},
    {Outcome::kNotFound, "NOT_FOUND"}};
inline const std::map<ScheduleOutcome, std::string> kScheduleOutcomes = {
    {ScheduleOutcome::kCreated, ""},
    {ScheduleOutcome::kReplaced, ", replaced"},
    {ScheduleOutcome::kUnchanged, ", unchanged"}};

inline std::string TextOf(const storage::DeadLetterOrigin& origin) {
  static const std::map<storage::DeadLetterReason, std::string> kReasons = {
      {storage::DeadLetterReason::kMaxAttempts, "MAX_ATTEMPTS"},
      {storage::DeadLetterReason::kRejected, "REJECTED"},
      {storage::DeadLetterReason::kExpired, "EXPIRED"},
      {storage::DeadLetterReason::kRetention, "RETENTION"}};
  return absl::StrCat(", dead letter of '", origin.subscription_name, "' after ", origin.attempts,
                      " attempts, ", kReasons.at(origin.reason), " ", origin.reason_text);
}

inline std::string TextOf(const SubscriptionGauges& gauges) {
  return absl::StrCat(gauges.ready, " ready, ", gauges.in_flight, " in flight, ", gauges.delayed,
                      " delayed, ", gauges.blocked, " blocked, ", gauges.streams, " streams",
                      gauges.behind ? ", behind" : "", gauges.slowed ? ", slowed" : "", ", ",
                      gauges.delivered, " delivered, ", gauges.acked, " acked, ",
                      gauges.dead_lettered, " dead letters, ", gauges.dropped, " dropped");
}

}  // namespace duetime::delivery
