// SPDX-License-Identifier: Apache-2.0
//
// What the tool prints for programs: JSON made from protos by one set of rules. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

namespace duetime::cli {

using Json = nlohmann::ordered_json;

// A proto as an object, its fields by their names in the proto. Numbers and truth values are always
// there, and repeated fields, as arrays; texts, maps and messages only if they are set. Times are
// RFC 3339 in UTC; a duration `x` is the number `x_ms`, in milliseconds; enum values are their
// names, left out when unspecified; bytes `x` that are not UTF-8 are `x_base64`; a
// google.rpc.Status is as ErrorObject has it.
Json ToJson(const google::protobuf::Message& message);

// {"code", "reason", "message", "metadata", "retry_delay_ms" if there is one}.
Json ErrorObject(const absl::Status& error);

// RFC 3339 in UTC.
std::string JsonTime(absl::Time time);

// Adds bytes as `name`, or as `name`_base64 if they are not UTF-8.
void AddBytes(const std::string& name, absl::string_view bytes, Json* json);

// One line with its end. What is not UTF-8 after all (a server's text may be anything) is replaced.
std::string Line(const Json& json);

}  // namespace duetime::cli
