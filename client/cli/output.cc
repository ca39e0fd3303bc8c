// SPDX-License-Identifier: Apache-2.0
#include "client/cli/output.h"

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/time_text.h"
#include "client/convert.h"
#include "client/error.h"

namespace duetime::cli {
namespace {

using Json = nlohmann::ordered_json;

// In a listing of deliveries: enough to recognise a message by.
constexpr size_t kListedPayloadBytes = 500;

// The bytes of the UTF-8 character at the front of `text`, 0 if there is none, and its code point.
size_t NextCharacter(absl::string_view text, uint32_t* code_point) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t size = 0;
  if (byte(0) < 0x80) {
    *code_point = byte(0);
    return 1;
  }
  if (byte(0) >= 0xC2 && byte(0) <= 0xDF) {
    size = 2;
    *code_point = byte(0) & 0x1F;
  } else if (byte(0) >= 0xE0 && byte(0) <= 0xEF) {
    size = 3;
    *code_point = byte(0) & 0x0F;
  } else if (byte(0) >= 0xF0 && byte(0) <= 0xF4) {
    size = 4;
    *code_point = byte(0) & 0x07;
  }
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
    *code_point = (*code_point << 6) | (byte(i) & 0x3F);
  }
  const bool overlong = (size == 3 && *code_point < 0x800) || (size == 4 && *code_point < 0x10000);
  const bool surrogate = *code_point >= 0xD800 && *code_point <= 0xDFFF;
  return overlong || surrogate || *code_point > 0x10FFFF ? 0 : size;
}

bool IsUtf8(absl::string_view text, bool* has_control) {
  *has_control = false;
  while (!text.empty()) {
    uint32_t code_point = 0;
    const size_t size = NextCharacter(text, &code_point);
    if (size == 0) return false;
    const bool spacing = code_point == '\n' || code_point == '\r' || code_point == '\t';
    if ((code_point < 0x20 && !spacing) || (code_point >= 0x7F && code_point < 0xA0)) {
      *has_control = true;
    }
    text.remove_prefix(size);
  }
  return true;
}

// Cuts `text`, which is UTF-8, to at most `bytes_max` bytes at a character.
absl::string_view CutAtCharacter(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0) == 0x80) --bytes_max;
  return text.substr(0, bytes_max);
}

std::string JsonTime(absl::Time time) { return FormatTimeText(time, absl::UTCTimeZone()); }

void AddPayload(absl::string_view payload, Json* json) {
  bool has_control = false;
  if (IsUtf8(payload, &has_control)) {
    (*json)["payload"] = std::string(payload);
  } else {
    (*json)["payload_base64"] = absl::Base64Escape(payload);
  }
}

// One line; what is not UTF-8 after all (a server's text may be anything) is replaced, never thrown
// at the caller.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string StateName(v1::Message::State state) { return v1::Message::State_Name(state); }
std::string StateWord(v1::Message::State state) {
  return state == v1::Message::IN_FLIGHT ? "in flight" : absl::AsciiStrToLower(StateName(state));
}

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

Json CountsObject(const v1::Counts& counts) {
  return {{"accepted", counts.accepted()},
          {"cancelled", counts.cancelled()},
          {"delivered", counts.delivered()},
          {"acked", counts.acked()},
          {"nacked", counts.nacked()},
          {"leases_lost", counts.leases_lost()},
          {"pending_loaded", counts.pending_loaded()},
          {"due_ready", counts.due_ready()},
          {"in_flight", counts.in_flight()},
          {"streams", counts.streams()},
          {"topics", counts.topics()}};
}

Json LimitsObject(const v1::Limits& limits) {
  return {{"horizon_seconds", limits.horizon().seconds()},
          {"payload_bytes_max", limits.payload_bytes_max()},
          {"attributes_max", limits.attributes_max()},
          {"attributes_bytes_max", limits.attributes_bytes_max()},
          {"topic_bytes_max", limits.topic_bytes_max()},
          {"batch_messages_max", limits.batch_messages_max()},
          {"batch_bytes_max", limits.batch_bytes_max()},
          {"topics_max", limits.topics_max()},
          {"outstanding_messages_max", limits.outstanding_messages_max()},
          {"streams_max", limits.streams_max()}};
}

std::string Table(const Json& object) {
  std::string text;
  for (const auto& [name, value] : object.items()) {
    absl::StrAppendFormat(&text, "  %-26s %s\n", name, value.dump());
  }
  return text;
}

}  // namespace

