// SPDX-License-Identifier: Apache-2.0
#include "server/cell/replica.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace duetime::cell {

using storage::JournalRecordHead;
using storage::RecordBatch;
using Kind = JournalRecordHead::Kind;

absl::Status Replica::Begin() {
  if (!stopped_.ok() || begun_) return stopped_;
  if (place_.offset == 0) {
    begun_ = true;
    return absl::OkStatus();
  }
  const absl::StatusOr<std::optional<LogEntry>> last = log_->Read(place_.offset - 1);
  if (!last.ok()) return last.status();
  if (!last->has_value()) {
    const absl::StatusOr<uint64_t> end = log_->End();
    if (!end.ok()) return end.status();
    if (absl::Status status = CheckEnd(*end); !status.ok()) return status;
    return absl::UnavailableError("the log does not show yet what this member has applied last");
  }
  const auto head = storage::DecodeJournalRecordHead((*last)->bytes);
  const bool is_it = (*last)->offset + 1 == place_.offset && head.ok() && head->log == place_.log &&
                     head->epoch == place_.epoch &&
                     (head->kind == Kind::kGroup ? head->number == place_.groups
                                                 : place_.groups == place_.groups_before_epoch);
  if (!is_it) {
    stopped_ = absl::DataLossError(
        absl::StrCat("this is not the log that this member has applied: entry ", place_.offset - 1,
                     " is another one. Is it the right topic, and was it made anew?"));
  }
  begun_ = is_it;
  return stopped_;
}

void Replica::TakeReport(const LogEntry& entry, const JournalRecordHead& head) {
  if (roster_ == nullptr || head.log != place_.log) return;
  if (auto report = DecodeReport(entry.bytes)) {
    roster_->Note({.report = *std::move(report),
                   .epoch = head.epoch,
                   .groups = head.number,
                   .report_ms = entry.time_ms});
  }
}

absl::StatusOr<bool> Replica::Counts(const JournalRecordHead& head) const {
  const bool begins_epoch = head.kind == Kind::kEpoch;
  // Two members may have begun the log at once. The first epoch counted.
  if (begins_epoch && head.epoch == 1) return place_.epoch == 0;
  const bool of_this_epoch = !begins_epoch && head.epoch > 0 && head.epoch == place_.epoch;
  const uint64_t epoch_max = begins_epoch ? place_.epoch + 1 : place_.epoch;
  const bool number_fits =
      head.number > place_.groups_before_epoch && head.number <= place_.groups + 1;
  if (place_.epoch > 0 && head.log != place_.log) {
    return absl::DataLossError("the log has an entry of another cell");
  }
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
  if (absl::Status status = Begin(); !status.ok()) return status;
  const absl::StatusOr<std::optional<LogEntry>> read = log_->Read(place_.offset);
  if (!read.ok()) return read.status();
  if (!read->has_value()) return std::nullopt;
  if (roster_ != nullptr) {
    roster_->NoteTime((*read)->time_ms, clock_ == nullptr ? 0 : clock_->Read().wall_up_ms());
  }
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
  if (head->kind == Kind::kReport) {
    // Its author has read an epoch that the log does not have (PrepareLog).
    if (place_.epoch == 0 && head->epoch > 0) {
      return absl::OutOfRangeError(
          "the log begins after the end of a store, and this member has no copy of that store");
    }
    TakeReport(entry, *head);
    place_ = next;
    return Entry{};
  }
  const absl::StatusOr<bool> counts = Counts(*head);
  if (!counts.ok()) return counts.status();
  if (!*counts) {
    place_ = next;
    return Entry{};
  }
  const absl::StatusOr<std::vector<RecordBatch>> group = storage::DecodeJournalGroup(entry.bytes);
  if (!group.ok()) return group.status();
  if (head->kind == Kind::kEpoch) {
    next.log = head->log;
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
