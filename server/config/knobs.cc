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
           "Where messages are kept. Required. Created if absent (mode 0700); one daemon at a "
           "time."),
      Number(
          "shards", kStorage, &Config::shards, Unit::kCount, {0, 64},
          "Independent engines, each with its share of the messages and a thread. Fixed when the "
          "data directory is created; 0 takes half the cores then, and what is there later."),
      Number("disk_free_min_bytes", kStorage, &Config::disk_free_min_bytes, Unit::kBytes, {0, kTiB},
             "With less free space than this in data_dir, new messages are refused (DISK_LOW); "
             "deliveries and acks go on. 0 never refuses."),
      Number("block_cache_bytes", kStorage, &Config::block_cache_bytes, Unit::kBytes, {kMiB, kTiB},
             "Memory for blocks read from disk."),
      Number("write_buffer_bytes", kStorage, &Config::write_buffer_bytes, Unit::kBytes,
             {kMiB, 4 * kGiB}, "Size of one in-memory table before it is written out as a file."),
      Number("wal_bytes_max", kStorage, &Config::wal_bytes_max, Unit::kBytes, {4 * kMiB, 64 * kGiB},
             "Size of the write-ahead log that forces tables out. A restart after a crash replays "
             "up to this much, at about 40 MB/s."),
  };
}

std::vector<Knob> NetworkKnobs() {
  return {
      Text("listen", kNetwork, &Config::listen,
           "Addresses for gRPC: host:port or unix:/path; may be given several times. Port 0 lets "
           "the system choose."),
      Text("metrics_listen", kNetwork, &Config::metrics_listen,
           "Address for Prometheus metrics over plain HTTP (/metrics); empty turns them off."),
      Text("tls_cert", kNetwork, &Config::tls_cert,
           "PEM file with the server's certificate chain. Turns TLS on for all TCP addresses. "
           "Read again when it changes."),
      Text("tls_key", kNetwork, &Config::tls_key, "PEM file with the key of tls_cert."),
      Text("tls_client_ca", kNetwork, &Config::tls_client_ca,
           "PEM file with the authorities that sign client certificates; if set, every client must "
           "show one."),
      Text("insecure_nonloopback", kNetwork, &Config::insecure_nonloopback,
           "Allow unencrypted, unauthenticated addresses that other machines can reach. Anyone who "
           "reaches one can read, cancel and settle every message."),
      Number("io_threads", kNetwork, &Config::io_threads, Unit::kCount, {0, 64},
             "Threads that serve connections; 0 takes half the cores, at least 1."),
  };
}

