// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using client::FromProto;
using google::protobuf::Timestamp;

constexpr char kNotFound[] = "it never existed, or it ended longer ago than its topic remembers";

std::string TimeText(const Timestamp& time, const absl::TimeZone& zone) {
  return FormatTimeText(FromProto(time), zone);
}

// The time from the last decision about the deliver_time (acceptance or update) to deliver_time.
std::string AheadText(const v1::Message& message) {
  if (message.state() != v1::Message::STATE_SCHEDULED) return "due now";
  const Timestamp& decided =
      message.has_update_time() ? message.update_time() : message.accept_time();
  absl::Duration ahead = FromProto(message.deliver_time()) - FromProto(decided);
  // Beside a long time, the milliseconds of the call do not matter.
  if (ahead > absl::Minutes(1)) {
    ahead = absl::Floor(ahead + absl::Milliseconds(500), absl::Seconds(1));
  }
  return absl::StrCat("in ", FormatAgeText(ahead));
}

// How and when the message ended: "it was acked at ...".
std::string EndText(v1::Message::State state, const Timestamp& end_time,
                    const absl::TimeZone& zone) {
  const std::string what =
      state == v1::Message::STATE_EXPIRED ? "it expired" : absl::StrCat("it was ", WordOf(state));
  return absl::StrCat(what, " at ", TimeText(end_time, zone));
}

std::string InFlightText(bool uncertain) {
  return uncertain ? "it may have been delivered before the server last crashed"
                   : "it has been delivered and is not settled yet";
}

std::string UnknownOutcomeText(absl::string_view name, int outcome) {
  return absl::StrCat(name, ": the server answered ", outcome,
                      ", which this version does not know\n");
}

// ---- Lines of a message

std::string CivilTimeText(const v1::Message& message, const absl::TimeZone&) {
  if (!message.has_civil_time()) return "";
  return absl::StrCat(message.civil_time().local(), " in ", message.civil_time().time_zone());
}

std::string ExpiryText(const v1::Message& message, const absl::TimeZone& zone) {
  if (!message.has_expire_time()) return "";
  std::string then = "delivered later all the same";
  if (message.late_policy() == v1::Message::LATE_POLICY_DROP) then = "then dropped";
  if (message.late_policy() == v1::Message::LATE_POLICY_DEAD_LETTER)
    then = "then made a dead letter";
  return absl::StrCat(TimeText(message.expire_time(), zone), ", ", then);
}

std::string RecurrenceText(const v1::Message& message, const absl::TimeZone&) {
  if (message.recurrence().empty()) return "";
  return absl::StrCat(message.recurrence(), ", number ", message.occurrence());
}

std::string PayloadSizeText(const v1::Message& message, const absl::TimeZone&) {
  return absl::StrCat(message.payload_bytes(), " bytes");
}

std::string LettersText(const v1::Message& message, const absl::TimeZone&) {
  return absl::StrJoin(message.dead_letter_ids(), ", ");
}

// ---- Attempts

std::string AttemptEndText(const v1::Attempt& attempt, const absl::TimeZone&) {
  switch (attempt.end()) {
    case v1::Attempt::END_NACKED:
      return "nacked";
    case v1::Attempt::END_LEASE_ENDED:
      return "its lease ended";
    case v1::Attempt::END_STREAM_ENDED:
      return "its stream ended";
    case v1::Attempt::END_RELEASED:
      return "released";
    case v1::Attempt::END_TAKEN_BACK:
      return "taken back by the server";
    case v1::Attempt::END_NOT_BEGUN:
      return "ended before its handler began";
    default:
      return absl::StrCat("in way ", attempt.end(), ", which this version does not know");
  }
}

std::string AttemptReasonText(const v1::Attempt& attempt, const absl::TimeZone&) {
  return Printable(attempt.reason());
}

using Attempts = google::protobuf::RepeatedPtrField<v1::Attempt>;

