// SPDX-License-Identifier: Apache-2.0
#include "server/config/knobs.h"

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
constexpr char kAccess[] = "Access";
constexpr char kRequests[] = "Limits of requests";
constexpr char kPipeline[] = "Threads and queues";
constexpr char kDelivery[] = "Delivery";
constexpr char kTime[] = "Time";
constexpr char kCell[] = "Cell";
constexpr char kGateway[] = "Gateway";
constexpr char kOperation[] = "Operation";

// A knob whose value is a text, a list of texts, or a bool; `accessor` decides which.
template <typename Accessor>
Knob Text(const char* name, const char* group, const char* description, Accessor accessor) {
  using Value = std::remove_pointer_t<std::invoke_result_t<Accessor, Config&>>;
  return Knob{
      .name = name, .group = group, .field = Field<Value>(accessor), .description = description};
}

Knob Choice(const char* name, const char* group, const char* choices, const char* description,
            Field<std::string> field) {
  return Knob{
      .name = name, .group = group, .field = field, .choices = choices, .description = description};
}

struct Bounds {
  uint64_t min;
  uint64_t max;
};

Knob Number(const char* name, const char* group, Unit unit, Bounds bounds, const char* description,
            Field<uint64_t> field) {
  return Knob{.name = name,
              .group = group,
              .field = field,
              .unit = unit,
              .min = bounds.min,
              .max = bounds.max,
              .description = description};
}

std::vector<Knob> StorageKnobs() {
  return {
      Text("data_dir", kStorage,
           "The directory for all data. Required. Only --init creates it (mode 0700). One daemon "
           "at a "
           "time may use it.",
           [](auto& c) { return &c.store.data_dir; }),
      Number("shards", kStorage, Unit::kCount, {0, 64},
             "Number of shards, each with its share of the messages and its own thread. Fixed when "
             "the data directory is created. 0: for a new directory, half the cores that the "
             "process may use (its control groups and its affinity limit them), from 1 to 8; else "
             "the directory's number.",
             [](auto& c) { return &c.store.shards; }),
      Number("disk_free_min_bytes", kStorage, Unit::kBytes, {0, kTiB},
             "With less free space than this in data_dir, the server refuses new messages "
             "(DISK_LOW); deliveries and acks go on. 0: never.",
             [](auto& c) { return &c.housekeeping.disk_free_min_bytes; }),
      Number("backup_bytes_per_second", kStorage, Unit::kBytes, {0, kTiB},
             "The most that a backup (duetime backup) reads from the disk in a second, so that it "
             "does not delay messages. 0: no limit.",
             [](auto& c) { return &c.backup.backup_bytes_per_second; }),
      Number("block_cache_bytes", kStorage, Unit::kBytes, {kMiB, kTiB},
             "Memory for blocks that were read from disk.",
             [](auto& c) { return &c.store.block_cache_bytes; }),
      Number("write_buffer_bytes", kStorage, Unit::kBytes, {kMiB, 4 * kGiB},
             "Size at which a memtable is written to a table file.",
             [](auto& c) { return &c.store.write_buffer_bytes; }),
      Number("wal_bytes_max", kStorage, Unit::kBytes, {4 * kMiB, 64 * kGiB},
             "Maximum size of the write-ahead log. A restart after a crash replays up to this "
             "much, at about 40 MB/s.",
             [](auto& c) { return &c.store.wal_bytes_max; }),
  };
}

