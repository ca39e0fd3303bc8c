// SPDX-License-Identifier: Apache-2.0
#include "client/cli/json.h"

#include <map>

#include "absl/strings/escaping.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/rpc/status.pb.h"

#include "client/cli/output.h"
#include "client/cli/time_text.h"
#include "client/convert.h"
#include "client/error.h"

namespace duetime::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

double Milliseconds(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

template <typename Proto>
const Proto* As(const Message& message) {
  return message.GetDescriptor() == Proto::descriptor() ? static_cast<const Proto*>(&message)
                                                        : nullptr;
}

void AddMessage(const std::string& name, const Message& message, Json* json) {
  if (const auto* time = As<google::protobuf::Timestamp>(message)) {
    (*json)[name] = JsonTime(client::FromProto(*time));
  } else if (const auto* duration = As<google::protobuf::Duration>(message)) {
    (*json)[name + "_ms"] = Milliseconds(client::FromProto(*duration));
  } else {
    (*json)[name] = ToJson(message);
  }
}

void AddMap(const Message& message, const FieldDescriptor* field, Json* json) {
  const Reflection* reflection = message.GetReflection();
  // All maps of the proto are from text to text. Sorted, so that two runs print the same.
  std::map<std::string, std::string> sorted;
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    const Message& entry = reflection->GetRepeatedMessage(message, field, i);
    sorted.emplace(entry.GetReflection()->GetString(entry, field->message_type()->map_key()),
                   entry.GetReflection()->GetString(entry, field->message_type()->map_value()));
  }
  if (!sorted.empty()) (*json)[field->name()] = sorted;
}

void AddRepeated(const Message& message, const FieldDescriptor* field, Json* json) {
  const Reflection* reflection = message.GetReflection();
  Json array = Json::array();
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      array.push_back(ToJson(reflection->GetRepeatedMessage(message, field, i)));
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      array.push_back(reflection->GetRepeatedEnum(message, field, i)->name());
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      array.push_back(reflection->GetRepeatedString(message, field, i));
    }
  }
  (*json)[field->name()] = std::move(array);
}

void AddSingle(const Message& message, const FieldDescriptor* field, Json* json) {
  const Reflection* reflection = message.GetReflection();
  const std::string& name = field->name();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      AddMessage(name, reflection->GetMessage(message, field), json);
      break;
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = reflection->GetString(message, field);
      if (!text.empty()) AddBytes(name, text, json);
      break;
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      if (reflection->GetEnumValue(message, field) != 0) {
        (*json)[name] = reflection->GetEnum(message, field)->name();
      }
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      (*json)[name] = reflection->GetBool(message, field);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      (*json)[name] = reflection->GetInt32(message, field);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      (*json)[name] = reflection->GetInt64(message, field);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      (*json)[name] = reflection->GetUInt32(message, field);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      (*json)[name] = reflection->GetUInt64(message, field);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      (*json)[name] = reflection->GetDouble(message, field);
      break;
    case FieldDescriptor::CPPTYPE_FLOAT:
      break;  // The proto has none.
  }
}

}  // namespace

Json ToJson(const Message& message) {
  if (const auto* status = As<google::rpc::Status>(message)) {
    return ErrorObject(client::ToAbslStatus(*status));
  }
  Json json = Json::object();
  const google::protobuf::Descriptor* descriptor = message.GetDescriptor();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const FieldDescriptor* field = descriptor->field(i);
    if (field->is_map()) {
      AddMap(message, field, &json);
    } else if (field->is_repeated()) {
      AddRepeated(message, field, &json);
    } else if (!field->has_presence() || message.GetReflection()->HasField(message, field)) {
      AddSingle(message, field, &json);
    }
  }
  return json;
}

Json ErrorObject(const absl::Status& error) {
  const client::ErrorInfo info = client::GetErrorInfo(error);
  Json json = {{"code", absl::StatusCodeToString(error.code())},
               {"reason", info.reason},
               {"message", std::string(error.message())},
               {"metadata", info.metadata}};
  if (info.retry_delay.has_value()) json["retry_delay_ms"] = Milliseconds(*info.retry_delay);
  return json;
}

std::string JsonTime(absl::Time time) { return FormatTimeText(time, absl::UTCTimeZone()); }

void AddBytes(const std::string& name, absl::string_view bytes, Json* json) {
  if (IsUtf8(bytes)) {
    (*json)[name] = std::string(bytes);
  } else {
    (*json)[name + "_base64"] = absl::Base64Escape(bytes);
  }
}

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace duetime::cli
