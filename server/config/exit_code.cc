// SPDX-License-Identifier: Apache-2.0
#include "server/config/exit_code.h"

#include "absl/strings/str_cat.h"

#include "server/base/error.h"

namespace duetime::config {
namespace {

constexpr ExitCodeText kExitCodes[] = {
    {ExitCode::kStopped, "stopped by a signal, or has printed what was asked for"},
    {ExitCode::kFailed, "an error without a code of its own; the log names it"},
    {ExitCode::kRecordsLost, "--repair wrote the new directory, but records are lost"},
    {ExitCode::kTornEnd,
     "--verify: intact, but the log has a torn end, in which acknowledged messages may have been"},
    {ExitCode::kDataDamaged, "bytes on disk are damaged or missing; a restart does not help"},
    {ExitCode::kNoStore, "the data directory is missing or empty, and --init was not given"},
    {ExitCode::kCannotListen, "an address cannot be bound"},
    {ExitCode::kInUse, "another process uses the data directory"},
    {ExitCode::kDiskError, "a read, write or sync failed, also of standard output"},
    {ExitCode::kRestart, "the disk was full or descriptors ran out, and that is over: restart"},
    {ExitCode::kConfiguration, "the configuration is wrong, or does not fit the data directory"},
};

}  // namespace

std::span<const ExitCodeText> ExitCodes() { return kExitCodes; }

ExitCode CodeOfFailedStart(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kDataLoss:
      return ExitCode::kDataDamaged;
    case absl::StatusCode::kNotFound:
      return ExitCode::kNoStore;
    case absl::StatusCode::kUnavailable:
      // An error with a detail is STORAGE_FAILED: a write or read of the start failed.
      return base::GetErrorDetail(status).has_value() ? ExitCode::kDiskError : ExitCode::kInUse;
    case absl::StatusCode::kInternal:
      return ExitCode::kDiskError;
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kInvalidArgument:
      return ExitCode::kConfiguration;
    default:
      return ExitCode::kFailed;
  }
}

std::string ExitCodesText() {
  std::string text = "Exit codes:";
  for (const ExitCodeText& exit : ExitCodes()) {
    absl::StrAppend(&text, "\n  ", static_cast<int>(exit.code), "  ", exit.meaning);
  }
  return text;
}

}  // namespace duetime::config
