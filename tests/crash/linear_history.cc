// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/linear_history.h"

namespace duetime::linear {
namespace {

const char* Name(Kind kind) {
  switch (kind) {
    case Kind::kSchedule:
      return "schedule";
    case Kind::kReschedule:
      return "reschedule";
    case Kind::kCancel:
      return "cancel";
    case Kind::kGet:
      return "get";
    case Kind::kDeliver:
      return "delivery";
    case Kind::kAck:
      return "ack";
    case Kind::kNack:
      return "nack";
  }
  return "";
}

const char* Name(OnConflict on_conflict) {
  switch (on_conflict) {
    case OnConflict::kFail:
      return " or fail";
    case OnConflict::kReplace:
      return " or replace";
    case OnConflict::kKeepTime:
      return " or keep time";
    case OnConflict::kPushBack:
      return " or push back";
    case OnConflict::kOnce:
      return " once";
  }
  return "";
}

const char* Name(Answer answer) {
  switch (answer) {
    case Answer::kUnknown:
      return "no answer";
    case Answer::kCreated:
      return "created";
    case Answer::kReplaced:
      return "replaced";
    case Answer::kUnchanged:
      return "unchanged";
    case Answer::kMismatch:
      return "content mismatch";
    case Answer::kNothingToReplace:
      return "nothing to replace";
    case Answer::kDone:
      return "done";
    case Answer::kInFlight:
      return "in flight";
    case Answer::kSettled:
      return "settled";
    case Answer::kAlreadyCancelled:
      return "already cancelled";
    case Answer::kEtagMismatch:
      return "etag mismatch";
    case Answer::kNotFound:
      return "not found";
    case Answer::kFound:
      return "found";
    case Answer::kConfirmed:
      return "confirmed";
    case Answer::kLeaseLost:
      return "lease lost";
  }
  return "";
}

const char* Name(Seen seen) {
  switch (seen) {
    case Seen::kNothing:
      return "";
    case Seen::kWaiting:
      return " waiting";
    case Seen::kInFlight:
      return " with a subscriber";
    case Seen::kAcked:
      return " acked";
    case Seen::kCancelled:
      return " cancelled";
  }
  return "";
}

void Append(const char* name, const std::string& value, std::string* text) {
  *text += name;
  *text += value;
}

}  // namespace

std::string ToText(const Operation& operation) {
  std::string text = "[";
  text += std::to_string(operation.begun_us) + " .. ";
  if (operation.over_us != kNever) text += std::to_string(operation.over_us);
  text += "] ";
  text += Name(operation.kind);
  if (!operation.target_id.empty()) Append(" of ", operation.target_id, &text);
  if (operation.kind == Kind::kSchedule) text += Name(operation.on_conflict);
  if (operation.only_if_exists) text += " if it exists";
  if (operation.stop_redelivery) text += " for good";
  if (!operation.if_etag.empty()) Append(" if etag ", operation.if_etag, &text);
  if (operation.content >= 0) Append(" #", std::to_string(operation.content), &text);
  if (operation.deliver_ms != 0) Append(" for ", std::to_string(operation.deliver_ms), &text);
  if (operation.token != 0) Append(" token ", std::to_string(operation.token), &text);
  text += ": ";
  text += Name(operation.answer);
  if (!operation.id.empty()) Append(" ", operation.id, &text);
  if (!operation.previous_id.empty()) Append(" instead of ", operation.previous_id, &text);
  text += Name(operation.seen);
  if (!operation.etag.empty()) Append(" etag ", operation.etag, &text);
  if (operation.told_deliver_ms != 0) {
    Append(" at ", std::to_string(operation.told_deliver_ms), &text);
  }
  if (operation.old_deliver_ms != 0) {
    Append(" was at ", std::to_string(operation.old_deliver_ms), &text);
  }
  if (operation.redelivery_stopped) text += " stopped";
  if (operation.uncertain) text += " uncertain";
  if (operation.attempt != 0) Append(" attempt ", std::to_string(operation.attempt), &text);
  if (operation.maybe_redelivered) text += " maybe again";
  return text;
}

}  // namespace duetime::linear
