// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "server/protocol/commands.h"

namespace duetime::test {

// Settles each of these leases in the same way; by default, acknowledges it.
inline protocol::SettleCommand Settles(protocol::StreamId stream,
                                       const std::vector<protocol::LeaseToken>& tokens,
                                       protocol::Settlement how = {}) {
  protocol::SettleCommand command{.stream = stream};
  for (const protocol::LeaseToken token : tokens) {
    how.token = token;
    command.settlements.push_back(how);
  }
  return command;
}

}  // namespace duetime::test
