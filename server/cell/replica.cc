// SPDX-License-Identifier: Apache-2.0
#include "server/cell/replica.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace duetime::cell {

using storage::JournalRecordHead;
using storage::RecordBatch;

absl::StatusOr<bool> Replica::Counts(const JournalRecordHead& head) const {
  const bool begins_epoch = head.kind == JournalRecordHead::Kind::kEpoch;
  const bool of_this_epoch = !begins_epoch && head.epoch > 0 && head.epoch == place_.epoch;
  const uint64_t epoch_max = begins_epoch ? place_.epoch + 1 : place_.epoch;
  const bool number_fits =
      head.number > place_.groups_before_epoch && head.number <= place_.groups + 1;
  if (head.epoch > epoch_max || (of_this_epoch && !number_fits)) {
    return absl::DataLossError(
        absl::StrCat("the log and this member contradict each other: an entry has epoch ",
                     head.epoch, " and number ", head.number, ", this member is at epoch ",
                     place_.epoch, " with ", place_.groups, " groups"));
  }
  if (begins_epoch) return head.epoch == epoch_max;
  return of_this_epoch && head.number == place_.groups + 1;
}

absl::StatusOr<std::optional<Replica::Entry>> Replica::Step() {
  if (!stopped_.ok()) return stopped_;
  const absl::StatusOr<std::optional<LogEntry>> read = log_->Read(place_.offset);
  if (!read.ok()) return read.status();
  if (!read->has_value()) return std::nullopt;
  absl::StatusOr<std::optional<Entry>> entry = Take(**read);
  if (!entry.ok()) stopped_ = entry.status();
  return entry;
}

absl::StatusOr<std::optional<Replica::Entry>> Replica::Take(const LogEntry& entry) {
  LogPlace next = place_;
  next.offset = entry.offset + 1;
  const absl::StatusOr<JournalRecordHead> head = storage::DecodeJournalRecordHead(entry.bytes);
  if (absl::IsDataLoss(head.status())) {
    place_ = next;
    return Entry{};
  }
  if (!head.ok()) return head.status();
  const absl::StatusOr<bool> counts = Counts(*head);
  if (!counts.ok()) return counts.status();
  if (!*counts) {
    place_ = next;
    return Entry{};
  }
  const absl::StatusOr<std::vector<RecordBatch>> group = storage::DecodeJournalGroup(entry.bytes);
  if (!group.ok()) return group.status();
  if (head->kind == JournalRecordHead::Kind::kEpoch) {
    next.epoch = head->epoch;
    next.groups_before_epoch = next.groups;
  } else {
    next.groups = head->number;
  }
  if (absl::Status status = state_->Apply(*group, next); !status.ok()) {
    return absl::InternalError(
        absl::StrCat("an entry of the log cannot be applied: ", status.ToString()));
  }
  place_ = next;
  return Entry{.counted = *head};
}

absl::Status Replica::CheckEnd(uint64_t end) {
  if (stopped_.ok() && end < place_.offset) {
    stopped_ = absl::DataLossError(absl::StrCat(
        "the log ends at ", end, ", before what this member has applied, at ", place_.offset));
  }
  return stopped_;
}

}  // namespace duetime::cell
