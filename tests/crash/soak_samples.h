// SPDX-License-Identifier: Apache-2.0
//
// What a soak measures again and again, its table and plots, and the judge of growth.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace duetime::crash {

// One moment of the soak.
struct Sample {
  double seconds = 0;
  // The run of the daemon.
  int64_t run = 0;
  int64_t memory_bytes = 0;
  int64_t descriptors = 0;
  int64_t threads = 0;
  // Blocks of the data directory on disk.
  int64_t directory_bytes = 0;
  // The records of pending messages.
  int64_t live_bytes = 0;
  // Judged messages so far.
  int64_t messages = 0;
  int64_t clock_offset_ms = 0;
  int64_t disk_full = 0;
};

// Measures the process and the directory. Returns false if the process has ended.
bool Measure(pid_t pid, const std::string& directory, Sample* sample);

// What may not grow. The quarters are those of the soak's time: the daemon runs without a restart
// in the second one and in the last one.
//
// (1) The greatest value of the last quarter is at most `factor` times that of the second one plus
// `slack`. Of the directory counts what exceeds the live bytes. (2) The same for memory,
// descriptors and threads, with the two halves of the last quarter.
struct Bound {
  const char* name;
  int64_t Sample::*value;
  double factor;
  int64_t slack;
  bool within_run;
};
std::span<const Bound> Bounds();

// One line for each bound that does not hold, or cannot be judged for want of samples.
std::vector<std::string> Growth(const std::vector<Sample>& samples, double seconds);

// Writes samples.csv and samples.svg into the folder. Returns false if it cannot.
bool WriteSamples(const std::string& folder, const std::vector<Sample>& samples);

}  // namespace duetime::crash
