// SPDX-License-Identifier: Apache-2.0
//
// SettingsMask: the settings that an update names.
#pragma once

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/field_mask.pb.h"
#include "google/protobuf/message.h"

namespace duetime::api {

// The paths of an update mask without their "settings.", each once, and none below another. Its
// size is bounded by the number of settings.
class SettingsMask {
 public:
  // A path is "settings", or "settings." and the path of a field in them, but of none within a
  // duration. INVALID_UPDATE_MASK if the mask is empty or has another path. `owner` is for the
  // text: "a topic". Cost: O(paths).
  static absl::StatusOr<SettingsMask> Read(const google::protobuf::FieldMask& mask,
                                           absl::string_view owner,
                                           const google::protobuf::Descriptor& settings);

  // Copies the named fields from `from` to `to`. A field that is absent in `from` becomes absent,
  // and so does a message of `to` that `from` does not have and of which nothing is left.
  void Apply(const google::protobuf::Message& from, google::protobuf::Message* to) const;
  // Clears the fields that the update does not name, and fields that this program does not know.
  void Trim(google::protobuf::Message* settings) const;
  // True if the update names the field, or a message with it: "rate.burst".
  bool Names(absl::string_view path) const;

 private:
  explicit SettingsMask(google::protobuf::FieldMask fields) : fields_(std::move(fields)) {}

  google::protobuf::FieldMask fields_;
};

}  // namespace duetime::api
