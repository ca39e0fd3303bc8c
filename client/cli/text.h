// SPDX-License-Identifier: Apache-2.0
//
// Text for a terminal: printable bytes, tables, lines, and charts of fixed width. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace duetime::cli {

bool IsUtf8(absl::string_view text);

// The most bytes of a payload, error or reason that one line shows.
inline constexpr size_t kShownBytesMax = 500;

// `bytes` on one line: UTF-8 text stays text, with line breaks and tabs as \n, \r and \t. Bytes
// that are not UTF-8, or that hold other control characters (which could take over the terminal),
// become "base64:...". Cuts text that is longer than `bytes_max` and says so.
std::string Printable(absl::string_view bytes, size_t bytes_max = std::string::npos);

// Columns as wide as their widest cell, two blanks apart; no blanks at the ends of lines. Every row
// has as many cells as the header. Widths count characters of UTF-8.
std::string TableText(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows);

// One line for each field, with the names in a column of their own. Omits fields with an empty
// value.
std::string FieldsText(const std::vector<std::pair<std::string, std::string>>& fields);

// Returns a bar of `#` for `value`: `width` characters for `max`, and at least one for a value
// above 0. REQUIRES: 0 <= value <= max.
std::string BarText(int64_t value, int64_t max, size_t width);

// One bar of a chart. A row without a label stands for `value` empty bars and is shown as one line.
struct ChartRow {
  std::string label;
  int64_t value = 0;
};

// One line for each row: label, value, and a bar in proportion to the largest value of a labelled
// row.
std::string ChartText(const std::vector<ChartRow>& rows);

// "0 B", "512 B", "1.5 KiB", "2.0 GiB".
std::string BytesText(int64_t bytes);

}  // namespace duetime::cli