std::vector<Knob> RequestKnobs() {
  return {
      Number("horizon_ms", kRequests, &Config::horizon_ms, Unit::kMillis, {kSecond, 36'500 * kDay},
             "How far ahead a message may be scheduled."),
      Number("payload_bytes_max", kRequests, &Config::payload_bytes_max, Unit::kBytes,
             {1, 64 * kMiB}, "Size of one payload."),
      Number("attributes_max", kRequests, &Config::attributes_max, Unit::kCount, {0, 1'000},
             "Attributes of one message."),
      Number("attributes_bytes_max", kRequests, &Config::attributes_bytes_max, Unit::kBytes,
             {0, kMiB}, "Bytes of all attribute keys and values of one message."),
      Number("labels_max", kRequests, &Config::labels_max, Unit::kCount, {0, 64},
             "Labels of one message."),
      Number("batch_messages_max", kRequests, &Config::batch_messages_max, Unit::kCount,
             {1, 100'000},
             "Messages in one ScheduleBatch, one frame of a ScheduleStream, or one CancelBatch."),
      Number("batch_bytes_max", kRequests, &Config::batch_bytes_max, Unit::kBytes,
             {64 * kKiB, kGiB}, "Bytes of one request."),
      Number("topics_max", kRequests, &Config::topics_max, Unit::kCount, {1, 10'000'000},
             "Topics on this server; each costs memory for its name and its queue."),
      Number("subscriptions_max", kRequests, &Config::subscriptions_max, Unit::kCount, {1, 100'000},
             "Subscriptions of one topic; each costs memory, and a record for each message that "
             "others have settled and it has not."),
      Text("topics_auto_create", kRequests, &Config::topics_auto_create,
           "Make a topic when a message or a subscriber names it for the first time, and a "
           "subscription when a subscriber does. If not, such requests are refused "
           "(TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND) until CreateTopic or CreateSubscription has "
           "made it."),
      Number("outstanding_messages_max", kRequests, &Config::outstanding_messages_max, Unit::kCount,
             {1, 10'000'000}, "What one subscriber may hold delivered and unsettled at most."),
      Number("streams_max", kRequests, &Config::streams_max, Unit::kCount, {1, 1'000'000},
             "Subscribers connected at a time, and ScheduleStreams open at a time."),
      Number("reads_max", kRequests, &Config::reads_max, Unit::kCount, {1, 100'000},
             "Lists and forecasts that may wait for their turn; more are refused (OVERLOADED)."),
  };
}

std::vector<Knob> PipelineKnobs() {
  return {
      Number("mailbox_commands_max", kPipeline, &Config::mailbox_commands_max, Unit::kCount,
             {1, 10'000'000},
             "Requests that may wait for one shard; more are refused (OVERLOADED)."),
      Number("mailbox_bytes_max", kPipeline, &Config::mailbox_bytes_max, Unit::kBytes,
             {64 * kKiB, 64 * kGiB}, "Bytes of the requests that may wait for one shard."),
      Number("group_records_max", kPipeline, &Config::group_records_max, Unit::kCount,
             {1, 1'000'000},
             "Records in one synced write; more wait for the next, so that latency stays bounded."),
      Number("group_bytes_max", kPipeline, &Config::group_bytes_max, Unit::kBytes,
             {64 * kKiB, kGiB}, "Bytes in one synced write."),
  };
}

std::vector<Knob> DeliveryKnobs() {
  return {
      Number("load_window_ms", kDelivery, &Config::load_window_ms, Unit::kMillis, {kSecond, kDay},
             "Messages due within this window are held in the timing wheel."),
      Number(
          "loaded_max", kDelivery, &Config::loaded_max, Unit::kCount, {1'000, 100'000'000},
          "Messages in the timing wheel of one shard, about 40 bytes each. What lies on disk fills "
          "half of it; the rest is for what is accepted and due within load_window_ms."),
      Number("due_max", kDelivery, &Config::due_max, Unit::kCount, {1'000, 100'000'000},
             "Due messages that one shard holds in memory; more wait on disk."),
      Number("due_idle_max", kDelivery, &Config::due_idle_max, Unit::kCount, {0, 10'000'000},
             "Due messages that one shard holds in memory for a topic without a subscriber."),
      Number("frame_messages_max", kDelivery, &Config::frame_messages_max, Unit::kCount,
             {1, 10'000}, "Deliveries in one response."),
      Number("frame_bytes_max", kDelivery, &Config::frame_bytes_max, Unit::kBytes,
             {kKiB, 64 * kMiB}, "Bytes in one response; a single larger message goes alone."),
      Number(
          "claim_ahead_ms", kDelivery, &Config::claim_ahead_ms, Unit::kMillis, {10, 60 * kSecond},
          "How far ahead of the clock messages are released for delivery on disk. After a crash, "
          "Cancel of a message within this window answers that it may have been delivered."),
      Number("claim_renew_ms", kDelivery, &Config::claim_renew_ms, Unit::kMillis, {1, 60 * kSecond},
             "The next release is written when the clock comes this close to the last one; must be "
             "below claim_ahead_ms and should exceed the time of a disk sync."),
      Number("spill_age_ms", kDelivery, &Config::spill_age_ms, Unit::kMillis, {kSecond, kDay},
             "A due message that is unsettled for this long is listed on disk, so that a restart "
             "need not look further back."),
      Number("safe_period_ms", kDelivery, &Config::safe_period_ms, Unit::kMillis,
             {10, 60 * kSecond}, "How often the mark from which a restart begins is written."),
      Number("heartbeat_ms", kDelivery, &Config::heartbeat_ms, Unit::kMillis, {100, kHour},
             "A stream with nothing to send for this long gets a heartbeat."),
      Number("fate_retention_ms", kDelivery, &Config::fate_retention_ms, Unit::kMillis,
             {0, 400 * kDay},
             "How long it is remembered how a message ended, and its key kept, unless its topic "
             "says otherwise. With 0 a message is forgotten when it ends."),
      Number("request_retention_ms", kDelivery, &Config::request_retention_ms, Unit::kMillis,
             {0, 30 * kDay}, "How long a repeat of a request_id gets the first answer."),
      Number("waiting_max", kDelivery, &Config::waiting_max, Unit::kCount, {1, 10'000'000},
             "Requests of one shard that may wait for a change of the same message or key; more "
             "are refused (OVERLOADED)."),
      Number("recurrences_max", kDelivery, &Config::recurrences_max, Unit::kCount, {0, 1'000'000},
             "Recurrences of one shard; more are refused (RECURRENCE_LIMIT)."),
      Number("recurrence_bytes_max", kDelivery, &Config::recurrence_bytes_max, Unit::kBytes,
             {0, 64 * kGiB},
             "Bytes of the messages that the recurrences of one shard make; they are in memory."),
      Number("operations_max", kDelivery, &Config::operations_max, Unit::kCount, {1, 100'000},
             "Bulk operations that run or ended within a day; more are refused (OPERATION_LIMIT)."),
      Number("catch_up_rate", kDelivery, &Config::catch_up_rate, Unit::kCount, {0, 100'000'000},
             "Messages per second that each subscription is handed at first after a start, so that "
             "what piled up meanwhile does not come all at once. Doubles each second and ends "
             "after ten. 0 turns it off."),
      Number("failure_rate", kDelivery, &Config::failure_rate, Unit::kCount, {0, 100'000'000},
             "Subscriptions whose attempts fail faster than this, in messages per second and with "
             "acks taken off, are handed so many and no more, together, until that is made up for. "
             "0 turns it off."),
  };
}

std::vector<Knob> OtherKnobs() {
  return {
      Number("clock_forward_step_max_ms", kTime, &Config::clock_forward_step_max_ms, Unit::kMillis,
             {kSecond, 36'500 * kDay},
             "A wall clock that jumps ahead by more than this is not believed until a restart: "
             "messages released by a wrong clock can't be called back."),
      Number("drain_grace_ms", kOperation, &Config::drain_grace_ms, Unit::kMillis,
             {0, 300 * kSecond},
             "After SIGTERM, subscribers have this long to settle what they hold."),
      Text("log_level", kOperation, &Config::log_level, "The least severe messages to log.",
           "debug|info|warn|error"),
      Text("log_format", kOperation, &Config::log_format, "How a log line looks, on stderr.",
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
