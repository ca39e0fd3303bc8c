// SPDX-License-Identifier: Apache-2.0
//
// KafkaClient: one client of librdkafka, with the topic that it uses.
#pragma once

#include <functional>
#include <librdkafka/rdkafka.h>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/kafka/kafka_settings.h"

namespace duetime::kafka {

// Has threads of its own: one, and one for each broker.
//
// Thread safety: one thread at a time. `log_line` is called from any thread.
class KafkaClient {
 public:
  // Waits for no broker. INVALID_ARGUMENT: librdkafka refuses a setting, or cannot read a file that
  // one names.
  static absl::StatusOr<std::unique_ptr<KafkaClient>> Open(
      rd_kafka_type_t type, const Settings& settings, const std::string& topic,
      std::function<void(absl::string_view)> log_line);
  // Drops what is in flight. Cost: some milliseconds.
  ~KafkaClient();
  KafkaClient(const KafkaClient&) = delete;
  KafkaClient& operator=(const KafkaClient&) = delete;

  rd_kafka_t* handle() { return handle_; }
  rd_kafka_topic_t* topic() { return topic_; }
  const std::string& topic_name() const { return topic_name_; }

  // The result of sending a message. To get it, give a pointer to one as the opaque of
  // rd_kafka_produce, and Serve until it is done. It must live until then.
  struct Report {
    bool done = false;
    rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
    int64_t offset = -1;
  };

  // Takes reports and failures in, and returns after the first, or at the time `until_us` of
  // base::ReadMicros.
  void Serve(uint64_t until_us);
  // The same, but returns at that time.
  void Wait(uint64_t until_us);

  // Like StatusOf, with the last failure of a connection, which often is the cause.
  absl::Status Error(rd_kafka_resp_err_t code, absl::string_view what);
  // Brokers have refused this client's name or certificate, and none has answered a request since.
  bool refused() const { return refused_; }
  // A broker has answered a request.
  void Succeeded();

 private:
  KafkaClient(const std::string& topic, std::function<void(absl::string_view)> log_line)
      : topic_name_(topic), log_line_(std::move(log_line)) {}

  static void OnLog(const rd_kafka_t* handle, int level, const char* facility, const char* text);
  static void OnError(rd_kafka_t* handle, int code, const char* text, void* self);
  static void OnReport(rd_kafka_t* handle, const rd_kafka_message_t* message, void* self);

  const std::string topic_name_;
  const std::function<void(absl::string_view)> log_line_;
  rd_kafka_t* handle_ = nullptr;
  rd_kafka_topic_t* topic_ = nullptr;
  std::string last_failure_;
  bool refused_ = false;
};

}  // namespace duetime::kafka
