// SPDX-License-Identifier: Apache-2.0
//
// IntoCell: a server becomes the first member of a new cell.
#pragma once

#include "server/config/config.h"
#include "server/config/exit_code.h"

namespace duetime {

// Runs `duetimed --into-cell`: gives the log of a new cell to a store that is used alone, so that
// the daemon starts as the cell's first member next time. Does nothing to a store that is in a cell
// already. Logs the outcome, and returns the exit code. REQUIRES: the configuration names brokers.
config::ExitCode IntoCell(const config::Config& config);

}  // namespace duetime
