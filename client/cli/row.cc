// SPDX-License-Identifier: Apache-2.0
#include "client/cli/row.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"

namespace duetime::cli {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;

// Returns the fields along a path, including the last one.
std::vector<const FieldDescriptor*> Resolve(const Descriptor* type, const std::string& path) {
  std::vector<const FieldDescriptor*> fields;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(path, '.'))) {
    fields.push_back(type->FindFieldByName(name));
    GOOGLE_CHECK(fields.back() != nullptr) << type->full_name() << " has no field " << path;
    type = fields.back()->message_type();
  }
  return fields;
}

// The bytes that the names of all values begin with, up to an underscore.
size_t CommonPrefix(const EnumDescriptor& type) {
  const std::string& first = type.value(0)->name();
  size_t size = first.size();
  for (int i = 1; i < type.value_count(); ++i) {
    const std::string& name = type.value(i)->name();
    size = std::min(size,
                    static_cast<size_t>(
                        std::mismatch(first.begin(), first.end(), name.begin(), name.end()).first -
                        first.begin()));
  }
  const size_t underscore = size == 0 ? std::string::npos : first.rfind('_', size - 1);
  return underscore == std::string::npos ? 0 : underscore + 1;
}

template <typename T>
Trait Set(T Row::*property, T value) {
  return [property, value = std::move(value)](Row* row) { row->*property = value; };
}

Trait Both(Trait first, Trait second) {
  return [first = std::move(first), second = std::move(second)](Row* row) {
    first(row);
    second(row);
  };
}

}  // namespace

Row::Row(std::string field_path, Traits traits) : path(std::move(field_path)) {
  for (const Trait& trait : traits) trait(this);
}

Row::Row(std::string field_path, std::string option_name, std::string help_text, Traits traits)
    : path(std::move(field_path)), option(std::move(option_name)), help(std::move(help_text)) {
  for (const Trait& trait : traits) trait(this);
}

Trait Required() { return Set(&Row::required, true); }
Trait Key() { return Set(&Row::key, true); }
Trait Default(std::string text) { return Set(&Row::default_text, std::move(text)); }
Trait Reset(std::string word) { return Set(&Row::reset_word, std::move(word)); }
Trait Mask(std::string path) { return Set(&Row::mask, std::move(path)); }
Trait OneOf(Words words) { return Set(&Row::words, std::move(words)); }
Trait YesNo() { return OneOf({{"yes", 1}, {"no", 0}}); }
Trait Range(double min, double max) { return Both(Set(&Row::min, min), Set(&Row::max, max)); }
Trait Needs(Names options) { return Set(&Row::needs, std::move(options)); }
Trait Excludes(Names options) { return Set(&Row::excludes, std::move(options)); }
Trait Group(std::string group) { return Set(&Row::group, std::move(group)); }
Trait Type(Row::Type type) { return Set(&Row::type, type); }
Trait NotEmpty() { return Set(&Row::not_empty, true); }
Trait FromFile() { return Set(&Row::from_file, true); }
Trait Signed() { return Set(&Row::is_signed, true); }
Trait Environment() {
  return [](Row* row) {
    row->environment =
        absl::StrReplaceAll(absl::AsciiStrToUpper(row->option), {{"--", "DUETIME_"}, {"-", "_"}});
  };
}
Trait Line(std::string label, std::string otherwise) {
  return Both(Set(&Row::line, std::move(label)), Set(&Row::line_otherwise, std::move(otherwise)));
}
Trait Column(std::string header, std::string otherwise) {
  return Both(Set(&Row::column, std::move(header)),
              Set(&Row::column_otherwise, std::move(otherwise)));
}
Trait WordForTrue(std::string word) { return Set(&Row::word_for_true, std::move(word)); }
Trait Bytes() { return Set(&Row::bytes, true); }
Trait HidesZero() { return Set(&Row::hides_zero, true); }
Trait Warns() { return Set(&Row::warns, true); }

Rows Join(std::initializer_list<Rows> tables) {
  Rows all;
  for (const Rows& table : tables) all.insert(all.end(), table.begin(), table.end());
  return all;
}

Rows OptionsBelow(const std::string& field, const Rows& rows) {
  Rows below;
  const std::string prefix = field.empty() ? "" : field + ".";
  for (Row row : rows) {
    if (row.option.empty()) continue;
    if (!row.path.empty()) row.path.insert(0, prefix);
    if (!row.mask.empty()) row.mask.insert(0, prefix);
    below.push_back(std::move(row));
  }
  return below;
}

const FieldDescriptor* FieldOf(const Descriptor* type, const std::string& path) {
  return Resolve(type, path).back();
}

const Message* ParentOf(const Message& message, const std::string& path) {
  const Message* parent = &message;
  std::vector<const FieldDescriptor*> way = Resolve(message.GetDescriptor(), path);
  way.pop_back();
  for (const FieldDescriptor* field : way) {
    if (!parent->GetReflection()->HasField(*parent, field)) return nullptr;
    parent = &parent->GetReflection()->GetMessage(*parent, field);
  }
  return parent;
}

Message* MutableParentOf(Message* message, const std::string& path) {
  std::vector<const FieldDescriptor*> way = Resolve(message->GetDescriptor(), path);
  way.pop_back();
  for (const FieldDescriptor* field : way) {
    message = message->GetReflection()->MutableMessage(message, field);
  }
  return message;
}

std::string WordOf(const EnumValueDescriptor& value, char separator) {
  std::string word = absl::AsciiStrToLower(value.name().substr(CommonPrefix(*value.type())));
  std::replace(word.begin(), word.end(), '_', separator);
  return word;
}

}  // namespace duetime::cli
