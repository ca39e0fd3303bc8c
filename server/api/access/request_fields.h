// SPDX-License-Identifier: Apache-2.0
//
// What the rights of a call (call.proto) and the audit log need to know of a request.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace duetime::api {

// The topics that a request names in this field, each once. Empty: none.
std::vector<std::string> TopicsIn(const google::protobuf::Message& request,
                                  absl::string_view topic_field);

// The topic that each item of a batch names in this field, in the order of the items; empty if an
// item names none. The texts are in the request. REQUIRES: the first part of the field's path is
// the repeated field of the items.
std::vector<absl::string_view> TopicsOfItems(const google::protobuf::Message& request,
                                             absl::string_view topic_field);

// True if the request asks for payloads.
bool AsksForPayloads(const google::protobuf::Message& request);

// The name or id of the object of a request, for the audit log: a subscription, a recurrence, an
// operation, a message. Empty: it is a topic, or there are several.
std::string ObjectOf(const google::protobuf::Message& request);

}  // namespace duetime::api
