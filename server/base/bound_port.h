// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace duetime::base {

// The port that a bound TCP socket got. REQUIRES: `fd` is bound to an IPv4 or IPv6 address.
uint16_t BoundPort(int fd);

}  // namespace duetime::base
