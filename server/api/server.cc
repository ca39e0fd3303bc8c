// SPDX-License-Identifier: Apache-2.0
#include "server/api/server.h"

#include <algorithm>
#include <array>
#include <optional>
#include <spdlog/spdlog.h>
#include <utility>

#include "server/api/call_table.h"
#include "server/api/messages/schedule_stream.h"
#include "server/api/messages/server_call_stream.h"
#include "server/api/messages/subscriber_stream.h"
#include "server/api/unary.h"
#include "server/base/check.h"
#include "server/protocol/commands.h"
#include "server/runtime/backups.h"
#include "server/runtime/clock_driver.h"
#include "storage/repair_note.h"
#include "storage/restore_note.h"

namespace duetime::api {
namespace {

template <typename Stream>
std::unique_ptr<rpc::BidiStream> MakeStream(rpc::WorkerApp& app, rpc::CqWorker& worker) {
  return std::make_unique<Stream>(&static_cast<ApiWorker&>(app), &worker);
}

template <typename Request, typename Stream>
rpc::StreamMethod StreamRow() {
  const metrics::RpcMethod id = MethodOf<Request>();
  return {.id = id, .descriptor = &DescriptorOf(id), .make = &MakeStream<Stream>};
}

std::span<const rpc::StreamMethod> Streams() {
  static const auto* const streams = new std::array{
      StreamRow<v1::SubscribeRequest, SubscriberStream>(),
      StreamRow<v1::ScheduleStreamRequest, ScheduleStream>(),
      StreamRow<v1::CallStreamRequest, ServerCallStream>(),
  };
  return *streams;
}

// The period in which sessions are checked. It is short enough for the configured heartbeat.
uint64_t SweepMs(uint64_t heartbeat_ms) {
  constexpr uint64_t kSweepMsMin = 10;
  constexpr uint64_t kSweepMsMax = 1'000;
  return std::clamp(heartbeat_ms / 2, kSweepMsMin, kSweepMsMax);
}

constexpr uint64_t kTestSweepMs = 20;

// The catalog has refused a note that cannot be read.
std::optional<storage::RestoreNote> ReadRestoreNote(storage::MessageStore* store) {
  const auto bytes = store->GetObject(storage::ObjectKind::kCatalog, storage::kRepairNotePartition,
                                      storage::kRestoreNoteName);
  if (!bytes.ok() || !bytes->has_value()) return std::nullopt;
  return storage::DecodeRestoreNote(**bytes);
}

}  // namespace

Server::Server(ServerOptions options, const runtime::NodeOptions& node_options, base::Clock* clock,
               metrics::RpcStats* stats, const Guards& guards)
    : context_(std::move(options), node_options, clock, stats, guards) {
  context_.started = clock->Read();
  context_.started_machine_ms = context_.machine_clock->Read().mono_ms;
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(ServerOptions options,
                                                       const runtime::NodeOptions& node_options,
                                                       base::Clock* clock, metrics::RpcStats* stats,
                                                       const Guards& guards) {
  std::unique_ptr<Server> server(
      new Server(std::move(options), node_options, clock, stats, guards));
  ServingContext* const context = &server->context_;
  std::vector<std::string> services = {"duetime.v1.Messages", "duetime.v1.Admin"};
  std::span<const rpc::UnaryMethod> unary = UnaryMethods();
  uint64_t sweep_ms = SweepMs(context->options.heartbeat_ms);
  if (node_options.test_clock) {
    services.emplace_back("duetime.v1.TestClock");
    // A sweep ends the waits of Pulls.
    sweep_ms = std::min(sweep_ms, kTestSweepMs);
  } else {
    unary = unary.first(unary.size() - kClockMethods);
  }
  auto shell = rpc::GrpcServer::Create(
      context->options, context->options.limits.message_bytes_max(), sweep_ms, context,
      {.services = std::move(services),
       .unary = unary,
       .streams = Streams(),
       .make_app = [context](rpc::CqWorker& worker) -> std::unique_ptr<rpc::WorkerApp> {
         return std::make_unique<ApiWorker>(context, &worker);
       }});
  if (!shell.ok()) return shell.status();
  server->shell_ = *std::move(shell);
  return server;
}

absl::Status Server::Listen() { return shell_->Listen(); }

absl::Status Server::ReloadTls() {
  rpc::TlsFiles* const files = shell_->tls_files();
  return files == nullptr ? absl::OkStatus() : files->Reload();
}

std::string Server::NotReady() const {
  switch (context_.state.load()) {
    case ServingState::kServing:
      return "";
    case ServingState::kStarting:
      return "starting";
    case ServingState::kStandby:
      return "standby";
    case ServingState::kDraining:
      return "draining";
    case ServingState::kStorageFailed:
      return "storage failed";
  }
  return "";
}

std::string Server::NotInCell() const {
  const std::string reason = NotReady();
  if (context_.state.load() != ServingState::kStandby) return reason;
  return context_.leader().empty() ? "standby without a leader" : "";
}

size_t Server::topics() const {
  return context_.node.load() == nullptr ? 0 : context_.catalog().counted();
}

size_t Server::deleted_topics() const {
  if (context_.node.load() == nullptr) return 0;
  return context_.catalog().deleted_names(context_.clock->Read().wall_ms);
}

size_t Server::ended_topics() const {
  if (context_.node.load() == nullptr) return 0;
  return context_.catalog().ended_names(context_.clock->Read().wall_ms);
}

size_t Server::subscriptions() const {
  return context_.node.load() == nullptr ? 0 : context_.catalog().subscriptions();
}

void Server::CollectPairs(metrics::PairOptions options) {
  DT_CHECK(shell_->listening());
  pairs_ = std::make_unique<metrics::PairTable>(std::move(options));
  pair_collector_ = std::make_unique<PairCollector>(&context_, &worker(0), pairs_.get());
}

const metrics::PairTable* Server::FreshPairs() const {
  // The same thread answers the probes.
  constexpr std::chrono::milliseconds kTimeout{100};
  if (pair_collector_ != nullptr) pair_collector_->Refresh(kTimeout);
  return pairs_.get();
}

void Server::ShowStandby(const std::string& leader) {
  context_.SetLeader(leader);
  if (context_.Advance(ServingState::kStandby)) shell_->WakeAll();
}

void Server::Serve(ServeFacts facts) {
  DT_CHECK(shell_->listening() && facts.node != nullptr && facts.store != nullptr);
  reader_ = std::make_unique<runtime::Reader>(context_.options.reads_max);
  reader_->Start();
  context_.reader = reader_.get();
  context_.backups = facts.backups;
  context_.clock_driver = facts.clock_driver;
  // The store may have moved it on.
  if (facts.clock_driver != nullptr) context_.started = context_.clock->Read();
  context_.store = facts.store;
  if (const auto note = ReadRestoreNote(facts.store); note.has_value()) {
    context_.restored_snapshot_ms = note->snapshot_ms;
    context_.restored_ms = note->restore_ms;
  }
  context_.epoch = facts.epoch;
  context_.disk_low = std::move(facts.disk_low);
  context_.node.store(facts.node);
  context_.Advance(ServingState::kServing);
  shell_->WakeAll();
}

void Server::OnStorageFailed() {
  if (!context_.Advance(ServingState::kStorageFailed)) return;
  if (context_.roster != nullptr) {
    spdlog::warn("the journal takes no more of this member: another member may lead by now");
  } else {
    spdlog::critical("storage failed: nothing is accepted until a restart");
  }
  shell_->WakeAll();
}

void Server::Deliver(uint16_t shard, protocol::Effects effects) {
  PostWakes(effects.wakes);
  if (effects.failed) OnStorageFailed();
  if (shell_->workers() == 1) {
    worker(0).Push(shard, std::move(effects));
  } else {
    Partition(shard, std::move(effects));
  }
}

void Server::Answer(std::vector<catalog::Reply> replies, bool failed) {
  if (failed) OnStorageFailed();
  std::vector<std::vector<catalog::Reply>> parts(shell_->workers());
  for (catalog::Reply& reply : replies) {
    // Every tag comes from a worker.
    DT_CHECK_LT(WorkerOf(reply.tag), parts.size());
    parts[WorkerOf(reply.tag)].push_back(std::move(reply));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty()) worker(i).Push(std::move(parts[i]));
  }
}

void Server::PostWakes(const std::vector<protocol::WakeShards>& wakes) {
  runtime::Node* node = context_.node.load();
  if (node == nullptr) return;
  for (const protocol::WakeShards& wake : wakes) {
    for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
      if ((wake.shard_mask >> shard & 1) == 0) continue;
      node->PostAlways(shard, protocol::CreditCommand{.stream = wake.stream});
    }
  }
}

