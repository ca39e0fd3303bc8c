// SPDX-License-Identifier: Apache-2.0
#include "server/cell/prepare_log.h"

#include <optional>
#include <string>

#include "server/base/check.h"
#include "storage/journal_record.h"

namespace duetime::cell {

namespace {

// How often a call is repeated that may succeed later. A fetch from a log may also take as long as
// some reads without an entry.
constexpr int kAttempts = 50;

absl::Status InUseError() {
  return absl::FailedPreconditionError("the log is not new: it has, or had, entries");
}

// Of equal entries all mean the same, so the append is repeated until one of them is there.
absl::Status Append(Log* log, const std::string& entry) {
  absl::Status status = log->Append(entry).status();
  for (int i = 1; i < kAttempts && MayTryAgain(status); ++i) status = log->Append(entry).status();
  return status;
}

absl::StatusOr<LogEntry> FirstEntry(Log* log) {
  absl::Status status = absl::UnavailableError("the log does not show its first entry");
  for (int i = 0; i < kAttempts && MayTryAgain(status); ++i) {
    absl::StatusOr<std::optional<LogEntry>> read = log->Read(0);
    if (read.ok() && read->has_value()) return **std::move(read);
    if (!read.ok()) status = read.status();
  }
  return status;
}

}  // namespace

absl::StatusOr<storage::LogPlace> PrepareLog(Log* log, uint64_t epoch, uint64_t number) {
  DT_CHECK(epoch > 0);
  const absl::StatusOr<uint64_t> end = log->End();
  if (!end.ok()) return end.status();
  if (*end > 0) return InUseError();
  const std::string entry = storage::EncodeJournalRecord(
      {.kind = storage::JournalRecordHead::Kind::kReport, .epoch = epoch, .log = number}, {});
  if (absl::Status status = Append(log, entry); !status.ok()) return status;
  const absl::StatusOr<LogEntry> first = FirstEntry(log);
  if (!first.ok()) return first.status();
  if (first->bytes != entry) return InUseError();
  return storage::LogPlace{.offset = first->offset + 1, .epoch = epoch, .log = number};
}

}  // namespace duetime::cell
