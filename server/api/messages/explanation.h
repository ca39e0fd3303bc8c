// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "duetime/v1/lifecycle.pb.h"
#include "server/protocol/replies.h"
#include "server/protocol/wait_reason.h"

namespace duetime::api {

// Pure.
v1::SubscriptionStatus::WaitReason ToProto(protocol::WaitReason wait_reason);

// Fills in the timeline, the causes of the lateness, and a summary of both in one sentence.
// REQUIRES: `response` already has the message and its subscriptions. Pure.
void FillExplanation(const protocol::Timeline& timeline, uint64_t now_ms,
                     v1::ExplainResponse* response);

}  // namespace duetime::api
