// SPDX-License-Identifier: Apache-2.0
//
// The seed of a random test.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>

#include "tests/support/from_environment.h"

namespace duetime::test {

// The environment variable DUETIME_SEED, else `otherwise`, else a new seed. Prints the seed at
// once, because a failure may end the program.
inline uint64_t TestSeed(std::optional<uint64_t> otherwise = std::nullopt) {
  const uint64_t drawn = otherwise.has_value() ? *otherwise : std::random_device{}();
  const uint64_t seed = FromEnvironment("DUETIME_SEED", drawn);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace duetime::test
