// SPDX-License-Identifier: Apache-2.0
#include "client/cli/options.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

#include "client/cli/time_text.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// The error of a bad value: the option, the text, and the reason.
absl::Status Bad(const Row& row, absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(row.option, " \"", text, "\" ", why));
}

bool IsWellKnown(const FieldDescriptor* field, const google::protobuf::Descriptor* type) {
  return field != nullptr && field->message_type() == type;
}
bool IsDuration(const FieldDescriptor* field) {
  return IsWellKnown(field, google::protobuf::Duration::descriptor());
}
bool IsTimestamp(const FieldDescriptor* field) {
  return IsWellKnown(field, google::protobuf::Timestamp::descriptor());
}

// The words that an option for an enum, or for a row with words, accepts.
std::vector<std::pair<std::string, int>> WordsOf(const Row& row, const FieldDescriptor* field) {
  if (!row.words.empty()) return row.words;
  std::vector<std::pair<std::string, int>> words;
  for (int i = 0; i < field->enum_type()->value_count(); ++i) {
    const auto* value = field->enum_type()->value(i);
    if (value->number() != 0) words.emplace_back(WordOf(*value, '-'), value->number());
  }
  return words;
}

template <typename Number>
absl::StatusOr<Number> ReadNumber(const Row& row, const std::string& text) {
  Number number = 0;
  bool read = false;
  if constexpr (std::is_integral_v<Number>) {
    read = absl::SimpleAtoi(text, &number);
  } else {
    read = absl::SimpleAtod(text, &number);
  }
  const auto size = static_cast<double>(number);
  if (read && size >= row.min && size <= row.max) return number;
  const bool bounded = row.max < std::numeric_limits<double>::max();
  return Bad(row, text,
             bounded ? absl::StrFormat("is not a number from %.10g to %.10g", row.min, row.max)
                     : absl::StrFormat("is not a whole number from %.10g on", row.min));
}

template <typename Number, typename Setter>
absl::Status SetNumber(const Row& row, const std::string& text, const Setter& set) {
  const absl::StatusOr<Number> number = ReadNumber<Number>(row, text);
  if (number.ok()) set(*number);
  return number.status();
}

absl::StatusOr<absl::Duration> ReadDuration(const Row& row, const std::string& text) {
  const bool minus = row.is_signed && text[0] == '-';
  const bool has_sign = minus || (row.is_signed && text[0] == '+');
  absl::StatusOr<absl::Duration> duration = ParseDurationText(text.substr(has_sign ? 1 : 0));
  if (duration.ok() && minus) *duration = -*duration;
  return duration;
}

absl::StatusOr<std::string> ReadBytes(const Row& row, const std::string& text) {
  std::ostringstream bytes;
  if (row.from_file) {
    std::ifstream in(text, std::ios::binary);
    // peek() fails for a directory, which can be opened but not read. An empty file is no error.
    in.peek();
    if (in.good()) bytes << in.rdbuf();
    if (!in.is_open() || in.bad() || bytes.bad()) {
      return absl::InvalidArgumentError("cannot read the file " + text);
    }
    return bytes.str();
  }
  if (text != "-") return text;
  bytes << std::cin.rdbuf();
  if (bytes.bad()) return absl::InvalidArgumentError("cannot read standard input");
  return bytes.str();
}

absl::Status ReadPairs(const Row& row, const Names& texts, const FieldDescriptor* field,
                       Message* parent) {
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  std::set<std::string> keys;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Bad(row, text, "is not of the form KEY=VALUE");
    }
    const std::string name = text.substr(0, equals);
    if (!keys.insert(name).second) return Bad(row, name, "is given twice");
    Message* pair = parent->GetReflection()->AddMessage(parent, field);
    pair->GetReflection()->SetString(pair, key, name);
    pair->GetReflection()->SetString(pair, value, text.substr(equals + 1));
  }
  return absl::OkStatus();
}

absl::Status ReadWords(const Row& row, const Names& texts, const FieldDescriptor* field,
                       Message* parent) {
  const Reflection* reflection = parent->GetReflection();
  for (const std::string& text : texts) {
    for (const auto& [word, number] : WordsOf(row, field)) {
      if (word != text) continue;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
        reflection->SetBool(parent, field, number != 0);
      } else if (field->is_repeated()) {
        reflection->AddEnumValue(parent, field, number);
      } else {
        reflection->SetEnumValue(parent, field, number);
      }
    }
  }
  return absl::OkStatus();
}

