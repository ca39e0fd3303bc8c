// SPDX-License-Identifier: Apache-2.0
//
// ImportSource: the messages of a file, one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/cli/input_file.h"
#include "client/cli/time_text.h"
#include "duetime/v1/messages.pb.h"

namespace duetime::cli {

class ImportSource {
 public:
  virtual ~ImportSource() = default;

  // Moves to the next message. Returns false at the end, and after an error of the file.
  virtual bool Next() = 0;
  // The line at which the message begins, from 1.
  virtual int64_t line() const = 0;
  // What identifies the content of the message.
  virtual absl::string_view text() const = 0;
  // Reads the message: into `json`, for ParseJsonLines, if the source has proto3 JSON; else into
  // `request`. Both are empty. INVALID_ARGUMENT, with a text for people, if it is no message.
  virtual absl::Status Read(std::string* json, v1::ScheduleRequest* request) const = 0;
  // Whether the file could be read.
  virtual absl::Status status() const = 0;
  // As InputFile::Part.
  virtual std::optional<double> Part() const = 0;
};

// Adds the message of each text, or returns its error in the same place. Parses all texts at once
// if they are sound, because the parser of proto3 JSON takes longer to begin than for a message.
std::vector<absl::Status> ParseJsonLines(const std::vector<std::string>& texts,
                                         v1::ScheduleBatchRequest* batch);

// A message of a line: a ScheduleRequest in proto3 JSON. Empty lines are left out. With
// `text_payloads`, payloads are text and not base64.
std::unique_ptr<ImportSource> ReadJsonLines(std::unique_ptr<InputFile> file, bool text_payloads);

// A message of a row of CSV (RFC 4180). The first row has the names of the columns. Each of
// `columns` is FIELD=COLUMN; the fields are those of ScheduleRequest, and also labels.NAME,
// attributes.NAME, civil_time.local and so on. Without `columns`, the column names are the fields.
//
// An empty cell leaves its field unset. A payload is text. A time is a number of seconds since
// 1970, or as on the command line, in `zone`. A number that means a time more than a day ago is an
// error unless `allow_past`: as a rule it is a date of another form. Every row has as many cells as
// the first one. INVALID_ARGUMENT if a column is missing or names no field, or two name the same.
absl::StatusOr<std::unique_ptr<ImportSource>> ReadCsv(std::unique_ptr<InputFile> file,
                                                      const std::vector<std::string>& columns,
                                                      const LocalZone& zone, bool allow_past);

}  // namespace duetime::cli