// The attempts that failed. `of`: the subscription, if there are several.
std::string AttemptsTable(const Attempts& attempts, const std::string& of,
                          const absl::TimeZone& zone) {
  if (attempts.empty()) return "";
  const Rows rows = {Row("number", {Column("ATTEMPT")}),
                     Row("end_time", {Column("ENDED")}),
                     Row("", {As(AttemptEndText), Column("HOW")}),
                     Row("held", {Column("HELD")}),
                     Row("delay", {Column("THEN WAITED", "-")}),
                     Row("client_id", {Column("CLIENT", "-")}),
                     Row("", {As(AttemptReasonText), Column("REASON")})};
  return absl::StrCat("\n",
                      of.empty() ? "" : absl::StrCat("last attempts of ", Printable(of), ":\n"),
                      TableText(rows, attempts, zone));
}

// Why a message became a dead letter.
std::string LetterReasonText(const v1::DeadLetter& letter, const absl::TimeZone&) {
  static const auto& texts = *new std::map<int, std::string>{
      {v1::DeadLetter::REASON_MAX_ATTEMPTS, "it failed as often as it may"},
      {v1::DeadLetter::REASON_REJECTED, "a subscriber gave it up"},
      {v1::DeadLetter::REASON_EXPIRED, "it was later than its time to live"},
      {v1::DeadLetter::REASON_RETENTION,
       "its subscription keeps messages for less long, or fewer of them"}};
  const auto known = texts.find(letter.reason());
  const std::string text =
      known != texts.end()
          ? known->second
          : absl::StrCat("for reason ", letter.reason(), ", which this version does not know");
  return letter.reason_text().empty() ? text
                                      : absl::StrCat(text, ": ", Printable(letter.reason_text()));
}

std::string AttemptsText(const v1::DeadLetter& letter, const absl::TimeZone&) {
  return absl::StrCat(letter.attempts(), letter.attempts() == 1 ? " time" : " times");
}

std::string DeadLetterLines(const v1::Message& message, const absl::TimeZone& zone) {
  if (!message.has_dead_letter()) return "";
  return LinesText(
      {
          Row("", {As(LetterReasonText), Line("dead letter")}),
          Row("message_id", {Line("it was")}),
          Row("topic", {Line("of topic")}),
          Row("key", {Line("with key")}),
          Row("subscription", {Line("for")}),
          Row("", {As(AttemptsText), Line("delivered")}),
          Row("first_dispatch_time", {Line("first")}),
          Row("last_dispatch_time", {Line("last")}),
          Row("deliver_time", {Line("was for")}),
          Row("accept_time", {Line("was accepted")}),
          Row("hops", {HidesZero(), Line("hops")}),
      },
      message.dead_letter(), zone);
}

std::string OriginAttempts(const v1::Message& message, const absl::TimeZone& zone) {
  return AttemptsTable(message.dead_letter().last_attempts(), "", zone);
}

// ---- Subscriptions of a message

std::string StatusStateText(const v1::SubscriptionStatus& status, const absl::TimeZone&) {
  return status.state() == v1::Message::STATE_ACKED ? "done" : WordOf(status.state());
}

std::string StatusTimeText(const v1::SubscriptionStatus& status, const absl::TimeZone& zone) {
  if (status.has_lease_end_time()) {
    return "leased until " + TimeText(status.lease_end_time(), zone);
  }
  if (status.has_retry_time()) return "again at " + TimeText(status.retry_time(), zone);
  if (!status.dead_letter_id().empty()) return "dead letter " + status.dead_letter_id();
  switch (status.wait_reason()) {
    case v1::SubscriptionStatus::WAIT_REASON_UNSPECIFIED:
      return "";
    case v1::SubscriptionStatus::WAIT_REASON_NO_SUBSCRIBER:
      return "there is no subscriber";
    case v1::SubscriptionStatus::WAIT_REASON_NO_CREDIT:
      return "the subscribers have no credit left";
    case v1::SubscriptionStatus::WAIT_REASON_TOPIC_PAUSED:
      return "the topic is paused";
    case v1::SubscriptionStatus::WAIT_REASON_SUBSCRIPTION_PAUSED:
      return "the subscription is paused";
    case v1::SubscriptionStatus::WAIT_REASON_FAILURES:
      return "slowed by failures";
    case v1::SubscriptionStatus::WAIT_REASON_STARTUP:
      return "slowed after a start";
    case v1::SubscriptionStatus::WAIT_REASON_RATE:
      return "slowed by the topic's rate";
    case v1::SubscriptionStatus::WAIT_REASON_ORDERING_KEY:
      return status.ordering_key_holder().empty()
                 ? "behind its ordering key"
                 : absl::StrCat("its ordering key is held by ", status.ordering_key_holder());
    case v1::SubscriptionStatus::WAIT_REASON_BACKLOG:
      return "behind what was due before";
    default:
      return "for a reason that this version does not know";
  }
}

