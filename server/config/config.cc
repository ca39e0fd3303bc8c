// SPDX-License-Identifier: Apache-2.0
#include "server/config/config.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "server/config/knobs.h"
#include "server/config/quantity.h"
#include "server/gateway/cell_map.h"
#include "server/rpc/listen_address.h"
#include "server/runtime/test_clock.h"

namespace duetime::config {
namespace {

void CheckBounds(const Config& config, std::vector<std::string>* faults) {
  for (const Knob& knob : Knobs()) {
    if (const auto* number = knob.number()) {
      const uint64_t value = (*number)(config);
      if (value >= knob.min && value <= knob.max) continue;
      const absl::string_view unit = UnitName(knob.unit);
      faults->push_back(absl::StrCat(knob.name, " = ", value, " is out of bounds: ", knob.min,
                                     " to ", knob.max, unit.empty() ? "" : " ", unit));
    } else if (const auto* text = std::get_if<Field<std::string>>(&knob.field);
               text != nullptr && knob.choices != nullptr) {
      const std::vector<std::string> choices = absl::StrSplit(knob.choices, '|');
      const std::string& value = (*text)(config);
      if (std::find(choices.begin(), choices.end(), value) != choices.end()) continue;
      faults->push_back(absl::StrCat(knob.name, " = \"", value, "\" is not one of ",
                                     absl::StrJoin(choices, ", ")));
    }
  }
}

void CheckTls(const Config& config, std::vector<std::string>* faults) {
  if (config.server.tls_cert.empty() != config.server.tls_key.empty()) {
    faults->push_back("tls_cert and tls_key must be given together");
  }
  if (!config.server.tls_client_ca.empty() && config.server.tls_cert.empty()) {
    faults->push_back("tls_client_ca needs tls_cert and tls_key");
  }
}

// Connections to the address are encrypted and authenticated if `secure`.
void CheckAddress(const Config& config, const std::string& address, bool secure,
                  std::vector<std::string>* faults) {
  const absl::StatusOr<rpc::ListenAddress> parsed = rpc::ParseListenAddress(address);
  if (!parsed.ok()) {
    faults->push_back(absl::StrCat("listen: ", parsed.status().message()));
    return;
  }
  if (parsed->IsLocal() || secure || config.server.insecure_nonloopback) return;
  faults->push_back(absl::StrCat(
      "listen = \"", address,
      "\" can be reached by other machines and would not be encrypted and authenticated. Use a "
      "loopback or Unix address, give tls_cert and tls_key with tls_client_ca, access_file or "
      "tokens_file, or, if everyone who can reach it may read, cancel and settle every "
      "message, set insecure_nonloopback = true"));
}

// Reads the access files, because a rule that does not hold must not show first at a start.
void CheckAccess(const Config& config, std::vector<std::string>* faults) {
  access::AccessControl access(config.access);
  if (absl::Status status = access.Reload(); !status.ok()) {
    faults->push_back(std::string(status.message()));
  }
}

void CheckAddresses(const Config& config, std::vector<std::string>* faults) {
  if (config.server.listen.empty()) faults->push_back("listen must name at least one address");
  const bool encrypted = !config.server.tls_cert.empty();
  const bool certificates =
      !config.server.tls_client_ca.empty() && config.server.tls_client_auth == "require";
  const bool authenticated =
      certificates || !config.access.access_file.empty() || !config.access.tokens_file.empty();
  for (const std::string& address : config.server.listen) {
    CheckAddress(config, address, encrypted && authenticated, faults);
  }
}

void CheckMetricsAddress(const Config& config, std::vector<std::string>* faults) {
  if (config.metrics.listen.empty()) return;
  const absl::StatusOr<rpc::ListenAddress> parsed = rpc::ParseListenAddress(config.metrics.listen);
  if (!parsed.ok()) {
    faults->push_back(absl::StrCat("metrics_listen: ", parsed.status().message()));
    return;
  }
  if (!parsed->unix_path.empty()) {
    faults->push_back("metrics_listen must be host:port, not a Unix socket");
    return;
  }
  const bool allowed = config.metrics.insecure_nonloopback || config.server.insecure_nonloopback;
  if (parsed->IsLocal() || allowed) return;
  faults->push_back(
      absl::StrCat("metrics_listen = \"", config.metrics.listen,
                   "\" can be reached by other machines and is not encrypted. Use a loopback "
                   "address, or set metrics_insecure_nonloopback = true"));
}

void CheckCell(const cell::CellOptions& cell, bool has_tls, std::vector<std::string>* faults) {
  if (!cell.cell_token_file.empty() && cell.cell_ca_file.empty() && !has_tls) {
    faults->push_back(
        "cell_token_file needs TLS, so that nobody on the way reads it: set cell_ca_file");
  }
  if (cell.cell_brokers.empty()) return;
  const std::pair<const char*, const std::string*> needed[] = {
      {"cell_topic", &cell.cell_topic},
      {"cell_member", &cell.cell_member},
      {"cell_address", &cell.cell_address}};
  for (const auto& [name, value] : needed) {
    if (value->empty()) {
      faults->push_back(absl::StrCat(name, " is required, because cell_brokers is set"));
    } else if (absl::StrContains(*value, "\n")) {
      faults->push_back(absl::StrCat(name, " must be one line"));
    }
  }
  constexpr uint64_t kBeats = 4;
  if (cell.cell_suspect_ms < kBeats * cell.cell_heartbeat_ms) {
    faults->push_back(absl::StrCat("cell_suspect_ms = ", cell.cell_suspect_ms, " must be at least ",
                                   kBeats, " times cell_heartbeat_ms = ", cell.cell_heartbeat_ms));
  }
}

void CheckGateway(const Config& config, std::vector<std::string>* faults) {
  if (config.gateway.gateway_cells.empty()) {
    if (config.store.data_dir.empty()) faults->push_back("data_dir is required");
    return;
  }
  const absl::Status map = gateway::CellMap::Parse(config.gateway.gateway_cells).status();
  if (!map.ok()) faults->push_back(std::string(map.message()));
  const std::pair<const char*, bool> set[] = {{"data_dir", !config.store.data_dir.empty()},
                                              {"cell_brokers", !config.cell.cell_brokers.empty()},
                                              {"access_file", !config.access.access_file.empty()},
                                              {"tokens_file", !config.access.tokens_file.empty()},
                                              {"audit_log", !config.audit.audit_log.empty()}};
  for (const auto& [name, is_set] : set) {
    if (!is_set) continue;
    faults->push_back(absl::StrCat(name, " and gateway_cells exclude each other: a gateway keeps ",
                                   "nothing, and its cells decide who may do what"));
  }
}

// A test clock is no danger by accident.
void CheckTestClock(const Config& config, std::vector<std::string>* faults) {
  const runtime::ClockOptions& clock = config.clock;
  if (clock.test_clock.empty()) {
    if (clock.test_clock_frozen || clock.test_clock_on_network) {
      faults->push_back("test_clock_frozen and test_clock_on_network need test_clock");
    }
    return;
  }
  if (!runtime::TestClockStart(clock).has_value()) {
    faults->push_back(absl::StrCat("test_clock = \"", clock.test_clock,
                                   "\" is neither \"now\" nor a time from 1970 to 2199 as "
                                   "2027-03-27T23:00:00Z"));
  }
  if (!config.cell.cell_brokers.empty() || !config.gateway.gateway_cells.empty()) {
    faults->push_back("test_clock is for a server alone, without cell_brokers and gateway_cells");
  }
  for (const std::string& address : config.server.listen) {
    const auto parsed = rpc::ParseListenAddress(address);
    if (!parsed.ok() || parsed->IsLocal() || clock.test_clock_on_network) continue;
    faults->push_back(absl::StrCat("listen = \"", address,
                                   "\" can be reached by other machines. With test_clock, set "
                                   "test_clock_on_network = true if that is meant"));
  }
}

struct Order {
  const char* smaller;
  uint64_t smaller_value;
  const char* larger;
  uint64_t larger_value;
  const char* why;
};

void CheckOrders(const Config& config, std::vector<std::string>* faults) {
  const scheduler::SchedulerLimits& claims = config.node.limits.scheduler;
  if (claims.claim_renew_ms >= claims.claim_ahead_ms) {
    faults->push_back(absl::StrCat("claim_renew_ms = ", claims.claim_renew_ms,
                                   " must be below claim_ahead_ms = ", claims.claim_ahead_ms));
  }
  const api::RequestLimits& request = config.server.limits;
  const Order orders[] = {
      {"payload_bytes_max", request.payload_bytes_max, "batch_bytes_max", request.batch_bytes_max,
       "a request must be able to hold one message"},
      {"batch_bytes_max", request.batch_bytes_max, "mailbox_bytes_max",
       config.node.mailbox.bytes_max, "a mailbox must be able to hold one request"},
      {"write_buffer_bytes", config.store.write_buffer_bytes, "wal_bytes_max",
       config.store.wal_bytes_max, "else each table is written out before it is full"},
  };
  for (const Order& order : orders) {
    if (order.smaller_value <= order.larger_value) continue;
    faults->push_back(absl::StrCat(order.smaller, " = ", order.smaller_value, " is above ",
                                   order.larger, " = ", order.larger_value, ": ", order.why));
  }
}

}  // namespace

absl::Status Validate(const Config& config) {
  std::vector<std::string> faults;
  CheckBounds(config, &faults);
  CheckTls(config, &faults);
  CheckAddresses(config, &faults);
  CheckMetricsAddress(config, &faults);
  CheckAccess(config, &faults);
  CheckCell(config.cell, !config.server.tls_cert.empty(), &faults);
  CheckGateway(config, &faults);
  CheckTestClock(config, &faults);
  CheckOrders(config, &faults);
  if (faults.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrJoin(faults, "\n"));
}

}  // namespace duetime::config
