// SPDX-License-Identifier: Apache-2.0
//
// Units of time in milliseconds.
#pragma once

#include <cstdint>

namespace duetime::storage {

inline constexpr uint64_t kSecondMs = 1'000;
inline constexpr uint64_t kMinuteMs = 60 * kSecondMs;
inline constexpr uint64_t kHourMs = 60 * kMinuteMs;
inline constexpr uint64_t kDayMs = 24 * kHourMs;

}  // namespace duetime::storage
