// SPDX-License-Identifier: Apache-2.0
//
// RpcStats: the counters of the gRPC threads. They are plain atomics, so that counting needs
// neither lock nor library. RegisterRpc reads them at each scrape.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace duetime::metrics {

// A method that the server serves, as a small number: its place in RpcStats::names.
enum class RpcMethod : uint8_t {};
inline constexpr size_t kRpcMethodsMax = 64;

// The canonical codes, OK to UNAUTHENTICATED.
inline constexpr size_t kRpcCodeCount = 17;

// Upper bounds in microseconds of the latency histogram's buckets; one more holds the rest.
inline constexpr std::array<uint64_t, 15> kRpcLatencyBoundsMicros = {
    50,     100,    200,     500,     1'000,   2'000,     5'000,    10'000,
    20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 5'000'000};

// Counters of one method, in relaxed order. Each number is exact, but two numbers may be from
// different moments.
struct alignas(64) RpcMethodStats {
  std::atomic<uint64_t> started{0};
  // Ended calls by status code; started minus their sum is in flight.
  std::array<std::atomic<uint64_t>, kRpcCodeCount> ended{};
  // The time from the arrival of the request until its answer is passed to gRPC. Streams are not
  // timed.
  std::array<std::atomic<uint64_t>, kRpcLatencyBoundsMicros.size() + 1> latency{};
  std::atomic<uint64_t> latency_sum_micros{0};

  void Start() { started.fetch_add(1, std::memory_order_relaxed); }

  // A code out of range counts as UNKNOWN (2).
  void End(int code) {
    const size_t index =
        code >= 0 && code < static_cast<int>(kRpcCodeCount) ? static_cast<size_t>(code) : size_t{2};
    ended[index].fetch_add(1, std::memory_order_relaxed);
  }

  void EndTimed(int code, uint64_t micros) {
    End(code);
    size_t bucket = 0;
    while (bucket < kRpcLatencyBoundsMicros.size() && micros > kRpcLatencyBoundsMicros[bucket]) {
      ++bucket;
    }
    latency[bucket].fetch_add(1, std::memory_order_relaxed);
    latency_sum_micros.fetch_add(micros, std::memory_order_relaxed);
  }
};

// The counters of all methods. Thread-safe.
struct RpcStats {
  // REQUIRES: at most kRpcMethodsMax names.
  explicit RpcStats(std::vector<std::string> method_names) : names(std::move(method_names)) {}

  std::array<RpcMethodStats, kRpcMethodsMax> methods;
  // Stored messages that were found damaged at their delivery.
  std::atomic<uint64_t> damaged_records{0};
  // Connections closed because the client exceeded its frame budget.
  std::atomic<uint64_t> connections_cut{0};
  // Calls that ended with CANCELLED because clients left too many answers unread.
  std::atomic<uint64_t> answers_dropped{0};
  // Calls whose answer, an error, is delayed.
  std::atomic<uint64_t> errors_delayed{0};
  // Deliveries that wait for their Subscribe streams to send them.
  std::atomic<uint64_t> unsent_bytes{0};
  // The methods' names, by RpcMethod.
  const std::vector<std::string> names;

  RpcMethodStats& of(RpcMethod method) { return methods[static_cast<size_t>(method)]; }
};

}  // namespace duetime::metrics
