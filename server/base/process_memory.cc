// SPDX-License-Identifier: Apache-2.0
#include "server/base/process_memory.h"

#include <fstream>
#include <unistd.h>

namespace duetime::base {

uint64_t ResidentMemoryBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace duetime::base
