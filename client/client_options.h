// SPDX-License-Identifier: Apache-2.0
//
// What every client of this library is told about its server and its patience.
#pragma once

#include "absl/time/time.h"

#include "client/backoff.h"
#include "client/channel.h"

namespace duetime::client {

struct ClientOptions {
  ServerAddress server;
  // For each call, its retries included. Zero or less fails every call with DEADLINE_EXCEEDED.
  absl::Duration deadline = absl::Seconds(10);
  // Tries of a call that may be tried again; 1 never tries again.
  int attempts_max = 4;
  // Between tries. A delay that the server asks for is kept as well.
  BackoffOptions backoff;
};

}  // namespace duetime::client
