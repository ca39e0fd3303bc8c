// SPDX-License-Identifier: Apache-2.0
//
// The commands: each does one thing with the server, prints the result, and returns the exit code.
#pragma once

#include "absl/status/status.h"

#include "client/cli/arguments.h"

namespace duetime::cli {

// Results go to stdout, errors to stderr.
ExitCode Run(const Settings& settings, const ScheduleArguments& arguments);
ExitCode Run(const Settings& settings, const CancelArguments& arguments);
ExitCode Run(const Settings& settings, const GetArguments& arguments);
ExitCode Run(const Settings& settings, const InfoArguments& arguments);
// Until it has enough, is interrupted (SIGINT, SIGTERM), or cannot go on. REQUIRES: called on the
// main thread, before any other thread was started, since the signals are blocked for all.
ExitCode Run(const Settings& settings, const SubscribeArguments& arguments);

// Prints the error and returns the exit code for it.
ExitCode Fail(const Settings& settings, const absl::Status& error);

}  // namespace duetime::cli
