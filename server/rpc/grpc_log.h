// SPDX-License-Identifier: Apache-2.0
//
// gRPC's own messages, in the daemon's log.
#pragma once

namespace duetime::rpc {

// Sends gRPC's log lines to the daemon's log instead of stderr. gRPC's errors become warnings,
// because most of them report connections that failed at the other end. Limits them by LogThrottle,
// because every connection can cause some. Call once, before gRPC is used.
void ForwardGrpcLogs();

}  // namespace duetime::rpc
