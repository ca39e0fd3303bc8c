// SPDX-License-Identifier: Apache-2.0
//
// The user at the other end of a Unix socket.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace duetime::rpc {

// The user of the client whose connection gRPC calls `peer`. Empty for another kind of address.
//
// gRPC tells a call's peer only by the address of its connection, and clients of a Unix socket have
// none. So getpeername of this program gives such a connection the address "/user/NUMBER", from the
// credentials that the kernel kept at connect(). A client cannot choose it: the address that a
// client has bound is replaced, too.
std::optional<uint32_t> UnixUserOf(absl::string_view peer);

}  // namespace duetime::rpc
