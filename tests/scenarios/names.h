// SPDX-License-Identifier: Apache-2.0
//
// Names in scenario files for the states and outcomes that a shard reports.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/protocol/commands.h"
#include "server/protocol/replies.h"
#include "storage/attempts.h"
#include "storage/message_record.h"
#include "tests/support/test_store.h"

namespace duetime::delivery {

inline const std::map<protocol::MessageState, std::string> kStates = {
    {protocol::MessageState::kUnspecified, "-"},
    {protocol::MessageState::kScheduled, "SCHEDULED"},
    {protocol::MessageState::kDue, "DUE"},
    {protocol::MessageState::kInFlight, "IN_FLIGHT"},
    {protocol::MessageState::kAcked, "ACKED"},
    {protocol::MessageState::kCancelled, "CANCELLED"},
    {protocol::MessageState::kExpired, "EXPIRED"},
    {protocol::MessageState::kDeadLettered, "DEAD_LETTERED"},
    {protocol::MessageState::kSkipped, "SKIPPED"},
    {protocol::MessageState::kDropped, "DROPPED"}};
inline const std::map<protocol::Outcome, std::string> kOutcomes = {
    {protocol::Outcome::kDone, "DONE"},
    {protocol::Outcome::kInFlight, "IN_FLIGHT"},
    {protocol::Outcome::kSettled, "SETTLED"},
    {protocol::Outcome::kAlreadyCancelled, "ALREADY_CANCELLED"},
    {protocol::Outcome::kNotFound, "NOT_FOUND"}};
inline const std::map<protocol::ScheduleOutcome, std::string> kScheduleOutcomes = {
    {protocol::ScheduleOutcome::kCreated, ""},
    {protocol::ScheduleOutcome::kReplaced, ", replaced"},
    {protocol::ScheduleOutcome::kUnchanged, ", unchanged"}};

inline const std::map<protocol::RecurrenceStatus, std::string> kStatuses = {
    {protocol::RecurrenceStatus::kActive, "ACTIVE"},
    {protocol::RecurrenceStatus::kPaused, "PAUSED"},
    {protocol::RecurrenceStatus::kCompleted, "COMPLETED"}};
inline const std::map<protocol::OperationState, std::string> kOperationStates = {
    {protocol::OperationState::kRunning, "RUNNING"},
    {protocol::OperationState::kDone, "DONE"},
    {protocol::OperationState::kStopped, "STOPPED"}};
inline const std::map<std::string, protocol::OnConflict> kConflicts = {
    {"fail", protocol::OnConflict::kFail},
    {"replace", protocol::OnConflict::kReplace},
    {"keep-time", protocol::OnConflict::kKeepTime},
    {"push-back", protocol::OnConflict::kPushBack},
    {"once", protocol::OnConflict::kOnce}};

inline std::string TextOf(const storage::DeadLetterOrigin& origin) {
  static const std::map<storage::DeadLetterReason, std::string> kReasons = {
      {storage::DeadLetterReason::kMaxAttempts, "MAX_ATTEMPTS"},
      {storage::DeadLetterReason::kRejected, "REJECTED"},
      {storage::DeadLetterReason::kExpired, "EXPIRED"},
      {storage::DeadLetterReason::kRetention, "RETENTION"}};
  return absl::StrCat(", dead letter of '", origin.subscription_name, "' after ", origin.attempts,
                      " attempts, ", kReasons.at(origin.reason), " ", origin.reason_text);
}

// One line for each attempt of `bytes` (storage/attempts.h).
inline std::string TextOfAttempts(absl::string_view bytes) {
  static const std::map<storage::AttemptEnd, std::string> kEnds = {
      {storage::AttemptEnd::kNacked, "nacked"},
      {storage::AttemptEnd::kLeaseLost, "lease ended"},
      {storage::AttemptEnd::kStreamEnded, "stream ended"},
      {storage::AttemptEnd::kReleased, "released"},
      {storage::AttemptEnd::kTakenBack, "taken back"},
      {storage::AttemptEnd::kNotBegun, "not begun"},
      {storage::AttemptEnd::kBegunStreamEnded, "stream ended, begun"}};
  std::string text;
  const auto attempts = storage::DecodeAttempts(bytes);
  EXPECT_TRUE(attempts.has_value());
  if (!attempts.has_value()) return text;
  for (const storage::Attempt& one : *attempts) {
    absl::StrAppend(&text, "    attempt ", one.number, " by ", one.client_id, ": ",
                    kEnds.at(one.end), one.reason.empty() ? "" : " (", one.reason,
                    one.reason.empty() ? "" : ")", " at ", one.end_ms - 1'000'000, ", held ",
                    one.held_ms, " ms, then ", one.delay_ms, " ms\n");
  }
  return text;
}

inline std::string TextOf(const protocol::SubscriptionStatus& status, bool explains) {
  const bool letter = explains && status.dead_letter != storage::MessageId{};
  std::string text = absl::StrCat(kStates.at(status.state), ", attempts ", status.attempts,
                                  letter ? ", made a dead letter" : "");
  if (!explains) return text;
  absl::StrAppend(&text, "\n", TextOfAttempts(status.last_attempts));
  text.pop_back();
  return text;
}

// What a reply tells of dead letters.
inline std::string TextOfDeadLetters(const protocol::GetReply& reply) {
  if (reply.tombstone.has_value()) {
    return absl::StrCat("    dead letters: ", reply.tombstone->dead_letters.size(), "\n");
  }
  storage::MessageRecord record;
  if (!storage::DecodeMessageRecord(reply.record, &record).ok()) return "";
  return record.dead_letter.has_value() ? TextOfAttempts(record.dead_letter->last_attempts) : "";
}

inline std::string TextOf(const protocol::SubscriptionGauges& gauges) {
  return absl::StrCat(gauges.ready, " ready, ", gauges.in_flight, " in flight, ", gauges.delayed,
                      " delayed, ", gauges.blocked, " blocked, ", gauges.streams, " streams",
                      gauges.behind ? ", behind" : "", gauges.slowed ? ", slowed" : "", ", ",
                      gauges.delivered, " delivered, ", gauges.acked, " acked, ",
                      gauges.dead_lettered, " dead letters, ", gauges.dropped, " dropped");
}

// Damages the listing of a message in the backlog of the first shard.
inline void DamageListing(const storage::MessageId& id, test::TestStore* store,
                          test::TestDisk* disk) {
  bool listed = false;
  const auto owners = store->BacklogSubscriptions(0);
  ASSERT_TRUE(owners.ok());
  for (const storage::SubscriptionId subscription : owners->subscriptions) {
    storage::Page<storage::BacklogRef> page;
    EXPECT_TRUE(store->ScanBacklog(0, subscription, {}, {}, &page).ok());
    for (const storage::BacklogRef& item : page.items) {
      if (item.key.id != id) continue;
      disk->DamageBacklog(0, subscription, item.key);
      listed = true;
    }
  }
  EXPECT_TRUE(listed);
}

}  // namespace duetime::delivery
