// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the daemon benchmarks: a load generator that is cheap beside the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "duetime/v1/messages.grpc.pb.h"

namespace duetime::bench {

using SteadyClock = std::chrono::steady_clock;
using Channel = std::shared_ptr<grpc::Channel>;

inline double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Milliseconds of wall time since the epoch, like the server's times.
int64_t WallMillis();

// Sorts `values` and returns the value at `quantile`. Returns 0 if empty.
double Quantile(std::vector<double>* values, double quantile);

// Rate and latency of a run.
struct LoadResult {
  // Messages for which the call succeeded.
  double operations = 0;
  double per_second = 0;
  double p50_ms = 0;
  double p99_ms = 0;
  // Messages of calls that failed, and messages that a batch refused.
  uint64_t errors = 0;
};

// Makes messages of 128 bytes. Half of a payload is random, so half of it does not compress. The
// due times are spread evenly, in random order, over `spread_ms` from `ahead_ms` after the message
// is made. The same seed gives the same messages.
class MessageSource {
 public:
  MessageSource(std::string topic, int64_t ahead_ms, int64_t spread_ms, uint64_t seed = 1);

  void Fill(v1::ScheduleRequest* message);
  // From now on each message pushes back the message of one of so many keys.
  void UseKeys(uint64_t keys) { keys_ = keys; }
  // Sets the payload only.
  void FillPayload(v1::ScheduleRequest* message);

 private:
  const std::string topic_;
  const int64_t ahead_ms_;
  std::uniform_int_distribution<int64_t> spread_;
  std::mt19937_64 random_;
  uint64_t keys_ = 0;
};

// Keep `in_flight` unary calls running, from one thread with one completion queue.
//
// Schedule of `source` for `seconds`. Adds the ids of the messages to `ids` unless it is null.
LoadResult ScheduleFor(const Channel& channel, MessageSource* source, int in_flight, double seconds,
                       std::vector<std::string>* ids);
// An empty health check, which is the server's empty call.
LoadResult EchoFor(const Channel& channel, int in_flight, double seconds);
// One Cancel for each id.
LoadResult CancelEach(const Channel& channel, const std::vector<std::string>& ids, int in_flight);

// The same calls, `in_flight` of them open on one CallStream.
LoadResult ScheduleOnStream(const Channel& channel, MessageSource* source, int in_flight,
                            double seconds, std::vector<std::string>* ids);
LoadResult CancelOnStream(const Channel& channel, const std::vector<std::string>& ids,
                          int in_flight);

// Keep `in_flight` calls of `size` messages each running.
LoadResult ScheduleBatches(const Channel& channel, MessageSource* source, int64_t messages,
                           int size, int in_flight, std::vector<std::string>* ids);
LoadResult CancelBatches(const Channel& channel, const std::vector<std::string>& ids, int size,
                         int in_flight);
// Sends `batches` batches; `fill` makes the i-th.
LoadResult RunBatches(const Channel& channel, int batches, int in_flight,
                      const std::function<void(int, v1::ScheduleBatchRequest*)>& fill,
                      std::vector<std::string>* ids = nullptr);

}  // namespace duetime::bench
