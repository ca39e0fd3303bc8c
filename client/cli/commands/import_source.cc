// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/import_source.h"

#include <algorithm>
#include <cctype>
#include <csv.h>
#include <deque>
#include <nlohmann/json.hpp>
#include <regex>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/json_util.h"

#include "client/cli/row.h"
#include "client/cli/text.h"
#include "client/cli/time_text.h"
#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

using google::protobuf::FieldDescriptor;

// More than any message may have.
constexpr size_t kCellBytesMax = 64 << 20;

// A zero byte ends the text for many programs, so it is in no text on purpose.
absl::Status CheckNoZero(absl::string_view text, absl::string_view what) {
  const size_t at = text.find('\0');
  return at == absl::string_view::npos ? absl::OkStatus()
                                       : absl::InvalidArgumentError(absl::StrCat(
                                             what, " has a zero byte behind \"",
                                             Printable(text.substr(0, at), kShownBytesMax), "\""));
}

class JsonLines : public ImportSource {
 public:
  JsonLines(std::unique_ptr<InputFile> file, bool text_payloads)
      : file_(std::move(file)), text_payloads_(text_payloads) {}

  bool Next() override {
    do {
      text_.clear();
      if (!file_->ReadLine(&text_)) return false;
      ++line_;
      absl::StripTrailingAsciiWhitespace(&text_);
    } while (text_.empty());
    return true;
  }
  int64_t line() const override { return line_; }
  absl::string_view text() const override { return text_; }
  absl::Status status() const override { return file_->status(); }
  std::optional<double> Part() const override { return file_->Part(); }

  absl::Status Read(std::string* json, v1::ScheduleRequest*) const override {
    if (absl::Status status = CheckNoZero(text_, "the line"); !status.ok()) return status;
    *json = text_;
    if (!text_payloads_) return absl::OkStatus();
    nlohmann::json object = nlohmann::json::parse(text_, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) return absl::InvalidArgumentError("this is no JSON object");
    if (const auto payload = object.find("payload"); payload != object.end()) {
      if (!payload->is_string()) return absl::InvalidArgumentError("the payload is no text");
      *payload = absl::Base64Escape(payload->get<std::string>());
    }
    *json = object.dump();
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<InputFile> file_;
  const bool text_payloads_;
  std::string text_;
  int64_t line_ = 0;
};

// The field that a column sets.
struct MappedColumn {
  size_t cell = 0;
  std::string name;
  // The path to the field; of a map, to the map.
  std::string path{};
  const FieldDescriptor* field = nullptr;
  // The key in a map.
  std::string key{};
};

// Finds the field of a path such as "civil_time.local" or "labels.city".
absl::Status FindField(const std::string& path, MappedColumn* column) {
  const auto* type = v1::ScheduleRequest::descriptor();
  std::string parent;
  absl::string_view rest = path;
  while (type != nullptr) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(rest, absl::MaxSplits('.', 1));
    const FieldDescriptor* field = type->FindFieldByName(std::string(parts.first));
    if (field == nullptr) break;
    column->path = absl::StrCat(parent, parts.first);
    column->field = field;
    if (field->is_map()) {
      column->key = std::string(parts.second);
      if (column->key.empty()) break;
      return absl::OkStatus();
    }
    const auto* below = field->message_type();
    const bool is_leaf = below == nullptr || below == google::protobuf::Timestamp::descriptor() ||
                         below == google::protobuf::Duration::descriptor();
    if (is_leaf && parts.second.empty()) return absl::OkStatus();
    type = is_leaf ? nullptr : below;
    parent = column->path + ".";
    rest = parts.second;
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", path, "\" is no field of a message"));
}

// How the cells of times are read.
struct TimeCells {
  LocalZone zone;
  bool allow_past = false;
};

absl::StatusOr<absl::Time> ReadTime(const std::string& cell, const TimeCells& cells) {
  static const auto& number = *new std::regex("[+-]?\\d{1,12}(\\.\\d{1,12})?");
  double seconds = 0;
  if (std::regex_match(cell, number) && absl::SimpleAtod(cell, &seconds)) {
    const absl::Time time = absl::UnixEpoch() + absl::Seconds(seconds);
    if (cells.allow_past || !IsLongPast(time, absl::Now())) return time;
    // A spreadsheet's number of days, a date without its dashes, or a mark for "none".
    return absl::InvalidArgumentError(absl::StrCat("\"", cell, "\" seconds since 1970 are ",
                                                   FormatTimeText(time, absl::UTCTimeZone()), ": ",
                                                   kAllowPastAdvice));
  }
  std::string text = cell;
  // PostgreSQL prints +00 for +00:00.
  if (text.size() > 3 && (text[text.size() - 3] == '+' || text[text.size() - 3] == '-') &&
      text.find(':') != std::string::npos) {
    text += ":00";
  }
  return ParseMomentText(text, std::nullopt, cells.zone, absl::Now());
}

