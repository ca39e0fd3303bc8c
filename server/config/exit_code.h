// SPDX-License-Identifier: Apache-2.0
//
// ExitCode: every code with which the daemon ends.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"

namespace duetime::config {

// The values are those of sysexits.h where one fits. Supervisors know them, so they do not change.
// A failed check of the program itself ends it with SIGABRT instead.
enum class ExitCode : int {
  kStopped = 0,
  kFailed = 1,
  kRecordsLost = 2,
  kTornEnd = 3,
  kDataDamaged = 65,
  kNoStore = 66,
  kCannotListen = 69,
  kInUse = 73,
  kDiskError = 74,
  kRestart = 75,
  kConfiguration = 78,
};

struct ExitCodeText {
  ExitCode code;
  const char* meaning;
};

// All codes, in ascending order, each with its meaning and what to do.
std::span<const ExitCodeText> ExitCodes();

// The code of an error of the store or the node at the start.
ExitCode CodeOfFailedStart(const absl::Status& status);

// The table as lines of text, for --help.
std::string ExitCodesText();

}  // namespace duetime::config
