// SPDX-License-Identifier: Apache-2.0
#include "server/daemon/gateway.h"

#include <chrono>
#include <memory>
#include <spdlog/spdlog.h>
#include <string>

#include "absl/strings/str_join.h"

#include "server/api/call_table.h"
#include "server/config/version.h"
#include "server/daemon/metrics.h"
#include "server/daemon/options.h"
#include "server/gateway/gateway.h"
#include "server/metrics/exporter.h"
#include "server/runtime/logging.h"
#include "server/runtime/service_notify.h"
#include "server/runtime/signals.h"
#include "server/runtime/system_clock.h"

namespace duetime {
namespace {

constexpr std::chrono::milliseconds kGatewayLookEvery{1'000};
constexpr std::chrono::milliseconds kGatewayTimeout{1'000};

gateway::Gateway::Options OptionsOf(const config::Config& config) {
  return {.gateway = config.gateway,
          .grpc = static_cast<const rpc::GrpcServerOptions&>(config.server),
          .cells = {.target = "",
                    .tls_ca_file = config.cell.cell_ca_file,
                    .tls_cert_file = config.server.tls_cert,
                    .tls_key_file = config.server.tls_key,
                    .token_file = config.cell.cell_token_file},
          .version = config::Version(),
          .limits = config.server.limits,
          .streams_max = config.server.streams_max,
          .heartbeat_ms = config.server.heartbeat_ms,
          .drain_grace_ms = config.server.drain_grace_ms};
}

// Until the subscribers have settled, or the grace is over.
void AwaitStreams(const gateway::GatewayContext& context, uint64_t grace_ms) {
  const uint64_t end_ms = context.clock->Read().mono_ms + grace_ms;
  constexpr std::chrono::milliseconds kLook{50};
  while (context.streams.load() > 0 && context.clock->Read().mono_ms < end_ms) {
    runtime::StopSignalWithin(kLook);
  }
}

}  // namespace

config::ExitCode ServeGateway(const config::Loaded& loaded, const Invocation& invocation) {
  config::Config config = loaded.config;
  if (absl::Status status = FitProcessLimits(&config); !status.ok()) return CannotOpen(status);
  runtime::SystemClock clock(config.clock);
  metrics::RpcStats rpc_stats(api::MethodNames());
  const auto gateway = gateway::Gateway::Create(OptionsOf(config), &clock, &rpc_stats);
  if (!gateway.ok()) return CannotListen(gateway.status());
  if (absl::Status status = (*gateway)->Listen(); !status.ok()) return CannotListen(status);
  const gateway::GatewayContext& context = (*gateway)->context();
  auto registry = std::make_shared<metrics::Registry>();
  RegisterMetrics(config,
                  {.rpc = &rpc_stats,
                   .clock = &clock,
                   .state = &context,
                   .shell = &(*gateway)->shell(),
                   .gateway = &context},
                  registry.get());
  const auto exporter = metrics::Exporter::StartIfWanted(
      config.metrics, std::move(registry), {.not_ready = [&context] {
        return context.Admit(/*begins_work=*/true).ok() ? std::string() : "draining";
      }});
  if (!exporter.ok()) return CannotListen(exporter.status());
  spdlog::info("ready: duetimed {} is a gateway to {} cells, grpc={} metrics={}", config::Version(),
               context.map.size(), absl::StrJoin((*gateway)->shell().addresses(), ","),
               *exporter == nullptr ? "off" : (*exporter)->address());
  LogMisfit(/*shards=*/0, config);
  runtime::NotifySupervisor("READY=1");
  const int signal = WaitForStop(invocation, loaded.config, kGatewayLookEvery, [&] {
    if (runtime::SupervisorWatches()) runtime::NotifySupervisor("WATCHDOG=1");
    if (rpc::TlsFiles* files = (*gateway)->shell().tls_files(); files != nullptr) {
      if (const absl::Status status = files->Reload(); !status.ok()) {
        spdlog::warn("the TLS files stay as they are: {}", status.ToString());
      }
    }
    return false;
  });
  spdlog::info("signal {}: draining for at most {} ms", signal, config.server.drain_grace_ms);
  runtime::NotifySupervisor("STOPPING=1");
  (*gateway)->Drain();
  AwaitStreams(context, config.server.drain_grace_ms);
  (*gateway)->Shutdown(kGatewayTimeout);
  spdlog::info("stopped");
  return config::ExitCode::kStopped;
}

}  // namespace duetime
