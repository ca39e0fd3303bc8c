// SPDX-License-Identifier: Apache-2.0
#include "client/cli/layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace duetime::cli {
namespace {

constexpr size_t kBarWidth = 50;

// Characters, not bytes: those that only continue a character do not count.
size_t WidthOf(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

std::string PadRight(absl::string_view text, size_t width) {
  return absl::StrCat(text, std::string(width - std::min(width, WidthOf(text)), ' '));
}

std::string PadLeft(absl::string_view text, size_t width) {
  return absl::StrCat(std::string(width - std::min(width, WidthOf(text)), ' '), text);
}

std::string LineOf(const std::vector<std::string>& cells, const std::vector<size_t>& widths) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : "  ", PadRight(cells[i], widths[i]));
  }
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(line), "\n");
}

}  // namespace

std::string TableText(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const std::string& cell : header) widths.push_back(WidthOf(cell));
  for (const std::vector<std::string>& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  std::string text = LineOf(header, widths);
  for (const std::vector<std::string>& row : rows) text += LineOf(row, widths);
  return text;
}

std::string FieldsText(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string text;
  for (const auto& [name, value] : fields) {
    if (!value.empty()) absl::StrAppendFormat(&text, "%-14s%s\n", name, value);
  }
  return text;
}

std::string BarText(int64_t value, int64_t max, size_t width) {
  if (value <= 0) return "";
  // In floating point: counts times widths may not fit into 64 bits.
  const double share = static_cast<double>(value) / static_cast<double>(max);
  const auto length = static_cast<size_t>(share * static_cast<double>(width) + 0.5);
  return std::string(std::max(length, size_t{1}), '#');
}

std::string ChartText(const std::vector<ChartRow>& rows) {
  int64_t max = 0;
  size_t label_width = 0;
  for (const ChartRow& row : rows) {
    if (row.label.empty()) continue;
    max = std::max(max, row.value);
    label_width = std::max(label_width, WidthOf(row.label));
  }
  const size_t value_width = absl::StrCat(max).size();
  std::string text;
  for (const ChartRow& row : rows) {
    if (row.label.empty()) {
      absl::StrAppend(&text, "... ", row.value, " empty ...\n");
      continue;
    }
    const std::string line = absl::StrCat(PadRight(row.label, label_width), "  ",
                                          PadLeft(absl::StrCat(row.value), value_width), "  ",
                                          BarText(row.value, max, kBarWidth));
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string BytesText(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    // What would be shown as 1024.0 is one of the next.
    if (value < 1023.95 && unit[0] != '\0') break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

}  // namespace duetime::cli
