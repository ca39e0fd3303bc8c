// SPDX-License-Identifier: Apache-2.0
#include "server/api/update_mask.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/field_mask_util.h"

#include "server/api/validation_error.h"

namespace duetime::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::FieldMask;
using google::protobuf::util::FieldMaskUtil;

// `path` is below "settings.". FieldMaskUtil ignores empty names, as in "rate..burst".
bool IsField(const google::protobuf::Descriptor& settings, const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  if (!FieldMaskUtil::GetFieldDescriptors(&settings, path, &fields) || fields.empty()) return false;
  const auto name = [](std::string* text, const FieldDescriptor* field) { *text += field->name(); };
  return absl::StrJoin(fields, ".", name) == path &&
         fields.back()->file()->package() == settings.file()->package();
}

}  // namespace

absl::Status ApplyMask(const FieldMask& mask, absl::string_view owner,
                       const google::protobuf::Message& from, google::protobuf::Message* to) {
  constexpr absl::string_view kMaskReason = "INVALID_UPDATE_MASK";
  if (mask.paths().empty()) return Invalid(kMaskReason, "update_mask", "required");
  FieldMask fields;
  bool whole = false;
  for (absl::string_view path : mask.paths()) {
    if (path == "settings") {
      whole = true;
    } else if (absl::ConsumePrefix(&path, "settings.") &&
               IsField(*from.GetDescriptor(), std::string(path))) {
      fields.add_paths(std::string(path));
    } else {
      return Invalid(kMaskReason, "update_mask",
                     absl::StrCat("a path is not one of ", owner, "'s settings"));
    }
  }
  if (whole) {
    to->CopyFrom(from);
  } else {
    FieldMaskUtil::MergeOptions options;
    options.set_replace_message_fields(true);
    options.set_replace_repeated_fields(true);
    FieldMaskUtil::MergeMessageTo(from, fields, options, to);
  }
  return absl::OkStatus();
}

bool Names(const FieldMask& mask, absl::string_view path) {
  return FieldMaskUtil::IsPathInFieldMask({path.data(), path.size()}, mask);
}

}  // namespace duetime::api
