// SPDX-License-Identifier: Apache-2.0
//
// The processor cores that a process may use.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace duetime::base {

// Where the system shows its processes and control groups. Tests have their own.
inline constexpr char kOwnProcess[] = "/proc/self";
inline constexpr char kControlGroupRoot[] = "/sys/fs/cgroup";

// The directories of the control groups, of version 2 and 1, that limit `controller` ("cpu",
// "memory") for a process: its own group and those above it. Some of them may not exist, because a
// container does not see the groups above its own. `process` is a directory of /proc.
std::vector<std::string> ControlGroups(const std::string& process, const std::string& root,
                                       absl::string_view controller);

// The cores that the process may use, at least 1: those of its affinity mask, or less if a control
// group has a limit of CPU time. A part of a core counts as one.
size_t UsableCores(const std::string& process = kOwnProcess,
                   const std::string& root = kControlGroupRoot);

// How many threads share the work of one kind, unless a knob says otherwise: half the cores, from 1
// to 8.
size_t DefaultThreads(size_t cores = UsableCores());

// The most threads of one kind that fit: two for each core, and at least four, because each member
// of a cell has four shards.
size_t ThreadsThatFit(size_t cores);

}  // namespace duetime::base
