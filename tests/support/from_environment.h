// SPDX-License-Identifier: Apache-2.0
//
// Numbers from environment variables.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace duetime::test {

// The number in the environment variable `name`, or `otherwise` if it is unset or no number.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): tests never set it
  uint64_t value = 0;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

}  // namespace duetime::test
