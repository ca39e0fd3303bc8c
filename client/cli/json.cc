// SPDX-License-Identifier: Apache-2.0
#include "client/cli/json.h"

#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/time_util.h"

#include "client/cli/text.h"
#include "client/cpp/convert.h"
#include "client/cpp/error.h"

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

}  // namespace

std::string JsonLine(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  // Fails for a time or duration out of protobuf's range. The server sends none.
  if (!status.ok()) return ErrorJson(absl::InternalError(status.ToString()));
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
