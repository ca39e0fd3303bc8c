// SPDX-License-Identifier: Apache-2.0
#include "client/cli/output.h"

#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/json.h"
#include "client/cli/time_text.h"
#include "client/convert.h"
#include "client/error.h"

namespace duetime::cli {
namespace {

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

bool CheckText(absl::string_view text, bool* has_control) {
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

std::string Table(const Json& object) {
  std::string text;
  for (const auto& [name, value] : object.items()) {
    absl::StrAppendFormat(&text, "  %-26s %s\n", name, value.dump());
  }
  return text;
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  bool has_control = false;
  return CheckText(text, &has_control);
}

std::string PrintablePayload(absl::string_view payload, size_t bytes_max) {
  bool has_control = false;
  const bool text = CheckText(payload, &has_control) && !has_control;
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

std::string DeliveryText(const client::Delivery& delivery, absl::Time received,
                         const absl::TimeZone& zone) {
  std::string was;
  if (const v1::DeadLetter* letter = delivery.dead_letter()) {
    was = absl::StrCat("dead letter, was ", letter->message_id(), " of ", letter->topic(), "  ");
  }
  return absl::StrCat(FormatTimeText(received, zone), "  ", delivery.message_id(), "  attempt ",
                      delivery.attempt(), delivery.maybe_redelivered() ? " (repeat?)" : "",
                      "  late ", FormatDurationText(delivery.lateness()), "  ", was,
                      PrintablePayload(delivery.payload(), kListedPayloadBytes), "\n");
}

std::string CountsText(const client::SubscriberCounts& counts) {
  std::string text = absl::StrCat("received ", counts.delivered, ", acked ", counts.acked);
  for (const auto& [count, word] :
       {std::pair{counts.nacked, "nacked"}, std::pair{counts.dead_lettered, "made dead letters"},
        std::pair{counts.left, "left"}, std::pair{counts.refused, "refused (lease lost)"},
        std::pair{counts.lost, "unconfirmed"}}) {
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
  absl::StrAppend(&text, "\nsince the start\n", Table(ToJson(info.counts())));
  absl::StrAppend(&text, "\nlimits\n", Table(ToJson(info.limits())));
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

std::string DeliveryJson(const client::Delivery& delivery, absl::Time received) {
  Json json = {
      {"id", std::string(delivery.message_id())},
      {"lease_token", absl::StrCat(absl::Hex(delivery.proto().lease_token(), absl::kZeroPad16))},
      {"attempt", delivery.attempt()},
      {"maybe_redelivered", delivery.maybe_redelivered()},
      {"deliver_time", JsonTime(delivery.deliver_time())},
      {"accept_time", JsonTime(delivery.accept_time())},
      {"receive_time", JsonTime(received)},
      {"lateness_ms", absl::ToDoubleMilliseconds(delivery.lateness())}};
  AddBytes("payload", delivery.payload(), &json);
  const v1::Delivery& proto = delivery.proto();
  for (const auto& [name, map] :
       {std::pair{"attributes", &proto.attributes()}, std::pair{"labels", &proto.labels()}}) {
    if (!map->empty()) json[name] = std::map<std::string, std::string>(map->begin(), map->end());
  }
  for (const auto& [name, text] :
       {std::pair{"key", &proto.key()}, std::pair{"ordering_key", &proto.ordering_key()},
        std::pair{"recurrence", &proto.recurrence()}}) {
    if (!text->empty()) json[name] = *text;
  }
  if (proto.occurrence() != 0) json["occurrence"] = proto.occurrence();
  if (proto.has_dead_letter()) json["dead_letter"] = ToJson(proto.dead_letter());
  return Line(json);
}

std::string CountsJson(const client::SubscriberCounts& counts) {
  return Line({{"received", counts.delivered},
               {"acked", counts.acked},
               {"nacked", counts.nacked},
               {"dead_lettered", counts.dead_lettered},
               {"left", counts.left},
               {"refused", counts.refused},
               {"unconfirmed", counts.lost}});
}

std::string ErrorJson(const absl::Status& error) { return Line({{"error", ErrorObject(error)}}); }

}  // namespace duetime::cli