std::string PrintablePayload(absl::string_view payload, size_t bytes_max) {
  bool has_control = false;
  const bool text = IsUtf8(payload, &has_control) && !has_control;
  std::string shown;
  if (text) {
    for (const char c : CutAtCharacter(payload, bytes_max)) {
      if (c == '\n') {
        shown += "\\n";
      } else if (c == '\r') {
        shown += "\\r";
      } else if (c == '\t') {
        shown += "\\t";
      } else {
        shown += c;
      }
    }
  } else {
    shown = absl::StrCat("base64:", absl::Base64Escape(payload.substr(0, bytes_max)));
  }
  if (payload.size() > bytes_max) absl::StrAppend(&shown, " ... (", payload.size(), " bytes)");
  return shown;
}

std::string MessageText(const client::Message& message, const absl::TimeZone& zone) {
  std::string text = absl::StrCat(
      "id            ", message.id, "\n", "topic         ", message.topic, "\n", "state         ",
      StateWord(message.state), "\n", "deliver time  ", FormatTimeText(message.deliver_time, zone),
      "\n", "accepted      ", FormatTimeText(message.accept_time, zone), "\n", "attempts      ",
      message.attempts, "\n", "payload size  ", message.payload_bytes, " bytes\n");
  const std::map<std::string, std::string> attributes(message.attributes);
  for (const auto& [key, value] : attributes) {
    absl::StrAppend(&text, "attribute     ", PrintablePayload(key, key.size()), "=",
                    PrintablePayload(value, value.size()), "\n");
  }
  if (!message.payload.empty()) {
    absl::StrAppend(&text, "payload       ",
                    PrintablePayload(message.payload, message.payload.size()), "\n");
  }
  return text;
}

std::string ScheduledText(const client::Message& message, const absl::TimeZone& zone) {
  const absl::Duration ahead = message.deliver_time - message.accept_time;
  const std::string when = message.state == v1::Message::SCHEDULED
                               ? absl::StrCat("in ", FormatDurationText(ahead))
                               : "due now";
  return absl::StrCat("scheduled ", message.id, " for ", FormatTimeText(message.deliver_time, zone),
                      " (", when, ")\n");
}

std::string CancelText(absl::string_view id, const client::CancelResult& result) {
  switch (result.outcome) {
    case v1::CancelResponse::CANCELLED:
      return absl::StrCat(id, " is cancelled: it was never delivered and never will be\n");
    case v1::CancelResponse::IN_FLIGHT: {
      std::string text = absl::StrCat(id, " is not cancelled: ");
      absl::StrAppend(&text, result.delivery_uncertain
                                 ? "it may have been delivered before the server last crashed"
                                 : "it has been delivered and is not settled yet");
      absl::StrAppend(&text, result.redelivery_stopped
                                 ? "; it is ended and will not be delivered again\n"
                                 : "; --stop-redelivery would end it\n");
      return text;
    }
    case v1::CancelResponse::NOT_FOUND: {
      std::string text =
          absl::StrCat(id, " is not there: it never existed, was cancelled, or has been acked");
      if (result.tried_before) {
        absl::StrAppend(&text, " (or cancelled just now: the first try went unanswered)");
      }
      return text + "\n";
    }
    default:
      return absl::StrCat(id, ": the server answered ", result.outcome,
                          ", which this version does not know\n");
  }
}

std::string DeliveryText(const client::Delivery& delivery, absl::Time received,
                         const absl::TimeZone& zone) {
  return absl::StrCat(FormatTimeText(received, zone), "  ", delivery.message_id(), "  attempt ",
                      delivery.attempt(), delivery.maybe_redelivered() ? " (repeat?)" : "",
                      "  late ", FormatDurationText(delivery.lateness()), "  ",
                      PrintablePayload(delivery.payload(), kListedPayloadBytes), "\n");
}

std::string CountsText(const client::SubscriberCounts& counts) {
  std::string text = absl::StrCat("received ", counts.delivered, ", acked ", counts.acked);
  for (const auto& [count, word] :
       {std::pair{counts.nacked, "nacked"}, std::pair{counts.left, "left"},
        std::pair{counts.refused, "refused (lease lost)"}, std::pair{counts.lost, "unconfirmed"}}) {
    if (count > 0) absl::StrAppend(&text, ", ", word, " ", count);
  }
  return text + "\n";
}

