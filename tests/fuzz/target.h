// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// What libFuzzer and the replay program call with each input. A fault shows as a crash: a failed
// check, or a sanitizer's report. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
