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
  // `listen` is as in ExporterOptions, and not empty. UNAVAILABLE if the exporter cannot listen on
  // it.
  static absl::StatusOr<std::unique_ptr<Exporter>> Start(const std::string& listen,
                                                         std::shared_ptr<Collector> collector);
  // Like Start. Returns null if `options.listen` is empty.
  static absl::StatusOr<std::unique_ptr<Exporter>> StartIfWanted(
      const ExporterOptions& options, std::shared_ptr<Collector> collector);
  // Ends the threads. No thread calls the collector afterwards.
  ~Exporter();
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // The port in use. The system chose it if `listen` has port 0.
  uint16_t port() const;
  // `listen` with that port.
  std::string address() const;

 private:
  Exporter(std::string host, std::unique_ptr<prometheus::Exposer> exposer,
           std::shared_ptr<Collector> collector);

  const std::string host_;

  // Kept alive here, because the exposer has only a weak pointer.
  std::shared_ptr<Collector> collector_;
  std::unique_ptr<prometheus::Exposer> exposer_;
};

}  // namespace duetime::metrics
