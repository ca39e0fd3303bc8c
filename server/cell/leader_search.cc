// SPDX-License-Identifier: Apache-2.0
#include "server/cell/leader_search.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "server/cell/member_report.h"
#include "storage/journal_record.h"

namespace duetime::cell {

namespace {

// The address in the report of a leader.
std::optional<std::string> LeaderOf(const LogEntry& entry) {
  using Kind = storage::JournalRecordHead::Kind;
  const auto head = storage::DecodeJournalRecordHead(entry.bytes);
  if (!head.ok() || head->kind != Kind::kReport) return std::nullopt;
  const auto group = storage::DecodeJournalGroup(entry.bytes);
  if (!group.ok() || group->size() != 1 || group->front().size() != 1) return std::nullopt;
  const auto report = DecodeReport(group->front().front().value);
  if (!report.has_value() || !report->leads) return std::nullopt;
  return report->address;
}

}  // namespace

absl::StatusOr<std::string> FindLeader(Log* log, const std::function<bool()>& stopped) {
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
        if (auto leader = LeaderOf(**entry)) return *std::move(leader);
        next = (*entry)->offset + 1;
      }
    }
    if (!status.ok() && !absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) {
      return status;
    }
  }
  return absl::CancelledError("stopped");
}

}  // namespace duetime::cell
