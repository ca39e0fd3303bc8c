// SPDX-License-Identifier: Apache-2.0
#include "server/kafka/kafka_log.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/kafka/kafka_client.h"
#include "server/kafka/kafka_settings.h"
#include "server/kafka/topic_check.h"
#include "server/kafka/topic_trim.h"

namespace duetime::kafka {

namespace {

constexpr int32_t kPartition = 0;
// How long a read waits for an entry, and how long an error takes at least.
constexpr uint64_t kWaitMs = 100;
// The leader that the client knows does not change during a call, so a later call may find another.
constexpr uint64_t kAskOffsetMs = 1'000;
// librdkafka looks once a second for messages that have waited too long.
constexpr uint64_t kReportSlackMs = 2'000;

struct MessageDeleter {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
struct ListDeleter {
  void operator()(rd_kafka_topic_partition_list_t* list) const {
    rd_kafka_topic_partition_list_destroy(list);
  }
};

uint64_t After(uint64_t milliseconds) { return base::ReadMicros() + milliseconds * 1'000; }

}  // namespace

absl::StatusOr<std::unique_ptr<KafkaLog>> KafkaLog::Open(
    const KafkaOptions& options, const std::function<void(absl::string_view)>& log_line) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  const absl::StatusOr<Settings> properties = ReadProperties(options.properties_file);
  if (!properties.ok()) return properties.status();
  const auto open = [&](rd_kafka_type_t type, Settings settings) {
    settings.insert(settings.end(), properties->begin(), properties->end());
    return KafkaClient::Open(type, settings, options.topic, log_line);
  };
  auto writer = open(RD_KAFKA_PRODUCER, WriterSettings(options));
  if (!writer.ok()) return writer.status();
  auto reader = open(RD_KAFKA_CONSUMER, ReaderSettings(options));
  if (!reader.ok()) return reader.status();
  return std::unique_ptr<KafkaLog>(new KafkaLog(options, *std::move(writer), *std::move(reader)));
}

KafkaLog::KafkaLog(const KafkaOptions& options, std::unique_ptr<KafkaClient> writer,
                   std::unique_ptr<KafkaClient> reader)
    : options_(options), writer_(std::move(writer)), reader_(std::move(reader)) {}

KafkaLog::~KafkaLog() { StopReading(); }

absl::Status KafkaLog::CheckTopic() { return kafka::CheckTopic(options_, writer_.get()); }

absl::StatusOr<uint64_t> KafkaLog::Append(absl::string_view bytes) {
  if (bytes.size() > options_.entry_bytes_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an entry of ", bytes.size(), " bytes; the limit is ", options_.entry_bytes_max));
  }
  const uint64_t earliest_error = After(kWaitMs);
  KafkaClient::Report report;
  // RD_KAFKA_MSG_F_COPY: the bytes may stay in a request after the report.
  if (rd_kafka_produce(writer_->topic(), kPartition, RD_KAFKA_MSG_F_COPY,
                       const_cast<char*>(bytes.data()), bytes.size(), nullptr, 0, &report) == 0) {
    const uint64_t latest = After(options_.call_timeout_ms + kReportSlackMs);
    while (!report.done && base::ReadMicros() < latest) writer_->Serve(latest);
    // Makes librdkafka report what it still has.
    if (!report.done) {
      rd_kafka_purge(writer_->handle(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    }
    while (!report.done) writer_->Serve(After(kWaitMs));
  } else {
    report.error = rd_kafka_last_error();
  }
  if (report.error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    writer_->Wait(earliest_error);
    return writer_->Error(report.error, "append to");
  }
  DT_CHECK_GE(report.offset, 0);
  writer_->Succeeded();
  const auto offset = static_cast<uint64_t>(report.offset);
  end_min_ = std::max(end_min_, offset + 1);
  return offset;
}

void KafkaLog::Post(absl::string_view bytes) {
  // Without an opaque the report is of no interest.
  rd_kafka_produce(writer_->topic(), kPartition, RD_KAFKA_MSG_F_COPY,
                   const_cast<char*>(bytes.data()), bytes.size(), nullptr, 0, nullptr);
  writer_->Serve(0);
}

absl::StatusOr<std::optional<cell::LogEntry>> KafkaLog::Read(uint64_t offset) {
  const uint64_t until = After(kWaitMs);
  if (reads_at_ != offset) {
    if (absl::Status status = StartReading(offset); !status.ok()) {
      reader_->Wait(until);
      return status;
    }
  }
  while (true) {
    const uint64_t now = base::ReadMicros();
    const int wait_ms = now < until ? static_cast<int>((until - now + 999) / 1'000) : 0;
    const std::unique_ptr<rd_kafka_message_t, MessageDeleter> message(
        rd_kafka_consume(reader_->topic(), kPartition, wait_ms));
    if (message == nullptr) {
      reader_->Serve(0);
      if (base::ReadMicros() >= until) return std::nullopt;
      continue;
    }
    if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) continue;
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
        message->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
      return ReadOutOfRange(offset, until);
    }
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      // What follows may not be the next entry.
      StopReading();
      reader_->Wait(until);
      return reader_->Error(message->err, "read of");
    }
    const auto found = static_cast<uint64_t>(message->offset);
    // A fetch returns whole batches.
    if (found < offset) continue;
    reader_->Succeeded();
    reads_at_ = found + 1;
    end_min_ = std::max(end_min_, found + 1);
    const int64_t time_ms = rd_kafka_message_timestamp(message.get(), nullptr);
    return cell::LogEntry{
        .offset = found,
        .time_ms = static_cast<uint64_t>(std::max<int64_t>(time_ms, 0)),
        .bytes = std::string(static_cast<const char*>(message->payload), message->len)};
  }
}

absl::Status KafkaLog::Trim(uint64_t offset) { return TrimTopic(options_, offset); }

absl::StatusOr<uint64_t> KafkaLog::End() {
  const uint64_t earliest_error = After(kWaitMs);
  const absl::StatusOr<uint64_t> end = AskOffset(RD_KAFKA_OFFSET_END);
  if (!end.ok()) {
    writer_->Wait(earliest_error);
    return end;
  }
  return std::max(*end, end_min_);
}

absl::Status KafkaLog::StartReading(uint64_t offset) {
  StopReading();
  // Kafka's offsets are signed, and the negative ones have a meaning.
  if (offset > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("Kafka has no offset ", offset));
  }
  if (rd_kafka_consume_start(reader_->topic(), kPartition, static_cast<int64_t>(offset)) != 0) {
    return reader_->Error(rd_kafka_last_error(), "read of");
  }
  reads_at_ = offset;
  return absl::OkStatus();
}

void KafkaLog::StopReading() {
  if (!reads_at_.has_value()) return;
  rd_kafka_consume_stop(reader_->topic(), kPartition);
  reads_at_.reset();
}

absl::StatusOr<std::optional<cell::LogEntry>> KafkaLog::ReadOutOfRange(uint64_t offset,
                                                                       uint64_t until_us) {
  StopReading();
  const absl::StatusOr<uint64_t> first = AskOffset(RD_KAFKA_OFFSET_BEGINNING);
  reader_->Wait(until_us);
  if (!first.ok()) return first.status();
  if (*first > offset) {
    return absl::OutOfRangeError(
        absl::StrCat("topic ", options_.topic, " begins at offset ", *first, ", after ", offset));
  }
  // Beyond the end: a leader that has just been chosen may not know yet how far the log goes.
  return std::nullopt;
}

absl::StatusOr<uint64_t> KafkaLog::AskOffset(int64_t which) {
  const std::unique_ptr<rd_kafka_topic_partition_list_t, ListDeleter> list(
      rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_t* const asked =
      rd_kafka_topic_partition_list_add(list.get(), options_.topic.c_str(), kPartition);
  // A "time" of which Kafka returns one end of the log. rd_kafka_query_watermark_offsets asks for
  // both ends, and in version 2.0 it does not keep its time limit.
  asked->offset = which;
  rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(
      writer_->handle(), list.get(),
      static_cast<int>(std::min(kAskOffsetMs, options_.call_timeout_ms)));
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR) error = asked->err;
  if (error == RD_KAFKA_RESP_ERR_NO_ERROR && asked->offset < 0)
    error = RD_KAFKA_RESP_ERR__NO_OFFSET;
  writer_->Serve(0);
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return writer_->Error(error, "offsets of");
  writer_->Succeeded();
  return static_cast<uint64_t>(asked->offset);
}

}  // namespace duetime::kafka