using Statuses = google::protobuf::RepeatedPtrField<v1::SubscriptionStatus>;

std::string StatusTable(const Statuses& statuses, const absl::TimeZone& zone) {
  if (statuses.empty()) return "";
  const Rows rows = {Row("subscription", {Column("SUBSCRIPTION", "(no name yet)")}),
                     Row("", {As(StatusStateText), Column("STATE")}),
                     Row("attempts", {Column("ATTEMPTS")}),
                     Row("", {As(StatusTimeText), Column(" ")})};
  std::string text = "\n" + TableText(rows, statuses, zone);
  for (const v1::SubscriptionStatus& status : statuses) {
    absl::StrAppend(&text, AttemptsTable(status.last_attempts(),
                                         statuses.size() > 1 ? status.subscription() : "", zone));
  }
  return text;
}

// ---- Explain

struct Event {
  absl::Time time;
  std::string text;
};

// The events of a message, in the order of time.
std::vector<Event> EventsOf(const v1::ExplainResponse& story) {
  const v1::Timeline& line = story.timeline();
  std::vector<Event> events;
  const auto add = [&](bool known, const Timestamp& time, const std::string& text) {
    if (known) events.push_back({FromProto(time), text});
  };
  add(line.has_accept_time(), line.accept_time(), "accepted");
  add(line.has_update_time(), line.update_time(), "replaced or rescheduled");
  add(line.has_due_time(), line.due_time(), "due");
  add(line.has_fire_time(), line.fire_time(), "fired: ready to be handed out");
  add(line.has_first_dispatch_time(), line.first_dispatch_time(),
      "handed to a subscriber for the first time");
  add(line.has_lease_end_time(), line.lease_end_time(), "end of the lease");
  add(line.has_end_time(), line.end_time(), WordOf(story.message().state()));
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time < b.time; });
  return events;
}

std::string EventLines(const std::vector<Event>& events, absl::Time now,
                       const absl::TimeZone& zone) {
  std::string text;
  for (size_t i = 0; i < events.size(); ++i) {
    const std::string time = FormatTimeText(events[i].time, zone);
    if (i > 0) {
      absl::StrAppend(&text, "  ", std::string(time.size(), ' '), "  |  ",
                      FormatAgeText(events[i].time - events[i - 1].time), "\n");
    }
    const bool to_come = events[i].time > now;
    absl::StrAppend(&text, "  ", time, to_come ? "  .  " : "  o  ", events[i].text,
                    to_come ? " (to come)\n" : "\n");
  }
  return text;
}

std::string PlaceText(const v1::ExplainResponse& story, const absl::TimeZone&) {
  if (story.message().has_end_time()) return "";
  if (story.timeline().in_backlog()) {
    return "in the backlog on disk; it comes when a subscriber has room";
  }
  return story.timeline().loaded() ? "in memory" : "on disk, not loaded yet";
}

std::string LatenessText(const v1::ExplainResponse& story, const absl::TimeZone&) {
  const v1::Lateness& lateness = story.lateness();
  if (FromProto(lateness.total()) == absl::ZeroDuration()) return "";
  const auto text = [](const google::protobuf::Duration& duration) {
    return FormatAgeText(FromProto(duration));
  };
  return absl::StrCat(text(lateness.total()), " = ", text(lateness.server()), " by the server + ",
                      text(lateness.waiting()), " waiting to be handed out");
}

