// SPDX-License-Identifier: Apache-2.0
//
// KafkaLog: the shared log of a cell in one partition of Apache Kafka.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "server/cell/log.h"
#include "server/kafka/kafka_options.h"

namespace duetime::kafka {

class KafkaClient;

// Each entry is one message of partition 0; its offset is Kafka's. Two clients: one writes and asks
// for the end, the other reads ahead. No consumer group, and no idempotent producer: the entries
// themselves tell what counts.
//
// No other program may write to the topic in transactions: the markers of a transaction are a gap
// at the end of the log, which End would count.
//
// Cost: Append copies the entry twice. The reader keeps up to 16 MiB of entries, or one entry if
// that is larger, and asks a broker ten times a second while there are none.
//
// Errors: those of cell::Log. A call never retries what the caller can retry; it waits until 100 ms
// after its beginning before it returns an error that may pass. Brokers that refuse this client's
// name or certificate give UNAVAILABLE, with that reason in the text: users and certificates may
// reach the brokers later. Only CheckTopic says UNAUTHENTICATED.
//
// Thread safety: one thread at a time, but Trim on any thread.
class KafkaLog final : public cell::Log {
 public:
  // Makes the clients, and waits for no broker. `log_line` gets the lines of librdkafka, from any
  // thread, until the log is destroyed. INVALID_ARGUMENT: an option or the properties file.
  static absl::StatusOr<std::unique_ptr<KafkaLog>> Open(
      const KafkaOptions& options, const std::function<void(absl::string_view)>& log_line);
  ~KafkaLog() override;

  // Creates the topic if it is absent, and checks that its settings lose no entry. Call it before
  // the first append.
  //   FAILED_PRECONDITION   names each setting, its value, and the value that is needed
  //   UNAUTHENTICATED       no broker answers, and one has refused this client
  //   UNAVAILABLE, DEADLINE_EXCEEDED   no broker answers, or too few of them run: try again
  //   PERMISSION_DENIED     the client may not create the topic, or not read its settings
  // Cost: up to three times the call timeout.
  absl::Status CheckTopic();

  // Waits for the report of the brokers. INVALID_ARGUMENT at once if the entry is too large.
  absl::StatusOr<uint64_t> Append(absl::string_view bytes) override;

  // Returns nullopt after 100 ms, also while no broker answers. Cost: a read that does not go on
  // after the last one drops what was read ahead, and waits up to 100 ms for a fetch that runs.
  absl::StatusOr<std::optional<cell::LogEntry>> Read(uint64_t offset) override;

  // Hands the entry to librdkafka, which drops it if its queue is full.
  void Post(absl::string_view bytes) override;

  // Waits for the brokers.
  absl::Status Trim(uint64_t offset) override;

  // Asks the leader, for up to a second. Never less than this object has read or appended: after a
  // change of leader Kafka's own number may go back for a moment.
  absl::StatusOr<uint64_t> End() override;

 private:
  KafkaLog(const KafkaOptions& options, std::unique_ptr<KafkaClient> writer,
           std::unique_ptr<KafkaClient> reader);

  absl::Status StartReading(uint64_t offset);
  void StopReading();
  absl::StatusOr<std::optional<cell::LogEntry>> ReadOutOfRange(uint64_t offset, uint64_t until_us);
  // Asks for the first or the next offset of the partition. `which` is a logical offset of Kafka.
  absl::StatusOr<uint64_t> AskOffset(int64_t which);

  const KafkaOptions options_;
  const std::unique_ptr<KafkaClient> writer_;
  const std::unique_ptr<KafkaClient> reader_;
  // Where the reader goes on; absent if it does not read.
  std::optional<uint64_t> reads_at_;
  uint64_t end_min_ = 0;
};

}  // namespace duetime::kafka
