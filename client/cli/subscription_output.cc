// SPDX-License-Identifier: Apache-2.0
#include "client/cli/subscription_output.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "client/cli/layout.h"
#include "client/cli/output.h"
#include "client/cli/time_text.h"
#include "client/convert.h"

namespace duetime::cli {
namespace {

using client::FromProto;

// In a table: enough to recognise a reason by.
constexpr size_t kListedReasonBytes = 60;

std::string DurationOf(bool given, const google::protobuf::Duration& duration,
                       const std::string& otherwise) {
  return given ? FormatDurationText(FromProto(duration)) : otherwise;
}

std::string RetryText(const v1::RetryPolicy& retry) {
  if (FromProto(retry.min_backoff()) == absl::ZeroDuration()) return "at once";
  std::string text =
      absl::StrCat("after ", FormatDurationText(FromProto(retry.min_backoff())), ", then times ",
                   retry.multiplier() == 0 ? 2.0 : retry.multiplier());
  if (retry.has_max_backoff()) {
    absl::StrAppend(&text, " up to ", FormatDurationText(FromProto(retry.max_backoff())));
  }
  if (retry.jitter() > 0) {
    absl::StrAppend(&text, ", longer by up to ", retry.jitter() * 100, "% at random");
  }
  return text;
}

std::string AttemptsText(const v1::RetryPolicy& retry) {
  return retry.max_attempts() == 0 ? "no end" : absl::StrCat(retry.max_attempts());
}

std::string RetentionText(const v1::SubscriptionSettings& settings) {
  const absl::Duration retention = FromProto(settings.retention());
  std::string text;
  if (retention > absl::ZeroDuration()) text = FormatDurationText(retention);
  if (settings.retention_max_messages() > 0) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", "up to ", settings.retention_max_messages(),
                    " messages");
  }
  if (text.empty()) return "for ever";
  return absl::StrCat(text, settings.retention_policy() == v1::RETENTION_DEAD_LETTER
                                ? ", then made dead letters"
                                : ", then dropped");
}

// In a table: how long, and how many.
std::string ShortRetentionText(const v1::SubscriptionSettings& settings) {
  std::string text = DurationOf(settings.has_retention(), settings.retention(), "");
  if (settings.retention_max_messages() > 0) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", settings.retention_max_messages());
  }
  return text.empty() ? "-" : text;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

void AddCounts(const v1::SubscriptionCounts& counts, const absl::TimeZone& zone, Fields* fields) {
  const auto add = [fields](const std::string& name, int64_t count) {
    fields->emplace_back(name, absl::StrCat(count));
  };
  add("subscribers", counts.streams());
  fields->emplace_back("ready",
                       absl::StrCat(counts.ready(), counts.behind() ? ", and more on disk" : ""));
  if (counts.slowed()) fields->emplace_back("slowed", "its attempts fail too fast");
  add("in flight", counts.in_flight());
  add("to be retried", counts.delayed());
  add("held in order", counts.blocked());
  fields->emplace_back("oldest due", counts.has_oldest_due_time()
                                         ? FormatTimeText(FromProto(counts.oldest_due_time()), zone)
                                         : "");
  add("delivered", counts.delivered());
  add("acked", counts.acked());
  add("dead letters", counts.dead_lettered());
  add("dropped", counts.dropped());
}

// "MAX_ATTEMPTS" as "max attempts".
std::string ReasonWord(v1::DeadLetter::Reason reason) {
  std::string word = absl::AsciiStrToLower(v1::DeadLetter::Reason_Name(reason));
  std::replace(word.begin(), word.end(), '_', ' ');
  return word.empty() ? absl::StrCat(reason) : word;
}

std::string TokenText(uint64_t lease_token) {
  return absl::StrCat(absl::Hex(lease_token, absl::kZeroPad16));
}

template <typename Tokens>
bool Holds(const Tokens& tokens, uint64_t lease_token) {
  return std::find(tokens.begin(), tokens.end(), lease_token) != tokens.end();
}

// Why it was refused; null if it was not.
const v1::SettleRefusal* RefusalOf(uint64_t lease_token, const v1::SettleResponse& answer) {
  for (const v1::SettleRefusal& refusal : answer.refused()) {
    if (refusal.lease_token() == lease_token) return &refusal;
  }
  return nullptr;
}

