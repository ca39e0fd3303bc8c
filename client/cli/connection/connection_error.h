// SPDX-License-Identifier: Apache-2.0
//
// Why no call to a server succeeds, where the text of gRPC does not say it.
#pragma once

#include "absl/status/status.h"

#include "client/cpp/channel.h"

namespace duetime::cli {

// Returns `error` with a text for people if only one side speaks TLS, or if the headers of the call
// are too large. Other errors stay. Asks the server, for at most a second, whether it speaks TLS.
absl::Status NamedConnectionError(const client::ServerAddress& server, const absl::Status& error);

}  // namespace duetime::cli
