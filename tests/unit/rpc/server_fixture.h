// SPDX-License-Identifier: Apache-2.0
//
// An api::Server and a Node over a TestStore in this process, reached through a Unix socket.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/api/call_table.h"
#include "server/api/server.h"
#include "server/runtime/backups.h"
#include "server/runtime/node.h"
#include "server/runtime/system_clock.h"
#include "tests/support/temp_directory.h"
#include "tests/unit/rpc/gated_store.h"
#include "tests/unit/rpc/requests_and_errors.h"

namespace duetime::rpc {

// Long enough for a slow machine under a sanitizer; a test that passes never waits for it.
inline constexpr std::chrono::seconds kTestDeadline{30};

inline std::unique_ptr<grpc::ClientContext> NewContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + kTestDeadline);
  return context;
}

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
  using Messages = v1::Messages::Stub;
  using Admin = v1::Admin::Stub;
  // A unary call of a stub, like &Admin::GetTopic.
  template <typename Stub, typename Request, typename Response>
  using Method = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

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
    server_->Serve({.node = node_.get(),
                    .store = &store(),
                    .epoch = store().epoch(),
                    .backups = backups_.get(),
                    .disk_low = disk_low_});
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
  test::TestStore& store() {
    if (store_ == nullptr) {
      disk_ = std::make_unique<test::TestDisk>(shards_);
      store_ = std::make_unique<test::TestStore>(disk_.get());
    }
    return *store_;
  }

  // REQUIRES: the store is not used yet.
  GatedStore* UseGatedStore() {
    disk_ = std::make_unique<test::TestDisk>(shards_);
    auto gated = std::make_unique<GatedStore>(disk_.get());
    GatedStore* const gate = gated.get();
    store_ = std::move(gated);
    return gate;
  }

  // Stops the server and listens again, with a new store over the same disk.
  template <typename Store = test::TestStore>
  Store* ListenAgain() {
    StopAll();
    node_.reset();
    server_.reset();
    auto opened = std::make_unique<Store>(disk_.get());
    Store* const store = opened.get();
    store_ = std::move(opened);
    api::ServerOptions options = DefaultOptions();
    options.listen = {"unix:" + directory_.Join("again")};
    Listen(options);
    return store;
  }

  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(Method<Stub, Request, Response> method,
                    const std::type_identity_t<Asked<Request>>& request,
                    std::type_identity_t<Response>* response) {
    const std::pair<Messages*, Admin*> stubs = {messages_.get(), admin_.get()};
    return (std::get<Stub*>(stubs)->*method)(NewContext().get(), request.proto, response);
  }
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(Method<Stub, Request, Response> method,
                    const std::type_identity_t<Asked<Request>>& request) {
    Response response;
    return Call(method, request, &response);
  }
  // The response of a call that must succeed.
  template <typename Stub, typename Request, typename Response>
  Response Must(Method<Stub, Request, Response> method,
                const std::type_identity_t<Asked<Request>>& request) {
    Response response;
    const grpc::Status status = Call(method, request, &response);
    EXPECT_TRUE(status.ok()) << ReasonOf(status) << ": " << status.error_message();
    return response;
  }
  // The reason of a refusal, or "OK".
  template <typename Stub, typename Request, typename Response>
  std::string Reason(Method<Stub, Request, Response> method,
                     const std::type_identity_t<Asked<Request>>& request) {
    const grpc::Status status = Call(method, request);
    return status.ok() ? "OK" : ReasonOf(status);
  }
  std::vector<std::string> TopicNames() {
    std::vector<std::string> names;
    const auto list = Must(&Admin::ListTopics, "");
    for (const auto& topic : list.topics()) names.push_back(topic.name());
    return names;
  }

  static v1::ScheduleRequest NewMessage(const std::string& topic, const std::string& payload,
                                        int64_t delay_seconds = 0) {
    v1::ScheduleRequest request;
    request.set_topic(topic);
    request.set_payload(payload);
    request.mutable_delay()->set_seconds(delay_seconds);
    return request;
  }

  // Schedules the message and returns its id.
  std::string MustSchedule(const v1::ScheduleRequest& request) {
    return Must(&Messages::Schedule, request).message().id();
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
  std::unique_ptr<test::TestDisk> disk_;
  std::unique_ptr<test::TestStore> store_;
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
