// SPDX-License-Identifier: Apache-2.0
//
// The update mask of settings in a request.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/message.h"

namespace duetime::api {

// Copies the fields that the mask names from `from` to `to`. A path is "settings", or "settings."
// and the path of a field in them, but of none within a duration. A field that is absent in `from`
// becomes absent. INVALID_UPDATE_MASK if the mask is empty or has another path. `owner` is for the
// text: "a topic".
absl::Status ApplyMask(const google::protobuf::FieldMask& mask, absl::string_view owner,
                       const google::protobuf::Message& from, google::protobuf::Message* to);

// True if the mask names the field, or a message with it: "settings.rate.burst".
bool Names(const google::protobuf::FieldMask& mask, absl::string_view path);

}  // namespace duetime::api
