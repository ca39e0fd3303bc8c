// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "duetime/v1/lifecycle.pb.h"
#include "server/protocol/replies.h"

namespace duetime::api {

// Fills in what Explain says beside the message, which is in `response` already: the timeline,
// where the lateness came from, and both in one sentence. Pure.
void FillExplanation(const protocol::Timeline& timeline, uint64_t now_ms,
                     v1::ExplainResponse* response);

}  // namespace duetime::api
