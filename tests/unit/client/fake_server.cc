// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/fake_server.h"

#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <unistd.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace duetime::client {
namespace {

grpc::Status NotSet() { return {grpc::StatusCode::UNIMPLEMENTED, "the test set no answer"}; }

}  // namespace

FakeServer::FakeServer() {
  std::string pattern = testing::TempDir() + "/duetime-fake-XXXXXX";
  const char* made = mkdtemp(pattern.data());
  EXPECT_NE(made, nullptr);
  directory_ = pattern;
}

FakeServer::~FakeServer() {
  Stop();
  unlink((directory_ + "/s").c_str());
  rmdir(directory_.c_str());
}

void FakeServer::Start() {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(target(), grpc::InsecureServerCredentials());
  if (streams_max > 0) builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, streams_max);
  // Otherwise gRPC takes megabytes from a client before a function reads them.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.RegisterService(static_cast<v1::Messages::Service*>(this));
  builder.RegisterService(static_cast<v1::Admin::Service*>(this));
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
}

void FakeServer::Stop() {
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

grpc::Status FakeServer::Unary(grpc::ServerContext* context,
                               const google::protobuf::Message& request,
                               google::protobuf::Message* response) {
  AnyAnswer answer;
  {
    const base::MutexLock lock(&mutex_);
    last_patience_ = absl::FromChrono(context->deadline() - std::chrono::system_clock::now());
    seen_.emplace_back(request.New());
    seen_.back()->CopyFrom(request);
    const auto found = answers_.find(request.GetDescriptor()->full_name());
    if (found != answers_.end()) answer = found->second;
  }
  return answer ? answer(request, response) : NotSet();
}

grpc::Status FakeServer::Subscribe(grpc::ServerContext* context, ServerStream* stream) {
  return on_subscribe ? on_subscribe(stream, context) : NotSet();
}

grpc::Status FakeServer::ScheduleStream(grpc::ServerContext*, ScheduleServerStream* stream) {
  return on_schedule_stream ? on_schedule_stream(stream) : NotSet();
}

grpc::Status FakeServer::CallStream(grpc::ServerContext*, CallServerStream* stream) {
  return on_call_stream ? on_call_stream(stream) : NotSet();
}

grpc::Status MakeServerError(grpc::StatusCode code, const std::string& reason, int retry_ms) {
  google::rpc::Status details;
  details.set_code(code);
  details.set_message(reason);
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("duetime");
  details.add_details()->PackFrom(info);
  if (retry_ms > 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(retry_ms / 1000);
    retry.mutable_retry_delay()->set_nanos(retry_ms % 1000 * 1'000'000);
    details.add_details()->PackFrom(retry);
  }
  return {code, "error " + reason, details.SerializeAsString()};
}

}  // namespace duetime::client
