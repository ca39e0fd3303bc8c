// SPDX-License-Identifier: Apache-2.0
#include "server/api/update_mask.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/util/field_mask_util.h"

#include "server/api/validation_error.h"

namespace duetime::api {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FieldMask;
using google::protobuf::Message;
using google::protobuf::util::FieldMaskUtil;

// FieldMaskUtil ignores empty names, as in "rate..burst".
bool IsField(const Descriptor& settings, const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  if (!FieldMaskUtil::GetFieldDescriptors(&settings, path, &fields) || fields.empty()) return false;
  const auto name = [](std::string* text, const FieldDescriptor* field) { *text += field->name(); };
  return absl::StrJoin(fields, ".", name) == path &&
         fields.back()->file()->package() == settings.file()->package();
}

}  // namespace

absl::StatusOr<SettingsMask> SettingsMask::Read(const FieldMask& mask, absl::string_view owner,
                                                const Descriptor& settings) {
  constexpr absl::string_view kMaskReason = "INVALID_UPDATE_MASK";
  if (mask.paths().empty()) return Invalid(kMaskReason, "update_mask", "required");
  FieldMask fields;
  absl::flat_hash_set<absl::string_view> seen;
  for (absl::string_view path : mask.paths()) {
    if (!seen.insert(path).second) continue;
    if (path == "settings") {
      for (int i = 0; i < settings.field_count(); ++i) fields.add_paths(settings.field(i)->name());
    } else if (absl::ConsumePrefix(&path, "settings.") && IsField(settings, std::string(path))) {
      fields.add_paths(std::string(path));
    } else {
      return Invalid(kMaskReason, "update_mask",
                     absl::StrCat("a path is not one of ", owner, "'s settings"));
    }
  }
  FieldMask canonical;
  FieldMaskUtil::ToCanonicalForm(fields, &canonical);
  return SettingsMask(std::move(canonical));
}

void SettingsMask::Apply(const Message& from, Message* to) const {
  FieldMaskUtil::MergeOptions options;
  options.set_replace_message_fields(true);
  options.set_replace_repeated_fields(true);
  FieldMaskUtil::MergeMessageTo(from, fields_, options, to);
  const Descriptor& settings = *to->GetDescriptor();
  const google::protobuf::Reflection& fields = *to->GetReflection();
  for (int i = 0; i < settings.field_count(); ++i) {
    const FieldDescriptor* const field = settings.field(i);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && fields.HasField(*to, field) &&
        !fields.HasField(from, field) &&
        field->message_type()->file()->package() == settings.file()->package() &&
        fields.GetMessage(*to, field).ByteSizeLong() == 0) {
      fields.ClearField(to, field);
    }
  }
}

void SettingsMask::Trim(Message* settings) const {
  FieldMaskUtil::TrimMessage(fields_, settings);
  settings->DiscardUnknownFields();
}

bool SettingsMask::Names(absl::string_view path) const {
  return FieldMaskUtil::IsPathInFieldMask({path.data(), path.size()}, fields_);
}

}  // namespace duetime::api
