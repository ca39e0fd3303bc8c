// SPDX-License-Identifier: Apache-2.0
//
// Scales the length of the long tests. A test with many repetitions (crash cycles, simulation
// seeds, random operations) passes their number through Scaled(). The environment variable
// DUETIME_TEST_SCALE, a factor, then shortens the test under a sanitizer or prolongs it overnight.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/support/from_environment.h"

namespace duetime::test {

// `count` times DUETIME_TEST_SCALE, at least 1. Returns `count` if the variable is unset or no
// positive number.
inline int64_t Scaled(int64_t count) {
  const std::string text = TextFromEnvironment("DUETIME_TEST_SCALE");
  const double factor = text.empty() ? 1.0 : std::strtod(text.c_str(), nullptr);
  if (!(factor > 0)) return count;
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) * factor));
}

}  // namespace duetime::test
