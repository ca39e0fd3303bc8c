// SPDX-License-Identifier: Apache-2.0
//
// One run of the daemon: starts and stops its parts in order.
#pragma once

#include <optional>

#include "server/config/exit_code.h"
#include "server/config/load.h"
#include "server/daemon/events.h"

namespace duetime {

// Serves until a signal or a failure. Returns nullopt if the member of a cell leads no more, or
// could not begin to, and should follow again: then call this again.
std::optional<config::ExitCode> Serve(const config::Loaded& loaded, const Invocation& invocation);

}  // namespace duetime
