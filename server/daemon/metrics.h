// SPDX-License-Identifier: Apache-2.0
//
// The metrics of a daemon or a gateway.
#pragma once

#include "server/config/config.h"
#include "server/metrics/exporter_options.h"
#include "server/metrics/pair_table.h"
#include "server/metrics/registry.h"
#include "server/metrics/rpc_stats.h"

namespace duetime::access {
class AccessControl;
}
namespace duetime::api {
class Server;
}
namespace duetime::base {
class Clock;
}
namespace duetime::cell {
class Roster;
}
namespace duetime::gateway {
struct GatewayContext;
}
namespace duetime::rpc {
class GrpcServer;
struct ServerState;
}  // namespace duetime::rpc
namespace duetime::runtime {
class AuditLog;
class Backups;
class Housekeeping;
class Node;
}  // namespace duetime::runtime
namespace duetime::storage {
class RocksDbStore;
}

namespace duetime {

// The parts of the process that its metrics read. Null: the process has no such part, and its
// metrics are 0.
struct Measured {
  const metrics::RpcStats* rpc = nullptr;
  base::Clock* clock = nullptr;
  const rpc::ServerState* state = nullptr;
  const rpc::GrpcServer* shell = nullptr;
  const runtime::Node* node = nullptr;
  const storage::RocksDbStore* store = nullptr;
  const api::Server* api = nullptr;
  const runtime::Housekeeping* housekeeping = nullptr;
  const runtime::Backups* backups = nullptr;
  const access::AccessControl* access = nullptr;
  const runtime::AuditLog* audit = nullptr;
  const cell::Roster* roster = nullptr;
  const gateway::GatewayContext* gateway = nullptr;
};

// Which pairs have metrics with their names: none if other machines could read the names, and the
// operator has not allowed that.
metrics::PairOptions PairsOf(const metrics::ExporterOptions& options);

// Registers all metrics of the process. `from.rpc` and `from.clock` are not null. All of `from`
// outlives the registry's last Collect.
void RegisterMetrics(const config::Config& config, const Measured& from,
                     metrics::Registry* registry);

}  // namespace duetime
