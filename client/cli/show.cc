// SPDX-License-Identifier: Apache-2.0
#include "client/cli/show.h"

#include <cstdio>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

#include "client/cli/connection/connection_error.h"
#include "client/cli/terminal/colour.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/convert.h"
#include "client/cpp/error.h"

namespace duetime::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

// "a=1 b=2", in the order of the keys.
std::string PairsText(const Message& parent, const FieldDescriptor* field) {
  std::map<std::string, std::string> pairs;
  const Reflection* reflection = parent.GetReflection();
  for (int i = 0; i < reflection->FieldSize(parent, field); ++i) {
    const Message& pair = reflection->GetRepeatedMessage(parent, field, i);
    pairs[pair.GetReflection()->GetString(pair, field->message_type()->map_key())] =
        pair.GetReflection()->GetString(pair, field->message_type()->map_value());
  }
  std::string text;
  for (const auto& [key, value] : pairs) {
    absl::StrAppend(&text, text.empty() ? "" : " ", Printable(key), "=", Printable(value));
  }
  return text;
}

std::string MessageText(const FieldDescriptor* field, const Message& value,
                        const absl::TimeZone& zone) {
  if (value.GetDescriptor() == google::protobuf::Timestamp::descriptor()) {
    const absl::Time time =
        client::FromProto(static_cast<const google::protobuf::Timestamp&>(value));
    // A message may be for 1970. The server sends 1970 also where it has no time yet.
    const bool is_none = time == absl::UnixEpoch() && field->name() != "deliver_time";
    return is_none ? "" : FormatTimeText(time, zone);
  }
  GOOGLE_CHECK(value.GetDescriptor() == google::protobuf::Duration::descriptor())
      << "no text for " << value.GetDescriptor()->full_name();
  return FormatDurationText(
      client::FromProto(static_cast<const google::protobuf::Duration&>(value)));
}