absl::Status SetCell(const MappedColumn& column, const std::string& cell, const TimeCells& times,
                     v1::ScheduleRequest* request) {
  if (absl::Status status = CheckNoZero(cell, "the cell"); !status.ok()) return status;
  const FieldDescriptor* field = column.field;
  const FieldDescriptor* top =
      request->GetDescriptor()->FindFieldByName(column.path.substr(0, column.path.find('.')));
  if (const auto* oneof = top->real_containing_oneof(); oneof != nullptr) {
    const FieldDescriptor* set = request->GetReflection()->GetOneofFieldDescriptor(*request, oneof);
    if (set != nullptr && set != top) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", cell, "\" is not the only one: the row has ", set->name(), ", too"));
    }
  }
  Message* const parent = MutableParentOf(request, column.path);
  const auto* reflection = parent->GetReflection();
  if (field->is_map()) {
    Message* pair = reflection->AddMessage(parent, field);
    pair->GetReflection()->SetString(pair, field->message_type()->map_key(), column.key);
    pair->GetReflection()->SetString(pair, field->message_type()->map_value(), cell);
    return absl::OkStatus();
  }
  if (field->message_type() == google::protobuf::Timestamp::descriptor()) {
    const auto time = ReadTime(cell, times);
    if (time.ok()) reflection->MutableMessage(parent, field)->CopyFrom(client::ToProto(*time));
    return time.status();
  }
  if (field->message_type() == google::protobuf::Duration::descriptor()) {
    const auto duration = ParseDurationText(cell);
    if (duration.ok()) {
      reflection->MutableMessage(parent, field)->CopyFrom(client::ToProto(*duration));
    }
    return duration.status();
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    reflection->SetString(parent, field, cell);
    return absl::OkStatus();
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const std::string word = absl::AsciiStrToLower(cell);
    for (int i = 0; i < field->enum_type()->value_count(); ++i) {
      const auto* value = field->enum_type()->value(i);
      if (cell != value->name() && word != WordOf(*value, '-')) continue;
      reflection->SetEnum(parent, field, value);
      return absl::OkStatus();
    }
  } else if (bool flag = false; absl::SimpleAtob(cell, &flag)) {
    reflection->SetBool(parent, field, flag);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("\"", cell, "\" is no value of ", column.path));
}

