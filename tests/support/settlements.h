// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "duetime/v1/messages.pb.h"

namespace duetime::test {

// Adds a settlement to a SubscribeRequest or a SettleRequest: an ack, unless the caller sets an
// action.
template <typename Request>
v1::Settlement* AddSettlement(const std::string& lease_token, Request* request) {
  v1::Settlement* const settlement = request->add_settlements();
  settlement->set_lease_token(lease_token);
  return settlement;
}

// The settlements of a request that have this action.
template <typename Request>
std::vector<v1::Settlement> With(v1::Settlement::ActionCase action, const Request& request) {
  std::vector<v1::Settlement> with;
  for (const v1::Settlement& one : request.settlements()) {
    if (one.action_case() == action) with.push_back(one);
  }
  return with;
}

template <typename Request>
std::vector<std::string> TokensWith(v1::Settlement::ActionCase action, const Request& request) {
  std::vector<std::string> tokens;
  for (const v1::Settlement& one : With(action, request)) tokens.push_back(one.lease_token());
  return tokens;
}

inline constexpr v1::Settlement::ActionCase kAck = v1::Settlement::ACTION_NOT_SET;

}  // namespace duetime::test
