// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <string>

#include "duetime/v1/admin.grpc.pb.h"
#include "duetime/v1/messages.grpc.pb.h"

namespace duetime::client {

using ServerStream = grpc::ServerReaderWriter<v1::SubscribeResponse, v1::SubscribeRequest>;

// A server in this process, on a Unix socket in a directory of its own, that answers as the test
// says. What a test does not set is UNIMPLEMENTED. The functions are called on gRPC's threads: set
// them before Start.
class FakeServer final : private v1::Messages::Service, private v1::Admin::Service {
 public:
  FakeServer();
  // Stops it.
  ~FakeServer() override;

  std::function<grpc::Status(const v1::ScheduleRequest&, v1::ScheduleResponse*)> on_schedule;
  std::function<grpc::Status(const v1::ScheduleBatchRequest&, v1::ScheduleBatchResponse*)> on_batch;
  std::function<grpc::Status(const v1::CancelRequest&, v1::CancelResponse*)> on_cancel;
  std::function<grpc::Status(const v1::GetRequest&, v1::GetResponse*)> on_get;
  std::function<grpc::Status(v1::ServerInfoResponse*)> on_info;
  // Runs for the length of the stream.
  std::function<grpc::Status(ServerStream*, grpc::ServerContext*)> on_subscribe;

  void Start();
  // Breaks every call. Start may follow.
  void Stop();
  std::string target() const { return "unix:" + directory_ + "/s"; }

 private:
  grpc::Status Schedule(grpc::ServerContext*, const v1::ScheduleRequest*,
                        v1::ScheduleResponse*) override;
  grpc::Status ScheduleBatch(grpc::ServerContext*, const v1::ScheduleBatchRequest*,
                             v1::ScheduleBatchResponse*) override;
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest*, v1::CancelResponse*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest*, v1::GetResponse*) override;
  grpc::Status Subscribe(grpc::ServerContext*, ServerStream*) override;
  grpc::Status ServerInfo(grpc::ServerContext*, const v1::ServerInfoRequest*,
                          v1::ServerInfoResponse*) override;

  std::string directory_;
  std::unique_ptr<grpc::Server> server_;
};

// An error as a duetime server sends it.
grpc::Status MakeServerError(grpc::StatusCode code, const std::string& reason, int retry_ms = 0);

}  // namespace duetime::client
