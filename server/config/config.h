// SPDX-License-Identifier: Apache-2.0
//
// Config: all knobs of the daemon. Each room declares its options with their defaults. The table in
// knobs.cc gives each knob its name, unit, bounds and text. The flags, the keys of the TOML file,
// `duetimed --help` and the checks follow from the table.
#pragma once

#include "absl/status/status.h"

#include "server/access/access_control.h"
#include "server/api/server_options.h"
#include "server/cell/cell_options.h"
#include "server/gateway/gateway_options.h"
#include "server/metrics/exporter_options.h"
#include "server/runtime/audit_log.h"
#include "server/runtime/runtime_options.h"
#include "storage/store_options.h"

namespace duetime::config {

// The configuration in force. Plain data, filled by Load() (load.h), or by hand in tests. Every
// number is in the unit that ends its name. 0 means "automatic" or "off" only where the table says
// so.
struct Config {
  storage::StoreOptions store;
  api::ServerOptions server;
  runtime::NodeOptions node;
  runtime::HousekeepingOptions housekeeping;
  runtime::BackupOptions backup;
  runtime::ProcessOptions process;
  runtime::ClockOptions clock;
  runtime::LogOptions log;
  metrics::ExporterOptions metrics;
  cell::CellOptions cell;
  gateway::GatewayOptions gateway;
  access::AccessOptions access;
  runtime::AuditOptions audit;
};

// Checks every bound of the table and the rules between knobs. INVALID_ARGUMENT with one line per
// fault. Each line names the knob and the allowed values.
absl::Status Validate(const Config& config);

}  // namespace duetime::config
