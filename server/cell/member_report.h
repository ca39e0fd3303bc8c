// SPDX-License-Identifier: Apache-2.0
//
// MemberReport: what a member says of itself in the log, for the other members and for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace duetime::cell {

struct MemberReport {
  // Identifies the member in its cell.
  std::string name;
  // Where clients and other members reach it.
  std::string address;
  bool leads = false;
  // After a power cut, the member needs the log from here on.
  uint64_t durable_offset = 0;
};

// Four lines; later versions may add some. REQUIRES: name and address have no line break.
inline std::string EncodeReport(const MemberReport& report) {
  return absl::StrCat(report.name, "\n", report.address, "\n", report.leads ? 1 : 0, "\n",
                      report.durable_offset);
}

inline std::optional<MemberReport> DecodeReport(absl::string_view bytes) {
  const std::vector<absl::string_view> lines = absl::StrSplit(bytes, '\n');
  MemberReport report;
  if (lines.size() < 4 || !absl::SimpleAtoi(lines[3], &report.durable_offset)) return std::nullopt;
  report.name = std::string(lines[0]);
  report.address = std::string(lines[1]);
  report.leads = lines[2] == "1";
  return report;
}

}  // namespace duetime::cell
