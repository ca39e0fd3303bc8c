// SPDX-License-Identifier: Apache-2.0
//
// The version of this build, as the build system knows it.
#pragma once

namespace duetime::config {

// For example "0.1.0".
const char* Version();

}  // namespace duetime::config
