// SPDX-License-Identifier: Apache-2.0
//
// The machine as a daemon under test sees it: a clock that a test sets, and a disk that a test
// fills. machine_preload.cc, loaded before libc, reads this from a file that the test has mapped.
#pragma once

#include <atomic>
#include <cstdint>

namespace duetime::crash {

// Names of environment variables: the file, which holds a MachineControl, and the directory whose
// disk may be full.
inline constexpr const char* kMachineFile = "DUETIME_MACHINE_FILE";
inline constexpr const char* kMachineDisk = "DUETIME_MACHINE_DISK";

// Two processes share it.
struct MachineControl {
  // The wall clock that the daemon reads, less the machine's.
  std::atomic<int64_t> clock_offset_ns{0};
  // 1: no file below the directory can be written.
  std::atomic<uint32_t> disk_full{0};
};
static_assert(std::atomic<int64_t>::is_always_lock_free);

}  // namespace duetime::crash
