// SPDX-License-Identifier: Apache-2.0
#include "server/cell/member_report.h"

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "storage/journal_record.h"
#include "storage/types.h"

namespace duetime::cell {

using storage::JournalRecordHead;
using storage::RecordBatch;

std::string EncodeReport(const MemberReport& report, const LogPlace& place) {
  const std::vector<RecordBatch> group = {
      {{.type = storage::RecordType::kObject,
        .shard = storage::kNoShard,
        .kind = static_cast<uint8_t>(storage::ObjectKind::kCell),
        .name = "report",
        .value = absl::StrCat(
            report.name, "\n", report.address, "\n", report.leads ? 1 : 0, "\n",
            report.durable_offset, "\n", report.wall_ms, "\n",
            report.ahead_most_ms.has_value() ? absl::StrCat(*report.ahead_most_ms) : "", "\n",
            report.disk_low ? 1 : 0)}}};
  return storage::EncodeJournalRecord({.kind = JournalRecordHead::Kind::kReport,
                                       .epoch = place.epoch,
                                       .number = place.groups,
                                       .log = place.log},
                                      group);
}

std::optional<MemberReport> DecodeReport(absl::string_view bytes) {
  const absl::StatusOr<std::vector<RecordBatch>> group = storage::DecodeJournalGroup(bytes);
  if (!group.ok() || group->size() != 1 || group->front().size() != 1) return std::nullopt;
  const std::vector<absl::string_view> lines = absl::StrSplit(group->front().front().value, '\n');
  MemberReport report;
  if (lines.size() < 4 || !absl::SimpleAtoi(lines[3], &report.durable_offset)) return std::nullopt;
  report.name = std::string(lines[0]);
  report.address = std::string(lines[1]);
  report.leads = lines[2] == "1";
  // Older programs do not tell.
  int64_t ahead_most_ms = 0;
  if (lines.size() < 6 || !absl::SimpleAtoi(lines[4], &report.wall_ms)) report.wall_ms = 0;
  if (lines.size() >= 6 && absl::SimpleAtoi(lines[5], &ahead_most_ms)) {
    report.ahead_most_ms = ahead_most_ms;
  }
  report.disk_low = lines.size() >= 7 && lines[6] == "1";
  return report;
}

}  // namespace duetime::cell
