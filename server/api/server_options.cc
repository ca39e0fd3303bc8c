// SPDX-License-Identifier: Apache-2.0
#include "server/api/server_options.h"

#include "server/config/version.h"

namespace duetime::api {

ServerOptions OptionsFromConfig(const config::Config& config) {
  ServerOptions options;
  options.listen = config.listen;
  options.tls_cert = config.tls_cert;
  options.tls_key = config.tls_key;
  options.tls_client_ca = config.tls_client_ca;
  options.insecure_nonloopback = config.insecure_nonloopback;
  options.io_threads = config.io_threads;
  options.limits.horizon_ms = config.horizon_ms;
  options.limits.payload_bytes_max = config.payload_bytes_max;
  options.limits.attributes_max = config.attributes_max;
  options.limits.attributes_bytes_max = config.attributes_bytes_max;
  options.limits.batch_messages_max = config.batch_messages_max;
  options.limits.batch_bytes_max = config.batch_bytes_max;
  options.limits.outstanding_messages_max = static_cast<int32_t>(config.outstanding_messages_max);
  options.limits.labels_max = config.labels_max;
  options.topics_max = config.topics_max;
  options.subscriptions_max = config.subscriptions_max;
  options.topics_auto_create = config.topics_auto_create;
  options.reads_max = config.reads_max;
  options.tombstone_retention_ms = config.tombstone_retention_ms;
  options.request_retention_ms = config.request_retention_ms;
  options.streams_max = config.streams_max;
  options.heartbeat_ms = config.heartbeat_ms;
  options.drain_grace_ms = config.drain_grace_ms;
  options.version = config::Version();
  return options;
}

}  // namespace duetime::api
