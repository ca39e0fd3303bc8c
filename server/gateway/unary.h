// SPDX-License-Identifier: Apache-2.0
//
// The table of the gateway's unary methods.
#pragma once

#include <span>

#include "server/rpc/methods.h"

namespace duetime::gateway {

// All unary methods of the API, but those that concern one machine: backups and HandOver.
std::span<const rpc::UnaryMethod> UnaryMethods();

}  // namespace duetime::gateway
