// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/exporter.h"

#include <exception>
#include <prometheus/exposer.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"

namespace duetime::metrics {
namespace {

constexpr char kLocalhost[] = "localhost:";

}  // namespace

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::Start(const std::string& listen,
                                                          std::shared_ptr<Collector> collector) {
  // The HTTP library takes numeric addresses only.
  std::string address = listen;
  if (absl::StartsWith(listen, kLocalhost)) {
    address = absl::StrCat("127.0.0.1:", listen.substr(sizeof(kLocalhost) - 1));
  }
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/1);
    exposer->RegisterCollectable(collector);
    return std::unique_ptr<Exporter>(new Exporter(address.substr(0, address.rfind(':')),
                                                  std::move(exposer), std::move(collector)));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on metrics_listen = ", listen, ": ", error.what()));
  }
}

absl::StatusOr<std::unique_ptr<Exporter>> Exporter::StartIfWanted(
    const std::string& listen, std::shared_ptr<Collector> collector) {
  if (listen.empty()) return nullptr;
  return Start(listen, std::move(collector));
}

Exporter::Exporter(std::string host, std::unique_ptr<prometheus::Exposer> exposer,
                   std::shared_ptr<Collector> collector)
    : host_(std::move(host)), collector_(std::move(collector)), exposer_(std::move(exposer)) {}

Exporter::~Exporter() = default;

std::string Exporter::address() const { return absl::StrCat(host_, ":", port()); }

uint16_t Exporter::port() const {
  const std::vector<int> ports = exposer_->GetListeningPorts();
  DT_CHECK(!ports.empty());
  return static_cast<uint16_t>(ports[0]);
}

}  // namespace duetime::metrics