std::string StoryLettersText(const v1::ExplainResponse& story, const absl::TimeZone& zone) {
  return LettersText(story.message(), zone);
}

}  // namespace

Rows MessageRows() {
  return {
      Row("deliver_time", {Column("DELIVER TIME")}),
      Row("id", {Line("id"), Column("ID")}),
      Row("topic", {Line("topic")}),
      Row("key", {Line("key")}),
      Row("state", {Line("state"), Column("STATE")}),
      Row("deliver_time", {Line("deliver time")}),
      Row("", {As(CivilTimeText), Line("local time")}),
      Row("spread", {Line("spread")}),
      Row("accept_time", {Line("accepted")}),
      Row("update_time", {Line("updated")}),
      Row("end_time", {Line("ended")}),
      Row("", {As(ExpiryText), Line("expires")}),
      Row("attempts", {Line("attempts"), Column("ATTEMPTS")}),
      Row("payload_bytes", {Bytes(), Column("PAYLOAD")}),
      Row("etag", {Line("etag")}),
      Row("ordering_key", {Line("ordering key")}),
      Row("", {As(RecurrenceText), Line("recurrence")}),
      Row("", {As(LettersText), Line("dead letter")}),
      Row("key", {Column("KEY")}),
      Row("labels", {Line("labels"), Column("LABELS")}),
      Row("", {As(PayloadSizeText), Line("payload size")}),
  };
}

std::string GetText(const v1::GetResponse& response, const absl::TimeZone& zone) {
  const v1::Message& message = response.message();
  std::vector<std::pair<std::string, std::string>> content;
  for (const auto& [key, value] : std::map<std::string, std::string>(message.attributes().begin(),
                                                                     message.attributes().end())) {
    content.emplace_back("attribute", absl::StrCat(Printable(key), "=", Printable(value)));
  }
  content.emplace_back("payload", Printable(message.payload()));
  return absl::StrCat(LinesText(MessageRows(), message, zone), FieldsText(content),
                      DeadLetterLines(message, zone), OriginAttempts(message, zone),
                      StatusTable(response.subscriptions(), zone));
}

std::string EndedWord(v1::Message::State state) {
  return state == v1::Message::STATE_UNSPECIFIED ? "too long ago to know how" : WordOf(state);
}

std::string ScheduledText(const v1::ScheduleRequest& request, const v1::ScheduleResponse& response,
                          const absl::TimeZone& zone) {
  const std::string dry_run = request.validate_only() ? "dry run, nothing is changed: " : "";
  const v1::Message& message = response.message();
  const std::string time = TimeText(message.deliver_time(), zone);
  if (response.message_ended()) {
    return absl::StrCat(dry_run, "nothing is pending: ", message.id(),
                        response.request_repeated() ? " of an earlier call with this request id"
                                                    : " of an earlier call with this key",
                        " for ", time, " has ended (", EndedWord(message.state()), ")\n");
  }
  const std::string notes = absl::StrCat(
      response.request_repeated() ? "an earlier call with this request id did it\n" : "",
      response.minute_limit_exceeded()
          ? "its minute has more messages than the topic should have there\n"
          : "");
  if (response.outcome() == v1::SCHEDULE_OUTCOME_UNCHANGED) {
    return absl::StrCat(dry_run, "unchanged: ", message.id(), " for ", time, " is there already (",
                        WordOf(message.state()), ")\n");
  }
  if (response.outcome() == v1::SCHEDULE_OUTCOME_REPLACED) {
    return absl::StrCat(dry_run, "replaced ", message.id(), ": now for ", time, " (",
                        AheadText(message), "), it was for ",
                        TimeText(response.old_deliver_time(), zone), "\n", notes);
  }
  std::string text =
      absl::StrCat(dry_run, "scheduled ", message.id().empty() ? "a message" : message.id(),
                   " for ", time, " (", AheadText(message), ")\n", notes);
  if (!response.previous_message_id().empty()) {
    absl::StrAppend(&text, "the key was that of ", response.previous_message_id(),
                    ", which stays as it is\n");
  }
  return text;
}

