// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/cpp/convert.h"
#include "client/cpp/error.h"
#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"
#include "tests/support/error_metadata.h"
#include "tests/support/paths.h"
#include "tests/support/server_process.h"
#include "tests/support/subscription.h"

namespace duetime::test {

using Clock = std::chrono::system_clock;

inline Clock::time_point ToTime(const google::protobuf::Timestamp& time) {
  return absl::ToChronoTime(client::FromProto(time));
}

// The machine-readable error details of a status. Checks the metadata.
inline client::ErrorInfo InfoOf(const grpc::Status& status) {
  client::ErrorInfo info = client::GetErrorInfo(client::ToAbslStatus(status));
  const bool invalid =
      status.error_code() == grpc::StatusCode::INVALID_ARGUMENT && !info.field_violations.empty();
  ExpectPromisedMetadata(info.reason, info.metadata, invalid ? info.field_violations[0].field : "");
  return info;
}

// Starts a daemon for each test, with one connection to it.
class DaemonTest : public testing::Test {
 protected:
  void StartDaemon(const std::vector<std::string>& flags = {}, bool tcp = false,
                   bool metrics = false) {
    server_ = std::make_unique<ServerProcess>(
        ServerProcess::Options{.daemon = kDaemon,
                               .flags = flags,
                               .tcp = tcp,
                               .metrics = metrics,
                               .where = TempDirectory::Where::kMemory,
                               .unix_socket = true,
                               .tls = {}});
    ASSERT_TRUE(server_->Start()) << server_->error();
    Connect();
  }

  void Connect() {
    channel_ = server_->Connect();
    messages_ = v1::Messages::NewStub(channel_);
    admin_ = v1::Admin::NewStub(channel_);
  }

  // A failed test prints the daemon's log, which explains the failure best.
  void TearDown() override {
    if (HasFailure() && server_ != nullptr) std::fputs(server_->log().c_str(), stderr);
  }

  static void SetDeadline(grpc::ClientContext* context, Millis timeout = Millis(20'000)) {
    context->set_deadline(Clock::now() + timeout);
    context->set_wait_for_ready(true);
  }

  static v1::ScheduleRequest Request(const std::string& topic, Millis delay,
                                     const std::string& payload = "p") {
    v1::ScheduleRequest request;
    request.set_topic(topic);
    request.set_payload(payload);
    request.mutable_delay()->set_seconds(delay.count() / 1000);
    request.mutable_delay()->set_nanos(static_cast<int32_t>(delay.count() % 1000 * 1'000'000));
    return request;
  }

  grpc::Status Schedule(const v1::ScheduleRequest& request, v1::Message* message) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ScheduleResponse response;
    const grpc::Status status = messages_->Schedule(&context, request, &response);
    *message = response.message();
    return status;
  }

  v1::Message MustSchedule(const v1::ScheduleRequest& request) {
    v1::Message message;
    const grpc::Status status = Schedule(request, &message);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return message;
  }
  v1::Message MustSchedule(const std::string& topic, Millis delay,
                           const std::string& payload = "p") {
    return MustSchedule(Request(topic, delay, payload));
  }

  grpc::Status Cancel(const std::string& id, v1::CancelResponse* response,
                      bool stop_redelivery = false) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::CancelRequest request;
    request.set_message_id(id);
    request.set_stop_redelivery(stop_redelivery);
    return messages_->Cancel(&context, request, response);
  }

  v1::CancelResponse MustCancel(const std::string& id, bool stop_redelivery = false) {
    v1::CancelResponse response;
    const grpc::Status status = Cancel(id, &response, stop_redelivery);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  grpc::Status Get(const std::string& id, v1::Message* message,
                   v1::MessageView view = v1::MESSAGE_VIEW_UNSPECIFIED) {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::GetRequest request;
    request.set_message_id(id);
    request.set_view(view);
    v1::GetResponse response;
    const grpc::Status status = messages_->Get(&context, request, &response);
    *message = response.message();
    return status;
  }

  v1::Message::State StateOf(const std::string& id) {
    v1::Message message;
    const grpc::Status status = Get(id, &message);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return message.state();
  }

  // Polls the server's counts, which are copies and may be a moment old, until `done` holds or a
  // deadline passes.
  template <typename Done>
  v1::Counts CountsWhen(Done done) {
    const auto deadline = Clock::now() + Millis(5000);
    v1::Counts counts = Info().counts();
    while (!done(counts) && Clock::now() < deadline) counts = Info().counts();
    return counts;
  }

  v1::ServerInfoResponse Info() {
    grpc::ClientContext context;
    SetDeadline(&context);
    v1::ServerInfoResponse response;
    const grpc::Status status = admin_->ServerInfo(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  std::unique_ptr<ServerProcess> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Messages::Stub> messages_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};

}  // namespace duetime::test
