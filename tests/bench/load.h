// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the daemon benchmarks: a load generator that is cheap beside the server, and
// measurements.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <string>
#include <vector>

#include "duetime/v1/messages.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace duetime::bench {

using SteadyClock = std::chrono::steady_clock;

inline double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Milliseconds of wall time since the epoch, like the server's times.
int64_t WallMillis();

// Sorts `values` and returns the value at `quantile`. Returns 0 if empty.
double Quantile(std::vector<double>* values, double quantile);

// CPU seconds and resident bytes of a process.
double ProcessCpuSeconds(int pid);
uint64_t ProcessResidentBytes(int pid);

// Rate and latency of a run.
struct LoadResult {
  double per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  uint64_t errors = 0;
};

// A message of `payload_bytes` that is due `delay_ms` after it arrives.
v1::ScheduleRequest MakeMessage(const std::string& topic, size_t payload_bytes, int64_t delay_ms);

// Keeps `in_flight` unary calls running for `seconds`, from one thread with one completion queue
// and one connection. The call is Schedule of a far-future message, or an empty health check as the
// server's empty echo.
LoadResult RunUnary(const std::shared_ptr<grpc::Channel>& channel, bool schedule, int in_flight,
                    double seconds);

// Sends `batches` batches with at most `in_flight` at once; `fill` makes the i-th. The result
// counts messages.
LoadResult RunBatches(const std::shared_ptr<grpc::Channel>& channel, int batches, int in_flight,
                      const std::function<void(int, v1::ScheduleBatchRequest*)>& fill);

}  // namespace duetime::bench
