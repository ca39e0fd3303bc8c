// SPDX-License-Identifier: Apache-2.0
//
// Sweeper: the thread at whose pace workers look at the deadlines of their sessions.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <grpcpp/alarm.h>
#include <optional>
#include <thread>
#include <utility>

#include "server/base/clock.h"
#include "server/base/mutex.h"

namespace duetime::rpc {

// Calls a function once a period of the steady clock.
//
// gRPC's timers cannot do this: gRPC 1.51 turns their deadlines into times of the wall clock,
// because abseil's condition variables wait for nothing else (github.com/grpc/grpc/issues/32176).
// If the wall clock is set back by 30 seconds, the thread that waits for the next timer sleeps 30
// seconds longer. An alarm for a time that has passed does not wait for that thread, so workers can
// be woken. gRPC has timers of its own: deadlines of calls, keepalive, handshakes. After such a
// step the sweeper sets a timer that is earlier than all of them, so that gRPC computes its wait
// anew. This helps unless one of them ends between the step and the sweep; then gRPC's own timers,
// and no others, are late by the step. The sweeper looks at the machine's clock, as gRPC does:
// server time does not show a jump ahead that it did not follow, nor the correction of that jump.
//
// Thread safety: the owner calls Start and Stop.
class Sweeper {
 public:
  // `wall_ms` reads the machine's wall clock; a test may pass another one.
  // REQUIRES: what `sweep` and `wall_ms` use outlives Stop.
  Sweeper(
      std::chrono::milliseconds period, std::function<void()> sweep,
      std::function<int64_t()> wall_ms = [] { return base::ReadMachineClocks().wall_ms; })
      : period_(period), sweep_(std::move(sweep)), wall_ms_(std::move(wall_ms)) {}
  ~Sweeper() { Stop(); }
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  void Start();
  // Idempotent.
  void Stop();

  // How often the sweeper made gRPC compute its wait anew. REQUIRES: stopped.
  uint64_t nudges() const { return nudges_; }

 private:
  void Run();
  // Waits for a period. False if the thread must end.
  bool Wait();

  const std::chrono::milliseconds period_;
  const std::function<void()> sweep_;
  const std::function<int64_t()> wall_ms_;
  std::thread thread_;
  // Confined to the thread. A new alarm is built in place, because the move assignment of gRPC
  // 1.51's alarm leaks the old one.
  std::optional<grpc::Alarm> nudge_;
  uint64_t nudges_ = 0;

  base::Mutex mutex_;
  base::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::rpc
