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
  // MemberOptions::suspect_ms of the leader.
  uint64_t suspect_ms = 0;
};

// Four lines; later versions may add some. REQUIRES: name and address have no line break.
inline std::string EncodeLeader(const LeaderRecord& leader) {
  return absl::StrCat(leader.name, "\n", leader.address, "\n", leader.shards, "\n",
                      leader.suspect_ms);
}

inline std::optional<LeaderRecord> DecodeLeader(absl::string_view bytes) {
  const std::vector<absl::string_view> lines = absl::StrSplit(bytes, '\n');
  LeaderRecord leader;
  if (lines.size() < 4 || !absl::SimpleAtoi(lines[2], &leader.shards) ||
      !absl::SimpleAtoi(lines[3], &leader.suspect_ms)) {
    return std::nullopt;
  }
  leader.name = std::string(lines[0]);
  leader.address = std::string(lines[1]);
  return leader;
}

}  // namespace duetime::cell
