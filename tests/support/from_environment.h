// SPDX-License-Identifier: Apache-2.0
//
// Environment variables.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"

namespace duetime::test {

// The text in the environment variable `name`; empty if it is unset.
inline std::string TextFromEnvironment(const char* name) {
  const char* const text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): tests never set it
  return text == nullptr ? "" : text;
}

// The number in the environment variable `name`, or `otherwise` if it is unset or no number.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  uint64_t value = 0;
  return absl::SimpleAtoi(TextFromEnvironment(name), &value) ? value : otherwise;
}

}  // namespace duetime::test
