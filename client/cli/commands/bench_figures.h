// SPDX-License-Identifier: Apache-2.0
//
// The figures of `duetime bench`. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace duetime::cli {

// A number of messages in a time.
struct Throughput {
  int64_t messages = 0;
  absl::Duration time{};

  // 0 if nothing was measured.
  double PerSecond() const;
};

// What a bench measured, each empty if it was ended before.
struct Figures {
  int64_t payload_bytes = 0;
  Throughput schedule{};
  Throughput deliver{};
  // How long single calls took, and how late messages came.
  std::vector<absl::Duration> calls{};
  std::vector<absl::Duration> lateness{};
};

// The smallest value that is not below this part of all values; zero if there are none.
absl::Duration Percentile(std::vector<absl::Duration> values, double part);

std::string FiguresText(const Figures& figures);
std::string FiguresJson(const Figures& figures);

}  // namespace duetime::cli