void Server::Partition(uint16_t shard, protocol::Effects effects) {
  std::vector<protocol::Effects> parts(shell_->workers());
  const auto part = [&](auto name) -> protocol::Effects& {
    const size_t worker = WorkerOf(name);
    // Every tag and stream id comes from a worker.
    DT_CHECK_LT(worker, parts.size());
    return parts[worker];
  };
  for (auto& frame : effects.frames) part(frame.stream).frames.push_back(std::move(frame));
  for (auto& reply : effects.settles) part(reply.stream).settles.push_back(std::move(reply));
  for (auto& reply : effects.replies) {
    part(protocol::TagOf(reply)).replies.push_back(std::move(reply));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty()) worker(i).Push(shard, std::move(parts[i]));
  }
}

void Server::Drain() {
  // A clock that went on would pass over what a drain no longer hands out.
  if (context_.clock_driver != nullptr) context_.clock_driver->Stop();
  if (context_.Advance(ServingState::kDraining)) shell_->WakeAll();
}

void Server::Shutdown(std::chrono::milliseconds timeout) {
  // Create failed before it made the shell.
  if (shell_ == nullptr) return;
  // The report goes to a call.
  if (context_.clock_driver != nullptr) context_.clock_driver->Stop();
  shell_->Shutdown(timeout);
  // No call posts jobs any more. The workers drop the results of the jobs that still run.
  if (reader_ != nullptr) reader_->Stop();
  // The owner may destroy it now, and the destructor calls this function again.
  if (auto* const backups = std::exchange(context_.backups, nullptr); backups != nullptr) {
    backups->Stop();
  }
}

}  // namespace duetime::api
