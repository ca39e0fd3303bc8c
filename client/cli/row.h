// SPDX-License-Identifier: Apache-2.0
//
// Row: a row of the tool's tables. It names a field of a proto, the option that sets the field, and
// the line and the column that show it.
#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/message.h"

namespace duetime::cli {

using google::protobuf::Message;
using Names = std::vector<std::string>;
// The words of an enum or of a true or false field on the command line, with their numbers.
using Words = std::vector<std::pair<std::string, int>>;

struct Row;
// Sets one property of a row.
using Trait = std::function<void(Row*)>;
using Traits = std::initializer_list<Trait>;

// A row of a table. The type of its field decides how the tool reads the option and shows the
// value: as a duration, a time, a word of an enum, KEY=VALUE pairs, a number or text.
struct Row {
  // `field_path` leads to a field of the request or of the resource: "settings.retry.jitter". A row
  // with a format needs no path. The action of the command reads an option without a path.
  Row(std::string field_path, Traits traits);
  // `option_name` is "--max-pending", "-s,--subscription", or "NAME" for an argument.
  Row(std::string field_path, std::string option_name, std::string help_text, Traits traits = {});

  std::string path;

  // ---- The option.
  std::string option{};
  std::string help{};
  std::string default_text{};
  // The word that sets the field back to its default.
  std::string reset_word{};
  // The path in the mask of an update, if it differs from the path of the field.
  std::string mask{};
  // The environment variable that gives the value if the command line does not.
  std::string environment{};
  Words words{};
  double min = std::numeric_limits<double>::lowest();
  double max = std::numeric_limits<double>::max();
  Names needs{};
  Names excludes{};
  std::string group{};
  // The type of an option without a path.
  enum class Type { kText, kFlag, kList, kNumber, kDuration, kTime } type = Type::kText;
  bool required = false;
  bool key = false;
  bool not_empty = false;
  bool from_file = false;
  bool is_signed = false;

  // ---- The output. `..._otherwise` is the text for an unset field. The tool omits a line without
  // text.
  std::string line{};
  std::string line_otherwise{};
  std::string column{};
  std::string column_otherwise{};
  std::string word_for_true = "yes";
  bool bytes = false;
  bool hides_zero = false;
  bool warns = false;
  std::function<std::string(const Message&, const absl::TimeZone&)> format{};
};
using Rows = std::vector<Row>;

// ---- Traits of options.

Trait Required();
// The option identifies the resource of the command, so an update does not count it as a change.
Trait Key();
Trait Default(std::string text);
Trait Reset(std::string word);
Trait Mask(std::string path);
Trait OneOf(Words words);
// The option of a true or false field takes "yes" or "no", so that an update can set and clear the
// setting. Without YesNo, the option is a flag, which only sets the field.
Trait YesNo();
Trait Range(double min, double max = std::numeric_limits<double>::max());
Trait Needs(Names options);
Trait Excludes(Names options);
// The command line must give one option of this group, or at most one if `group` ends with
// "(at most one)".
Trait Group(std::string group);
Trait Type(Row::Type type);
Trait NotEmpty();
// The text is the name of a file that holds the value.
Trait FromFile();
// A duration may be negative.
Trait Signed();
// The environment may give the value: DUETIME_TLS_CA for --tls-ca.
Trait Environment();

// ---- Traits of the output.

Trait Line(std::string label, std::string otherwise = "");
Trait Column(std::string header, std::string otherwise = "");
Trait WordForTrue(std::string word);
// The number counts bytes.
Trait Bytes();
Trait HidesZero();
// The value is there only if someone should look, so it is painted as a warning. A line "state" and
// a column "STATE" have the colours of states without a trait.
Trait Warns();
// `Proto` is the type of the messages that the table shows.
template <typename Proto>
Trait As(std::string (*text)(const Proto&, const absl::TimeZone&)) {
  return [text](Row* row) {
    row->format = [text](const Message& message, const absl::TimeZone& zone) {
      return text(static_cast<const Proto&>(message), zone);
    };
  };
}

// ---- Tables.

// The rows of several tables, as one.
Rows Join(std::initializer_list<Rows> tables);
// The rows that have options, for a request that holds the resource in `field`; "": for a request
// that is the resource.
Rows OptionsBelow(const std::string& field, const Rows& rows);

// ---- Fields by path. A path that names no field ends the program.

const google::protobuf::FieldDescriptor* FieldOf(const google::protobuf::Descriptor* type,
                                                 const std::string& path);
// Return the message that holds the field. If a message along the path is absent, the first
// function returns null, and the second one creates it.
const Message* ParentOf(const Message& message, const std::string& path);
Message* MutableParentOf(Message* message, const std::string& path);

// The name of an enum value as words, without a prefix that all values share: "in flight" of
// IN_FLIGHT, "drop" of RETENTION_POLICY_DROP.
std::string WordOf(const google::protobuf::EnumValueDescriptor& value, char separator = ' ');
template <typename Enum>
std::string WordOf(Enum value) {
  const auto* name = google::protobuf::GetEnumDescriptor<Enum>()->FindValueByNumber(value);
  return name == nullptr ? std::to_string(static_cast<int>(value)) : WordOf(*name);
}

}  // namespace duetime::cli
