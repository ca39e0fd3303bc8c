// SPDX-License-Identifier: Apache-2.0
//
// Counters of the commit pipeline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace duetime::runtime {

// Upper bounds in microseconds of the append histogram's buckets; one more bucket holds the rest.
inline constexpr std::array<uint64_t, 15> kAppendBoundsMicros = {
    20,     50,     100,    200,     500,     1'000,     2'000,    5'000,
    10'000, 20'000, 50'000, 100'000, 500'000, 1'000'000, 5'000'000};

// Counters since the start, and two gauges at the end.
struct CommitStats {
  // Appends; `syncs` of them were synced.
  uint64_t groups = 0;
  uint64_t syncs = 0;
  uint64_t batches = 0;
  uint64_t records = 0;
  uint64_t bytes = 0;
  // Time in Journal::Append: the sum, and a histogram.
  uint64_t append_micros = 0;
  std::array<uint64_t, kAppendBoundsMicros.size() + 1> append_latency{};
  // Batches that wait for the next group.
  uint64_t queue_batches = 0;
  // True once the journal has failed: the committer appends nothing until a restart (P7).
  bool failed = false;
};

}  // namespace duetime::runtime
