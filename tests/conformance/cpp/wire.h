// SPDX-License-Identifier: Apache-2.0
//
// What goes over the pipes: protos and errors as JSON, and the lines to the runner.
#pragma once

#include <google/protobuf/message.h>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace duetime::conformance {

using Json = nlohmann::json;

// An error of the library, on its way to the answer.
struct Failed {
  absl::Status status;
};

// The value, or throws Failed.
template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) throw Failed{value.status()};
  return *std::move(value);
}

// Fills `message`. Throws std::runtime_error if the JSON is not this message.
void FromJson(const Json& json, google::protobuf::Message* message);
template <typename Message>
Message FromJson(const Json& json) {
  Message message;
  FromJson(json, &message);
  return message;
}
Json ToJson(const google::protobuf::Message& message);
Json ToJson(const absl::Status& error);

// The field `name` in milliseconds, or `otherwise`.
absl::Duration Millis(const Json& request, const char* name, absl::Duration otherwise);

// Writes one line to the runner. Thread-safe.
void Print(const Json& line);

}  // namespace duetime::conformance
