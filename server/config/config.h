// SPDX-License-Identifier: Apache-2.0
//
// Config: what an operator may set. Each room declares its options with their defaults. The table
// in knobs.cc gives each knob its name, unit, bounds and text; the flags, the keys of the TOML
// file, `duetimed --help` and the checks follow from the table.
#pragma once

#include "absl/status/status.h"

#include "server/api/server_options.h"
#include "server/metrics/exporter_options.h"
#include "server/runtime/runtime_options.h"
#include "storage/store_options.h"

namespace duetime::config {

// The configuration in force. Plain data: made by Load() (load.h) or by hand in tests. Every number
// is in the unit that ends its name; 0 means "automatic" or "off" only where the table says so.
struct Config {
  storage::StoreOptions store;
  api::ServerOptions server;
  runtime::NodeOptions node;
  runtime::HousekeepingOptions housekeeping;
  runtime::ClockOptions clock;
  runtime::LogOptions log;
  metrics::ExporterOptions metrics;
};

// Checks every bound of the table and what the knobs must be together. INVALID_ARGUMENT with one
// line per fault, each naming the knob, its value and what is allowed.
absl::Status Validate(const Config& config);

}  // namespace duetime::config
