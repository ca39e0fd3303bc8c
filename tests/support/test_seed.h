// SPDX-License-Identifier: Apache-2.0
//
// The seed of a random test.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>

namespace duetime::test {

// The environment variable DUETIME_SEED, else `otherwise`, else a new seed. Prints the seed at
// once, because a failure may end the program.
inline uint64_t TestSeed(std::optional<uint64_t> otherwise = std::nullopt) {
  const char* text = std::getenv("DUETIME_SEED");  // NOLINT(concurrency-mt-unsafe): never set here
  const uint64_t drawn = otherwise.has_value() ? *otherwise : std::random_device{}();
  const uint64_t seed = text != nullptr ? std::strtoull(text, nullptr, 10) : drawn;
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  return seed;
}

}  // namespace duetime::test
