// SPDX-License-Identifier: Apache-2.0
//
// MemberReport: what a member says of itself in the log, for the other members and for people.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "server/cell/applied_state.h"

namespace duetime::cell {

struct MemberReport {
  // Identifies the member in its cell.
  std::string name;
  // Where clients and other members reach it.
  std::string address;
  bool leads = false;
  // After a power cut, the member needs the log from here on.
  uint64_t durable_offset = 0;
  // The member's wall clock when it gave the report to the log. 0: not known.
  uint64_t wall_ms = 0;
  // By the entries that the member has read since its last report, its wall clock was ahead of the
  // log's by at most this.
  std::optional<int64_t> ahead_most_ms = std::nullopt;
  // The member's disk has too little room for new messages.
  bool disk_low = false;
};

// The bytes of an entry of the log (JournalRecordHead::Kind::kReport) from a member at `place`.
// Later versions may add to them. REQUIRES: name and address have no line break.
std::string EncodeReport(const MemberReport& report, const LogPlace& place);

// REQUIRES: DecodeJournalRecordHead has accepted the bytes as kReport.
std::optional<MemberReport> DecodeReport(absl::string_view bytes);

}  // namespace duetime::cell
