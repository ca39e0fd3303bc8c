// SPDX-License-Identifier: Apache-2.0
//
// The limits of the process: open files and how they are divided, core dumps, cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace duetime::runtime {

// With a lower limit the daemon does not start.
inline constexpr uint64_t kDescriptorsMin = 256;

// Raises the soft limit of open files to the hard one. Returns the limit in force.
uint64_t RaiseDescriptorLimit();

// Sets the limit of core dumps to 0 for the rest of the run.
void ForbidCoreDumps();

// The shares of a limit. Connections never get the descriptors that the store needs to write.
struct DescriptorPlan {
  // The number of connections: as wanted, but at most half of the limit.
  uint64_t connections = 0;
  // The number of connections to the metrics: as wanted, but at most an eighth of the limit.
  uint64_t metrics_connections = 0;
  // The number of table files that the store keeps open. 0: all of them.
  uint64_t tables = 0;
};

// REQUIRES: limit >= kDescriptorsMin.
DescriptorPlan PlanDescriptors(uint64_t limit, uint64_t connections_wanted,
                               uint64_t metrics_connections_wanted);

// What to log about shards and I/O threads that do not fit the cores; empty if all do.
std::string MisfitText(uint64_t shards, uint64_t io_threads, size_t cores);

}  // namespace duetime::runtime
