// SPDX-License-Identifier: Apache-2.0
//
// The rights that each method needs: the one table of method, verb and topic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

#include "server/access/verb.h"
#include "server/metrics/rpc_stats.h"

namespace duetime::api {

// One right that a method needs.
struct Right {
  enum class When : uint8_t {
    kAlways,
    // Only if the request's `view` is FULL.
    kFullView,
  };
  access::Verb verb{};
  // The field with the name of the topic, "recurrence.topic", also below a repeated field. If the
  // request does not name a topic, because it names its object by id or asks for all topics, the
  // client needs the verb on some topic, and the handler leaves out what lies outside of the
  // client's topics. Empty: the verb needs no topic.
  const char* topic_field = "";
  When when = When::kAlways;
};

// The methods that the audit log always, sometimes or never has. It has every refused access.
enum class Audited : uint8_t { kNever, kAlways, kIfCancels };

struct MethodRights {
  metrics::RpcMethod method{};
  std::vector<Right> rights = {};
  Audited audited = Audited::kNever;
};

// The row of a method. REQUIRES: it is a method of this API. A test holds the table against the
// protos.
const MethodRights& RightsOf(metrics::RpcMethod method);

// The topics that a request names in this field, each once. Empty: none.
std::vector<std::string> TopicsIn(const google::protobuf::Message& request,
                                  absl::string_view topic_field);

// True if the request asks for payloads.
bool AsksForPayloads(const google::protobuf::Message& request);

// The name or id of the object of a request, for the audit log: a subscription, a recurrence, an
// operation, a message. Empty: it is a topic, or there are several.
std::string ObjectOf(const google::protobuf::Message& request);

}  // namespace duetime::api
