// SPDX-License-Identifier: Apache-2.0
//
// Timer: runs a function on a worker's thread after a while.
#pragma once

#include <cstdint>
#include <grpcpp/completion_queue.h>

#include "absl/functional/any_invocable.h"

namespace duetime::gateway {

// The destructor prevents what has not run yet. Thread safety: confined to the thread of the queue.
// REQUIRES: the queue is not shut down when the timer is set.
class Timer {
 public:
  Timer(grpc::CompletionQueue* queue, uint64_t ms, absl::AnyInvocable<void()> run);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  class Ring;

  // Owns itself. Null once it has rung.
  Ring* ring_;
};

}  // namespace duetime::gateway
