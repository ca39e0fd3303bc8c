// SPDX-License-Identifier: Apache-2.0
#include "client/cli/message_output.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "client/cli/json.h"
#include "client/cli/layout.h"
#include "client/cli/output.h"
#include "client/cli/time_text.h"
#include "client/convert.h"

namespace duetime::cli {
namespace {

using client::FromProto;
using google::protobuf::Timestamp;

std::string Printable(absl::string_view text) { return PrintablePayload(text, text.size()); }

std::string TimeOf(bool given, const Timestamp& time, const absl::TimeZone& zone) {
  return given ? FormatTimeText(FromProto(time), zone) : "";
}

// How far ahead the message was when it was last given a time.
std::string AheadText(const v1::Message& message) {
  if (message.state() != v1::Message::SCHEDULED) return "due now";
  const Timestamp& decided =
      message.has_update_time() ? message.update_time() : message.accept_time();
  absl::Duration ahead = FromProto(message.deliver_time()) - FromProto(decided);
  // What the call itself took is of no interest beside a long time.
  if (ahead > absl::Minutes(1))
    ahead = absl::Floor(ahead + absl::Milliseconds(500), absl::Seconds(1));
  return absl::StrCat("in ", FormatDurationText(ahead));
}

// "it was acked at ...".
std::string EndText(v1::Message::State state, const Timestamp& end_time,
                    const absl::TimeZone& zone) {
  const std::string verb = state == v1::Message::EXPIRED ? "it expired" : "it was ";
  return absl::StrCat(verb, state == v1::Message::EXPIRED ? "" : StateWord(state), " at ",
                      FormatTimeText(FromProto(end_time), zone));
}

std::string InFlightText(bool uncertain) {
  return uncertain ? "it may have been delivered before the server last crashed"
                   : "it has been delivered and is not settled yet";
}

std::string NotFoundText() {
  return "it never existed, or it ended longer ago than its topic remembers";
}

std::string ExpiryText(const v1::Message& message, const absl::TimeZone& zone) {
  if (!message.has_expire_time()) return "";
  std::string then = "delivered later all the same";
  if (message.late_policy() == v1::Message::DROP) then = "then dropped";
  if (message.late_policy() == v1::Message::DEAD_LETTER) then = "then made a dead letter";
  return absl::StrCat(FormatTimeText(FromProto(message.expire_time()), zone), ", ", then);
}

// Why a dead letter was put aside, and by whom.
std::string WhyText(const v1::DeadLetter& was) {
  std::string text;
  switch (was.reason()) {
    case v1::DeadLetter::MAX_ATTEMPTS:
      text = "it failed as often as it may";
      break;
    case v1::DeadLetter::REJECTED:
      text = "a subscriber gave it up";
      break;
    case v1::DeadLetter::EXPIRED:
      text = "it was later than its time to live";
      break;
    case v1::DeadLetter::RETENTION:
      text = "its subscription keeps messages for less long, or fewer of them";
      break;
    default:
      text = absl::StrCat("for reason ", was.reason(), ", which this version does not know");
  }
  return was.reason_text().empty() ? text : absl::StrCat(text, ": ", Printable(was.reason_text()));
}

using Fields = std::vector<std::pair<std::string, std::string>>;

void AddDeadLetter(const v1::Message& message, const absl::TimeZone& zone, Fields* fields) {
  if (!message.has_dead_letter()) return;
  const v1::DeadLetter& was = message.dead_letter();
  fields->insert(
      fields->end(),
      {{"dead letter", WhyText(was)},
       {"it was", was.message_id()},
       {"of topic", was.topic()},
       {"with key", Printable(was.key())},
       {"for", was.subscription()},
       {"delivered", absl::StrCat(was.attempts(), was.attempts() == 1 ? " time" : " times")},
       {"first", TimeOf(was.has_first_dispatch_time(), was.first_dispatch_time(), zone)},
       {"last", TimeOf(was.has_last_dispatch_time(), was.last_dispatch_time(), zone)},
       {"was for", TimeOf(was.has_deliver_time(), was.deliver_time(), zone)},
       {"was accepted", TimeOf(was.has_accept_time(), was.accept_time(), zone)}});
}

using Standings = google::protobuf::RepeatedPtrField<v1::SubscriptionStanding>;

// Nothing if there are none.
std::string StandingTable(const Standings& standings, const absl::TimeZone& zone) {
  if (standings.empty()) return "";
  std::vector<std::vector<std::string>> rows;
  for (const v1::SubscriptionStanding& standing : standings) {
    std::string until;
    if (standing.has_lease_end_time()) {
      until = "leased until " + FormatTimeText(FromProto(standing.lease_end_time()), zone);
    } else if (standing.has_retry_time()) {
      until = "again at " + FormatTimeText(FromProto(standing.retry_time()), zone);
    }
    rows.push_back({standing.subscription().empty() ? "(nobody yet)" : standing.subscription(),
                    standing.state() == v1::Message::ACKED ? "done" : StateWord(standing.state()),
                    absl::StrCat(standing.attempts()), until});
  }
  return "\n" + TableText({"SUBSCRIPTION", "STATE", "ATTEMPTS", ""}, rows);
}

struct Event {
  absl::Time time;
  std::string what;
};

// In the order in which they came or will come.
std::vector<Event> EventsOf(const v1::ExplainResponse& story) {
  const v1::Timeline& line = story.timeline();
  std::vector<Event> events;
  const auto add = [&](bool known, const Timestamp& time, const std::string& what) {
    if (known) events.push_back({FromProto(time), what});
  };
  add(line.has_accept_time(), line.accept_time(), "accepted");
  add(line.has_update_time(), line.update_time(), "replaced or rescheduled");
  add(line.has_due_time(), line.due_time(), "due");
  add(line.has_fire_time(), line.fire_time(), "fired: ready to be handed out");
  add(line.has_first_dispatch_time(), line.first_dispatch_time(),
      "handed to a subscriber for the first time");
  add(line.has_lease_end_time(), line.lease_end_time(), "end of the lease");
  add(line.has_end_time(), line.end_time(), StateWord(story.message().state()));
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.time < b.time; });
  return events;
}

