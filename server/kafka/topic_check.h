// SPDX-License-Identifier: Apache-2.0
//
// Creates the topic of a shared log, and checks that its settings lose no entry.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/status/status.h"

#include "server/kafka/kafka_client.h"
#include "server/kafka/kafka_options.h"

namespace duetime::kafka {

struct TopicFacts {
  size_t partitions = 0;
  size_t replicas = 0;
  // By Kafka's names.
  std::map<std::string, std::string> settings;
};

// FAILED_PRECONDITION: names each setting, its value, and the value that is needed.
absl::Status CheckTopicFacts(const KafkaOptions& options, const TopicFacts& facts);

// KafkaLog::CheckTopic. REQUIRES: a producer.
absl::Status CheckTopic(const KafkaOptions& options, KafkaClient* client);

}  // namespace duetime::kafka
