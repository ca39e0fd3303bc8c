// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/explanation.h"

#include <algorithm>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "server/api/proto_time.h"

namespace duetime::api {
namespace {

// "358d19h", "2h5m3s", "1.5s": no more than a person reads.
std::string Span(uint64_t ms) {
  const absl::Duration span = absl::Milliseconds(static_cast<int64_t>(ms));
  constexpr absl::Duration kDay = absl::Hours(24);
  if (span < absl::Minutes(1)) return absl::FormatDuration(span);
  if (span < kDay) return absl::FormatDuration(absl::Trunc(span, absl::Seconds(1)));
  const int64_t hours = absl::ToInt64Hours(span % kDay);
  return absl::StrCat(span / kDay, "d", hours == 0 ? "" : absl::StrCat(hours, "h"));
}

uint64_t Since(uint64_t from_ms, uint64_t until_ms) {
  return until_ms > from_ms ? until_ms - from_ms : 0;
}

void FillTimeline(const protocol::Timeline& timeline, uint64_t due_ms,
                  v1::ExplainResponse* response) {
  v1::Timeline* proto = response->mutable_timeline();
  const v1::Message& message = response->message();
  *proto->mutable_accept_time() = message.accept_time();
  if (message.has_update_time()) *proto->mutable_update_time() = message.update_time();
  SetTimestamp(due_ms, proto->mutable_due_time());
  if (timeline.fire_ms > 0) SetTimestamp(timeline.fire_ms, proto->mutable_fire_time());
  if (timeline.dispatch_ms > 0) {
    SetTimestamp(timeline.dispatch_ms, proto->mutable_first_dispatch_time());
  }
  if (timeline.lease_end_ms > 0) {
    SetTimestamp(timeline.lease_end_ms, proto->mutable_lease_end_time());
  }
  if (timeline.end_ms > 0) SetTimestamp(timeline.end_ms, proto->mutable_end_time());
  proto->set_attempts(message.attempts());
  proto->set_loaded(timeline.loaded);
  proto->set_released(timeline.claimed);
  proto->set_in_backlog(timeline.in_backlog);
  proto->set_subscribers(static_cast<int32_t>(timeline.subscribers));
}

std::string Reason(const v1::SubscriptionStatus& status, const v1::Message& message,
                   uint64_t now_ms) {
  switch (status.wait_reason()) {
    case v1::SubscriptionStatus::WAIT_REASON_TOPIC_PAUSED:
      return "its topic is paused";
    case v1::SubscriptionStatus::WAIT_REASON_SUBSCRIPTION_PAUSED:
      return "the subscription is paused";
    case v1::SubscriptionStatus::WAIT_REASON_NO_SUBSCRIBER:
      return "there is no subscriber";
    case v1::SubscriptionStatus::WAIT_REASON_NO_CREDIT:
      return "the subscribers have no credit left";
    case v1::SubscriptionStatus::WAIT_REASON_FAILURES:
      return "the subscription is slowed, because too many of its attempts fail";
    case v1::SubscriptionStatus::WAIT_REASON_STARTUP:
      return "the server has started, and hands out what waited step by step";
    case v1::SubscriptionStatus::WAIT_REASON_RATE:
      return "the rate of its topic allows no more now";
    case v1::SubscriptionStatus::WAIT_REASON_ORDERING_KEY:
      // The id is in the status, where a gateway can change it.
      return absl::StrCat("another message of its ordering key \"",
                          absl::Utf8SafeCEscape(message.ordering_key()), "\" is not settled yet");
    case v1::SubscriptionStatus::WAIT_REASON_RETRY:
      return absl::StrCat("its next attempt is in ",
                          Span(Since(now_ms, TimestampToMs(status.retry_time()).value_or(now_ms))));
    case v1::SubscriptionStatus::WAIT_REASON_BACKLOG:
      return "it is on disk, behind what was due before";
    default:
      return "its turn comes next";
  }
}

// How the last attempt of this subscription ended; empty if none is known.
std::string LastAttempt(const v1::SubscriptionStatus& status) {
  if (status.last_attempts().empty()) return "";
  const v1::Attempt& last = *status.last_attempts().rbegin();
  std::string text = absl::StrCat(" Its attempt ", last.number(), " ");
  switch (last.end()) {
    case v1::Attempt::END_NACKED:
      text += "was nacked";
      break;
    case v1::Attempt::END_LEASE_ENDED:
      text += "ended with its lease";
      break;
    case v1::Attempt::END_STREAM_ENDED:
      text += "ended with its stream";
      break;
    case v1::Attempt::END_RELEASED:
      text += "was released";
      break;
    case v1::Attempt::END_TAKEN_BACK:
      text += "was taken back by the server";
      break;
    default:
      text += "ended before its handler began";
      break;
  }
  if (!last.reason().empty()) {
    absl::StrAppend(&text, ": \"", absl::Utf8SafeCEscape(last.reason()), "\"");
  }
  return text + ".";
}

// The first subscription in which a due message waits; nullptr if it waits in none.
const v1::SubscriptionStatus* FirstDue(const v1::ExplainResponse& response) {
  const auto& all = response.subscriptions();
  const auto due = std::find_if(all.begin(), all.end(), [](const v1::SubscriptionStatus& one) {
    return one.state() == v1::Message::STATE_DUE;
  });
  return due == all.end() ? nullptr : &*due;
}

// What a due message waits for, and how its last attempt ended, in the first subscription that has
// not settled it.
std::string Waiting(const v1::ExplainResponse& response, uint64_t now_ms) {
  const v1::SubscriptionStatus* const due = FirstDue(response);
  if (due == nullptr) return "its turn comes next.";
  const std::string reason = Reason(*due, response.message(), now_ms);
  const bool named = response.subscriptions_size() > 1 && !due->subscription().empty();
  return absl::StrCat(named ? absl::StrCat("in ", due->subscription(), ", ") : "", reason, ".",
                      LastAttempt(*due));
}

std::string Summary(const protocol::Timeline& timeline, uint64_t due_ms, uint64_t now_ms,
                    const v1::ExplainResponse& response) {
  const v1::Message& message = response.message();
  const uint64_t late_ms = DurationToMs(response.lateness().total()).value_or(0);
  const std::string attempts =
      message.attempts() == 1 ? "1 delivery" : absl::StrCat(message.attempts(), " deliveries");
  switch (message.state()) {
    case v1::Message::STATE_SCHEDULED:
      return absl::StrCat("It is due in ", Span(Since(now_ms, due_ms)), ".");
    case v1::Message::STATE_DUE:
      return absl::StrCat("It has been due for ", Span(Since(due_ms, now_ms)),
                          " and waits: ", Waiting(response, now_ms));
    case v1::Message::STATE_IN_FLIGHT:
      return absl::StrCat("It is with a subscriber (", attempts, " so far); it was handed out ",
                          Span(late_ms), " after it was due.");
    case v1::Message::STATE_ACKED:
      return absl::StrCat("It was acked ", Span(Since(timeline.end_ms, now_ms)), " ago, after ",
                          attempts, ".");
    case v1::Message::STATE_CANCELLED:
      return absl::StrCat("It was cancelled ", Span(Since(timeline.end_ms, now_ms)), " ago, after ",
                          attempts, ".");
    case v1::Message::STATE_EXPIRED:
      return absl::StrCat("It expired ", Span(Since(timeline.end_ms, now_ms)),
                          " ago: its time to live had run out, after ", attempts, ".");
    case v1::Message::STATE_DEAD_LETTERED:
      return absl::StrCat("It became a dead letter ", Span(Since(timeline.end_ms, now_ms)),
                          " ago, after ", attempts, ".");
    case v1::Message::STATE_SKIPPED:
      return "It was passed over: the occurrence before it had not ended.";
    default:
      return absl::StrCat("It ended ", Span(Since(timeline.end_ms, now_ms)), " ago, after ",
                          attempts, ".");
  }
}

}  // namespace

v1::SubscriptionStatus::WaitReason ToProto(protocol::WaitReason wait_reason) {
  using Status = v1::SubscriptionStatus;
  switch (wait_reason) {
    case protocol::WaitReason::kNone:
      return Status::WAIT_REASON_UNSPECIFIED;
    case protocol::WaitReason::kTopicPaused:
      return Status::WAIT_REASON_TOPIC_PAUSED;
    case protocol::WaitReason::kSubscriptionPaused:
      return Status::WAIT_REASON_SUBSCRIPTION_PAUSED;
    case protocol::WaitReason::kNoSubscriber:
      return Status::WAIT_REASON_NO_SUBSCRIBER;
    case protocol::WaitReason::kNoCredit:
      return Status::WAIT_REASON_NO_CREDIT;
    case protocol::WaitReason::kFailures:
      return Status::WAIT_REASON_FAILURES;
    case protocol::WaitReason::kStartup:
      return Status::WAIT_REASON_STARTUP;
    case protocol::WaitReason::kRate:
      return Status::WAIT_REASON_RATE;
    case protocol::WaitReason::kOrderingKey:
      return Status::WAIT_REASON_ORDERING_KEY;
    case protocol::WaitReason::kRetry:
      return Status::WAIT_REASON_RETRY;
    case protocol::WaitReason::kBacklog:
      return Status::WAIT_REASON_BACKLOG;
  }
  return Status::WAIT_REASON_UNSPECIFIED;
}

void FillExplanation(const protocol::Timeline& timeline, uint64_t now_ms,
                     v1::ExplainResponse* response) {
  // An ended message has no place. It was due at its deliver_time or at its acceptance, whichever
  // is later.
  uint64_t due_ms = timeline.due_ms;
  if (due_ms == 0) {
    due_ms = std::max(TimestampToMs(response->message().deliver_time()).value_or(0),
                      TimestampToMs(response->message().accept_time()).value_or(0));
  }
  FillTimeline(timeline, due_ms, response);
  // The message waited until its first dispatch. Without one, it waited until its end or until now.
  const uint64_t until_ms = timeline.end_ms > 0 ? timeline.end_ms : now_ms;
  const uint64_t dispatch_ms = timeline.dispatch_ms > 0 ? timeline.dispatch_ms : until_ms;
  uint64_t fire_ms = timeline.fire_ms;
  // Without a fire time, a message in the backlog waits behind others from its due time on.
  if (fire_ms == 0) fire_ms = timeline.in_backlog ? due_ms : dispatch_ms;
  v1::Lateness* lateness = response->mutable_lateness();
  const uint64_t server_ms = Since(due_ms, fire_ms);
  const uint64_t waiting_ms = Since(std::max(due_ms, fire_ms), dispatch_ms);
  SetDuration(server_ms, lateness->mutable_server());
  SetDuration(waiting_ms, lateness->mutable_waiting());
  SetDuration(server_ms + waiting_ms, lateness->mutable_total());
  response->set_summary(Summary(timeline, due_ms, now_ms, *response));
}

}  // namespace duetime::api
