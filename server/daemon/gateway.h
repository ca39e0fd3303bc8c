// SPDX-License-Identifier: Apache-2.0
//
// The daemon as a gateway to several cells.
#pragma once

#include "server/config/exit_code.h"
#include "server/config/load.h"
#include "server/daemon/events.h"

namespace duetime {

// Serves until a signal ends it. Needs no data directory. REQUIRES: the configuration has cells.
config::ExitCode ServeGateway(const config::Loaded& loaded, const Invocation& invocation);

}  // namespace duetime
