// SPDX-License-Identifier: Apache-2.0
//
// LeaderRecord: who leads a cell, as an object in the state of every member.
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

struct LeaderRecord {
  // Empty: nobody leads.
  std::string name;
  // Where clients reach it.
  std::string address;
  uint32_t shards = 0;
};

// Three lines. REQUIRES: name and address have no line break.
inline std::string EncodeLeader(const LeaderRecord& leader) {
  return absl::StrCat(leader.name, "\n", leader.address, "\n", leader.shards);
}

inline std::optional<LeaderRecord> DecodeLeader(absl::string_view bytes) {
  const std::vector<absl::string_view> lines = absl::StrSplit(bytes, '\n');
  LeaderRecord leader;
  if (lines.size() != 3 || !absl::SimpleAtoi(lines[2], &leader.shards)) return std::nullopt;
  leader.name = std::string(lines[0]);
  leader.address = std::string(lines[1]);
  return leader;
}

}  // namespace duetime::cell
