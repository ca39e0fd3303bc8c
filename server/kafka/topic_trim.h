// SPDX-License-Identifier: Apache-2.0
//
// TrimTopic: removes the beginning of the log.
#pragma once

#include <cstdint>
#include <librdkafka/rdkafka.h>

#include "absl/status/status.h"

#include "server/kafka/kafka_options.h"

namespace duetime::kafka {

// Asks the brokers to remove the entries before `offset`, and waits for their answer. Errors as
// KafkaLog. Any thread, while others use `client`. Cost: up to the call timeout.
absl::Status TrimTopic(const KafkaOptions& options, rd_kafka_t* client, uint64_t offset);

}  // namespace duetime::kafka
