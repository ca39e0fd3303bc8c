// SPDX-License-Identifier: Apache-2.0
//
// IP addresses as text.
#pragma once

#include <string>

namespace duetime::base {

// True if `address` is an IP address without brackets that leads to this machine only: 127.0.0.0/8
// or ::1. A name is no address.
bool IsLoopback(const std::string& address);

}  // namespace duetime::base