class CsvRows : public ImportSource {
 public:
  CsvRows(std::unique_ptr<InputFile> file, TimeCells times)
      : file_(std::move(file)), times_(std::move(times)) {
    csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI);
    // Blanks belong to the cells.
    csv_set_space_func(&parser_, [](unsigned char) { return 0; });
  }
  ~CsvRows() override { csv_free(&parser_); }

  // Reads the names of the columns, and finds their fields.
  absl::Status ReadHeader(const std::vector<std::string>& wanted) {
    if (!Next()) {
      return status().ok() ? absl::InvalidArgumentError("there is no row with column names")
                           : status();
    }
    const std::vector<std::string>& names = cells_;
    width_ = names.size();
    if (wanted.empty()) {
      for (size_t i = 0; i < names.size(); ++i) {
        if (absl::Status added = Add(names[i], i, names); !added.ok()) return added;
      }
    }
    for (const std::string& pair : wanted) {
      const size_t equals = pair.find('=');
      if (equals == std::string::npos) {
        return absl::InvalidArgumentError("--column \"" + pair +
                                          "\" is not of the form FIELD=COLUMN");
      }
      const std::string wanted_name = pair.substr(equals + 1);
      const auto name = std::find(names.begin(), names.end(), wanted_name);
      if (std::count(names.begin(), names.end(), wanted_name) > 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("there are several columns \"", wanted_name, "\""));
      }
      if (name == names.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "there is no column \"", wanted_name, "\"; there are ", absl::StrJoin(names, ", ")));
      }
      const size_t cell = static_cast<size_t>(name - names.begin());
      if (absl::Status added = Add(pair.substr(0, equals), cell, names); !added.ok()) return added;
    }
    return absl::OkStatus();
  }

  bool Next() override {
    while (rows_.empty()) {
      if (ended_) return false;
      ReadOn();
    }
    cells_ = std::move(rows_.front().cells);
    line_ = rows_.front().line;
    rows_.pop_front();
    text_ = absl::StrJoin(cells_, "\n");
    return true;
  }
  int64_t line() const override { return line_; }
  absl::string_view text() const override { return text_; }
  absl::Status status() const override { return status_.ok() ? file_->status() : status_; }
  std::optional<double> Part() const override { return file_->Part(); }

  absl::Status Read(std::string*, v1::ScheduleRequest* request) const override {
    if (cells_.size() != width_) {
      return absl::InvalidArgumentError(absl::StrCat("the row has ", cells_.size(),
                                                     " cells, the first row has ", width_,
                                                     "; a cell with a comma needs quotes"));
    }
    for (const MappedColumn& column : columns_) {
      const std::string& cell = cells_[column.cell];
      if (cell.empty()) continue;
      if (absl::Status set = SetCell(column, cell, times_, request); !set.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat("column \"", column.name, "\": ", set.message()));
      }
    }
    return absl::OkStatus();
  }

 private:
  // Reads a line, which need not be a whole row.
  void ReadOn() {
    std::string line;
    // A cell that is open has at least a line break.
    const bool in_row = !open_.empty() || parser_.entry_pos > 0;
    if (file_->ReadLine(&line)) {
      ++lines_read_;
      if (!in_row) row_line_ = lines_read_;
      const size_t read = csv_parse(&parser_, line.data(), line.size(), AddCell, AddRow, this);
      if (read < line.size()) End("a quote is in the wrong place");
      if (parser_.entry_pos > kCellBytesMax) End("a cell is too large; a quote may be missing");
    } else {
      ended_ = true;
      if (csv_fini(&parser_, AddCell, AddRow, this) != 0) End("a quote is missing");
    }
  }
  void End(absl::string_view why) {
    ended_ = true;
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "cannot read on: line ", lines_read_, ", in the row of line ", row_line_, ": ", why));
  }

  static void AddCell(void* bytes, size_t size, void* self) {
    static_cast<CsvRows*>(self)->open_.emplace_back(static_cast<const char*>(bytes), size);
  }
  static void AddRow(int, void* self) {
    auto* rows = static_cast<CsvRows*>(self);
    rows->rows_.push_back({.line = rows->row_line_, .cells = std::exchange(rows->open_, {})});
  }

  absl::Status Add(const std::string& path, size_t cell, const std::vector<std::string>& names) {
    MappedColumn column{.cell = cell, .name = names[cell]};
    if (absl::Status found = FindField(path, &column); !found.ok()) return found;
    for (const MappedColumn& other : columns_) {
      if (other.path != column.path || other.key != column.key) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("columns ", other.cell + 1, " and ", cell + 1, " are both \"", path, "\""));
    }
    columns_.push_back(std::move(column));
    return absl::OkStatus();
  }

  const std::unique_ptr<InputFile> file_;
  const TimeCells times_;
  csv_parser parser_{};
  std::vector<MappedColumn> columns_;
  // The row that is not complete.
  std::vector<std::string> open_;
  struct NumberedRow {
    int64_t line;
    std::vector<std::string> cells;
  };
  std::deque<NumberedRow> rows_;
  // The number of columns.
  size_t width_ = 0;
  std::vector<std::string> cells_;
  std::string text_;
  int64_t line_ = 0;
  int64_t lines_read_ = 0;
  // Where the row that is read begins.
  int64_t row_line_ = 0;
  bool ended_ = false;
  absl::Status status_;
};

}  // namespace

std::vector<absl::Status> ParseJsonLines(const std::vector<std::string>& texts,
                                         v1::ScheduleBatchRequest* batch) {
  std::vector<absl::Status> statuses(texts.size());
  // Two texts that are no objects could make one object together.
  const bool objects = std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return absl::StartsWith(text, "{") && absl::EndsWith(text, "}");
  });
  v1::ScheduleBatchRequest all;
  const auto parse = [](const std::string& json, google::protobuf::Message* message) {
    return google::protobuf::util::JsonStringToMessage(json, message);
  };
  if (objects &&
      parse(absl::StrCat("{\"messages\":[", absl::StrJoin(texts, ",\n"), "]}"), &all).ok() &&
      all.messages_size() == static_cast<int>(texts.size())) {
    batch->MergeFrom(all);
    return statuses;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    v1::ScheduleRequest request;
    const auto status = parse(texts[i], &request);
    if (status.ok()) {
      *batch->add_messages() = std::move(request);
    } else {
      statuses[i] = absl::InvalidArgumentError(std::string(status.message()));
    }
  }
  return statuses;
}

std::unique_ptr<ImportSource> ReadJsonLines(std::unique_ptr<InputFile> file, bool text_payloads) {
  return std::make_unique<JsonLines>(std::move(file), text_payloads);
}

absl::StatusOr<std::unique_ptr<ImportSource>> ReadCsv(std::unique_ptr<InputFile> file,
                                                      const std::vector<std::string>& columns,
                                                      const LocalZone& zone, bool allow_past) {
  auto rows =
      std::make_unique<CsvRows>(std::move(file), TimeCells{.zone = zone, .allow_past = allow_past});
  if (absl::Status status = rows->ReadHeader(columns); !status.ok()) return status;
  return rows;
}

}  // namespace duetime::cli
