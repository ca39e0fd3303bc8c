// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/grpc_server.h"

#include <algorithm>
#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>
#include <thread>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "google/protobuf/stubs/logging.h"

#include "server/base/check.h"
#include "server/base/mutex.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/credentials.h"
#include "server/rpc/forecast_query.h"
#include "server/rpc/listener.h"
#include "server/rpc/services.h"
#include "server/rpc/serving_context.h"
#include "server/rpc/subscription_settings.h"

namespace duetime::rpc {
namespace {

constexpr int kMetadataBytesMax = 8 << 10;
constexpr int kStreamsPerConnectionMax = 1'000;
constexpr int kHandshakeTimeoutMs = 5'000;
constexpr int kKeepaliveTimeMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
constexpr int kClientPingMinMs = 10'000;
// What gRPC may hold in buffers before it makes connections wait.
constexpr size_t kQuotaBytes = 512 << 20;
// Framing and small fields around the largest payload or batch.
constexpr size_t kReceiveSlackBytes = 64 << 10;

size_t WorkerCount(size_t configured) {
  if (configured != 0) return std::min(configured, kWorkersMax);
  return std::max<size_t>(1,
                          std::min<size_t>(std::thread::hardware_concurrency() / 2, kWorkersMax));
}

void SetChannelOptions(const GrpcServerOptions& options, grpc::ServerBuilder* builder) {
  const size_t largest =
      std::max(options.limits.batch_bytes_max,
               options.limits.payload_bytes_max + options.limits.attributes_bytes_max);
  builder->SetMaxReceiveMessageSize(static_cast<int>(largest + kReceiveSlackBytes));
  // 300 kB of gzip can become 300 MB in memory before any limit is looked at.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnectionMax);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  // Finds subscribers that vanished without a word, and lets clients look for a vanished server.
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

// Puts each item on the list of the worker whose call or stream it is for.
template <typename Item, typename Owner>
void Deal(std::vector<Item>* items, std::vector<Item> delivery::Effects::*list, Owner owner,
          std::vector<delivery::Effects>* parts) {
  for (Item& item : *items) {
    const size_t worker = WorkerOf(owner(item));
    // A tag that no worker gave cannot come back.
    DT_CHECK_LT(worker, parts->size());
    ((*parts)[worker].*list).push_back(std::move(item));
  }
}

}  // namespace

class GrpcServer::Impl {
 public:
  Impl(GrpcServerOptions options, base::Clock* clock, metrics::RpcStats* stats,
       std::shared_ptr<grpc::ServerCredentials> credentials)
      : context(std::move(options), clock, stats), tcp_credentials(std::move(credentials)) {
    context.started = clock->Read();
  }

  absl::Status Listen();
  absl::Status Serve(ServeFacts facts);
  void Deliver(uint16_t shard, delivery::Effects effects);
  void Shutdown(std::chrono::milliseconds timeout);
  void WakeAll() {
    for (const auto& worker : workers) worker->Wake();
  }

  ServingContext context;
  // Before the workers: what they posted may still run when they are gone, and finds them closed.
  std::unique_ptr<runtime::Reader> reader;
  std::shared_ptr<grpc::ServerCredentials> tcp_credentials;
  Services services;
  std::unique_ptr<Listener> listener;
  std::vector<std::unique_ptr<CqWorker>> workers;
  // After the workers: their queues must outlive the server's use of them.
  std::unique_ptr<grpc::Server> server;
  bool shut_down = false;

 private:
  void PostWakes(const std::vector<delivery::WakeShards>& wakes);
  void Split(uint16_t shard, delivery::Effects effects);
  absl::Status LoadTopics(const ServeFacts& facts);
  absl::Status LoadSubscriptions(storage::MessageStore* store);
  void FindDeadLetters();
  void TellSettings();
  template <typename Reply>
  void CountTold(std::vector<Reply>* replies);