std::string WhereText(const v1::Timeline& line, const v1::Message& message) {
  if (message.has_end_time()) return "";
  if (line.in_backlog()) return "in the backlog on disk: more is due than memory may hold";
  return line.loaded() ? "in memory" : "on disk, not loaded yet";
}

std::string LatenessText(const v1::Lateness& lateness) {
  const absl::Duration total = FromProto(lateness.total());
  if (total == absl::ZeroDuration()) return "";
  return absl::StrCat(FormatDurationText(total), " = ",
                      FormatDurationText(FromProto(lateness.server())), " by the server + ",
                      FormatDurationText(FromProto(lateness.waiting())),
                      " waiting for a subscriber with credit");
}

// The fields of the response's message, then the others.
template <typename Response>
std::string Flattened(const Response& response) {
  Json json = ToJson(response.message());
  Json rest = ToJson(response);
  rest.erase("message");
  json.update(rest);
  return Line(json);
}

}  // namespace

std::string StateWord(v1::Message::State state) {
  std::string word = absl::AsciiStrToLower(v1::Message::State_Name(state));
  std::replace(word.begin(), word.end(), '_', ' ');
  return word;
}

std::string PairsText(const google::protobuf::Map<std::string, std::string>& pairs) {
  std::string text;
  for (const auto& [key, value] : std::map<std::string, std::string>(pairs.begin(), pairs.end())) {
    absl::StrAppend(&text, text.empty() ? "" : " ", Printable(key), "=", Printable(value));
  }
  return text;
}

