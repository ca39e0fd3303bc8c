// SPDX-License-Identifier: Apache-2.0
#include "client/cli/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

#include "client/cli/terminal/colour.h"

namespace duetime::cli {
namespace {

constexpr size_t kBarWidth = 50;

// Counts characters, not bytes: a byte that continues a character does not count, nor does a
// colour.
size_t WidthOf(absl::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    if (ConsumeColour(&text)) continue;
    if ((static_cast<unsigned char>(text.front()) & 0xC0) != 0x80) ++width;
    text.remove_prefix(1);
  }
  return width;
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

// Returns the size in bytes of the UTF-8 character at the front of `text`, or 0 if there is none.
size_t NextCharacter(absl::string_view text, uint32_t* code_point) {
  const auto lead = static_cast<unsigned char>(text[0]);
  *code_point = lead;
  if (lead < 0x80) return 1;
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  *code_point = lead & (0xFFu >> (size + 1));
  for (const char c : text.substr(1, size - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) != 0x80) return 0;
    *code_point = (*code_point << 6) | (byte & 0x3F);
  }
  // The smallest code point that needs `size` bytes.
  const uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  const bool surrogate = *code_point >= 0xD800 && *code_point <= 0xDFFF;
  return *code_point < least || surrogate || *code_point > 0x10FFFF ? 0 : size;
}

// Returns false if `text` is not UTF-8.
bool CheckText(absl::string_view text, bool* has_control) {
  *has_control = false;
  while (!text.empty()) {
    uint32_t code_point = 0;
    const size_t size = NextCharacter(text, &code_point);
    if (size == 0) return false;
    const bool spacing = code_point == '\n' || code_point == '\r' || code_point == '\t';
    if ((code_point < 0x20 && !spacing) || (code_point >= 0x7F && code_point < 0xA0)) {
      *has_control = true;
    }
    text.remove_prefix(size);
  }
  return true;
}

// Cuts `text`, which is UTF-8, to at most `bytes_max` bytes at a character boundary.
absl::string_view CutAtCharacter(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && (static_cast<unsigned char>(text[bytes_max]) & 0xC0) == 0x80) --bytes_max;
  return text.substr(0, bytes_max);
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  bool has_control = false;
  return CheckText(text, &has_control);
}

std::string Printable(absl::string_view bytes, size_t bytes_max) {
  bool has_control = false;
  const bool is_text = CheckText(bytes, &has_control) && !has_control;
  std::string shown = is_text
                          ? absl::StrReplaceAll(CutAtCharacter(bytes, bytes_max),
                                                {{"\n", "\\n"}, {"\r", "\\r"}, {"\t", "\\t"}})
                          : absl::StrCat("base64:", absl::Base64Escape(bytes.substr(0, bytes_max)));
  if (bytes.size() > bytes_max) absl::StrAppend(&shown, " ... (", bytes.size(), " bytes)");
  return shown;
}

std::string TableText(const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  widths.reserve(header.size());
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
  // Floating point, because a count times a width may not fit into 64 bits.
  const double share = static_cast<double>(value) / static_cast<double>(max);
  const auto length = static_cast<size_t>(std::lround(share * static_cast<double>(width)));
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
    // A value that would be shown as 1024.0 gets the next unit.
    if (value < 1023.95 && unit[0] != '\0') break;
    value /= 1024;
    unit = next;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

}  // namespace duetime::cli
