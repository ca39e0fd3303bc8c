// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/topic_trim.h"

#include <algorithm>
#include <array>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "server/kafka/kafka_client.h"
#include "server/kafka/kafka_error.h"
#include "server/kafka/kafka_owned.h"
#include "server/kafka/kafka_settings.h"

namespace duetime::kafka {

namespace {

// A member that ends waits for a trim.
constexpr uint64_t kTrimTimeoutMs = 2'000;

}  // namespace

absl::Status TrimTopic(const KafkaOptions& options, uint64_t offset) {
  absl::StatusOr<Settings> settings = ReadProperties(options.properties_file);
  if (!settings.ok()) return settings.status();
  const Settings own = WriterSettings(options);
  settings->insert(settings->begin(), own.begin(), own.end());
  const auto opened =
      KafkaClient::Open(RD_KAFKA_PRODUCER, *settings, options.topic, [](absl::string_view) {});
  if (!opened.ok()) return opened.status();
  rd_kafka_t* const client = (*opened)->handle();
  const auto timeout_ms = static_cast<int>(std::min(options.call_timeout_ms, kTrimTimeoutMs));
  const Owned<rd_kafka_topic_partition_list_t, rd_kafka_topic_partition_list_destroy> before(
      rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(before.get(), options.topic.c_str(), 0)->offset =
      static_cast<int64_t>(offset);
  const Owned<rd_kafka_DeleteRecords_t, rd_kafka_DeleteRecords_destroy> asked(
      rd_kafka_DeleteRecords_new(before.get()));
  const Owned<rd_kafka_AdminOptions_t, rd_kafka_AdminOptions_destroy> admin(
      rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DELETERECORDS));
  std::array<char, 128> ignored = {};
  rd_kafka_AdminOptions_set_request_timeout(admin.get(), timeout_ms, ignored.data(),
                                            ignored.size());
  const Owned<rd_kafka_queue_t, rd_kafka_queue_destroy> queue(rd_kafka_queue_new(client));
  rd_kafka_DeleteRecords_t* request = asked.get();
  rd_kafka_DeleteRecords(client, &request, 1, admin.get(), queue.get());
  // librdkafka ends the request by its own timeout.
  const Owned<rd_kafka_event_t, rd_kafka_event_destroy> event(
      rd_kafka_queue_poll(queue.get(), 2 * timeout_ms));
  rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__TIMED_OUT;
  if (event != nullptr) error = rd_kafka_event_error(event.get());
  if (event != nullptr && error == RD_KAFKA_RESP_ERR_NO_ERROR) {
    const rd_kafka_topic_partition_list_t* const answer =
        rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event.get()));
    error =
        answer != nullptr && answer->cnt > 0 ? answer->elems[0].err : RD_KAFKA_RESP_ERR__BAD_MSG;
  }
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return absl::OkStatus();
  return StatusOf(error, absl::StrCat("trim of topic ", options.topic,
                                      " (needs the right to delete its records)"));
}

}  // namespace duetime::kafka
