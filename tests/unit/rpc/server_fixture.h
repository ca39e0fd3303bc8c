// SPDX-License-Identifier: Apache-2.0
//
// An api::Server and a Node over a MemoryStore in this process, reached through a Unix socket.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/api/call_table.h"
#include "server/api/server.h"
#include "server/base/mutex.h"
#include "server/runtime/backups.h"
#include "server/runtime/node.h"
#include "server/runtime/system_clock.h"
#include "storage/memory_store.h"
#include "tests/support/temp_directory.h"

namespace duetime::rpc {

// Long enough for a slow machine under a sanitizer; a test that passes never waits for it.
inline constexpr std::chrono::seconds kTestDeadline{30};

inline std::unique_ptr<grpc::ClientContext> NewContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + kTestDeadline);
  return context;
}

// The ErrorInfo of a status; empty if it has none.
inline google::rpc::ErrorInfo InfoOf(const google::rpc::Status& status) {
  google::rpc::ErrorInfo info;
  if (status.details_size() > 0) status.details(0).UnpackTo(&info);
  return info;
}
inline google::rpc::ErrorInfo InfoOf(const grpc::Status& status) {
  google::rpc::Status parsed;
  if (!parsed.ParseFromString(status.error_details())) return {};
  return InfoOf(parsed);
}

// The reason in the ErrorInfo of a status.
inline std::string ReasonOf(const grpc::Status& status) {
  const std::string reason = InfoOf(status).reason();
  return reason.empty() ? "no reason: " + status.error_message() : reason;
}
inline std::string ReasonOf(const v1::Failure& failure) { return failure.reason(); }

inline bool HasRetryInfo(const grpc::Status& status) {
  google::rpc::Status parsed;
  parsed.ParseFromString(status.error_details());
  for (const auto& detail : parsed.details()) {
    if (detail.Is<google::rpc::RetryInfo>()) return true;
  }
  return false;
}

// The metadata of a status' ErrorInfo, sorted by key.
inline std::map<std::string, std::string> MetadataOf(const grpc::Status& status) {
  const google::rpc::ErrorInfo info = InfoOf(status);
  return {info.metadata().begin(), info.metadata().end()};
}

// A store that can hold up its appends, like a disk that does not answer, and the reading of one
// shard's counts.
class GatedStore final : public storage::MemoryStore {
 public:
  using storage::MemoryStore::MemoryStore;
  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override {
    base::MutexLock lock(&mutex_);
    while (!open_ || (held_type_.has_value() && Has(group, *held_type_))) {
      if (let_through_ > 0) {
        --let_through_;
        break;
      }
      append_waits_ = true;
      changed_.NotifyAll();
      changed_.Wait(&mutex_);
    }
    append_waits_ = false;
    return MemoryStore::Append(group, durability);
  }
  void SetOpen(bool open) {
    base::MutexLock lock(&mutex_);
    open_ = open;
    changed_.NotifyAll();
  }
  // Lets one append pass: the first one that waits now or later.
  void LetOneThrough() {
    base::MutexLock lock(&mutex_);
    ++let_through_;
    changed_.NotifyAll();
  }
  // Holds up only the appends with a record of this type. nullopt: holds up none.
  void HoldAppends(std::optional<storage::RecordType> type) {
    base::MutexLock lock(&mutex_);
    held_type_ = type;
    changed_.NotifyAll();
  }
  // Waits until an append is held up.
  void AwaitAppend() {
    base::MutexLock lock(&mutex_);
    while (!append_waits_) changed_.Wait(&mutex_);
  }

  absl::Status ScanCounts(uint16_t shard, storage::TopicId topic, storage::CountLevel level,
                          const storage::MsRange& times, size_t limit,
                          std::vector<storage::BucketCount>* counts) override {
    base::MutexLock lock(&mutex_);
    while (held_ == shard) {
      counts_wait_ = true;
      changed_.NotifyAll();
      changed_.Wait(&mutex_);
    }
    return MemoryStore::ScanCounts(shard, topic, level, times, limit, counts);
  }
  void HoldCounts(uint16_t shard) {
    base::MutexLock lock(&mutex_);
    held_ = shard;
  }
  // Waits until a reader is held up at the counts.
  void AwaitCounts() {
    base::MutexLock lock(&mutex_);
    while (!counts_wait_) changed_.Wait(&mutex_);
  }
  void ReleaseCounts() {
    base::MutexLock lock(&mutex_);
    held_.reset();
    changed_.NotifyAll();
  }
  bool counts_held() {
    base::MutexLock lock(&mutex_);
    return held_.has_value();
  }