std::string GetText(const v1::GetResponse& response, const absl::TimeZone& zone) {
  const v1::Message& message = response.message();
  Fields fields = {{"id", message.id()},
                   {"topic", message.topic()},
                   {"key", Printable(message.key())},
                   {"state", StateWord(message.state())},
                   {"deliver time", FormatTimeText(FromProto(message.deliver_time()), zone)}};
  if (message.has_civil_time()) {
    fields.emplace_back("local time", absl::StrCat(message.civil_time().local(), " in ",
                                                   message.civil_time().time_zone()));
  }
  if (message.has_spread()) {
    fields.emplace_back("spread", FormatDurationText(FromProto(message.spread())));
  }
  fields.insert(
      fields.end(),
      {{"accepted", FormatTimeText(FromProto(message.accept_time()), zone)},
       {"updated", TimeOf(message.has_update_time(), message.update_time(), zone)},
       {"ended", TimeOf(message.has_end_time(), message.end_time(), zone)},
       {"expires", ExpiryText(message, zone)},
       {"attempts", absl::StrCat(message.attempts())},
       {"etag", message.etag()},
       {"ordering key", Printable(message.ordering_key())},
       {"recurrence", message.recurrence().empty()
                          ? ""
                          : absl::StrCat(message.recurrence(), ", number ", message.occurrence())},
       {"labels", PairsText(message.labels())},
       {"payload size", absl::StrCat(message.payload_bytes(), " bytes")}});
  const std::map<std::string, std::string> attributes(message.attributes().begin(),
                                                      message.attributes().end());
  for (const auto& [key, value] : attributes) {
    fields.emplace_back("attribute", absl::StrCat(Printable(key), "=", Printable(value)));
  }
  fields.emplace_back("payload", Printable(message.payload()));
  AddDeadLetter(message, zone, &fields);
  return FieldsText(fields) + StandingTable(response.subscriptions(), zone);
}

std::string MessageTable(const google::protobuf::RepeatedPtrField<v1::Message>& messages,
                         const absl::TimeZone& zone) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Message& message : messages) {
    rows.push_back({FormatTimeText(FromProto(message.deliver_time()), zone), message.id(),
                    StateWord(message.state()), absl::StrCat(message.attempts()),
                    BytesText(message.payload_bytes()), Printable(message.key()),
                    PairsText(message.labels())});
  }
  return TableText({"DELIVER TIME", "ID", "STATE", "ATTEMPTS", "PAYLOAD", "KEY", "LABELS"}, rows);
}

std::string ScheduledText(const v1::ScheduleResponse& response, const absl::TimeZone& zone) {
  const v1::Message& message = response.message();
  const std::string time = FormatTimeText(FromProto(message.deliver_time()), zone);
  const std::string over = response.bucket_over()
                               ? "its minute has more messages than the topic should have there\n"
                               : "";
  if (response.outcome() == v1::UNCHANGED) {
    return absl::StrCat("unchanged: ", message.id(), " for ", time, " is there already (",
                        StateWord(message.state()), ")\n");
  }
  if (response.outcome() == v1::REPLACED) {
    return absl::StrCat("replaced ", message.id(), ": now for ", time, " (", AheadText(message),
                        "), it was for ",
                        FormatTimeText(FromProto(response.old_deliver_time()), zone), "\n", over);
  }
  std::string text = absl::StrCat("scheduled ", message.id().empty() ? "a message" : message.id(),
                                  " for ", time, " (", AheadText(message), ")\n", over);
  if (!response.previous_message_id().empty()) {
    absl::StrAppend(&text, "the key was that of ", response.previous_message_id(),
                    ", which goes its way\n");
  }
  return text;
}

std::string RescheduledText(absl::string_view name, const v1::RescheduleResponse& response,
                            const absl::TimeZone& zone) {
  const std::string refused = absl::StrCat(name, " is not moved: ");
  switch (response.outcome()) {
    case v1::RescheduleResponse::RESCHEDULED:
      return absl::StrCat(name, " is moved to ",
                          FormatTimeText(FromProto(response.message().deliver_time()), zone), " (",
                          AheadText(response.message()), "), it was for ",
                          FormatTimeText(FromProto(response.old_deliver_time()), zone), "\n");
    case v1::RescheduleResponse::IN_FLIGHT:
      return absl::StrCat(refused, InFlightText(response.delivery_uncertain()), "\n");
    case v1::RescheduleResponse::SETTLED:
    case v1::RescheduleResponse::ALREADY_CANCELLED:
      return absl::StrCat(refused, EndText(response.state(), response.end_time(), zone), "\n");
    case v1::RescheduleResponse::NOT_FOUND:
      return absl::StrCat(name, " is not there: ", NotFoundText(), "\n");
    default:
      return absl::StrCat(name, ": the server answered ", response.outcome(),
                          ", which this version does not know\n");
  }
}

