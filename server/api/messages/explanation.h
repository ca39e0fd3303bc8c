// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "duetime/v1/lifecycle.pb.h"
#include "server/protocol/hold.h"
#include "server/protocol/replies.h"

namespace duetime::api {

// Fills in the timeline, the causes of the lateness, and a summary of both in one sentence.
// REQUIRES: `response` already has the message. Pure.
v1::SubscriptionStatus::WaitReason ToProto(protocol::Hold hold);

void FillExplanation(const protocol::Timeline& timeline, uint64_t now_ms,
                     v1::ExplainResponse* response);

}  // namespace duetime::api
