// SPDX-License-Identifier: Apache-2.0
//
// gRPC's own messages, in the daemon's log.
#pragma once

namespace duetime::rpc {

// From here on what gRPC has to say is logged like everything else, instead of to stderr in its own
// form. Its errors become warnings: they tell of connections that went wrong, mostly at the other
// end. Call once, before gRPC is used.
void ForwardGrpcLogs();

}  // namespace duetime::rpc
