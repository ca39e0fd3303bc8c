// SPDX-License-Identifier: Apache-2.0
//
// Servers behind a gateway.
#pragma once

#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/integration/daemon_fixture.h"
#include "tests/support/paths.h"

namespace duetime::test {

class GatewayTest : public DaemonTest {
 protected:
  // A server behind the gateway, asked without it.
  struct Cell {
    std::unique_ptr<ServerProcess> server;
    std::unique_ptr<v1::Messages::Stub> messages;
    std::unique_ptr<v1::Admin::Stub> admin;
  };

  void StartCell(const std::string& name) {
    Cell& cell = cells_[name];
    cell.server = std::make_unique<ServerProcess>(
        ServerProcess::Options{.daemon = kDaemon, .flags = {"--shards=1"}, .tls = {}});
    ASSERT_TRUE(cell.server->Start()) << cell.server->error();
    const auto channel = cell.server->Connect();
    cell.messages = v1::Messages::NewStub(channel);
    cell.admin = v1::Admin::NewStub(channel);
  }

  // "a" has the lower half of the slots, "b" the upper one, others none.
  void StartGateway(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--gateway-wait-ms=1000"};
    for (const auto& [name, cell] : cells_) {
      const std::string slots = name == "a" ? "0-8191" : name == "b" ? "8192-16383" : "-";
      flags.push_back(
          absl::StrCat("--gateway-cells=", name, " ", slots, " ", cell.server->target()));
    }
    flags.insert(flags.end(), more.begin(), more.end());
    StartDaemon(flags);
  }

  void SetUp() override {
    StartCell("a");
    StartCell("b");
  }

  static std::string CellOf(const std::string& id) { return id.substr(0, id.find('.')); }

  v1::Message MustScheduleKey(const std::string& key, Millis delay) {
    v1::ScheduleRequest request = Request("t", delay);
    request.set_key(key);
    request.set_on_conflict(v1::ScheduleRequest::ON_CONFLICT_REPLACE);
    return MustSchedule(request);
  }
  // A key whose message is in this cell.
  std::string KeyIn(const std::string& cell) {
    for (int i = 0;; ++i) {
      const std::string key = absl::StrCat("key-", i);
      if (CellOf(MustScheduleKey(key, Millis(3'600'000)).id()) == cell) return key;
    }
  }

  template <typename Stub, typename Request, typename Response>
  static grpc::Status Call(const std::unique_ptr<Stub>& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                        Response*),
                           const Request& request, Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context, Millis(5'000));
    return (stub.get()->*method)(&context, request, response);
  }

  // The pending messages of the topic.
  static int64_t Pending(const std::unique_ptr<v1::Admin::Stub>& admin) {
    v1::GetTopicRequest request;
    request.set_name("t");
    v1::GetTopicResponse response;
    EXPECT_TRUE(Call(admin, &v1::Admin::Stub::GetTopic, request, &response).ok());
    return response.topic().counts().pending();
  }

  // Waits until `done` is true.
  bool Soon(const std::function<bool()>& done) {
    const auto end = Clock::now() + Millis(40'000);
    while (!done()) {
      if (Clock::now() > end) return false;
      server_->Wait(Millis(20));
    }
    return true;
  }

  bool HasSubscription(const std::string& cell, const std::string& name) {
    v1::GetSubscriptionRequest request;
    request.set_topic("t");
    request.set_name(name);
    v1::GetSubscriptionResponse response;
    return Call(cells_[cell].admin, &v1::Admin::Stub::GetSubscription, request, &response).ok();
  }

  std::map<std::string, Cell> cells_;
};

}  // namespace duetime::test
