// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/kafka_client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/kafka/kafka_error.h"

namespace duetime::kafka {

namespace {

struct ConfDeleter {
  void operator()(rd_kafka_conf_t* conf) const { rd_kafka_conf_destroy(conf); }
};

// Rounded up, so that a wait does not end too early.
int MillisUntil(uint64_t until_us) {
  const uint64_t now = base::ReadMicros();
  return until_us <= now ? 0 : static_cast<int>((until_us - now + 999) / 1'000);
}

}  // namespace

absl::StatusOr<std::unique_ptr<KafkaClient>> KafkaClient::Open(
    rd_kafka_type_t type, const Settings& settings, const std::string& topic,
    std::function<void(absl::string_view)> log_line) {
  std::unique_ptr<KafkaClient> client(new KafkaClient(topic, std::move(log_line)));
  const std::unique_ptr<rd_kafka_conf_t, ConfDeleter> owned(rd_kafka_conf_new());
  rd_kafka_conf_t* const conf = owned.get();
  std::array<char, 512> error = {};
  for (const auto& [key, value] : settings) {
    if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), error.data(), error.size()) !=
        RD_KAFKA_CONF_OK) {
      return absl::InvalidArgumentError(absl::StrCat("Kafka setting ", key, ": ", error.data()));
    }
  }
  rd_kafka_conf_set_opaque(conf, client.get());
  rd_kafka_conf_set_log_cb(conf, &OnLog);
  rd_kafka_conf_set_error_cb(conf, &OnError);
  if (type == RD_KAFKA_PRODUCER) rd_kafka_conf_set_dr_msg_cb(conf, &OnReport);
  // rd_kafka_new takes the configuration over, but only if it succeeds.
  rd_kafka_conf_t* const copy = rd_kafka_conf_dup(conf);
  client->handle_ = rd_kafka_new(type, copy, error.data(), error.size());
  if (client->handle_ == nullptr) {
    rd_kafka_conf_destroy(copy);
    return absl::InvalidArgumentError(absl::StrCat("Kafka client: ", error.data()));
  }
  client->topic_ = rd_kafka_topic_new(client->handle_, topic.c_str(), nullptr);
  if (client->topic_ == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("Kafka topic \"", topic, "\": ", rd_kafka_err2str(rd_kafka_last_error())));
  }
  return client;
}

KafkaClient::~KafkaClient() {
  if (topic_ != nullptr) rd_kafka_topic_destroy(topic_);
  if (handle_ == nullptr) return;
  if (rd_kafka_type(handle_) == RD_KAFKA_PRODUCER) {
    rd_kafka_purge(handle_, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
  }
  rd_kafka_destroy(handle_);
}

void KafkaClient::Serve(uint64_t until_us) { rd_kafka_poll(handle_, MillisUntil(until_us)); }

void KafkaClient::Wait(uint64_t until_us) {
  do {
    Serve(until_us);
  } while (base::ReadMicros() < until_us);
}

absl::Status KafkaClient::Error(rd_kafka_resp_err_t code, absl::string_view what) {
  const std::string text = absl::StrCat(what, " topic ", topic_name_);
  absl::Status status = StatusOf(code, text);
  if (last_failure_.empty()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(status.message(), "; last failure: ", last_failure_));
}

void KafkaClient::Succeeded() {
  refused_ = false;
  last_failure_.clear();
}

void KafkaClient::OnLog(const rd_kafka_t* handle, int /*level*/, const char* facility,
                        const char* text) {
  const auto* const client = static_cast<const KafkaClient*>(rd_kafka_opaque(handle));
  client->log_line_(absl::StrCat("kafka ", facility, ": ", text));
}

void KafkaClient::OnError(rd_kafka_t* /*handle*/, int code, const char* text, void* self) {
  auto* const client = static_cast<KafkaClient*>(self);
  // Says no more than the failures before it.
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) return;
  client->last_failure_ = text;
  client->refused_ = code == RD_KAFKA_RESP_ERR__AUTHENTICATION || code == RD_KAFKA_RESP_ERR__SSL ||
                     code == RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED;
}

void KafkaClient::OnReport(rd_kafka_t* /*handle*/, const rd_kafka_message_t* message,
                           void* /*self*/) {
  auto* const report = static_cast<Report*>(message->_private);
  if (report == nullptr) return;
  report->error = message->err;
  report->offset = message->offset;
  report->done = true;
}

}  // namespace duetime::kafka
