// SPDX-License-Identifier: Apache-2.0
//
// MockBrokers: three Kafka brokers in this process, with a topic of one partition.
#pragma once

#include <librdkafka/rdkafka.h>
// After rdkafka.h.
#include <librdkafka/rdkafka_mock.h>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "server/kafka/kafka_log.h"

namespace duetime::test {

class MockBrokers {
 public:
  // Kafka's numbers of requests.
  enum Request : int16_t { kProduce = 0, kFetch = 1, kListOffsets = 2 };

  MockBrokers() {
    rd_kafka_conf_t* const conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, [](const rd_kafka_t*, int, const char*, const char*) {});
    handle_ = rd_kafka_new(RD_KAFKA_PRODUCER, conf, nullptr, 0);
    cluster_ = rd_kafka_mock_cluster_new(handle_, 3);
    rd_kafka_mock_topic_create(cluster_, "cell", 1, 3);
    SetLeader(1);
  }
  ~MockBrokers() {
    rd_kafka_mock_cluster_destroy(cluster_);
    rd_kafka_destroy(handle_);
  }
  MockBrokers(const MockBrokers&) = delete;
  MockBrokers& operator=(const MockBrokers&) = delete;

  void SetLeader(int broker) { rd_kafka_mock_partition_set_leader(cluster_, "cell", 0, broker); }
  void SetDown(int broker) { rd_kafka_mock_broker_set_down(cluster_, broker); }
  void SetUp(int broker) { rd_kafka_mock_broker_set_up(cluster_, broker); }
  // How long each answer of a broker takes.
  void SetDelay(int broker, int ms) { rd_kafka_mock_broker_set_rtt(cluster_, broker, ms); }
  // The next requests of this kind get these errors.
  void FailNext(Request request, const std::vector<rd_kafka_resp_err_t>& errors) {
    rd_kafka_mock_push_request_errors_array(cluster_, request, errors.size(), errors.data());
  }

  kafka::KafkaOptions options() const {
    return {.brokers = rd_kafka_mock_cluster_bootstraps(cluster_),
            .topic = "cell",
            .properties_file = "",
            .entry_bytes_max = 1'000'000,
            .call_timeout_ms = 3'000};
  }
  std::unique_ptr<kafka::KafkaLog> Open() const { return Open(options()); }
  static std::unique_ptr<kafka::KafkaLog> Open(const kafka::KafkaOptions& options) {
    auto log = kafka::KafkaLog::Open(options, [](absl::string_view) {});
    EXPECT_TRUE(log.ok()) << log.status();
    return *std::move(log);
  }

 private:
  rd_kafka_t* handle_ = nullptr;
  rd_kafka_mock_cluster_t* cluster_ = nullptr;
};

}  // namespace duetime::test
