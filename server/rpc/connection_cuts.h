// SPDX-License-Identifier: Apache-2.0
//
// ConnectionCuts: counts and logs the connections that the server closes because of a limit.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "server/base/mutex.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/log_throttle.h"

namespace duetime::rpc {

// The client of a connected socket: "192.0.2.1:5000", "[2001:db8::1]:5000", or "unix:/user/0".
std::string PeerText(int fd);

// Each connection counts. Of each limit, the first few lines of a minute are logged. Thread-safe.
class ConnectionCuts {
 public:
  // REQUIRES: `stats` outlives the object.
  explicit ConnectionCuts(metrics::RpcStats* stats) : stats_(stats) {}

  // The server closes the connection of `peer`. `limit` names the knob, or the limit without one;
  // `why` says what the client did. REQUIRES: `limit` lives as long as the program.
  void Report(const std::string& peer, const char* limit, absl::string_view why);

 private:
  metrics::RpcStats* const stats_;
  base::Mutex mutex_;
  LogThrottle lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::rpc