std::string CancelText(absl::string_view name, const client::CancelResult& result,
                       const absl::TimeZone& zone) {
  const v1::CancelResponse& answer = result.answer;
  switch (answer.outcome()) {
    case v1::CancelResponse::CANCELLED:
      return absl::StrCat(name, " is cancelled: it was never delivered and never will be\n");
    case v1::CancelResponse::IN_FLIGHT:
      return absl::StrCat(name, " is not cancelled: ", InFlightText(answer.delivery_uncertain()),
                          answer.redelivery_stopped()
                              ? "; it is ended and will not be delivered again\n"
                              : "; --stop-redelivery would end it\n");
    case v1::CancelResponse::SETTLED:
      return absl::StrCat(
          name, " is not cancelled: ", EndText(answer.state(), answer.end_time(), zone), "\n");
    case v1::CancelResponse::ALREADY_CANCELLED:
      return absl::StrCat(
          name, " had been cancelled at ", FormatTimeText(FromProto(answer.end_time()), zone),
          result.tried_before ? " (perhaps by this call: its first try went unanswered)\n" : "\n");
    case v1::CancelResponse::NOT_FOUND:
      return absl::StrCat(
          name, " is not there: ", NotFoundText(),
          result.tried_before ? " (or cancelled just now: the first try went unanswered)\n" : "\n");
    default:
      return absl::StrCat(name, ": the server answered ", answer.outcome(),
                          ", which this version does not know\n");
  }
}

std::string ExplainText(const v1::ExplainResponse& story, absl::Time now,
                        const absl::TimeZone& zone) {
  const v1::Message& message = story.message();
  std::string text =
      story.summary().empty() ? "" : absl::StrCat(Printable(story.summary()), "\n\n");
  const std::vector<Event> events = EventsOf(story);
  for (size_t i = 0; i < events.size(); ++i) {
    const std::string time = FormatTimeText(events[i].time, zone);
    if (i > 0) {
      absl::StrAppend(&text, "  ", std::string(time.size(), ' '), "  |  ",
                      FormatDurationText(events[i].time - events[i - 1].time), "\n");
    }
    absl::StrAppend(&text, "  ", time, "  ", events[i].time > now ? ".  " : "o  ", events[i].what,
                    events[i].time > now ? " (to come)\n" : "\n");
  }
  Fields fields = {{"id", message.id()},
                   {"topic", message.topic()},
                   {"key", Printable(message.key())},
                   {"state", StateWord(message.state())},
                   {"where", WhereText(story.timeline(), message)},
                   {"attempts", absl::StrCat(message.attempts())},
                   {"subscribers", absl::StrCat(story.timeline().subscribers())},
                   {"lateness", LatenessText(story.lateness())}};
  AddDeadLetter(message, zone, &fields);
  absl::StrAppend(&text, "\n", FieldsText(fields), StandingTable(story.subscriptions(), zone));
  return text;
}

std::string GetJson(const v1::GetResponse& response) { return Flattened(response); }

std::string ScheduledJson(const v1::ScheduleResponse& response) { return Flattened(response); }

std::string CancelJson(absl::string_view name, const client::CancelResult& result) {
  Json json = {{"id", std::string(name)}};
  json.update(ToJson(result.answer));
  if (json.contains("message_id")) {
    json["id"] = json["message_id"];
    json.erase("message_id");
  }
  json["tried_before"] = result.tried_before;
  return Line(json);
}

}  // namespace duetime::cli
