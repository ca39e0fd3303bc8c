// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_server.h"

#include <algorithm>
#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>
#include <utility>

#include "google/protobuf/stubs/logging.h"

#include "server/base/check.h"
#include "server/base/cores.h"
#include "server/rpc/grpc_time.h"
#include "server/rpc/limits/socket_watch.h"
#include "server/rpc/limits/tls_watch.h"

namespace duetime::rpc {
namespace {

constexpr size_t kWorkersMax = 256;
constexpr int kMetadataBytesMax = 8 << 10;
constexpr int kStreamsPerConnectionMax = 1'000;
constexpr int kHandshakeTimeoutMs = 5'000;
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kClientPingMinMs = 1'000;
// The bytes that gRPC may hold in buffers before it delays connections.
constexpr size_t kQuotaBytes = 512 << 20;
// Room beyond the largest payload or batch. gRPC refuses a larger request by itself, without an
// ErrorInfo. Within this room the handler refuses it, and names the limit.
constexpr size_t kReceiveSlackBytes = 1 << 20;

size_t WorkerCount(size_t configured) {
  if (configured != 0) return std::min(configured, kWorkersMax);
  return base::DefaultThreads();
}

void SetChannelOptions(size_t message_bytes_max, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(message_bytes_max + kReceiveSlackBytes));
  // 300 kB of gzip can become 300 MB in memory before any limit is checked.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  // Finds subscribers that vanished without closing, and lets clients probe for a vanished server.
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kClientPingMinMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  grpc::ResourceQuota quota("duetime");
  quota.Resize(kQuotaBytes);
  builder->SetResourceQuota(quota);
}

}  // namespace

GrpcServer::GrpcServer(const GrpcServerOptions& options, size_t message_bytes_max,
                       uint64_t sweep_ms, ServerState* state, ServedMethods served,
                       std::unique_ptr<TlsFiles> tls_files)
    : options_(options),
      message_bytes_max_(message_bytes_max),
      state_(state),
      served_(std::move(served)),
      tls_files_(std::move(tls_files)),
      services_(served_),
      sweeper_(std::chrono::milliseconds(sweep_ms), [this] {
        for (const auto& worker : workers_) worker->Sweep();
      }) {}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(const GrpcServerOptions& options,
                                                               size_t message_bytes_max,
                                                               uint64_t sweep_ms,
                                                               ServerState* state,
                                                               ServedMethods served) {
  std::unique_ptr<TlsFiles> tls_files;
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("tls_cert and tls_key go together");
  }
  if (!options.tls_cert.empty()) {
    absl::StatusOr<std::unique_ptr<TlsFiles>> loaded = TlsFiles::Load(options);
    if (!loaded.ok()) return loaded.status();
    tls_files = *std::move(loaded);
  } else if (!options.tls_client_ca.empty()) {
    return absl::InvalidArgumentError("tls_client_ca needs tls_cert and tls_key");
  }
  return std::unique_ptr<GrpcServer>(new GrpcServer(options, message_bytes_max, sweep_ms, state,
                                                    std::move(served), std::move(tls_files)));
}

absl::Status GrpcServer::Listen() {
  const bool allow_nonlocal = options_.insecure_nonloopback || !options_.tls_cert.empty();
  auto opened = Listener::Open(options_.listen, allow_nonlocal,
                               {.connections_max = options_.connections_max,
                                .per_peer_max = options_.connections_per_peer_max});
  if (!opened.ok()) return opened.status();
  listener_ = *std::move(opened);

  // The client gets an error for bytes that are not UTF-8, so libprotobuf need not write each one
  // to stderr.
  google::protobuf::SetLogHandler(nullptr);
  // gRPC's health service would bring polling threads of its own.
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  SetChannelOptions(message_bytes_max_, &builder);
  for (const auto& service : services_.raw()) builder.RegisterService(service.get());
  builder.RegisterService(&services_.health);
  builder.RegisterService(&services_.reflection);
  using FromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  auto tcp = builder.experimental().AddExternalConnectionAcceptor(
      FromFd::FROM_FD,
      tls_files_ == nullptr ? grpc::InsecureServerCredentials() : tls_files_->Credentials());
  auto local = builder.experimental().AddExternalConnectionAcceptor(
      FromFd::FROM_FD, grpc::InsecureServerCredentials());
  const size_t count = WorkerCount(options_.io_threads);
  untaken_ = std::make_unique<UntakenAnswers::Limit>(options_.untaken_answers_bytes_max, count);
  for (size_t i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<CqWorker>(state_, &services_, &served_, i,
                                                  builder.AddCompletionQueue(), untaken_.get()));
  }
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) {
    return absl::UnavailableError("gRPC could not start; its own log says why");
  }
  for (const auto& worker : workers_) worker->Start();
  sweeper_.Start();
  const auto cuts = std::make_shared<ConnectionCuts>(state_->stats);
  const WatchTerms terms{
      .limits = {.early_streams_max = kStreamsPerConnectionMax,
                 .cancels_per_second = options_.connection_resets_max,
                 .idle_per_second = options_.connection_idle_frames_max},
      .cuts = cuts,
      .watchdog = std::make_shared<RequestWatchdog>(options_.unfinished_requests_max, cuts)};
  tcp = options_.tls_cert.empty() ? WatchConnections(std::move(tcp), terms)
                                  : WatchTlsConnections(std::move(tcp), terms);
  local = WatchConnections(std::move(local), terms);
  listener_->Start(std::move(tcp), std::move(local));
  return absl::OkStatus();
}

void GrpcServer::Shutdown(std::chrono::milliseconds timeout) {
  if (std::exchange(shut_down_, true)) return;
  if (listener_ != nullptr) listener_->Stop();
  if (server_ == nullptr) return;
  state_->Advance(ServingState::kDraining);
  state_->ending.store(true);
  WakeAll();
  // Returns once every connection is closed. At the deadline it closes the connections that are
  // still open.
  server_->Shutdown(AfterSteady(timeout.count()));
  // If the disk hangs, some calls get no answer. Such calls must not keep the process alive.
  const auto grace_ms = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 0));
  for (const auto& worker : workers_) worker->Stop(grace_ms);
  for (const auto& worker : workers_) worker->Join();
  sweeper_.Stop();
}

}  // namespace duetime::rpc