// The value of a field that is set, or "" for an empty one.
std::string FieldText(const Row& row, const Message& parent, const FieldDescriptor* field,
                      const absl::TimeZone& zone) {
  const Reflection* reflection = parent.GetReflection();
  const auto number = [&row](int64_t value) {
    if (value == 0 && row.hides_zero) return std::string();
    return row.bytes ? BytesText(value) : absl::StrCat(value);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return MessageText(field, reflection->GetMessage(parent, field), zone);
    case FieldDescriptor::CPPTYPE_STRING:
      return Printable(reflection->GetString(parent, field));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection->GetEnumValue(parent, field) == 0
                 ? ""
                 : WordOf(*reflection->GetEnum(parent, field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection->GetBool(parent, field) ? row.word_for_true : "";
    case FieldDescriptor::CPPTYPE_INT32:
      return number(reflection->GetInt32(parent, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return number(reflection->GetInt64(parent, field));
    default:
      GOOGLE_LOG(FATAL) << "no text for a field like " << field->full_name();
      return "";
  }
}

}  // namespace

std::string ValueText(const Row& row, const Message& message, const std::string& otherwise,
                      const absl::TimeZone& zone) {
  std::string text;
  if (row.format) {
    text = row.format(message, zone);
  } else if (const Message* parent = ParentOf(message, row.path); parent != nullptr) {
    const FieldDescriptor* field = FieldOf(message.GetDescriptor(), row.path);
    if (field->is_map()) {
      text = PairsText(*parent, field);
    } else if (!field->has_presence() || parent->GetReflection()->HasField(*parent, field)) {
      text = FieldText(row, *parent, field, zone);
    }
  }
  if (text.empty()) return otherwise;
  return row.warns ? Paint(Colour::kYellow, text) : text;
}

std::string LinesText(const Rows& rows, const Message& message, const absl::TimeZone& zone) {
  std::vector<std::pair<std::string, std::string>> fields;
  for (const Row& row : rows) {
    if (row.line.empty()) continue;
    const std::string value = ValueText(row, message, row.line_otherwise, zone);
    fields.emplace_back(row.line, row.line == "state" ? PaintState(value) : value);
  }
  return FieldsText(fields);
}

std::string TableText(const Rows& rows, const std::vector<const Message*>& messages,
                      const absl::TimeZone& zone) {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> lines(messages.size());
  for (const Row& row : rows) {
    if (row.column.empty()) continue;
    header.push_back(row.column == " " ? "" : row.column);
    for (size_t i = 0; i < messages.size(); ++i) {
      const std::string value = ValueText(row, *messages[i], row.column_otherwise, zone);
      lines[i].push_back(row.column == "STATE" ? PaintState(value) : value);
    }
  }
  return TableText(header, lines);
}

bool Print(absl::string_view text) { return base::WriteOutput(text); }
void PrintError(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

ExitCode EndOutput(bool json, ExitCode code) {
  const absl::Status written = base::CloseOutput();
  if (written.ok()) return code;
  PrintError(json ? ErrorJson(written) : ErrorText(written, ""));
  return kNotWritten;
}

std::string ReasonText(const absl::Status& error, absl::string_view server) {
  const client::ErrorInfo info = client::GetErrorInfo(error);
  std::string text;
  if (!info.reason.empty()) {
    absl::StrAppend(&text, info.reason, ": ");
  } else if (absl::IsUnavailable(error)) {
    absl::StrAppend(&text, "cannot reach the server at ", server, ": ");
  } else if (absl::IsDeadlineExceeded(error)) {
    absl::StrAppend(&text, "no answer in time from the server at ", server, ": ");
  }
  absl::StrAppend(&text, Printable(error.message()));
  if (info.retry_delay.has_value()) {
    absl::StrAppend(&text, " (try again in ", FormatDurationText(*info.retry_delay), ")");
  }
  return text;
}

std::string ErrorText(const absl::Status& error, absl::string_view server) {
  return absl::StrCat("duetime: ", ReasonText(error, server), "\n");
}

ExitCode Fail(const Settings& settings, const absl::Status& failed) {
  if (failed == base::OutputStatus()) return kNotWritten;
  const absl::Status error = NamedConnectionError(settings.server, failed);
  const std::string text =
      settings.json ? ErrorJson(error) : ErrorText(error, settings.server.target);
  constexpr absl::string_view kName = "duetime:";
  absl::string_view rest = text;
  PrintError(absl::ConsumePrefix(&rest, kName) ? absl::StrCat(PaintError(Colour::kRed, kName), rest)
                                               : text);
  if (absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error)) return kNoAnswer;
  // A server's NOT_FOUND has a reason. A TLS file that cannot be read has none.
  const bool not_found = absl::IsNotFound(error) && !client::GetErrorInfo(error).reason.empty();
  return not_found ? kNotAsWished : kRefused;
}

bool ShowPage(const Settings& settings, const Message& page, const Rows& rows, bool first) {
  std::vector<const Message*> items;
  const auto* type = page.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    if (!type->field(i)->is_repeated()) continue;
    for (int j = 0; j < page.GetReflection()->FieldSize(page, type->field(i)); ++j) {
      items.push_back(&page.GetReflection()->GetRepeatedMessage(page, type->field(i), j));
    }
  }
  if (settings.json) {
    std::string lines;
    for (const Message* item : items) lines += JsonLine(*item);
    Print(lines);
  } else if (!items.empty()) {
    // Each page is a table of its own, because a long list is not held to find its widest cell.
    Print((first ? "" : "\n") + TableText(rows, items, settings.zone));
  }
  return !items.empty();
}

void ShowEndOfPages(const Settings& settings, const Message& rest, const std::string& token,
                    bool empty) {
  if (settings.json) {
    if (!token.empty()) Print(JsonLine(rest));
    return;
  }
  if (empty) PrintError(token.empty() ? "nothing\n" : "nothing on this page\n");
  if (!token.empty()) PrintError("there is more: --all, or --page-token " + token + "\n");
}

Rows PageRows() {
  return {Row("page_size", "--page-size", "Items on a page (default: the server's, 100)",
              {Range(1, 1'000)}),
          Row("page_token", "--page-token", "Continue after an earlier page"),
          Row("", "--all", "Print all pages", {Type(Row::Type::kFlag)})};
}

absl::Status FillMask(const google::protobuf::FieldMask& given, const std::string& resource,
                      google::protobuf::FieldMask* mask) {
  for (const std::string& path : given.paths()) {
    if (absl::StartsWith(path, resource + ".")) mask->add_paths(path.substr(resource.size() + 1));
  }
  return mask->paths().empty() ? absl::InvalidArgumentError("give at least one setting to change")
                               : absl::OkStatus();
}

}  // namespace duetime::cli
