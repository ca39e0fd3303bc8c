// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/exporter.h"

#include <prometheus/text_serializer.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace duetime::metrics {

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Start(const ExporterOptions& options,
                                                          std::shared_ptr<Registry> registry,
                                                          ProbeTroubles troubles) {
  for (auto* const trouble : {&troubles.not_ready, &troubles.not_in_cell, &troubles.not_healthy}) {
    if (*trouble == nullptr) *trouble = [] { return std::string(); };
  }
  auto server = PageServer::Start({
      .address = options.listen,
      .path = "/metrics",
      .connections_max = options.connections_max,
      .probes = {{.path = "/healthz", .trouble = std::move(troubles.not_healthy)},
                 {.path = "/readyz", .trouble = std::move(troubles.not_ready)},
                 {.path = "/cellz", .trouble = std::move(troubles.not_in_cell)}},
      .render = [registry] { return prometheus::TextSerializer().Serialize(registry->Collect()); },
      .on_cut = [registry = std::move(registry)] { registry->CountCut(); },
  });
  if (!server.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on metrics_listen = ", options.listen,
                                               ": ", server.status().message()));
  }
  return std::unique_ptr<Exporter>(new Exporter(*std::move(server)));
}

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::StartIfWanted(
    const ExporterOptions& options, std::shared_ptr<Registry> registry, ProbeTroubles troubles) {
  if (options.listen.empty()) return nullptr;
  return Start(options, std::move(registry), std::move(troubles));
}

std::string Exporter::address() const { return absl::StrJoin(server_->addresses(), ","); }

}  // namespace duetime::metrics
