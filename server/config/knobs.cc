// SPDX-License-Identifier: Apache-2.0
#include "server/config/knobs.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

#include "server/config/quantity.h"

namespace duetime::config {
namespace {

constexpr uint64_t kKiB = uint64_t{1} << 10;
constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kTiB = uint64_t{1} << 40;
constexpr uint64_t kSecond = 1'000;
constexpr uint64_t kHour = 3'600 * kSecond;
constexpr uint64_t kDay = 24 * kHour;

constexpr char kStorage[] = "Storage";
constexpr char kNetwork[] = "Network";
constexpr char kRequests[] = "Limits of requests";
constexpr char kPipeline[] = "Threads and queues";
constexpr char kDelivery[] = "Delivery";
constexpr char kTime[] = "Time";
constexpr char kOperation[] = "Operation";

Knob Text(const char* name, const char* group, Knob::Member member, const char* description,
          const char* choices = nullptr) {
  return Knob{.name = name,
              .group = group,
              .member = member,
              .choices = choices,
              .description = description};
}

struct Bounds {
  uint64_t min;
  uint64_t max;
};

Knob Number(const char* name, const char* group, uint64_t Config::*member, Unit unit, Bounds bounds,
            const char* description) {
  return Knob{.name = name,
              .group = group,
              .member = member,
              .unit = unit,
              .min = bounds.min,
              .max = bounds.max,
              .description = description};
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

std::vector<Knob> StorageKnobs() {
  return {
      Text("data_dir", kStorage, &Config::data_dir,
           "The directory for all data. Required. Created if absent (mode 0700). One daemon at a "
           "time may use it."),
      Number("shards", kStorage, &Config::shards, Unit::kCount, {0, 64},
             "Number of shards, each with its share of the messages and its own thread. Fixed when "
             "the data directory is created. 0: half the cores for a new directory, else the "
             "directory's number."),
      Number("disk_free_min_bytes", kStorage, &Config::disk_free_min_bytes, Unit::kBytes, {0, kTiB},
             "With less free space than this in data_dir, the server refuses new messages "
             "(DISK_LOW); deliveries and acks go on. 0: never."),
      Number("block_cache_bytes", kStorage, &Config::block_cache_bytes, Unit::kBytes, {kMiB, kTiB},
             "Memory for blocks that were read from disk."),
      Number("write_buffer_bytes", kStorage, &Config::write_buffer_bytes, Unit::kBytes,
             {kMiB, 4 * kGiB}, "Size at which a memtable is written to a table file."),
      Number("wal_bytes_max", kStorage, &Config::wal_bytes_max, Unit::kBytes, {4 * kMiB, 64 * kGiB},
             "Maximum size of the write-ahead log. A restart after a crash replays up to this "
             "much, at about 40 MB/s."),
  };
}

std::vector<Knob> NetworkKnobs() {
  return {
      Text("listen", kNetwork, &Config::listen,
           "Addresses for gRPC: host:port or unix:/path. May be given several times. Port 0: the "
           "system chooses a port."),
      Text("metrics_listen", kNetwork, &Config::metrics_listen,
           "Address for Prometheus metrics over plain HTTP (/metrics). Empty: no metrics."),
      Text("tls_cert", kNetwork, &Config::tls_cert,
           "PEM file with the server's certificate chain. Enables TLS for all TCP addresses. The "
           "server reloads the file when it changes."),
      Text("tls_key", kNetwork, &Config::tls_key, "PEM file with the key of tls_cert."),
      Text("tls_client_ca", kNetwork, &Config::tls_client_ca,
           "PEM file with the authorities that sign client certificates. If set, every client must "
           "present a certificate."),
      Text("insecure_nonloopback", kNetwork, &Config::insecure_nonloopback,
           "Allow unencrypted, unauthenticated addresses that other machines can reach. Any client "
           "that reaches one can read, cancel and settle every message."),
      Number("io_threads", kNetwork, &Config::io_threads, Unit::kCount, {0, 64},
             "Number of threads that serve connections. 0: half the cores, at least 1."),
  };
}

std::vector<Knob> RequestKnobs() {
  return {
      Number("horizon_ms", kRequests, &Config::horizon_ms, Unit::kMillis, {kSecond, 36'500 * kDay},
             "The longest time from now to a deliver_time."),
      Number("payload_bytes_max", kRequests, &Config::payload_bytes_max, Unit::kBytes,
             {1, 64 * kMiB}, "Maximum size of a payload."),
      Number("attributes_max", kRequests, &Config::attributes_max, Unit::kCount, {0, 1'000},
             "Maximum number of attributes of a message."),
      Number("attributes_bytes_max", kRequests, &Config::attributes_bytes_max, Unit::kBytes,
             {0, kMiB}, "Maximum size of all attribute keys and values of a message."),
      Number("labels_max", kRequests, &Config::labels_max, Unit::kCount, {0, 64},
             "Maximum number of labels of a message."),
      Number("batch_messages_max", kRequests, &Config::batch_messages_max, Unit::kCount,
             {1, 100'000},
             "Maximum number of messages in a ScheduleBatch, a frame of a ScheduleStream, or a "
             "CancelBatch."),
      Number("batch_bytes_max", kRequests, &Config::batch_bytes_max, Unit::kBytes,
             {64 * kKiB, kGiB}, "Maximum size of a request."),
      Number("topics_max", kRequests, &Config::topics_max, Unit::kCount, {1, 10'000'000},
             "Maximum number of topics. Each topic costs memory for its name and its queue."),
      Number("subscriptions_max", kRequests, &Config::subscriptions_max, Unit::kCount, {1, 100'000},
             "Maximum number of subscriptions of a topic. Each subscription costs memory, and one "
             "record for each message that other subscriptions have settled and it has not."),
      Text("topics_auto_create", kRequests, &Config::topics_auto_create,
           "Create a topic when a message or a subscriber first names it, and a subscription when "
           "a subscriber first names it. If false, the server refuses such requests "
           "(TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND)."),
      Number("outstanding_messages_max", kRequests, &Config::outstanding_messages_max, Unit::kCount,
             {1, 10'000'000}, "Maximum number of unsettled messages of one subscriber."),
      Number("streams_max", kRequests, &Config::streams_max, Unit::kCount, {1, 1'000'000},
             "Maximum number of connected subscribers, and of open ScheduleStreams."),
      Number("reads_max", kRequests, &Config::reads_max, Unit::kCount, {1, 100'000},
             "Maximum number of waiting lists and forecasts. More are refused (OVERLOADED)."),
  };
}

std::vector<Knob> PipelineKnobs() {
  return {
      Number("mailbox_commands_max", kPipeline, &Config::mailbox_commands_max, Unit::kCount,
             {1, 10'000'000},
             "Maximum number of requests that wait for one shard. More are refused (OVERLOADED)."),
      Number("mailbox_bytes_max", kPipeline, &Config::mailbox_bytes_max, Unit::kBytes,
             {64 * kKiB, 64 * kGiB}, "Maximum size of the requests that wait for one shard."),
      Number("group_records_max", kPipeline, &Config::group_records_max, Unit::kCount,
             {1, 1'000'000},
             "Maximum number of records in one synced write, which bounds its latency. Other "
             "records wait for the next write."),
      Number("group_bytes_max", kPipeline, &Config::group_bytes_max, Unit::kBytes,
             {64 * kKiB, kGiB}, "Maximum size of one synced write."),
  };
}

std::vector<Knob> DeliveryKnobs() {
  return {
      Number("load_window_ms", kDelivery, &Config::load_window_ms, Unit::kMillis, {kSecond, kDay},
             "The timing wheel holds messages that are due within this time."),
      Number("loaded_max", kDelivery, &Config::loaded_max, Unit::kCount, {1'000, 100'000'000},
             "Maximum number of messages in the timing wheel of one shard, about 40 bytes each. "
             "Messages from disk may fill half of it. The rest is for new messages that are due "
             "within load_window_ms."),
      Number(
          "due_max", kDelivery, &Config::due_max, Unit::kCount, {1'000, 100'000'000},
          "Maximum number of due messages in memory per shard. Other due messages wait on disk."),
      Number(
          "due_idle_max", kDelivery, &Config::due_idle_max, Unit::kCount, {0, 10'000'000},
          "Maximum number of due messages in memory per shard for a topic without a subscriber."),
      Number("frame_messages_max", kDelivery, &Config::frame_messages_max, Unit::kCount,
             {1, 10'000}, "Maximum number of deliveries in a response."),
      Number("frame_bytes_max", kDelivery, &Config::frame_bytes_max, Unit::kBytes,
             {kKiB, 64 * kMiB},
             "Maximum size of a response. A single larger message is sent alone."),
      Number("claim_ahead_ms", kDelivery, &Config::claim_ahead_ms, Unit::kMillis,
             {10, 60 * kSecond},
             "How far the claim runs ahead of the clock. After a crash, Cancel of a message due "
             "before the claim answers that it may have been delivered."),
      Number("claim_renew_ms", kDelivery, &Config::claim_renew_ms, Unit::kMillis, {1, 60 * kSecond},
             "The server renews the claim when it is only this far ahead. Must be less than "
             "claim_ahead_ms, and should exceed the time of a disk sync."),
      Number("spill_age_ms", kDelivery, &Config::spill_age_ms, Unit::kMillis, {kSecond, kDay},
             "A due message that is unsettled for this long moves to the backlog, so that it does "
             "not hold back the low watermark."),
      Number("low_watermark_period_ms", kDelivery, &Config::low_watermark_period_ms, Unit::kMillis,
             {10, 60 * kSecond},
             "How often the server writes the low watermark, from which a restart begins."),
      Number("heartbeat_ms", kDelivery, &Config::heartbeat_ms, Unit::kMillis, {100, kHour},
             "A stream that has sent nothing for this long sends a heartbeat."),
      Number("tombstone_retention_ms", kDelivery, &Config::tombstone_retention_ms, Unit::kMillis,
             {0, 400 * kDay},
             "How long the server keeps the tombstone and the key of an ended message, unless its "
             "topic says otherwise. 0: not at all."),
      Number("request_retention_ms", kDelivery, &Config::request_retention_ms, Unit::kMillis,
             {0, 30 * kDay}, "How long a repeat of a request_id returns the first answer."),
      Number("waiting_max", kDelivery, &Config::waiting_max, Unit::kCount, {1, 10'000'000},
             "Maximum number of requests per shard that wait for a change of the same message or "
             "key. More are refused (OVERLOADED)."),
      Number("recurrences_max", kDelivery, &Config::recurrences_max, Unit::kCount, {0, 1'000'000},
             "Maximum number of recurrences per shard. More are refused (RECURRENCE_LIMIT)."),
      Number(
          "recurrence_bytes_max", kDelivery, &Config::recurrence_bytes_max, Unit::kBytes,
          {0, 64 * kGiB},
          "Maximum size of the message templates of a shard's recurrences, which are in memory."),
      Number("operations_max", kDelivery, &Config::operations_max, Unit::kCount, {1, 100'000},
             "Maximum number of bulk operations that run or ended within a day. More are refused "
             "(OPERATION_LIMIT)."),
      Number("startup_rate", kDelivery, &Config::startup_rate, Unit::kCount, {0, 100'000'000},
             "Initial rate of each subscription after a start, in messages per second, so that "
             "waiting messages do not all arrive at once. The rate doubles each second, and the "
             "limit ends after ten. 0: no limit."),
      Number("failure_rate", kDelivery, &Config::failure_rate, Unit::kCount, {0, 100'000'000},
             "Subscriptions whose attempts fail faster than this, in messages per second and with "
             "acks subtracted, together get only this rate, until acks or time make up for the "
             "failures. 0: no limit."),
  };
}

std::vector<Knob> OtherKnobs() {
  return {
      Number("clock_forward_step_max_ms", kTime, &Config::clock_forward_step_max_ms, Unit::kMillis,
             {kSecond, 36'500 * kDay},
             "Server time does not follow a wall clock that jumps ahead by more than this until a "
             "restart, because messages released by a wrong clock cannot be called back."),
      Number("drain_grace_ms", kOperation, &Config::drain_grace_ms, Unit::kMillis,
             {0, 300 * kSecond}, "How long subscribers may settle messages after SIGTERM."),
      Text("log_level", kOperation, &Config::log_level, "The least severe log level to write.",
           "debug|info|warn|error"),
      Text("log_format", kOperation, &Config::log_format, "Format of the log on stderr.",
           "text|json"),
  };
}

}  // namespace

std::span<const Knob> Knobs() {
  static const std::vector<Knob> knobs = [] {
    std::vector<Knob> all;
    for (const std::vector<Knob>& part : {StorageKnobs(), NetworkKnobs(), RequestKnobs(),
                                          PipelineKnobs(), DeliveryKnobs(), OtherKnobs()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return knobs;
}

std::string FlagName(absl::string_view name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

absl::string_view UnitName(Unit unit) {
  switch (unit) {
    case Unit::kMillis:
      return "ms";
    case Unit::kBytes:
      return "bytes";
    case Unit::kCount:
    case Unit::kNone:
      return "";
  }
  return "";
}

std::string ValueText(const Knob& knob, const Config& config) {
  struct Printer {
    const Config& config;
    std::string operator()(std::string Config::*member) const { return Quoted(config.*member); }
    std::string operator()(bool Config::*member) const { return config.*member ? "true" : "false"; }
    std::string operator()(uint64_t Config::*member) const { return absl::StrCat(config.*member); }
    std::string operator()(std::vector<std::string> Config::*member) const {
      return absl::StrCat("[",
                          absl::StrJoin(config.*member, ", ",
                                        [](std::string* out, const std::string& item) {
                                          absl::StrAppend(out, Quoted(item));
                                        }),
                          "]");
    }
  };
  return std::visit(Printer{config}, knob.member);
}

std::string BoundsText(const Knob& knob) {
  const Config defaults;
  const std::string value = ValueText(knob, defaults);
  std::string text;
  if (!UnitName(knob.unit).empty()) text = absl::StrCat(UnitName(knob.unit), ", ");
  absl::StrAppend(&text, "default ", value);
  if (const auto* member = std::get_if<uint64_t Config::*>(&knob.member)) {
    const std::string pretty = FormatQuantity(defaults.*(*member), knob.unit);
    if (pretty != value) absl::StrAppend(&text, " (", pretty, ")");
    absl::StrAppend(&text, ", ", knob.min, " to ", knob.max);
  }
  if (knob.choices != nullptr) {
    absl::StrAppend(&text, ", one of ", absl::StrReplaceAll(knob.choices, {{"|", ", "}}));
  }
  return text;
}

}  // namespace duetime::config