 private:
  static bool Has(std::span<const storage::RecordBatch> group, storage::RecordType type) {
    for (const storage::RecordBatch& batch : group) {
      for (const storage::Record& record : batch) {
        if (record.type == type) return true;
      }
    }
    return false;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  std::optional<storage::RecordType> held_type_ ABSL_GUARDED_BY(mutex_);
  bool append_waits_ ABSL_GUARDED_BY(mutex_) = false;
  size_t let_through_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<uint16_t> held_ ABSL_GUARDED_BY(mutex_);
  bool counts_wait_ ABSL_GUARDED_BY(mutex_) = false;
};

// The system's clock, which a test can advance and set back.
class JumpingClock final : public base::Clock {
 public:
  base::Now Read() override {
    base::Now now = clock_.Read();
    now.mono_ms += jumped_ms_.load();
    now.wall_ms += passed_ms_.load();
    return now;
  }
  base::ClockState state() override { return clock_.state(); }
  // Sets the wall clock back.
  void SetBack(uint64_t ms) { passed_ms_ -= ms; }
  // Advances the monotonic time only.
  void Jump(uint64_t ms) { jumped_ms_ += ms; }
  void Pass(uint64_t ms) {
    passed_ms_ += ms;
    jumped_ms_ += ms;
  }

 private:
  runtime::SystemClock clock_;
  std::atomic<uint64_t> jumped_ms_{0};
  std::atomic<uint64_t> passed_ms_{0};
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() { node_options_.startup_rate = node_options_.failure_rate = 0; }
  void TearDown() override { StopAll(); }

  api::ServerOptions DefaultOptions() {
    api::ServerOptions options;
    options.listen = {"unix:" + directory_.Join("socket")};
    options.io_threads = 1;
    options.version = "test";
    return options;
  }

  // Listens without serving.
  void Listen(const api::ServerOptions& options) {
    auto server = api::Server::Create(options, node_options_, &clock_, &stats_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    if (roster_ != nullptr) server_->JoinCell("a", roster_);
    const absl::Status listening = server_->Listen();
    ASSERT_TRUE(listening.ok()) << listening;
    channel_ = grpc::CreateChannel(server_->addresses()[0], grpc::InsecureChannelCredentials());
    messages_ = v1::Messages::NewStub(channel_);
    admin_ = v1::Admin::NewStub(channel_);
    health_ = grpc::health::v1::Health::NewStub(channel_);
  }

  void Serve() {
    node_ =
        std::make_unique<runtime::Node>(node_options_, &store(), &store(), &clock_, server_.get());
    ASSERT_TRUE(node_->Start().ok());
    // The memory store has no files, so a backup of it is refused.
    backups_ = std::make_unique<runtime::Backups>(
        runtime::BackupOptions{}, directory_.Join("data"),
        runtime::CheckpointTasks{
            .write = [](const std::string&) { return absl::UnimplementedError("no files"); },
            .list = {}},
        &clock_);
    server_->Serve({node_.get(), &store(), store().epoch(), backups_.get(), disk_low_});
  }

  void Start(const api::ServerOptions& options) {
    Listen(options);
    Serve();
  }
  void Start() { Start(DefaultOptions()); }

  void StopAll() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::seconds(1));
    if (node_ != nullptr) node_->Stop();
  }

  // Opens the store at its first use, so that a test can choose the number of shards before.
  storage::MemoryStore& store() {
    if (store_ == nullptr) {
      disk_ = std::make_unique<storage::MemoryDisk>(shards_);
      store_ = std::make_unique<storage::MemoryStore>(disk_.get());
    }
    return *store_;
  }

  // REQUIRES: the store is not used yet.
  GatedStore* UseGatedStore() {
    disk_ = std::make_unique<storage::MemoryDisk>(shards_);
    auto gated = std::make_unique<GatedStore>(disk_.get());
    GatedStore* const gate = gated.get();
    store_ = std::move(gated);
    return gate;
  }

  static v1::ScheduleRequest NewMessage(const std::string& topic, const std::string& payload,
                                        int64_t delay_seconds = 0) {
    v1::ScheduleRequest request;
    request.set_topic(topic);
    request.set_payload(payload);
    request.mutable_delay()->set_seconds(delay_seconds);
    return request;
  }

  grpc::Status Schedule(const v1::ScheduleRequest& request, v1::ScheduleResponse* response) {
    return messages_->Schedule(NewContext().get(), request, response);
  }

  // Schedules the message and returns its id.
  std::string MustSchedule(const v1::ScheduleRequest& request) {
    v1::ScheduleResponse response;
    const grpc::Status status = Schedule(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.message().id();
  }

  grpc::health::v1::HealthCheckResponse::ServingStatus Health() {
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(health_->Check(NewContext().get(), {}, &response).ok());
    return response.status();
  }

  uint16_t shards_ = 1;
  runtime::NodeOptions node_options_;
  std::function<bool()> disk_low_;

  test::TempDirectory directory_;
  JumpingClock clock_;
  metrics::RpcStats stats_{api::MethodNames()};
  std::unique_ptr<storage::MemoryDisk> disk_;
  std::unique_ptr<storage::MemoryStore> store_;
  std::unique_ptr<runtime::Backups> backups_;
  // Set before Listen: the server is the member "a" of a cell.
  const cell::Roster* roster_ = nullptr;
  std::unique_ptr<api::Server> server_;
  std::unique_ptr<runtime::Node> node_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Messages::Stub> messages_;
  std::unique_ptr<v1::Admin::Stub> admin_;
  std::unique_ptr<grpc::health::v1::Health::Stub> health_;
};

}  // namespace duetime::rpc
