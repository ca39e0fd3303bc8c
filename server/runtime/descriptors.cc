// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/descriptors.h"

#include <algorithm>
#include <sys/resource.h>

#include "server/base/check.h"

namespace duetime::runtime {
namespace {

// Logs, the manifest, files that flushes and compactions write, gRPC's queues, and sockets that
// listen.
constexpr uint64_t kOthers = 64;
// So many table files of 64 MB hold a terabyte. With this share the store need not close any.
constexpr uint64_t kTablesForAll = 16'384;

}  // namespace

uint64_t RaiseDescriptorLimit() {
  rlimit limit{};
  DT_CHECK_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit raised = limit;
  raised.rlim_cur = raised.rlim_max;
  // A sandbox may forbid the change.
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur : limit.rlim_cur;
}

void ForbidCoreDumps() {
  const rlimit none{};
  DT_CHECK_EQ(setrlimit(RLIMIT_CORE, &none), 0);
}

DescriptorPlan PlanDescriptors(uint64_t limit, uint64_t connections_wanted,
                               uint64_t metrics_connections_wanted) {
  DT_CHECK(limit >= kDescriptorsMin);
  DescriptorPlan plan;
  plan.connections = std::min(connections_wanted, limit / 2);
  plan.metrics_connections = std::min(metrics_connections_wanted, limit / 8);
  plan.tables = limit - plan.connections - plan.metrics_connections - kOthers;
  if (plan.tables >= kTablesForAll) plan.tables = 0;
  return plan;
}

}  // namespace duetime::runtime
