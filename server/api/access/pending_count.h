// SPDX-License-Identifier: Apache-2.0
//
// Counts the pending messages for quotas (access::PendingMeter).
#pragma once

#include <memory>
#include <string>

#include "server/access/caller.h"
#include "server/api/serving_context.h"

namespace duetime::api {

// If it is time, begins a count on the reader's thread, which reads one counter per topic and shard
// and leaves the thread to other jobs after every 1,000 topics. The first one counts the topics to
// which the client may schedule, the second one a single topic. REQUIRES: the server serves.
void CountPendingOf(ServingContext& context, const access::CallerPtr& caller);
void CountPendingOfTopic(ServingContext& context, const std::string& topic,
                         const std::shared_ptr<access::Meter>& meter);

}  // namespace duetime::api
