// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/cpp/wire.h"

#include <google/protobuf/util/json_util.h>
#include <iostream>

#include "client/cpp/error.h"
#include "server/base/mutex.h"

namespace duetime::conformance {

void FromJson(const Json& json, google::protobuf::Message* message) {
  const auto status = google::protobuf::util::JsonStringToMessage(json.dump(), message);
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

Json ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return Json::parse(json);
}

Json ToJson(const absl::Status& error) {
  const client::ErrorInfo info = client::GetErrorInfo(error);
  Json json = {{"code", absl::StatusCodeToString(error.code())},
               {"reason", info.reason},
               {"message", std::string(error.message())},
               {"metadata", info.metadata},
               {"type", "absl::Status"}};
  for (const client::FieldViolation& violation : info.field_violations) {
    json["fields"].push_back(violation.field);
  }
  if (info.retry_delay.has_value()) {
    json["retry_delay_ms"] = absl::ToInt64Milliseconds(*info.retry_delay);
  }
  return json;
}

absl::Duration Millis(const Json& request, const char* name, absl::Duration otherwise) {
  return request.contains(name) ? absl::Milliseconds(request.at(name).get<int64_t>()) : otherwise;
}

void Print(const Json& line) {
  static base::Mutex* const mutex = new base::Mutex;
  // A message of an error may hold any bytes.
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace);
  const base::MutexLock lock(mutex);
  std::cout << text << std::endl;
}

}  // namespace duetime::conformance
