// SPDX-License-Identifier: Apache-2.0
//
// The fields of duetime's messages that hold an id of a message or a lease token.
#pragma once

#include <functional>
#include <string>

#include "google/protobuf/message.h"

namespace duetime::gateway {

// Replaces each id and lease token in `message`, also in messages inside it, by `change` of it.
// Empty texts stay. The fields are known by their names: a test lists them all. O(fields of the
// message).
void ChangeIds(google::protobuf::Message* message,
               const std::function<std::string(const std::string&)>& change);

// True if a field of this name holds an id or a token. So do entries of an error's metadata.
bool IsIdName(const std::string& name);

}  // namespace duetime::gateway
