// SPDX-License-Identifier: Apache-2.0
#include "server/cell/replicated_journal.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "storage/message_id.h"

namespace duetime::cell {

using storage::AppendOutcome;
using storage::JournalRecordHead;
using Kind = storage::JournalRecordHead::Kind;

namespace {

absl::Status StoppedError() { return absl::CancelledError("the journal was stopped"); }

}  // namespace

absl::Status ReplicatedJournal::Lead(const std::optional<LogPlace>& from) {
  if (has_led_) return absl::FailedPreconditionError("a journal leads once");
  const LogPlace before = replica_->place();
  absl::Status followed = Follow();
  while (MayTryAgain(followed)) {
    if (Stopped()) return StoppedError();
    followed = Follow();
  }
  if (!followed.ok()) return followed;
  const LogPlace& now = replica_->place();
  if (from.has_value() && (now.epoch != from->epoch || now.groups != from->groups)) {
    return absl::AbortedError("the log has gone on");
  }
  if (replica_->place().epoch >= storage::MessageId::kEpochMax) {
    return absl::FailedPreconditionError("the cell has used up its epochs");
  }
  const JournalRecordHead head = {
      .kind = Kind::kEpoch,
      .epoch = replica_->place().epoch + 1,
      .number = random_(),
      .log = replica_->place().epoch == 0 ? random_() : replica_->place().log};
  const absl::StatusOr<Outcome> outcome = Write(head, {});
  if (!outcome.ok()) return outcome.status();
  // A later epoch may have begun since.
  if (*outcome == Outcome::kRefused || replica_->place().epoch != head.epoch) {
    return absl::AbortedError("another epoch began");
  }
  // Another leader lived until now.
  if (replica_->place().groups != before.groups || head.epoch != before.epoch + 1) {
    serve_from_ms_.store(MonoMs() + pulse_.serve_for_ms);
  }
  leads_ = head.epoch;
  serve_until_ms_.store(last_begun_ms_ + pulse_.serve_for_ms);
  has_led_ = true;
  return absl::OkStatus();
}

AppendOutcome ReplicatedJournal::Append(std::span<const storage::RecordBatch> group,
                                        storage::Durability /*durability*/) {
  if (!leads_.has_value()) return AppendOutcome::kFenced;
  const JournalRecordHead head = {.kind = Kind::kGroup,
                                  .epoch = *leads_,
                                  .number = replica_->place().groups + 1,
                                  .log = replica_->place().log};
  const absl::StatusOr<Outcome> outcome = Write(head, group);
  if (outcome.ok() && *outcome == Outcome::kCounts) {
    // Another epoch may have begun after the group.
    if (leads_.has_value()) serve_until_ms_.store(last_begun_ms_ + pulse_.serve_for_ms);
    PostReport();
    return AppendOutcome::kAccepted;
  }
  StopLeading();
  return outcome.ok() ? AppendOutcome::kFenced : AppendOutcome::kUnknown;
}

void ReplicatedJournal::Report(MemberReport report) {
  const base::MutexLock lock(&mutex_);
  report_ = std::move(report);
  has_report_.store(true);
}

void ReplicatedJournal::PostReport() {
  // Before its first epoch a log has no number.
  if (!has_report_.load() || replica_->place().epoch == 0) return;
  std::optional<MemberReport> report;
  {
    const base::MutexLock lock(&mutex_);
    report = std::exchange(report_, std::nullopt);
    has_report_.store(false);
  }
  // Not after StopServing.
  report->leads = leads_.has_value() && MayServe(MonoMs());
  report->wall_ms = pulse_.clock == nullptr ? 0 : pulse_.clock->Read().wall_ms;
  log_->Post(EncodeReport(*report, replica_->place()));
}

void ReplicatedJournal::StopLeading() {
  leads_.reset();
  serve_until_ms_.store(0);
}

bool ReplicatedJournal::MayServe(uint64_t mono_ms) const {
  return pulse_.clock == nullptr ||
         (mono_ms >= serve_from_ms_.load() && mono_ms < serve_until_ms_.load());
}

absl::Status ReplicatedJournal::Follow() {
  if (absl::Status status = replica_->Begin(); !status.ok()) return status;
  const absl::StatusOr<uint64_t> end = log_->End();
  if (!end.ok()) return end.status();
  // No entry is waited for, so none is refused.
  Outcome outcome = Outcome::kCounts;
  return ReadTo(*end, JournalRecordHead{}, &outcome);
}

absl::StatusOr<ReplicatedJournal::Outcome> ReplicatedJournal::Write(
    const JournalRecordHead& head, std::span<const storage::RecordBatch> group) {
  const std::string bytes = storage::EncodeJournalRecord(head, group);
  Outcome outcome = Outcome::kOpen;
  // The first attempt: its entry may be the one that counts, and which the others have seen.
  last_begun_ms_ = MonoMs();
  while (!Stopped()) {
    const absl::StatusOr<uint64_t> written = log_->Append(bytes);
    if (!written.ok() && !MayTryAgain(written.status())) return written.status();
    // After an error another epoch may have begun.
    const absl::StatusOr<uint64_t> end = written.ok() ? *written + 1 : log_->End();
    if (!end.ok()) {
      if (MayTryAgain(end.status())) continue;
      return end.status();
    }
    if (absl::Status status = ReadTo(*end, head, &outcome); !status.ok()) return status;
    if (outcome == Outcome::kRefused || (outcome == Outcome::kCounts && written.ok()))
      return outcome;
  }
  return StoppedError();
}

absl::Status ReplicatedJournal::ReadTo(uint64_t end, const JournalRecordHead& head,
                                       Outcome* outcome) {
  if (absl::Status status = replica_->CheckEnd(end); !status.ok()) return status;
  while (*outcome != Outcome::kRefused && replica_->place().offset < end) {
    if (Stopped()) return StoppedError();
    const auto entry = replica_->Step();
    if (MayTryAgain(entry.status())) continue;
    if (!entry.ok()) return entry.status();
    if (!entry->has_value() || !(*entry)->counted.has_value()) continue;
    const JournalRecordHead& read = *(*entry)->counted;
    if (read == head) {
      *outcome = Outcome::kCounts;
    } else if (read.kind == Kind::kEpoch) {
      StopLeading();
      if (*outcome == Outcome::kOpen) *outcome = Outcome::kRefused;
    }
  }
  return absl::OkStatus();
}

}  // namespace duetime::cell
