// SPDX-License-Identifier: Apache-2.0
//
// Numbers as people write them in a configuration: "30s", "64MiB", "10000".
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/config/knobs.h"

namespace duetime::config {

// Reads a whole number in `unit`, optionally with a suffix: ms, s, m, h, d for times; B, KiB, MiB,
// GiB, TiB for sizes; none for counts. INVALID_ARGUMENT for anything else, for negative numbers,
// fractions and numbers that do not fit 64 bits.
absl::StatusOr<uint64_t> ParseQuantity(absl::string_view text, Unit unit);

// The value with the largest suffix that divides it: 30000 ms -> "30s". Plain digits if none does
// or the value is 0.
std::string FormatQuantity(uint64_t value, Unit unit);

}  // namespace duetime::config
