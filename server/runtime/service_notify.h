// SPDX-License-Identifier: Apache-2.0
//
// Messages to systemd about the state of the service: sd_notify(3).
#pragma once

#include <cstdint>

#include "absl/strings/string_view.h"

namespace duetime::runtime {

// Sends lines such as "READY=1" to the socket that NOTIFY_SOCKET names. Does nothing without one.
// The protocol is one datagram, so libsystemd and its dependencies are not needed. Never blocks.
void NotifySupervisor(absl::string_view state);

// True if the supervisor ends a service that sends no "WATCHDOG=1" in time (WATCHDOG_USEC).
bool SupervisorWatches();

}  // namespace duetime::runtime
