// SPDX-License-Identifier: Apache-2.0
#include "server/cell/leader_search.h"

#include <cstdint>
#include <optional>

#include "server/cell/member_report.h"
#include "storage/journal_record.h"

namespace duetime::cell {

namespace {

// The address in the report of a leader; nullopt if the entry is none.
absl::StatusOr<std::optional<std::string>> LeaderOf(const LogEntry& entry, const LogPlace& place) {
  using Kind = storage::JournalRecordHead::Kind;
  const auto head = storage::DecodeJournalRecordHead(entry.bytes);
  if (!head.ok() || head->kind != Kind::kReport) return std::nullopt;
  if (place.epoch > 0 && head->log != place.log) {
    return absl::DataLossError(
        "this is not the log that this member has applied: it is that of another cell, or was made "
        "anew");
  }
  const auto report = DecodeReport(entry.bytes);
  if (!report.has_value() || !report->leads) return std::nullopt;
  return report->address;
}

}  // namespace

absl::StatusOr<std::string> FindLeader(Log* log, const LogPlace& place,
                                       const std::function<bool()>& stopped) {
  std::optional<uint64_t> next;
  while (!stopped()) {
    absl::Status status;
    if (!next.has_value()) {
      const absl::StatusOr<uint64_t> end = log->End();
      status = end.status();
      if (end.ok()) next = *end;
    } else {
      const absl::StatusOr<std::optional<LogEntry>> entry = log->Read(*next);
      status = entry.status();
      if (entry.ok() && entry->has_value()) {
        absl::StatusOr<std::optional<std::string>> leader = LeaderOf(**entry, place);
        if (!leader.ok()) return leader.status();
        if (leader->has_value()) return **std::move(leader);
        next = (*entry)->offset + 1;
      }
    }
    if (!status.ok() && !MayTryAgain(status)) return status;
  }
  return absl::CancelledError("stopped");
}

}  // namespace duetime::cell
