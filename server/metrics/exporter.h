// SPDX-License-Identifier: Apache-2.0
//
// Exporter: the HTTP server for Prometheus.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "server/metrics/collector.h"
#include "server/metrics/exporter_options.h"

namespace prometheus {
class Exposer;
}  // namespace prometheus

namespace duetime::metrics {

// Serves GET /metrics with the collector's current metrics. Owns its threads. Plain HTTP without
// authentication: by default it listens on this machine only.
class Exporter {
 public:
  // `listen` is as in ExporterOptions, and not empty. UNAVAILABLE if the address can't be had.
  static absl::StatusOr<std::unique_ptr<Exporter>> Start(const std::string& listen,
                                                         std::shared_ptr<Collector> collector);
  // The same, or null if there are to be no metrics.
  static absl::StatusOr<std::unique_ptr<Exporter>> StartIfWanted(
      const ExporterOptions& options, std::shared_ptr<Collector> collector);
  // Ends the threads: afterwards the collector is not asked any more.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // The port in force, which the system chose for port 0.
  uint16_t port() const;
  // `listen` with that port.
  std::string address() const;

 private:
  Exporter(std::string host, std::unique_ptr<prometheus::Exposer> exposer,
           std::shared_ptr<Collector> collector);

  const std::string host_;

  // Kept alive here: the exposer only has a weak pointer.
  std::shared_ptr<Collector> collector_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace duetime::metrics
