// SPDX-License-Identifier: Apache-2.0
//
// Selects the replies of one kind from a shard's effects.
#pragma once

#include <variant>
#include <vector>

#include "server/protocol/replies.h"

namespace duetime::test {

template <typename T>
std::vector<T> RepliesOf(const protocol::Effects& effects) {
  std::vector<T> found;
  for (const protocol::Reply& reply : effects.replies) {
    if (const T* answer = std::get_if<T>(&reply)) found.push_back(*answer);
  }
  return found;
}

}  // namespace duetime::test