// Puts `texts`, which is not empty, into a field of `parent`.
absl::Status SetField(const Row& row, const Names& texts, const FieldDescriptor* field,
                      const LocalZone& zone, Message* parent) {
  const Reflection* reflection = parent->GetReflection();
  const std::string& text = texts[0];
  if (field->is_map()) return ReadPairs(row, texts, field, parent);
  if (IsDuration(field)) {
    const absl::StatusOr<absl::Duration> duration = ReadDuration(row, text);
    if (!duration.ok()) return duration.status();
    reflection->MutableMessage(parent, field)->CopyFrom(client::ToProto(*duration));
    return absl::OkStatus();
  }
  if (IsTimestamp(field)) {
    const absl::StatusOr<absl::Time> time = ParseMomentText(text, std::nullopt, zone, absl::Now());
    if (!time.ok()) return time.status();
    reflection->MutableMessage(parent, field)->CopyFrom(client::ToProto(*time));
    return absl::OkStatus();
  }
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_ENUM:
      return ReadWords(row, texts, field, parent);
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!row.words.empty()) return ReadWords(row, texts, field, parent);
      reflection->SetBool(parent, field, true);
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_STRING: {
      const bool is_bytes = field->type() == FieldDescriptor::TYPE_BYTES;
      const absl::StatusOr<std::string> bytes = is_bytes ? ReadBytes(row, text) : text;
      if (bytes.ok()) reflection->SetString(parent, field, *bytes);
      return bytes.status();
    }
    case FieldDescriptor::CPPTYPE_INT32:
      return SetNumber<int32_t>(row, text, [&](auto n) { reflection->SetInt32(parent, field, n); });
    case FieldDescriptor::CPPTYPE_INT64:
      return SetNumber<int64_t>(row, text, [&](auto n) { reflection->SetInt64(parent, field, n); });
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return SetNumber<double>(row, text, [&](auto n) { reflection->SetDouble(parent, field, n); });
    default:
      GOOGLE_LOG(FATAL) << "no option sets a field like " << field->full_name();
      return absl::OkStatus();
  }
}

// Checks the values of an option without a field.
absl::Status CheckFree(const Row& row, const Names& texts) {
  if (row.type == Row::Type::kNumber) return ReadNumber<int64_t>(row, texts[0]).status();
  if (row.type == Row::Type::kDuration) return ReadDuration(row, texts[0]).status();
  return absl::OkStatus();
}

// The type of the option of a row.
Row::Type TypeOf(const Row& row, const FieldDescriptor* field) {
  if (field == nullptr) return row.type;
  if (field->is_repeated()) return Row::Type::kList;
  if (IsDuration(field)) return Row::Type::kDuration;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return row.words.empty() ? Row::Type::kFlag : Row::Type::kText;
    case FieldDescriptor::CPPTYPE_STRING:
    case FieldDescriptor::CPPTYPE_ENUM:
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Row::Type::kText;
    default:
      return Row::Type::kNumber;
  }
}

// How --help names the value of an option.
std::string TypeName(Row::Type type, const FieldDescriptor* field) {
  if (field != nullptr && field->is_map()) return "KEY=VALUE";
  if (IsTimestamp(field) || type == Row::Type::kTime) return "TIME";
  if (type == Row::Type::kDuration) return "DURATION";
  return type == Row::Type::kNumber ? "NUMBER" : "TEXT";
}

CLI::Validator Filled() {
  return CLI::Validator(
      [](const std::string& text) {
        return text.empty() ? std::string("it is empty") : std::string();
      },
      "");
}

}  // namespace

Names Input::List(const std::string& option) const {
  const auto value = values.find(option);
  return value == values.end() ? Names() : value->second;
}

std::string Input::Text(const std::string& option) const {
  const Names texts = List(option);
  return texts.empty() ? "" : texts[0];
}

int64_t Input::Number(const std::string& option) const {
  int64_t number = 0;
  return absl::SimpleAtoi(Text(option), &number) ? number : 0;
}

std::optional<absl::Duration> Input::Duration(const std::string& option) const {
  const absl::StatusOr<absl::Duration> duration = ParseDurationText(Text(option));
  return duration.ok() ? std::optional(*duration) : std::nullopt;
}

