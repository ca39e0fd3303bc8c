// SPDX-License-Identifier: Apache-2.0
#include "server/api/server.h"

#include <algorithm>
#include <array>
#include <spdlog/spdlog.h>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"

#include "server/api/messages/schedule_stream.h"
#include "server/api/messages/subscriber_stream.h"
#include "server/api/subscriptions/subscription_settings.h"
#include "server/api/unary.h"
#include "server/base/check.h"
#include "server/protocol/commands.h"
#include "server/query/forecast_query.h"

namespace duetime::api {
namespace {

template <typename Stream>
std::unique_ptr<rpc::BidiStream> MakeStream(rpc::WorkerApp& app, rpc::CqWorker& worker) {
  return std::make_unique<Stream>(&static_cast<ApiWorker&>(app), &worker);
}

constexpr std::array kStreams = {
    rpc::StreamMethod{.id = metrics::RpcMethod::kSubscribe,
                      .service = "duetime.v1.Messages",
                      .make = &MakeStream<SubscriberStream>},
    rpc::StreamMethod{.id = metrics::RpcMethod::kScheduleStream,
                      .service = "duetime.v1.Messages",
                      .make = &MakeStream<ScheduleStream>},
};

// The period in which sessions are checked. It is short enough for the configured heartbeat.
uint64_t SweepMs(uint64_t heartbeat_ms) {
  constexpr uint64_t kSweepMsMin = 10;
  constexpr uint64_t kSweepMsMax = 1'000;
  return std::clamp(heartbeat_ms / 2, kSweepMsMin, kSweepMsMax);
}

size_t MessageBytesMax(const RequestLimits& limits) {
  return std::max(limits.batch_bytes_max, limits.payload_bytes_max + limits.attributes_bytes_max);
}

}  // namespace

Server::Server(ServerOptions options, const delivery::ShardLimits& shard_limits, base::Clock* clock,
               metrics::RpcStats* stats)
    : context_(std::move(options), shard_limits, clock, stats) {
  context_.started = clock->Read();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Create(ServerOptions options,
                                                       const delivery::ShardLimits& shard_limits,
                                                       base::Clock* clock,
                                                       metrics::RpcStats* stats) {
  std::unique_ptr<Server> server(new Server(std::move(options), shard_limits, clock, stats));
  ServingContext* const context = &server->context_;
  auto shell = rpc::GrpcServer::Create(
      context->options, MessageBytesMax(context->options.limits),
      SweepMs(context->options.heartbeat_ms), context,
      {.services = {"duetime.v1.Messages", "duetime.v1.Admin"},
       .unary = UnaryMethods(),
       .streams = kStreams,
       .make_app = [context](rpc::CqWorker& worker) -> std::unique_ptr<rpc::WorkerApp> {
         return std::make_unique<ApiWorker>(context, &worker);
       }});
  if (!shell.ok()) return shell.status();
  server->shell_ = *std::move(shell);
  return server;
}

absl::Status Server::Listen() { return shell_->Listen(); }

absl::Status Server::LoadTopics(const ServeFacts& facts) {
  constexpr size_t kObjectsPerRead = 1'000;
  std::vector<std::pair<std::string, TopicObject>> objects;
  std::vector<storage::ObjectRef> read;
  do {
    const std::string after = read.empty() ? "" : read.back().name;
    read.clear();
    absl::Status status = facts.store->ScanObjects(storage::ObjectKind::kTopicSettings, 0, after,
                                                   kObjectsPerRead, &read);
    if (!status.ok()) return status;
    for (const storage::ObjectRef& ref : read) {
      const absl::StatusOr<TopicObject> object = DecodeTopicObject(ref.value);
      if (!object.ok()) return object.status();
      objects.emplace_back(ref.name, *object);
    }
  } while (read.size() == kObjectsPerRead);
  // A message was accepted while the topic was being deleted: it is there again.
  absl::flat_hash_map<std::string, storage::TopicId> ids;
  for (const auto& [id, name] : facts.topics) ids.emplace(name, id);
  for (auto& [name, object] : objects) {
    const auto id = ids.find(name);
    if (!object.deleted || id == ids.end()) continue;
    query::PendingCount pending;
    query::PendingCount due;
    absl::Status status = query::ReadTopicCounts(facts.store, id->second, 0, &pending, &due);
    if (!status.ok()) return status;
    // Or its deletion was cut short, and subscriptions of it are left: it was not answered.
    if (pending.messages > 0 || subscribed_.contains(id->second)) object = {};
  }
  context_.topics.Load(facts.topics, objects);
  return absl::OkStatus();
}

absl::Status Server::LoadSubscriptions(storage::MessageStore* store) {
  constexpr size_t kObjectsPerRead = 1'000;
  std::vector<std::vector<protocol::SubscriptionState>> shards(store->shard_count());
  for (uint16_t shard = 0; shard < shards.size(); ++shard) {
    std::vector<storage::ObjectRef> read;
    do {
      const std::string after = read.empty() ? "" : read.back().name;
      read.clear();
      absl::Status status = store->ScanObjects(storage::ObjectKind::kSubscription, shard, after,
                                               kObjectsPerRead, &read);
      if (!status.ok()) return status;
      for (const storage::ObjectRef& ref : read) {
        auto state = protocol::DecodeSubscription(ref.name, ref.value);
        if (!state.ok()) return state.status();
        if (!state->name.empty() && !state->deleting && !state->deleted) {
          subscribed_.insert(state->topic);
        }
        shards[shard].push_back(*std::move(state));
      }
    } while (read.size() == kObjectsPerRead);
  }
  repairs_ = context_.subscriptions.Load(shards);
  return absl::OkStatus();
}

void Server::FindDeadLetters() {
  for (const TopicRegistry::Topic& topic : context_.topics.List("", "", context_.topics.size())) {
    bool needed = !topic.settings.dead_letter_topic.empty();
    for (const auto& subscription :
         context_.subscriptions.List(topic.id, "", context_.options.subscriptions_max)) {
      needed |=
          subscription.settings.dead_letter_name.empty() && MakesDeadLetters(subscription.settings);
    }
    const std::string name = TopicRegistry::DeadLettersName(topic);
    if (!needed || name.empty()) continue;
    TopicRegistry::Topic dead_letters;
    // Too many topics: then it is made when it is needed and there is room.
    if (!context_.Resolve(name, TopicRegistry::Use::kCreate, &dead_letters).ok()) continue;
    context_.topics.SetDeadLetters(topic.id, dead_letters);
  }
}

void Server::TellSettings() {
  // The answers may come before all is told; they wait for the lock.
  base::MutexLock lock(&starting_mutex_);
  for (SubscriptionRegistry::Repair& repair : std::exchange(repairs_, {})) {
    repair.command.tag = kNoReply;
    const auto shard = repair.shard;
    if (context_.node.load()->Post(shard, std::move(repair.command)).ok()) ++untold_;
  }
  for (const TopicRegistry::Topic& topic : context_.topics.Special()) {
    untold_ += context_.TellShards(topic, kNoReply);
  }
  while (untold_ > 0) told_.Wait(&starting_mutex_);
}

// Takes out the answers that no call waits for. Serve counts those about settings.
void Server::DropUnaddressed(std::vector<protocol::Reply>* replies) {
  size_t told = 0;
  std::erase_if(*replies, [&](const protocol::Reply& reply) {
    if (protocol::TagOf(reply) != kNoReply) return false;
    if (!std::holds_alternative<protocol::ObjectReply>(reply)) ++told;
    return true;
  });
  if (told == 0) return;
  base::MutexLock lock(&starting_mutex_);
  // After the start more come, which Serve does not count.
  untold_ -= std::min(untold_, told);
  told_.NotifyAll();
}

absl::Status Server::Serve(ServeFacts facts) {
  DT_CHECK(shell_->listening() && facts.node != nullptr && facts.store != nullptr);
  absl::Status status = LoadSubscriptions(facts.store);
  if (status.ok()) status = LoadTopics(facts);
  if (!status.ok()) return status;
  reader_ = std::make_unique<runtime::Reader>(context_.options.reads_max);
  reader_->Start();
  context_.reader = reader_.get();
  context_.store = facts.store;
  context_.epoch = facts.epoch;
  context_.disk_low = std::move(facts.disk_low);
  context_.node.store(facts.node);
  FindDeadLetters();
  TellSettings();
  context_.Advance(ServingState::kServing);
  shell_->WakeAll();
  return absl::OkStatus();
}

void Server::Deliver(uint16_t shard, protocol::Effects effects) {
  PostWakes(effects.wakes);
  DropUnaddressed(&effects.replies);
  // Before the replies: a topic is there for every client that knows it to have a message.
  for (const storage::TopicId topic : effects.used_topics) {
    if (context_.topics.NoteUsed(topic)) context_.ForgetTopicObject(*context_.topics.Name(topic));
  }
  if (effects.failed && context_.Advance(ServingState::kStorageFailed)) {
    spdlog::critical("storage failed: nothing is accepted until a restart");
    shell_->WakeAll();
  }
  if (shell_->workers() == 1) {
    worker(0).Push(shard, std::move(effects));
  } else {
    Partition(shard, std::move(effects));
  }
}

void Server::PostWakes(const std::vector<protocol::WakeShards>& wakes) {
  runtime::Node* node = context_.node.load();
  if (node == nullptr) return;
  for (const protocol::WakeShards& wake : wakes) {
    for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
      if ((wake.shard_mask >> shard & 1) == 0) continue;
      static_cast<void>(node->Post(shard, protocol::CreditCommand{.stream = wake.stream}));
    }
  }
}

void Server::Partition(uint16_t shard, protocol::Effects effects) {
  std::vector<protocol::Effects> parts(shell_->workers());
  const auto part = [&](auto name) -> protocol::Effects& {
    const size_t worker = WorkerOf(name);
    // A name that no worker gave cannot come back.
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
  if (context_.Advance(ServingState::kDraining)) shell_->WakeAll();
}

void Server::Shutdown(std::chrono::milliseconds timeout) {
  // Not created.
  if (shell_ == nullptr) return;
  shell_->Shutdown(timeout);
  // No call posts any more; the jobs that still run answer none.
  if (reader_ != nullptr) reader_->Stop();
}

}  // namespace duetime::api