  base::Mutex starting_mutex_;
  base::CondVar told_;
  // What is to be told to shards when the server starts to serve.
  std::vector<SubscriptionRegistry::Repair> repairs_;
  // Topics with a subscription that somebody has named.
  absl::flat_hash_set<storage::TopicId> subscribed_;
  // Answers of shards that Serve waits for.
  size_t untold_ ABSL_GUARDED_BY(starting_mutex_) = 0;
};

absl::Status GrpcServer::Impl::Listen() {
  const GrpcServerOptions& options = context.options;
  const bool allow_nonlocal = options.insecure_nonloopback || !options.tls_cert.empty();
  auto opened = Listener::Open(options.listen, allow_nonlocal);
  if (!opened.ok()) return opened.status();
  listener = *std::move(opened);

  // Bytes that are not UTF-8 are refused to the client; libprotobuf need not tell stderr of each.
  google::protobuf::SetLogHandler(nullptr);
  // gRPC's health service would bring polling threads of its own.
  grpc::EnableDefaultHealthCheckService(false);
  grpc::ServerBuilder builder;
  SetChannelOptions(options, &builder);
  builder.RegisterService(&services.messages);
  builder.RegisterService(&services.admin);
  builder.RegisterService(&services.health);
  builder.RegisterService(&services.reflection);
  using FromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  auto tcp = builder.experimental().AddExternalConnectionAcceptor(FromFd::FROM_FD, tcp_credentials);
  auto local = builder.experimental().AddExternalConnectionAcceptor(
      FromFd::FROM_FD, grpc::InsecureServerCredentials());
  const size_t count = WorkerCount(options.io_threads);
  for (size_t i = 0; i < count; ++i) {
    workers.push_back(
        std::make_unique<CqWorker>(&context, &services, i, builder.AddCompletionQueue()));
  }
  server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError("gRPC could not start; its own log says why");
  }
  for (const auto& worker : workers) worker->Start();
  listener->Start(std::move(tcp), std::move(local));
  return absl::OkStatus();
}

absl::Status GrpcServer::Impl::LoadTopics(const ServeFacts& facts) {
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
    PendingCount pending;
    PendingCount due;
    absl::Status status = ReadTopicCounts(facts.store, id->second, 0, &pending, &due);
    if (!status.ok()) return status;
    // Or its deletion was cut short, and subscriptions of it are left: it was not answered.
    if (pending.messages > 0 || subscribed_.contains(id->second)) object = {};
  }
  context.topics.Load(facts.topics, objects);
  return absl::OkStatus();
}

absl::Status GrpcServer::Impl::LoadSubscriptions(storage::MessageStore* store) {
  constexpr size_t kObjectsPerRead = 1'000;
  std::vector<std::vector<delivery::SubscriptionState>> shards(store->shard_count());
  for (uint16_t shard = 0; shard < shards.size(); ++shard) {
    std::vector<storage::ObjectRef> read;
    do {
      const std::string after = read.empty() ? "" : read.back().name;
      read.clear();
      absl::Status status = store->ScanObjects(storage::ObjectKind::kSubscription, shard, after,
                                               kObjectsPerRead, &read);
      if (!status.ok()) return status;
      for (const storage::ObjectRef& ref : read) {
        auto state = delivery::DecodeSubscription(ref.name, ref.value);
        if (!state.ok()) return state.status();
        if (!state->name.empty() && !state->deleting && !state->deleted) {
          subscribed_.insert(state->topic);
        }
        shards[shard].push_back(*std::move(state));
      }
    } while (read.size() == kObjectsPerRead);
  }
  repairs_ = context.subscriptions.Load(shards);
  return absl::OkStatus();
}