Names Options::Value::Texts() const {
  if (flag) return {""};
  if (text.has_value()) return {*text};
  if (texts.empty() && !row.default_text.empty()) return {row.default_text};
  return texts;
}

bool Options::Value::IsReset(const Names& given) const {
  return !row.reset_word.empty() && !given.empty() && given[0] == row.reset_word;
}

Options::Options(const Command& command, CLI::App* app, bool environment) {
  std::map<std::string, CLI::App*> groups = {{"", app}};
  std::map<std::string, CLI::Option*> by_name;
  for (const Row& row : command.rows) {
    CLI::App*& group = groups[row.group];
    if (group == nullptr) {
      group = app->add_option_group(row.group);
      const bool optional = absl::EndsWith(row.group, "(at most one)");
      group->require_option(optional ? 0 : 1, 1);
    }
    values_.emplace_back(row);
    Declare(command, group, environment, &values_.back());
    by_name[row.option] = values_.back().option;
  }
  for (Value& value : values_) {
    for (const std::string& name : value.row.needs) value.option->needs(by_name.at(name));
    for (const std::string& name : value.row.excludes) value.option->excludes(by_name.at(name));
  }
}

OptionShape ShapeOf(const Command& command, const Row& row) {
  const FieldDescriptor* field =
      row.path.empty() ? nullptr : FieldOf(command.action.request->GetDescriptor(), row.path);
  OptionShape shape{.type = TypeOf(row, field)};
  if (shape.type != Row::Type::kFlag) shape.value_name = TypeName(shape.type, field);
  const bool is_enum = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM;
  if (!is_enum && row.words.empty()) return shape;
  for (const auto& pair : WordsOf(row, field)) shape.words.push_back(pair.first);
  return shape;
}

void Options::Declare(const Command& command, CLI::App* app, bool environment, Value* value) {
  const Row& row = value->row;
  const OptionShape shape = ShapeOf(command, row);
  if (shape.type == Row::Type::kFlag) {
    value->option = app->add_flag(row.option, value->flag, row.help);
    return;
  }
  if (shape.type == Row::Type::kList) {
    value->option = app->add_option(row.option, value->texts, row.help);
    if (row.option[0] == '-') value->option->allow_extra_args(false);
  } else {
    value->option = app->add_option(row.option, value->text, row.help);
  }
  value->option->required(row.required)->type_name(shape.value_name);
  if (!row.default_text.empty()) value->option->default_str(row.default_text);
  if (environment && !row.environment.empty()) value->option->envname(row.environment);
  if (row.not_empty) value->option->check(Filled());
  if (shape.words.empty()) return;
  if (shape.type == Row::Type::kList) value->option->delimiter(',');
  value->option->check(CLI::IsMember(shape.words));
}

absl::Status Options::Read(const LocalZone& zone, Input* input) const {
  std::map<std::string, const Value*> by_name;
  for (const Value& value : values_) by_name[value.row.option] = &value;
  for (const Value& value : values_) {
    const Row& row = value.row;
    const Names texts = value.Texts();
    if (texts.empty()) continue;
    for (const std::string& name : row.needs) {
      const Value& needed = *by_name.at(name);
      if (value.option->count() == 0 || !needed.IsReset(needed.Texts())) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(row.option, " contradicts ", name, " ", needed.row.reset_word));
    }
    if (row.path.empty()) {
      if (texts[0].empty() && row.type == Row::Type::kDuration) continue;
      const absl::Status status = CheckFree(row, texts);
      if (!status.ok()) return status;
      input->values[row.option] = texts;
      continue;
    }
    const FieldDescriptor* field = FieldOf(input->request->GetDescriptor(), row.path);
    // A script may pass an empty variable. The option then counts as not given.
    if (texts[0].empty() && (IsDuration(field) || IsTimestamp(field))) continue;
    if (!value.IsReset(texts)) {
      const absl::Status status =
          SetField(row, texts, field, zone, MutableParentOf(input->request.get(), row.path));
      if (!status.ok()) return status;
    }
    if (value.option->count() == 0 || row.key) continue;
    const std::string& path = row.mask.empty() ? row.path : row.mask;
    const auto& paths = input->given.paths();
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) input->given.add_paths(path);
  }
  return absl::OkStatus();
}

}  // namespace duetime::cli
