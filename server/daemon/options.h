// SPDX-License-Identifier: Apache-2.0
//
// What main passes to its parts beside their knobs, and the exit codes of their errors.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/api/server.h"
#include "server/config/exit_code.h"
#include "server/config/load.h"
#include "server/runtime/backups.h"
#include "server/runtime/housekeeping.h"
#include "server/runtime/node.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime::metrics {
class Exporter;
}
namespace duetime::runtime {
class AuditLog;
class StallWatch;
}  // namespace duetime::runtime

namespace duetime {

// Forbids core dumps, unless core_dumps is set. Raises the limit of open files and divides it:
// lowers connections_max and metrics_connections_max if needed, and sets the store's
// open_files_max.
absl::Status FitProcessLimits(config::Config* config);

// The shards of a new store are half the cores; in a cell, 4, because all members need the same
// number. The store's warnings and errors go to the daemon's
// log. `init`: a missing store is created.
storage::RocksDbStoreOptions StoreOptionsOf(const storage::StoreOptions& knobs, bool init,
                                            bool in_cell);

// `store` outlives the housekeeping.
runtime::StoreTasks TasksOf(storage::RocksDbStore* store);

// Access control and the audit log of a run.
class Guarding {
 public:
  Guarding();
  ~Guarding();
  // Reads the access files and opens the audit log. An error names the file.
  absl::Status Open(const config::Config& config);
  // Null where the configuration wants none.
  api::Guards guards() const;
  // Reads the access files again if they have changed.
  absl::Status Reload();

 private:
  std::unique_ptr<access::AccessControl> access_;
  std::unique_ptr<runtime::AuditLog> audit_;
};

// What a backup needs of the store. `store` outlives the backups.
runtime::CheckpointTasks CheckpointsOf(storage::RocksDbStore* store);

// Adds the tasks of a run for every second. All parts outlive the housekeeping.
//
// One task checks that every shard makes progress, and tells the supervisor the state of the
// service. While every shard makes progress, the task keeps the supervisor's watchdog quiet. The
// housekeeping first writes to the data directory, so the watchdog also ends a daemon whose disk
// hangs. Returns the result of the checks.
std::shared_ptr<const runtime::StallWatch> AddTasks(runtime::Housekeeping* housekeeping,
                                                    Guarding* guarding, api::Server* grpc,
                                                    runtime::Backups* backups,
                                                    const runtime::Node* node);

// Logs that the daemon follows its cell, and tells the supervisor that it has started.
void LogStandby(const api::Server& grpc);

// Logs that the daemon serves, with its addresses, and tells the supervisor. `exporter` may be
// null.
void LogReady(const storage::RocksDbStore& store, const runtime::Node& node,
              const api::Server& grpc, const metrics::Exporter* exporter);

// Logs shards and I/O threads that do not fit the cores of the process.
void LogMisfit(uint64_t shards, const config::Config& config);

// Log why the store does not open, or why the server or the metrics cannot listen. Return the exit
// code.
config::ExitCode CannotOpen(const absl::Status& status);
config::ExitCode CannotListen(const absl::Status& status);

// Logs that the cause of a failed write has passed. Returns the exit code for the supervisor.
config::ExitCode RestartHelps();

// Runs `duetimed --verify`, `--repair` or `--restore`, if the command line asks for it. Fills in
// the exit code. Of --verify, fills in the output; the exit codes are 0 intact, 65 damaged, 66 not
// readable. --repair prints its lines at once, because it can take hours; 0 nothing is lost, 2
// something is.
void DoOffline(config::Loaded* loaded);

}  // namespace duetime
