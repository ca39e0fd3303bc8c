// SPDX-License-Identifier: Apache-2.0
//
// Numbers that whoever runs a test may set.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace duetime::test {

// The environment variable `name`; `otherwise` if it is not set, or not to a number.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

}  // namespace duetime::test
