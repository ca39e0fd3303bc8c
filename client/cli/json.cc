// SPDX-License-Identifier: Apache-2.0
#include "client/cli/json.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"

#include "client/cli/text.h"
#include "client/cpp/convert.h"
#include "client/cpp/error.h"
#include "duetime/v1/message.pb.h"

namespace duetime::cli {
namespace {

using google::protobuf::Struct;

// A status may hold any bytes, but JSON holds only UTF-8.
std::string SafeText(absl::string_view text) {
  return IsUtf8(text) ? std::string(text) : Printable(text);
}

void AddText(const std::string& name, absl::string_view text, Struct* object) {
  (*object->mutable_fields())[name].set_string_value(SafeText(text));
}

using Json = nlohmann::ordered_json;

// Takes the payloads out that the server did not send: an empty one beside a payload_bytes above 0
// would look like the payload of the message.
void DropUnsentPayloads(const google::protobuf::Message& message, Json* json) {
  if (message.GetDescriptor() == v1::Message::descriptor()) {
    const auto& one = static_cast<const v1::Message&>(message);
    if (one.payload().empty() && one.payload_bytes() > 0) json->erase("payload");
  }
  const auto* reflection = message.GetReflection();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  reflection->ListFields(message, &set);
  for (const auto* field : set) {
    if (field->message_type() == nullptr || field->is_map()) continue;
    Json& value = (*json)[field->name()];
    if (!field->is_repeated() && value.is_object()) {
      DropUnsentPayloads(reflection->GetMessage(message, field), &value);
    }
    for (int i = 0; field->is_repeated() && i < reflection->FieldSize(message, field); ++i) {
      Json& item = value[static_cast<size_t>(i)];
      if (item.is_object()) {
        DropUnsentPayloads(reflection->GetRepeatedMessage(message, field, i), &item);
      }
    }
  }
}

}  // namespace

std::string JsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  // Fails for a time or duration out of protobuf's range. The server sends none.
  if (!status.ok()) return ErrorJson(absl::InternalError(status.ToString()));
  // Few answers have such a payload, and reading JSON again takes time.
  if (absl::StrContains(json, R"("payload":"")")) {
    Json parsed = Json::parse(json);
    DropUnsentPayloads(message, &parsed);
    json = parsed.dump();
  }
  return json + "\n";
}

std::string ErrorJson(const absl::Status& error) {
  const client::ErrorInfo info = client::GetErrorInfo(error);
  Struct line;
  Struct* object = (*line.mutable_fields())["error"].mutable_struct_value();
  AddText("code", absl::StatusCodeToString(error.code()), object);
  AddText("reason", info.reason, object);
  AddText("message", error.message(), object);
  Struct* metadata = (*object->mutable_fields())["metadata"].mutable_struct_value();
  for (const auto& [name, value] : info.metadata) AddText(name, value, metadata);
  if (info.retry_delay.has_value()) {
    const auto delay = client::ToProto(*info.retry_delay);
    AddText("retry_delay", google::protobuf::util::TimeUtil::ToString(delay), object);
  }
  return JsonLine(line);
}

std::string CountsJson(const client::SubscriberCounts& counts) {
  Struct line;
  for (const auto& [name, count] :
       std::map<std::string, int64_t>{{"received", counts.delivered},
                                      {"acked", counts.acked},
                                      {"nacked", counts.nacked},
                                      {"dead_lettered", counts.dead_lettered},
                                      {"left", counts.left},
                                      {"refused", counts.refused},
                                      {"unconfirmed", counts.lost}}) {
    (*line.mutable_fields())[name].set_number_value(static_cast<double>(count));
  }
  return JsonLine(line);
}

}  // namespace duetime::cli
