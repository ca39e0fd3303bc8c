// SPDX-License-Identifier: Apache-2.0
//
// Exporter: the HTTP server for Prometheus.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "server/metrics/exporter_options.h"
#include "server/metrics/page_server.h"
#include "server/metrics/registry.h"

namespace duetime::metrics {

// Why a probe is answered with 503. Each function returns the reason, or an empty text; null means
// that all is well.
struct ProbeTroubles {
  std::function<std::string()> not_ready = nullptr;
  std::function<std::string()> not_in_cell = nullptr;
  std::function<std::string()> not_healthy = nullptr;
};

// Serves GET /metrics with the current metrics of the registry; GET /healthz, which is 503 while a
// shard hangs; GET /readyz, which is 503 while the server accepts no calls; and GET /cellz, which
// is 503 while it neither accepts calls nor follows a leader. Plain HTTP without authentication: by
// default it listens on this machine only. The destructor ends the thread; no thread calls the
// registry afterwards.
class Exporter {
 public:
  // REQUIRES: `options.listen` is not empty. UNAVAILABLE if the exporter cannot listen on it.
  static absl::StatusOr<std::unique_ptr<Exporter>> Start(const ExporterOptions& options,
                                                         std::shared_ptr<Registry> registry,
                                                         ProbeTroubles troubles = {});
  // Like Start. Returns null if `options.listen` is empty.
  static absl::StatusOr<std::unique_ptr<Exporter>> StartIfWanted(const ExporterOptions& options,
                                                                 std::shared_ptr<Registry> registry,
                                                                 ProbeTroubles troubles);

  // The port in use. The system chose it if `listen` has port 0.
  uint16_t port() const { return server_->port(); }
  // The bound addresses with that port, separated by commas.
  std::string address() const;

 private:
  explicit Exporter(std::unique_ptr<PageServer> server) : server_(std::move(server)) {}

  const std::unique_ptr<PageServer> server_;
};

}  // namespace duetime::metrics
