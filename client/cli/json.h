// SPDX-License-Identifier: Apache-2.0
//
// The output for programs: proto3 JSON, one object per line. Pure functions.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "client/cpp/subscriber.h"

namespace duetime::cli {

// Protobuf's own JSON of `message`, which any Protobuf library reads back. Field names are those of
// the proto. Numbers, texts and lists are printed even if they are empty; unset messages are not.
std::string JsonLine(const google::protobuf::Message& message);

// {"error": {"code", "reason", "message", "metadata", "retry_delay" if the server asks for one}}.
std::string ErrorJson(const absl::Status& error);

std::string CountsJson(const client::SubscriberCounts& counts);

}  // namespace duetime::cli