std::string ServerInfoText(const v1::ServerInfoResponse& info, const absl::TimeZone& zone) {
  std::string text = absl::StrCat(
      "version       ", info.version(), "\n",  //
      "state         ", absl::AsciiStrToLower(v1::ServingState_Name(info.state())), "\n",
      "started       ", FormatTimeText(client::FromProto(info.start_time()), zone), " (start ",
      info.epoch(), " of this data directory, up ",
      FormatDurationText(absl::Trunc(client::FromProto(info.uptime()), absl::Seconds(1))), ")\n",
      "server time   ", FormatTimeText(client::FromProto(info.server_time()), zone), " (",
      absl::AsciiStrToLower(v1::ClockState_Name(info.clock_state())), ")\n",  //
      "shards        ", info.shards(), "\n");
  if (info.disk_low()) absl::StrAppend(&text, "disk          LOW: new messages are refused\n");
  absl::StrAppend(&text, "\nsince the start\n", Table(CountsObject(info.counts())));
  absl::StrAppend(&text, "\nlimits\n", Table(LimitsObject(info.limits())));
  return text;
}

std::string ErrorText(const absl::Status& error, absl::string_view server) {
  const client::ErrorInfo info = client::GetErrorInfo(error);
  std::string text = "duetime: ";
  if (!info.reason.empty()) {
    absl::StrAppend(&text, info.reason, ": ");
  } else if (absl::IsUnavailable(error)) {
    absl::StrAppend(&text, "cannot reach the server at ", server, ": ");
  } else if (absl::IsDeadlineExceeded(error)) {
    absl::StrAppend(&text, "no answer in time from the server at ", server, ": ");
  }
  absl::StrAppend(&text, PrintablePayload(error.message(), error.message().size()));
  if (info.retry_delay.has_value()) {
    absl::StrAppend(&text, " (try again in ", FormatDurationText(*info.retry_delay), ")");
  }
  return text + "\n";
}

std::string MessageJson(const client::Message& message) {
  Json json = {{"id", message.id},
               {"topic", message.topic},
               {"state", StateName(message.state)},
               {"deliver_time", JsonTime(message.deliver_time)},
               {"accept_time", JsonTime(message.accept_time)},
               {"attempts", message.attempts},
               {"payload_bytes", message.payload_bytes}};
  if (!message.payload.empty()) AddPayload(message.payload, &json);
  if (!message.attributes.empty()) json["attributes"] = message.attributes;
  return Line(json);
}

std::string CancelJson(absl::string_view id, const client::CancelResult& result) {
  return Line({{"id", std::string(id)},
               {"outcome", v1::CancelResponse::Outcome_Name(result.outcome)},
               {"state", StateName(result.state)},
               {"redelivery_stopped", result.redelivery_stopped},
               {"delivery_uncertain", result.delivery_uncertain},
               {"tried_before", result.tried_before}});
}

std::string DeliveryJson(const client::Delivery& delivery, absl::Time received) {
  Json json = {{"id", std::string(delivery.message_id())},
               {"attempt", delivery.attempt()},
               {"maybe_redelivered", delivery.maybe_redelivered()},
               {"deliver_time", JsonTime(delivery.deliver_time())},
               {"accept_time", JsonTime(delivery.accept_time())},
               {"receive_time", JsonTime(received)},
               {"lateness_ms", Milliseconds(delivery.lateness())}};
  AddPayload(delivery.payload(), &json);
  const auto& attributes = delivery.proto().attributes();
  if (!attributes.empty()) {
    json["attributes"] = std::map<std::string, std::string>(attributes.begin(), attributes.end());
  }
  return Line(json);
}

std::string CountsJson(const client::SubscriberCounts& counts) {
  return Line({{"received", counts.delivered},
               {"acked", counts.acked},
               {"nacked", counts.nacked},
               {"left", counts.left},
               {"refused", counts.refused},
               {"unconfirmed", counts.lost}});
}

std::string ServerInfoJson(const v1::ServerInfoResponse& info) {
  return Line({{"version", info.version()},
               {"state", v1::ServingState_Name(info.state())},
               {"start_time", JsonTime(client::FromProto(info.start_time()))},
               {"uptime_seconds", absl::ToDoubleSeconds(client::FromProto(info.uptime()))},
               {"server_time", JsonTime(client::FromProto(info.server_time()))},
               {"clock_state", v1::ClockState_Name(info.clock_state())},
               {"epoch", info.epoch()},
               {"shards", info.shards()},
               {"disk_low", info.disk_low()},
               {"counts", CountsObject(info.counts())},
               {"limits", LimitsObject(info.limits())}});
}

std::string ErrorJson(const absl::Status& error) {
  const client::ErrorInfo info = client::GetErrorInfo(error);
  Json json = {{"code", absl::StatusCodeToString(error.code())},
               {"reason", info.reason},
               {"message", std::string(error.message())},
               {"metadata", info.metadata}};
  if (info.retry_delay.has_value()) json["retry_delay_ms"] = Milliseconds(*info.retry_delay);
  return Line({{"error", json}});
}

}  // namespace duetime::cli
