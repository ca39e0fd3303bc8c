// SPDX-License-Identifier: Apache-2.0
//
// Tables, charts and lists of fields as text of fixed width. Pure: nothing is written here, and
// nothing is asked of a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace duetime::cli {

// Columns as wide as their widest cell, two blanks apart; no blanks at the ends of lines. Every row
// has as many cells as the header. Widths count characters of UTF-8.
std::string TableText(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows);

// A line each, "name" in a column of its own; what has an empty value is left out.
std::string FieldsText(const std::vector<std::pair<std::string, std::string>>& fields);

// `value` as a row of `#`, `width` of them for `max`. What is more than zero has at least one.
// REQUIRES: 0 <= value <= max.
std::string BarText(int64_t value, int64_t max, size_t width);

// One bar of a chart, or, without a label, `value` empty ones that are shown as one line.
struct ChartRow {
  std::string label;
  int64_t value = 0;
};

// A line each: label, value, and a bar that is in proportion to the largest value of a labelled
// row.
std::string ChartText(const std::vector<ChartRow>& rows);

// "0 B", "512 B", "1.5 KiB", "2.0 GiB".
std::string BytesText(int64_t bytes);

}  // namespace duetime::cli
