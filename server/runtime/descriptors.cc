// SPDX-License-Identifier: Apache-2.0
#include "server/runtime/descriptors.h"

#include <algorithm>
#include <sys/resource.h>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/cores.h"

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

std::string MisfitText(uint64_t shards, uint64_t io_threads, size_t cores) {
  const std::string on = absl::StrCat(cores, cores == 1 ? " core" : " cores");
  std::string text;
  if (shards > base::ThreadsThatFit(cores)) {
    absl::StrAppend(&text, shards, " shards are too many for ", on,
                    "; the data directory fixes their number, so give the server more cores, or "
                    "move its messages to a new directory (duetime export, import)");
  }
  if (io_threads > base::ThreadsThatFit(cores)) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "io_threads = ", io_threads,
                    " is too much for ", on);
  }
  return text;
}

}  // namespace duetime::runtime