// Topics whose name nobody has written down yet, but that dead letters go to: by the settings of a
// topic, or because a subscription may come to need them.
void GrpcServer::Impl::FindDeadLetters() {
  for (const TopicRegistry::Topic& topic : context.topics.List("", "", context.topics.size())) {
    bool needed = !topic.settings.dead_letter_topic.empty();
    for (const auto& subscription :
         context.subscriptions.List(topic.id, "", context.options.subscriptions_max)) {
      needed |=
          subscription.settings.dead_letter_name.empty() && MakesDeadLetters(subscription.settings);
    }
    const std::string name = TopicRegistry::DeadLettersName(topic);
    if (!needed || name.empty()) continue;
    TopicRegistry::Topic dead_letters;
    // Too many topics: then it is made when it is needed and there is room.
    if (!context.Resolve(name, TopicRegistry::Use::kCreate, &dead_letters).ok()) continue;
    context.topics.SetDeadLetters(topic.id, dead_letters);
  }
}

// Returns when every shard has all subscriptions, and knows the settings of every topic: until then
// one would take messages that another has no room for.
void GrpcServer::Impl::TellSettings() {
  // The answers may come before all is told; they wait for the lock.
  base::MutexLock lock(&starting_mutex_);
  for (SubscriptionRegistry::Repair& repair : std::exchange(repairs_, {})) {
    repair.command.tag = kNobody;
    const auto shard = repair.shard;
    if (context.node.load()->Post(shard, std::move(repair.command)).ok()) ++untold_;
  }
  for (const TopicRegistry::Topic& topic : context.topics.Special()) {
    untold_ += context.TellShards(topic, kNobody);
  }
  while (untold_ > 0) told_.Wait(&starting_mutex_);
}

// Takes out the answers that no call waits for.
template <typename Reply>
void GrpcServer::Impl::CountTold(std::vector<Reply>* replies) {
  const size_t told =
      std::erase_if(*replies, [](const auto& reply) { return reply.tag == kNobody; });
  if (told == 0) return;
  base::MutexLock lock(&starting_mutex_);
  // More come later, which nobody counts.
  untold_ -= std::min(untold_, told);
  told_.NotifyAll();
}

absl::Status GrpcServer::Impl::Serve(ServeFacts facts) {
  DT_CHECK(server != nullptr && facts.node != nullptr && facts.store != nullptr);
  absl::Status status = LoadSubscriptions(facts.store);
  if (status.ok()) status = LoadTopics(facts);
  if (!status.ok()) return status;
  reader = std::make_unique<runtime::Reader>(context.options.reads_max);
  reader->Start();
  context.reader = reader.get();
  context.store = facts.store;
  context.epoch = facts.epoch;
  context.disk_low = std::move(facts.disk_low);
  context.node.store(facts.node);
  FindDeadLetters();
  TellSettings();
  context.Advance(ServingState::kServing);
  WakeAll();
  return absl::OkStatus();
}

void GrpcServer::Impl::Deliver(uint16_t shard, delivery::Effects effects) {
  PostWakes(effects.wakes);
  CountTold(&effects.topics);
  CountTold(&effects.subscriptions);
  // Before the messages are told of: a topic that somebody knows to have one is there.
  for (const storage::TopicId topic : effects.used_topics) {
    if (context.topics.NoteUsed(topic)) context.ForgetTopicObject(*context.topics.Name(topic));
  }
  if (effects.failed && context.Advance(ServingState::kStorageFailed)) {
    spdlog::critical("storage failed: nothing is accepted until a restart");
    WakeAll();
  }
  if (workers.size() == 1) {
    workers[0]->Push(shard, std::move(effects));
  } else {
    Split(shard, std::move(effects));
  }
}

void GrpcServer::Impl::PostWakes(const std::vector<delivery::WakeShards>& wakes) {
  runtime::Node* node = context.node.load();
  if (node == nullptr) return;
  for (const delivery::WakeShards& wake : wakes) {
    for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
      if ((wake.shard_mask >> shard & 1) == 0) continue;
      static_cast<void>(node->Post(shard, delivery::CreditCommand{.stream = wake.stream}));
    }
  }
}

