// SPDX-License-Identifier: Apache-2.0
//
// The options of every client: the server, the deadline of calls and the retries.
#pragma once

#include "absl/time/time.h"

#include "client/cpp/backoff.h"
#include "client/cpp/channel.h"

namespace duetime::client {

struct ClientOptions {
  ServerAddress server;
  // The deadline of a call, including its retries. With zero or less every call fails with
  // DEADLINE_EXCEEDED.
  absl::Duration deadline = absl::Seconds(10);
  // The most tries of a call that may be repeated. 1: no repeat. 0: no limit but the deadline. With
  // the several addresses of a cell there is never another limit, because a change of leader takes
  // a second or two.
  int attempts_max = 0;
  // The waits between tries. A wait is never shorter than the server requests.
  BackoffOptions backoff;
  // Makes each Schedule, Cancel, Reschedule and Get a call of its own. By default those of all
  // threads share a stream, which costs the server about half with many calls at a time. Each call
  // still has its own deadline, error and repeats.
  bool separate_calls = false;
};

}  // namespace duetime::client
