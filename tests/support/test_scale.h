// SPDX-License-Identifier: Apache-2.0
//
// One knob for how long the long tests take. A test that repeats something (crash cycles,
// simulation seeds, random operations) passes its full count through Scaled(); the environment
// variable DUETIME_TEST_SCALE, a factor, then makes it shorter under a sanitizer or longer over
// night.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>

namespace duetime::test {

// `count` times DUETIME_TEST_SCALE, at least 1. Without the variable, or with one that is not a
// positive number: `count`.
inline int64_t Scaled(int64_t count) {
  const char* text =
      std::getenv("DUETIME_TEST_SCALE");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const double factor = text == nullptr ? 1.0 : std::strtod(text, nullptr);
  if (!(factor > 0)) return count;
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(count) * factor));
}

}  // namespace duetime::test