void GrpcServer::Impl::Split(uint16_t shard, delivery::Effects effects) {
  using delivery::Effects;
  std::vector<Effects> parts(workers.size());
  const auto tag = [](const auto& item) { return item.tag; };
  const auto stream = [](const auto& item) { return item.stream; };
  Deal(&effects.schedules, &Effects::schedules, tag, &parts);
  Deal(&effects.cancels, &Effects::cancels, tag, &parts);
  Deal(&effects.reschedules, &Effects::reschedules, tag, &parts);
  Deal(&effects.gets, &Effects::gets, tag, &parts);
  Deal(&effects.inspects, &Effects::inspects, tag, &parts);
  Deal(&effects.objects, &Effects::objects, tag, &parts);
  Deal(&effects.topics, &Effects::topics, tag, &parts);
  Deal(&effects.operations, &Effects::operations, tag, &parts);
  Deal(&effects.recurrences, &Effects::recurrences, tag, &parts);
  Deal(&effects.subscriptions, &Effects::subscriptions, tag, &parts);
  Deal(&effects.subscription_gauges, &Effects::subscription_gauges, tag, &parts);
  Deal(&effects.echoes, &Effects::echoes, tag, &parts);
  Deal(&effects.frames, &Effects::frames, stream, &parts);
  Deal(&effects.settles, &Effects::settles, stream, &parts);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty()) workers[i]->Push(shard, std::move(parts[i]));
  }
}

void GrpcServer::Impl::Shutdown(std::chrono::milliseconds timeout) {
  if (std::exchange(shut_down, true)) return;
  if (listener != nullptr) listener->Stop();
  if (server == nullptr) return;
  context.Advance(ServingState::kDraining);
  context.ending.store(true);
  WakeAll();
  // Returns once every connection is closed; cuts off at the deadline what is still open then.
  server->Shutdown(std::chrono::system_clock::now() + timeout);
  // A call whose shard does not answer, because the disk does not, must not keep the process alive.
  const auto grace_ms = static_cast<uint64_t>(std::max<int64_t>(timeout.count(), 0));
  for (const auto& worker : workers) worker->Stop(grace_ms);
  for (const auto& worker : workers) worker->Join();
  // Nobody posts any more; what still runs answers nobody.
  if (reader != nullptr) reader->Stop();
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Create(GrpcServerOptions options,
                                                               base::Clock* clock,
                                                               metrics::RpcStats* stats) {
  absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> credentials =
      MakeTcpCredentials(options);
  if (!credentials.ok()) return credentials.status();
  return std::unique_ptr<GrpcServer>(new GrpcServer(
      std::make_unique<Impl>(std::move(options), clock, stats, *std::move(credentials))));
}

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

GrpcServer::~GrpcServer() { impl_->Shutdown(std::chrono::milliseconds(0)); }

absl::Status GrpcServer::Listen() { return impl_->Listen(); }

absl::Status GrpcServer::Serve(ServeFacts facts) { return impl_->Serve(std::move(facts)); }

void GrpcServer::Deliver(uint16_t shard, delivery::Effects effects) {
  impl_->Deliver(shard, std::move(effects));
}

void GrpcServer::Drain() {
  if (impl_->context.Advance(ServingState::kDraining)) impl_->WakeAll();
}

void GrpcServer::Shutdown(std::chrono::milliseconds timeout) { impl_->Shutdown(timeout); }

std::vector<std::string> GrpcServer::addresses() const {
  return impl_->listener == nullptr ? std::vector<std::string>{} : impl_->listener->addresses();
}

uint64_t GrpcServer::streams() const { return impl_->context.streams.load(); }

size_t GrpcServer::topics() const { return impl_->context.topics.size(); }

size_t GrpcServer::subscriptions() const { return impl_->context.subscriptions.size(); }

bool GrpcServer::storage_failed() const {
  return impl_->context.state.load() == ServingState::kStorageFailed;
}

}  // namespace duetime::rpc