std::string RefusalText(v1::SettleRefusal::Reason reason, bool tried_before) {
  switch (reason) {
    case v1::SettleRefusal::LEASE_LOST:
      return tried_before ? "refused: its lease is over (perhaps by this call: its first try went "
                            "unanswered)"
                          : "refused: its lease is over, and the message may come again";
    case v1::SettleRefusal::OUT_OF_RANGE:
      return "refused: no lease or delay may be that long or that short; the lease goes on";
    case v1::SettleRefusal::NO_DEAD_LETTER_TOPIC:
      return "refused: there is no dead-letter topic and none can be made; the lease goes on";
    default:
      return absl::StrCat("refused for reason ", reason, ", which this version does not know");
  }
}

}  // namespace

std::string SubscriptionText(const v1::Subscription& subscription, const absl::TimeZone& zone) {
  const v1::SubscriptionSettings& settings = subscription.settings();
  Fields fields = {
      {"topic", subscription.topic()},
      {"subscription", subscription.name()},
      {"paused", settings.paused() ? "yes" : ""},
      {"created", subscription.has_create_time()
                      ? FormatTimeText(FromProto(subscription.create_time()), zone)
                      : ""},
      {"lease", DurationOf(settings.has_lease_duration(), settings.lease_duration(), "30s")},
      {"retries", RetryText(settings.retry())},
      {"max attempts", AttemptsText(settings.retry())},
      {"dead letters", settings.dead_letter_topic().empty() ? "where the topic says"
                                                            : settings.dead_letter_topic()},
      {"keeps", RetentionText(settings)}};
  if (subscription.has_counts()) AddCounts(subscription.counts(), zone, &fields);
  return FieldsText(fields);
}

std::string SubscriptionTable(
    const google::protobuf::RepeatedPtrField<v1::Subscription>& subscriptions) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Subscription& subscription : subscriptions) {
    const v1::SubscriptionSettings& settings = subscription.settings();
    rows.push_back({subscription.name(), settings.paused() ? "paused" : "active",
                    DurationOf(settings.has_lease_duration(), settings.lease_duration(), "-"),
                    AttemptsText(settings.retry()),
                    settings.dead_letter_topic().empty() ? "-" : settings.dead_letter_topic(),
                    ShortRetentionText(settings), RetryText(settings.retry())});
  }
  return TableText({"NAME", "STATE", "LEASE", "MAX ATTEMPTS", "DEAD LETTERS", "KEEPS", "RETRIES"},
                   rows);
}

std::string DeadLetterTable(const google::protobuf::RepeatedPtrField<v1::Message>& messages,
                            const absl::TimeZone& zone) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Message& message : messages) {
    const v1::DeadLetter& was = message.dead_letter();
    std::string reason = ReasonWord(was.reason());
    if (!was.reason_text().empty()) {
      absl::StrAppend(&reason, ": ", PrintablePayload(was.reason_text(), kListedReasonBytes));
    }
    // A topic of dead letters may hold other messages.
    if (!message.has_dead_letter()) reason = "(no dead letter)";
    rows.push_back({FormatTimeText(FromProto(message.accept_time()), zone), message.id(),
                    was.subscription(), absl::StrCat(was.attempts()), was.message_id(),
                    PrintablePayload(was.key(), was.key().size()), reason});
  }
  return TableText({"SINCE", "ID", "SUBSCRIPTION", "ATTEMPTS", "WAS", "KEY", "REASON"}, rows);
}

std::string PulledText(const client::Delivery& delivery, absl::Time received,
                       const absl::TimeZone& zone) {
  return absl::StrCat(TokenText(delivery.proto().lease_token()), "  ",
                      DeliveryText(delivery, received, zone));
}

bool WasRefused(uint64_t lease_token, const client::SettleResult& result) {
  return !Holds(result.answer.settled(), lease_token) &&
         !Holds(result.answer.extended(), lease_token);
}

std::string SettledText(uint64_t lease_token, const client::SettleResult& result) {
  std::string what = "the server did not answer for it";
  if (Holds(result.answer.settled(), lease_token)) what = "settled";
  if (Holds(result.answer.extended(), lease_token)) what = "extended";
  if (const v1::SettleRefusal* refusal = RefusalOf(lease_token, result.answer)) {
    what = RefusalText(refusal->reason(), result.tried_before);
  }
  return absl::StrCat(TokenText(lease_token), "  ", what, "\n");
}

Json SettledJson(uint64_t lease_token, const client::SettleResult& result) {
  Json json = {{"lease_token", TokenText(lease_token)},
               {"settled", Holds(result.answer.settled(), lease_token)},
               {"extended", Holds(result.answer.extended(), lease_token)}};
  if (const v1::SettleRefusal* refusal = RefusalOf(lease_token, result.answer)) {
    json["refused"] = v1::SettleRefusal::Reason_Name(refusal->reason());
  }
  json["tried_before"] = result.tried_before;
  return json;
}

}  // namespace duetime::cli
