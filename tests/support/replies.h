// SPDX-License-Identifier: Apache-2.0
//
// The replies of one kind among the results of a shard.
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
