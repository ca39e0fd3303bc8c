// SPDX-License-Identifier: Apache-2.0
//
// TrimTopic: removes the beginning of the log.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "server/kafka/kafka_options.h"

namespace duetime::kafka {

// Asks the brokers to remove the entries before `offset`, and waits for their answer. Errors as
// KafkaLog. Any thread. Makes a client of its own: a broker answers the requests of a connection in
// their order, and this one takes it half a second, in which appends would wait. Cost: up to four
// seconds.
absl::Status TrimTopic(const KafkaOptions& options, uint64_t offset);

}  // namespace duetime::kafka
