// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/gateway.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"

#include "server/api/call_table.h"
#include "server/gateway/gateway_call_stream.h"
#include "server/gateway/schedule_fan.h"
#include "server/gateway/subscriber_fan.h"
#include "server/gateway/unary.h"

namespace duetime::gateway {
namespace {

// How often the streams look at the time, which is also how soon they open a cell's stream again.
constexpr uint64_t kSweepMs = 250;

template <typename Stream>
std::unique_ptr<rpc::BidiStream> MakeStream(rpc::WorkerApp& app, rpc::CqWorker& shell) {
  return std::make_unique<Stream>(&static_cast<GatewayWorker&>(app), &shell);
}

template <typename Request, typename Stream>
rpc::StreamMethod StreamRow() {
  const metrics::RpcMethod id = api::MethodOf<Request>();
  return {.id = id, .descriptor = &api::DescriptorOf(id), .make = &MakeStream<Stream>};
}

std::span<const rpc::StreamMethod> Streams() {
  static const auto* const streams = new std::array{
      StreamRow<v1::SubscribeRequest, SubscriberFan>(),
      StreamRow<v1::ScheduleStreamRequest, ScheduleFan>(),
      StreamRow<v1::CallStreamRequest, GatewayCallStream>(),
  };
  return *streams;
}

}  // namespace

Gateway::Gateway(const Options& options, CellMap map, base::Clock* clock, metrics::RpcStats* stats)
    : context_(clock, stats, std::move(map), options.gateway) {
  context_.slow_request_ms = options.grpc.slow_request_ms;
  context_.version = options.version;
  context_.started = clock->Read();
  context_.limits = options.limits;
  context_.heartbeat_ms = options.heartbeat_ms;
  context_.drain_grace_ms = options.drain_grace_ms;
  context_.streams_max = options.streams_max;
}

absl::StatusOr<std::unique_ptr<Gateway>> Gateway::Create(const Options& options, base::Clock* clock,
                                                         metrics::RpcStats* stats) {
  auto map = CellMap::Parse(options.gateway.gateway_cells);
  if (!map.ok()) return map.status();
  std::unique_ptr<Gateway> gateway(new Gateway(options, *std::move(map), clock, stats));
  GatewayContext* const context = &gateway->context_;
  // The token is passed with each call of its own, because calls of clients have theirs.
  const absl::StatusOr<std::string> token = client::ReadToken(options.cells);
  if (!token.ok()) return token.status();
  context->token = *token;
  client::ServerAddress address = options.cells;
  address.target = context->map.cell(0).addresses;
  // A token without TLS is an error.
  if (auto checked = client::OpenChannel(address); !checked.ok()) return checked.status();
  context->passes_tokens = !address.tls_ca_file.empty() || !address.tls_cert_file.empty();
  address.token.clear();
  address.token_file.clear();
  const auto open = [context, address](size_t cell) {
    client::ServerAddress members = address;
    members.target = context->map.cell(cell).addresses;
    members.members_by_dns = absl::StartsWith(members.target, "dns:");
    return client::OpenChannel(members);
  };
  bool all_local = true;
  for (size_t i = 0; i < context->map.size(); ++i) {
    auto channel = open(i);
    if (!channel.ok()) return channel.status();
    context->channels.push_back(*std::move(channel));
    all_local = all_local && absl::StartsWith(context->map.cell(i).addresses, "unix:");
  }
  context->passes_tokens = context->passes_tokens || all_local;
  // The files of the certificates were there a moment ago. A channel of no use is better than none.
  context->open_channel = [context, open](size_t cell) {
    auto channel = open(cell);
    return channel.ok() ? *std::move(channel) : context->channels[cell];
  };
  context->wake_all = [gateway = gateway.get()] { gateway->shell_->WakeAll(); };
  auto shell = rpc::GrpcServer::Create(
      options.grpc, options.limits.message_bytes_max(), kSweepMs, context,
      {.services = {"duetime.v1.Messages", "duetime.v1.Admin"},
       .unary = UnaryMethods(),
       .streams = Streams(),
       .make_app = [context](rpc::CqWorker& worker) -> std::unique_ptr<rpc::WorkerApp> {
         return std::make_unique<GatewayWorker>(context, &worker);
       }});
  if (!shell.ok()) return shell.status();
  gateway->shell_ = *std::move(shell);
  return gateway;
}

absl::Status Gateway::Listen() { return shell_->Listen(); }

void Gateway::Drain() {
  if (context_.Advance(rpc::ServingState::kDraining)) shell_->WakeAll();
}

void Gateway::Shutdown(std::chrono::milliseconds timeout) { shell_->Shutdown(timeout); }

}  // namespace duetime::gateway