std::vector<Knob> NetworkKnobs() {
  return {
      Text("listen", kNetwork,
           "Addresses for gRPC: host:port or unix:/path. May be given several times. A name stands "
           "for all its addresses. Port 0: the system chooses a port.",
           [](auto& c) { return &c.server.listen; }),
      Text(
          "metrics_listen", kNetwork,
          "Address for Prometheus metrics over plain HTTP (/metrics), host:port. A name stands for "
          "all its addresses. Empty: no metrics.",
          [](auto& c) { return &c.metrics.listen; }),
      Text(
          "metrics_insecure_nonloopback", kNetwork,
          "Allow other machines to reach metrics_listen. Its answers are not encrypted and hold no "
          "payload. They have names only with metrics_names_nonloopback.",
          [](auto& c) { return &c.metrics.insecure_nonloopback; }),
      Number("metrics_connections_max", kNetwork, Unit::kCount, {1, 10'000},
             "Maximum number of connections to metrics_listen. Beyond it, the oldest is closed, so "
             "that slow readers do not shut out others. At most an eighth of the limit of open "
             "files.",
             [](auto& c) { return &c.metrics.connections_max; }),
      Number("metrics_pairs_max", kNetwork, Unit::kCount, {0, 100'000},
             "Maximum number of pairs of a topic and a subscription that have metrics of their "
             "own: those of metrics_topics, then the busiest. A pair keeps its metrics until the "
             "server ends; all others are added up as \"*\".",
             [](auto& c) { return &c.metrics.pairs_max; }),
      Text("metrics_topics", kNetwork,
           "Topics whose subscriptions are the first of metrics_pairs_max. May be given several "
           "times.",
           [](auto& c) { return &c.metrics.topics; }),
      Text("metrics_names_nonloopback", kNetwork,
           "With metrics_insecure_nonloopback: show the names of topics and subscriptions all the "
           "same. Otherwise all pairs are added up as \"*\".",
           [](auto& c) { return &c.metrics.names_nonloopback; }),
      Text("tls_cert", kNetwork,
           "PEM file with the server's certificate chain. Enables TLS for all TCP addresses. The "
           "server reads the TLS files again within a second or two after a change; files that do "
           "not fit together change nothing.",
           [](auto& c) { return &c.server.tls_cert; }),
      Text("tls_key", kNetwork, "PEM file with the key of tls_cert.",
           [](auto& c) { return &c.server.tls_key; }),
      Text("tls_client_ca", kNetwork,
           "PEM file with the authorities that sign client certificates. If set, every TLS client "
           "must present a certificate, unless tls_client_auth says otherwise.",
           [](auto& c) { return &c.server.tls_client_ca; }),
      Choice(
          "tls_client_auth", kNetwork, "require|request",
          "With tls_client_ca: require a certificate of each TLS client, or request one and also "
          "accept clients without, which then need a token (access_file, tokens_file).",
          [](auto& c) { return &c.server.tls_client_auth; }),
      Text(
          "insecure_nonloopback", kNetwork,
          "Allow unencrypted, or unauthenticated, addresses that other machines can reach. Without "
          "access_file, tokens_file and tls_client_ca, any client that reaches one can read, "
          "cancel and settle every message.",
          [](auto& c) { return &c.server.insecure_nonloopback; }),
  };
}

std::vector<Knob> ConnectionKnobs() {
  return {
      Number("connections_max", kNetwork, Unit::kCount, {1, 1'000'000},
             "Maximum number of connections. More are closed at once. At most half of the limit of "
             "open files.",
             [](auto& c) { return &c.server.connections_max; }),
      Number("connections_per_peer_max", kNetwork, Unit::kCount, {1, 1'000'000},
             "Maximum number of connections of one IPv4 address, or of one IPv6 network of 64 "
             "bits.",
             [](auto& c) { return &c.server.connections_per_peer_max; }),
      Number("connection_resets_max", kNetwork, Unit::kCount, {10, 1'000'000},
             "Calls that a client may reset in a second on one connection, and twice as many at "
             "once. Beyond it, the server closes the connection, because each reset call costs the "
             "server 11 KiB for a while.",
             [](auto& c) { return &c.server.connection_resets_max; }),
      Number("connection_idle_frames_max", kNetwork, Unit::kCount, {1'000, 10'000'000},
             "HTTP/2 frames without a call or message (window updates, pings, empty or small data) "
             "that a client may send in a second on one connection, and a quarter of them at once. "
             "Beyond it, the server closes the connection, because the other clients of the same "
             "I/O thread wait meanwhile.",
             [](auto& c) { return &c.server.connection_idle_frames_max; }),
      Number("unfinished_requests_max", kNetwork, Unit::kCount, {1'000, 10'000'000},
             "Maximum number of calls whose first message has not arrived completely, of all "
             "connections. Beyond it, the server closes the connection with the most. Each costs "
             "the server 11 KiB.",
             [](auto& c) { return &c.server.unfinished_requests_max; }),
      Number("untaken_answers_bytes_max", kNetwork, Unit::kBytes, {kMiB, 64 * kGiB},
             "Maximum size of all answers that clients have not read yet. Beyond it, each I/O "
             "thread that has more than an equal share drops its oldest such answers, and their "
             "calls end with CANCELLED; all together stay below twice the maximum.",
             [](auto& c) { return &c.server.untaken_answers_bytes_max; }),
      Number(
          "io_threads", kNetwork, Unit::kCount, {0, 64},
          "Number of threads that serve connections. 0: half the cores that the process may use, "
          "from 1 to 8.",
          [](auto& c) { return &c.server.io_threads; }),
  };
}

std::vector<Knob> AccessKnobs() {
  return {
      Text("access_file", kAccess,
           "TOML file with the rules: who may do what on which topics; also groups, quotas and JWT "
           "settings. Once it, or tokens_file, is set, every client must authenticate. The server "
           "reads both files again within a second after a change.",
           [](auto& c) { return &c.access.access_file; }),
      Text("tokens_file", kAccess,
           "TOML file with the hashes of the tokens that `duetime token` makes.",
           [](auto& c) { return &c.access.tokens_file; }),
      Number("auth_failures_max", kAccess, Unit::kCount, {1, 1'000'000},
             "Refused credentials per second and peer address. Beyond it, the server verifies no "
             "JWT of that address (TOO_MANY_REFUSED_CREDENTIALS), and audits no more of its "
             "refusals.",
             [](auto& c) { return &c.access.auth_failures_max; }),
      Text("audit_log", kAccess,
           "File for one JSON line per administrative change and refused access, or \"stderr\". "
           "Empty: none.",
           [](auto& c) { return &c.audit.audit_log; }),
      Text("audit_cancels", kAccess, "Audit each Cancel and CancelBatch, too.",
           [](auto& c) { return &c.audit.audit_cancels; }),
      Number("audit_file_bytes_max", kAccess, Unit::kBytes, {64 * kKiB, kTiB},
             "Size at which the audit log begins a new file.",
             [](auto& c) { return &c.audit.audit_file_bytes_max; }),
      Number("audit_files_max", kAccess, Unit::kCount, {1, 1'000},
             "Number of older files of the audit log that are kept.",
             [](auto& c) { return &c.audit.audit_files_max; }),
  };
}

std::vector<Knob> RequestKnobs() {
  return {
      Number("horizon_ms", kRequests, Unit::kMillis, {kSecond, 36'500 * kDay},
             "The longest time from now to a deliver_time.",
             [](auto& c) { return &c.server.limits.horizon_ms; }),
      Number("payload_bytes_max", kRequests, Unit::kBytes, {1, 64 * kMiB},
             "Maximum size of a payload.",
             [](auto& c) { return &c.server.limits.payload_bytes_max; }),
      Number("attributes_max", kRequests, Unit::kCount, {0, 1'000},
             "Maximum number of attributes of a message.",
             [](auto& c) { return &c.server.limits.attributes_max; }),
      Number("attributes_bytes_max", kRequests, Unit::kBytes, {0, kMiB},
             "Maximum size of all attribute keys and values of a message.",
             [](auto& c) { return &c.server.limits.attributes_bytes_max; }),
      Number("labels_max", kRequests, Unit::kCount, {0, 64},
             "Maximum number of labels of a message.",
             [](auto& c) { return &c.server.limits.labels_max; }),
      Number("batch_messages_max", kRequests, Unit::kCount, {1, 100'000},
             "Maximum number of messages in a ScheduleBatch, a frame of a ScheduleStream, or a "
             "CancelBatch.",
             [](auto& c) { return &c.server.limits.batch_messages_max; }),
      Number("batch_bytes_max", kRequests, Unit::kBytes, {64 * kKiB, kGiB},
             "Maximum size of a request with more than one message.",
             [](auto& c) { return &c.server.limits.batch_bytes_max; }),
      Number(
          "call_stream_calls_max", kRequests, Unit::kCount, {1, 1'000'000},
          "Maximum number of calls without an answer on one CallStream. The server reads no more "
          "from the stream until some are answered.",
          [](auto& c) { return &c.server.limits.call_stream_calls_max; }),
      Number("topics_max", kRequests, Unit::kCount, {1, 10'000'000},
             "Maximum number of topics, with the names that are reserved for dead letters. As many "
             "names of deleted topics may stay besides, until their retention has passed. Each "
             "topic and each name of a deleted one costs memory.",
             [](auto& c) { return &c.node.catalog.topics_max; }),
      Number("subscriptions_max", kRequests, Unit::kCount, {1, 100'000},
             "Maximum number of subscriptions of a topic. Each subscription costs memory, and one "
             "record for each message that other subscriptions have settled and it has not.",
             [](auto& c) { return &c.node.catalog.subscriptions_max; }),
      Text("topics_auto_create", kRequests,
           "Create a topic when a message or a subscriber first names it, and a subscription when "
           "a subscriber first names it. If false, the server refuses such requests "
           "(TOPIC_NOT_FOUND, SUBSCRIPTION_NOT_FOUND).",
           [](auto& c) { return &c.node.catalog.auto_create; }),
      Number("outstanding_messages_max", kRequests, Unit::kCount, {1, 10'000'000},
             "Maximum number of unsettled messages of one subscriber.",
             [](auto& c) { return &c.server.limits.outstanding_messages_max; }),
      Number("streams_max", kRequests, Unit::kCount, {1, 1'000'000},
             "Maximum number of connected subscribers, of open ScheduleStreams, and of open "
             "CallStreams.",
             [](auto& c) { return &c.server.streams_max; }),
      Number("stream_unsent_bytes_max", kRequests, Unit::kBytes, {64 * kKiB, kGiB},
             "Maximum size of the deliveries that wait for one subscriber to read them. Beyond it, "
             "the subscriber gets no more before it has read some, whatever its credit is.",
             [](auto& c) { return &c.server.stream_unsent_bytes_max; }),
      Number("reads_max", kRequests, Unit::kCount, {1, 100'000},
             "Maximum number of waiting lists and forecasts. More are refused (OVERLOADED).",
             [](auto& c) { return &c.server.reads_max; }),
      Number("open_answers_bytes_max", kRequests, Unit::kBytes, {kMiB, 64 * kGiB},
             "Maximum size of all payloads and pages that were read for answers and are not given "
             "to gRPC yet. Beyond it, Get, Explain, Pull, List and the calls of recurrences are "
             "refused (OVERLOADED).",
             [](auto& c) { return &c.server.open_answers_bytes_max; }),
  };
}

std::vector<Knob> PipelineKnobs() {
  return {
      Number("mailbox_commands_max", kPipeline, Unit::kCount, {1, 10'000'000},
             "Maximum number of requests that wait for one shard, of open Settle calls, and of "
             "open calls for bulk operations. More are refused (OVERLOADED).",
             [](auto& c) { return &c.node.mailbox.commands_max; }),
      Number("mailbox_bytes_max", kPipeline, Unit::kBytes, {64 * kKiB, 64 * kGiB},
             "Maximum size of the requests that wait for one shard.",
             [](auto& c) { return &c.node.mailbox.bytes_max; }),
      Number("group_records_max", kPipeline, Unit::kCount, {1, 1'000'000},
             "Maximum number of records in one synced write, which bounds its latency. Other "
             "records wait for the next write.",
             [](auto& c) { return &c.node.group.records_max; }),
      Number("group_bytes_max", kPipeline, Unit::kBytes, {64 * kKiB, kGiB},
             "Maximum size of one synced write.", [](auto& c) { return &c.node.group.bytes_max; }),
  };
}

std::vector<Knob> DeliveryKnobs() {
  return {
      Number("load_window_ms", kDelivery, Unit::kMillis, {kSecond, kDay},
             "The timing wheel holds messages that are due within this time.",
             [](auto& c) { return &c.node.limits.scheduler.load_window_ms; }),
      Number("loaded_max", kDelivery, Unit::kCount, {1'000, 100'000'000},
             "Maximum number of messages in the timing wheel of one shard, about 40 bytes each. "
             "Messages from disk may fill half of it. The rest is for new messages that are due "
             "within load_window_ms.",
             [](auto& c) { return &c.node.limits.scheduler.loaded_max; }),
      Number("recent_messages_max", kDelivery, Unit::kCount, {0, 100'000'000},
             "The number of messages that a shard accepted last whose cancels read nothing, 40 "
             "bytes each. Those with a key do not count.",
             [](auto& c) { return &c.node.limits.scheduler.recent_messages_max; }),
      Number("due_max", kDelivery, Unit::kCount, {1'000, 100'000'000},
             "Maximum number of due messages in memory per shard. Other due messages wait on disk.",
             [](auto& c) { return &c.node.limits.due_max; }),
      Number("due_idle_max", kDelivery, Unit::kCount, {0, 10'000'000},
             "Maximum number of due messages in memory per shard for a topic without a subscriber.",
             [](auto& c) { return &c.node.limits.due_idle_max; }),
      Number("frame_messages_max", kDelivery, Unit::kCount, {1, 10'000},
             "Maximum number of deliveries in a response.",
             [](auto& c) { return &c.node.limits.frame_messages_max; }),
      Number("frame_bytes_max", kDelivery, Unit::kBytes, {kKiB, 64 * kMiB},
             "Maximum size of a response. A single larger message is sent alone.",
             [](auto& c) { return &c.node.limits.frame_bytes_max; }),
      Number("claim_ahead_ms", kDelivery, Unit::kMillis, {10, 60 * kSecond},
             "How far the claim runs ahead of the clock. After a crash, Cancel of a message due "
             "before the claim answers that it may have been delivered.",
             [](auto& c) { return &c.node.limits.scheduler.claim_ahead_ms; }),
      Number("claim_renew_ms", kDelivery, Unit::kMillis, {1, 60 * kSecond},
             "The server renews the claim when it is only this far ahead. Must be less than "
             "claim_ahead_ms, and should exceed the time of a disk sync.",
             [](auto& c) { return &c.node.limits.scheduler.claim_renew_ms; }),
      Number("spill_age_ms", kDelivery, Unit::kMillis, {kSecond, kDay},
             "A due message that is unsettled for this long moves to the backlog, so that it does "
             "not hold back the low watermark.",
             [](auto& c) { return &c.node.limits.spill_age_ms; }),
      Number("low_watermark_period_ms", kDelivery, Unit::kMillis, {10, 60 * kSecond},
             "How often the server writes the low watermark, from which a restart begins.",
             [](auto& c) { return &c.node.limits.scheduler.low_watermark_period_ms; }),
      Number("heartbeat_ms", kDelivery, Unit::kMillis, {100, kHour},
             "A stream that has sent nothing for this long sends a heartbeat.",
             [](auto& c) { return &c.server.heartbeat_ms; }),
  };
}

std::vector<Knob> MessageKnobs() {
  return {
      Number("tombstone_retention_ms", kDelivery, Unit::kMillis, {0, 400 * kDay},
             "How long the server keeps the tombstone and the key of an ended message, unless its "
             "topic says otherwise. 0: not at all.",
             [](auto& c) { return &c.node.limits.tombstone_retention_ms; }),
      Number("request_retention_ms", kDelivery, Unit::kMillis, {0, 30 * kDay},
             "How long a repeat of a request_id returns the first answer.",
             [](auto& c) { return &c.node.limits.request_retention_ms; }),
      Number("waiting_max", kDelivery, Unit::kCount, {1, 10'000'000},
             "Maximum number of requests per shard that wait for a change of the same message or "
             "key. More are refused (OVERLOADED).",
             [](auto& c) { return &c.node.limits.waiting_max; }),
      Number("recurrences_max", kDelivery, Unit::kCount, {0, 1'000'000},
             "Maximum number of recurrences per shard. More are refused (RECURRENCE_LIMIT). "
             "Recurrences that completed longer than request_retention_ms ago give way to new "
             "ones.",
             [](auto& c) { return &c.node.limits.recurrences_max; }),
      Number("recurrence_bytes_max", kDelivery, Unit::kBytes, {0, 64 * kGiB},
             "Maximum size of the message templates of a shard's recurrences, which are in memory.",
             [](auto& c) { return &c.node.limits.recurrence_bytes_max; }),
      Number("operations_max", kDelivery, Unit::kCount, {1, 100'000},
             "Maximum number of bulk operations that run or ended within a day. More are refused "
             "(OPERATION_LIMIT). Those that ended longer than request_retention_ms ago give way to "
             "new ones.",
             [](auto& c) { return &c.node.limits.operations_max; }),
  };
}

std::vector<Knob> PacingKnobs() {
  return {
      Number("startup_rate", kDelivery, Unit::kCount, {0, 100'000'000},
             "Initial rate of each subscription after a start, in messages per second, so that "
             "waiting messages do not all arrive at once. The rate doubles each second, and the "
             "limit ends after ten. 0: no limit.",
             [](auto& c) { return &c.node.startup_rate; }),
      Number("failure_rate", kDelivery, Unit::kCount, {0, 100'000'000},
             "Subscriptions whose attempts fail faster than this, in messages per second and with "
             "acks subtracted, together get only this rate, until acks or time make up for the "
             "failures. 0: no limit.",
             [](auto& c) { return &c.node.failure_rate; }),
  };
}

std::vector<Knob> GatewayKnobs() {
  return {
      Text("gateway_cells", kGateway,
           "If set, this daemon is a gateway: it keeps nothing, and passes calls to these cells or "
           "single servers. One text for each, \"NAME SLOTS ADDRESS\": a short name, with which "
           "its ids "
           "begin; which of the slots 0-16383 of keys it has, such as 0-8191, or - for none; and "
           "where it is: host:port, ipv4:10.0.0.1:7788,10.0.0.2:7788, or dns:///NAME:7788 for a "
           "name with the addresses of all members. All gateways must have the same list, and a "
           "slot may "
           "not move while its keys are in use.",
           [](auto& c) { return &c.gateway.gateway_cells; }),
      Number("gateway_wait_ms", kGateway, Unit::kMillis, {100, 600 * kSecond},
             "How long a call waits for the answer of a cell. A shorter deadline of the client "
             "counts instead.",
             [](auto& c) { return &c.gateway.gateway_wait_ms; }),
      Number("gateway_open_bytes_max", kGateway, Unit::kBytes, {kMiB, kTiB},
             "Calls are refused with OVERLOADED while the requests that wait for their cells have "
             "this many bytes.",
             [](auto& c) { return &c.gateway.gateway_open_bytes_max; }),
  };
}

std::vector<Knob> CellKnobs() {
  return {
      Text("cell_brokers", kCell,
           "Brokers of Apache Kafka, host:port,host:port. If set, this server is a member of a "
           "cell: "
           "a topic of Kafka is its journal, one member serves, and the others follow it and take "
           "over. Empty: this server is alone.",
           [](auto& c) { return &c.cell.cell_brokers; }),
      Text("cell_topic", kCell,
           "The topic of Kafka that is the journal of the cell. The first member creates it. No "
           "other cell may use it.",
           [](auto& c) { return &c.cell.cell_topic; }),
      Number("cell_replicas", kCell, Unit::kCount, {1, 7},
             "How many brokers store each record of cell_topic. All but one of them must have a "
             "record before it is acknowledged. 1 is for trials only.",
             [](auto& c) { return &c.cell.cell_replicas; }),
      Text("cell_member", kCell,
           "The name of this member, other than those of the other members. Needed in a cell.",
           [](auto& c) { return &c.cell.cell_member; }),
      Text("cell_address", kCell,
           "host:port where clients reach this member. Other members tell it to clients. Needed in "
           "a cell.",
           [](auto& c) { return &c.cell.cell_address; }),
      Text("cell_kafka_file", kCell,
           "File with settings of librdkafka for TLS and SASL, one name=value per line, such as "
           "security.protocol=SASL_SSL. Empty: none.",
           [](auto& c) { return &c.cell.cell_kafka_file; }),
      Number("cell_heartbeat_ms", kCell, Unit::kMillis, {10, 60 * kSecond},
             "A leader without work writes an empty record this often.",
             [](auto& c) { return &c.cell.cell_heartbeat_ms; }),
      Number("cell_suspect_ms", kCell, Unit::kMillis, {100, 600 * kSecond},
             "A member takes over when the leader has written nothing for this long, or up to a "
             "fifth longer. A leader that cannot write stops its deliveries after two thirds of "
             "this time. At least four times cell_heartbeat_ms.",
             [](auto& c) { return &c.cell.cell_suspect_ms; }),
      Number("cell_clock_difference_max_ms", kCell, Unit::kMillis, {0, 60 * kSecond},
             "A member whose clock differs by more than this from those of other members does not "
             "lead while a member can whose clock differs from fewer. 0: clocks are not compared. "
             "The same for all members.",
             [](auto& c) { return &c.cell.cell_clock_difference_max_ms; }),
      Number("cell_log_keep_ms", kCell, Unit::kMillis, {kSecond, 30 * kDay},
             "The leader removes records from cell_topic that are older than this and that two "
             "members have had on disk for this time. A member that was away for longer fetches a "
             "checkpoint from the leader; to verify that must not take longer than this.",
             [](auto& c) { return &c.cell.cell_log_keep_ms; }),
      Text("cell_ca_file", kCell,
           "PEM file with the certificates that vouch for the tls_cert of the other members, whose "
           "checkpoints a member fetches, and of the cells of a gateway. Empty: the system's; a "
           "gateway then uses no TLS, unless it has a tls_cert itself.",
           [](auto& c) { return &c.cell.cell_ca_file; }),
      Text(
          "cell_token_file", kCell,
          "File with a token for the other members, of a principal that may make backups; or, of a "
          "gateway, for its cells, of one with the rights admin and operate on all topics. Empty: "
          "none.",
          [](auto& c) { return &c.cell.cell_token_file; }),
  };
}

Knob TestClock() {
  Knob knob = Text(
      "test_clock", kTime,
      "For tests of programs that use the server: server time begins at this time (RFC 3339, such "
      "as 2027-03-27T23:00:00Z), or at the machine's (now, and the flag without a value), and "
      "moves on when a client says so. Nothing is synced. A data directory that was made with it "
      "never starts without it, and no other starts with it. Empty: the machine's clock.",
      [](auto& c) { return &c.clock.test_clock; });
  knob.bare = "now";
  return knob;
}

std::vector<Knob> OtherKnobs() {
  return {
      Number("clock_forward_step_max_ms", kTime, Unit::kMillis, {kSecond, 36'500 * kDay},
             "Server time does not follow a wall clock that jumps ahead by more than this until a "
             "restart, because messages released by a wrong clock cannot be called back.",
             [](auto& c) { return &c.clock.forward_step_max_ms; }),
      TestClock(),
      Text("test_clock_frozen", kTime,
           "With test_clock: the clock stands still until a client moves it, or lets it run.",
           [](auto& c) { return &c.clock.test_clock_frozen; }),
      Text("test_clock_on_network", kTime,
           "With test_clock: other machines may reach the server, as they do in containers.",
           [](auto& c) { return &c.clock.test_clock_on_network; }),
      Number("drain_grace_ms", kOperation, Unit::kMillis, {0, 300 * kSecond},
             "How long subscribers may settle messages after SIGTERM. In a cell at most 100 ms, "
             "because the next leader waits.",
             [](auto& c) { return &c.server.drain_grace_ms; }),
      Text("engine_priority", kOperation,
           "The threads of the shards run at nice -10, so that a burst delays other messages less. "
           "Needs CAP_SYS_NICE or a nice limit of 30 (LimitNICE=30 in systemd); without it they "
           "keep the default priority.",
           [](auto& c) { return &c.node.engine_priority; }),
      Text("core_dumps", kOperation,
           "A crash may write a core dump, if the system allows it. It has tokens and payloads.",
           [](auto& c) { return &c.process.core_dumps; }),
      Choice("log_level", kOperation, "debug|info|warn|error",
             "The least severe log level to write.", [](auto& c) { return &c.log.level; }),
      Choice("log_format", kOperation, "text|json", "Format of the log on stderr.",
             [](auto& c) { return &c.log.format; }),
      Number(
          "slow_request_ms", kOperation, Unit::kMillis, {0, kHour},
          "Log each call with one answer that takes at least this long: method, time, status and "
          "client, at most 5 lines per minute, method and I/O thread. Pull and StartBulk wait by "
          "design and are left out. 0: none.",
          [](auto& c) { return &c.server.slow_request_ms; }),
      Number("log_buffer_bytes", kOperation, Unit::kBytes, {64 * kKiB, kGiB},
             "Memory for log lines that wait for the reader of stderr. Further lines are dropped "
             "and counted, because a reader that stalls must not stop the server.",
             [](auto& c) { return &c.log.buffer_bytes; }),
  };
}

}  // namespace

std::span<const Knob> Knobs() {
  static const std::vector<Knob> knobs = [] {
    std::vector<Knob> all;
    for (const std::vector<Knob>& part :
         {StorageKnobs(), NetworkKnobs(), ConnectionKnobs(), AccessKnobs(), RequestKnobs(),
          PipelineKnobs(), DeliveryKnobs(), MessageKnobs(), PacingKnobs(), CellKnobs(),
          GatewayKnobs(), OtherKnobs()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return knobs;
}

}  // namespace duetime::config
