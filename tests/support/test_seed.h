// SPDX-License-Identifier: Apache-2.0
//
// The seed of a random test.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace duetime::test {

// The environment variable DUETIME_SEED, or a new seed each time; printed at once, since a failure
// may end the program.
inline uint64_t TestSeed() {
  const char* text = std::getenv("DUETIME_SEED");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace duetime::test