std::string RescheduledText(const v1::RescheduleRequest& request,
                            const v1::RescheduleResponse& response, const absl::TimeZone& zone) {
  const std::string& name = request.has_key() ? request.key().key() : request.message_id();
  const std::string refused = absl::StrCat(name, " is not moved: ");
  switch (response.outcome()) {
    case v1::RescheduleResponse::OUTCOME_RESCHEDULED:
      return absl::StrCat(name, " is moved to ", TimeText(response.message().deliver_time(), zone),
                          " (", AheadText(response.message()), "), it was for ",
                          TimeText(response.old_deliver_time(), zone), "\n");
    case v1::RescheduleResponse::OUTCOME_IN_FLIGHT:
      return absl::StrCat(refused, InFlightText(response.delivery_uncertain()), "\n");
    case v1::RescheduleResponse::OUTCOME_SETTLED:
    case v1::RescheduleResponse::OUTCOME_ALREADY_CANCELLED:
      return absl::StrCat(refused, EndText(response.state(), response.end_time(), zone), "\n");
    case v1::RescheduleResponse::OUTCOME_NOT_FOUND:
      return absl::StrCat(name, " is not there: ", kNotFound, "\n");
    default:
      return UnknownOutcomeText(name, response.outcome());
  }
}

std::string CancelText(absl::string_view name, const client::CancelResult& result,
                       const absl::TimeZone& zone) {
  const v1::CancelResponse& answer = result.answer;
  const auto if_tried = [&](const char* text) { return result.tried_before ? text : ""; };
  switch (answer.outcome()) {
    case v1::CancelResponse::OUTCOME_CANCELLED:
      return absl::StrCat(name, " is cancelled: it was never delivered and never will be\n");
    case v1::CancelResponse::OUTCOME_IN_FLIGHT:
      return absl::StrCat(name, " is not cancelled: ", InFlightText(answer.delivery_uncertain()),
                          answer.redelivery_stopped()
                              ? "; it is ended and will not be delivered again\n"
                              : "; --stop-redelivery would end it\n");
    case v1::CancelResponse::OUTCOME_SETTLED:
      return absl::StrCat(
          name, " is not cancelled: ", EndText(answer.state(), answer.end_time(), zone), "\n");
    case v1::CancelResponse::OUTCOME_ALREADY_CANCELLED:
      return absl::StrCat(name, " had been cancelled at ", TimeText(answer.end_time(), zone),
                          if_tried(" (perhaps by this call: its first try went unanswered)"), "\n");
    case v1::CancelResponse::OUTCOME_NOT_FOUND:
      return absl::StrCat(name, " is not there: ", kNotFound,
                          if_tried(" (or cancelled just now: the first try went unanswered)"),
                          "\n");
    default:
      return UnknownOutcomeText(name, answer.outcome());
  }
}

std::string ExplainText(const v1::ExplainResponse& story, absl::Time now,
                        const absl::TimeZone& zone) {
  const Rows rows = {
      Row("message.id", {Line("id")}),
      Row("message.topic", {Line("topic")}),
      Row("message.key", {Line("key")}),
      Row("message.state", {Line("state")}),
      Row("", {As(PlaceText), Line("where")}),
      Row("message.attempts", {Line("attempts")}),
      Row("timeline.subscribers", {Line("subscribers")}),
      Row("", {As(LatenessText), Line("lateness")}),
      Row("", {As(StoryLettersText), Line("dead letter")}),
  };
  return absl::StrCat(story.summary().empty() ? "" : Printable(story.summary()) + "\n\n",
                      EventLines(EventsOf(story), now, zone), "\n", LinesText(rows, story, zone),
                      DeadLetterLines(story.message(), zone), OriginAttempts(story.message(), zone),
                      StatusTable(story.subscriptions(), zone));
}

}  // namespace duetime::cli
