// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// libFuzzer and the replay program call this with each input. A fault crashes the program, by a
// failed check or by a sanitizer. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
