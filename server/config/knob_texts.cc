// SPDX-License-Identifier: Apache-2.0
//
// The part of the table of knobs that shows values.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "server/config/knobs.h"
#include "server/config/quantity.h"

namespace duetime::config {
namespace {

std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (const auto byte = static_cast<unsigned char>(c); absl::ascii_iscntrl(byte)) {
      absl::StrAppend(&out, "\\u", absl::Hex(byte, absl::kZeroPad4));
    } else {
      if (c == '\\' || c == '"') out.push_back('\\');
      out.push_back(c);
    }
  }
  return out + "\"";
}

}  // namespace

std::string FlagName(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

absl::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kMillis:
      return "ms";
    case Unit::kBytes:
      return "bytes";
    case Unit::kCount:
    case Unit::kNone:
      return "";
  }
  return "";
}

std::string ValueText(const Knob& knob, const Config& config) {
  struct Printer {
    std::string operator()(const std::string& text) const { return Quoted(text); }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(uint64_t number) const { return absl::StrCat(number); }
    std::string operator()(const std::vector<std::string>& texts) const {
      return absl::StrCat("[",
                          absl::StrJoin(texts, ", ",
                                        [](std::string* out, const std::string& item) {
                                          absl::StrAppend(out, Quoted(item));
                                        }),
                          "]");
    }
  };
  return std::visit([&](const auto& field) { return Printer()(field(config)); }, knob.field);
}

std::vector<std::pair<std::string, uint64_t>> Numbers(const Config& config) {
  std::vector<std::pair<std::string, uint64_t>> numbers;
  for (const Knob& knob : Knobs()) {
    if (const auto* number = knob.number()) numbers.emplace_back(knob.name, (*number)(config));
  }
  return numbers;
}

std::vector<std::string> Changed(const Config& before, const Config& after) {
  std::vector<std::string> names;
  for (const Knob& knob : Knobs()) {
    if (ValueText(knob, before) != ValueText(knob, after)) names.emplace_back(knob.name);
  }
  return names;
}

std::string BoundsText(const Knob& knob) {
  const Config defaults;
  const std::string value = ValueText(knob, defaults);
  std::string text;
  if (!UnitName(knob.unit).empty()) text = absl::StrCat(UnitName(knob.unit), ", ");
  absl::StrAppend(&text, "default ", value);
  if (const auto* number = knob.number()) {
    const std::string pretty = FormatQuantity((*number)(defaults), knob.unit);
    if (pretty != value) absl::StrAppend(&text, " (", pretty, ")");
    absl::StrAppend(&text, ", ", knob.min, " to ", knob.max);
  }
  if (knob.choices != nullptr) {
    absl::StrAppend(&text, ", one of ", absl::StrReplaceAll(knob.choices, {{"|", ", "}}));
  }
  return text;
}

}  // namespace duetime::config
