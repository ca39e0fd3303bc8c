// SPDX-License-Identifier: Apache-2.0
//
// grpc.health.v1 on our own queues. gRPC's default health service is not used, because its polling
// threads make every unary call about 50% more expensive.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "grpc/health/v1/health.pb.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/methods.h"
#include "server/rpc/session.h"

namespace duetime::rpc {

// Health.Check.
const UnaryMethod& HealthCheckMethod();

// One Health.Watch call: sends the health now and after every change. The call ends with the server
// or the client. gRPC's done notice reports the end of the client, because the call reads nothing.
// Thread safety: confined to the worker's thread.
class HealthWatch final : public Session {
 public:
  explicit HealthWatch(CqWorker* worker) : worker_(worker), writer_(&context_) {}
  HealthWatch(const HealthWatch&) = delete;
  HealthWatch& operator=(const HealthWatch&) = delete;

  // Asks gRPC for the next Watch call. The object then owns itself until a call arrives.
  static void Request(CqWorker* worker);

  void OnServingState() override;
  void Sweep(base::Now now) override;

 private:
  // The maximum number of sessions on one worker. Beyond it, Watch calls are refused.
  static constexpr size_t kSessionsMax = 10'000;

  void OnRequestDone(bool ok);
  void OnWriteDone(bool ok);
  void OnFinishDone(bool ok);
  void OnCallDone(bool ok);
  void SendIfChanged();
  void End(const grpc::Status& status);
  void MaybeGo();

  CqWorker* const worker_;
  grpc::ServerContext context_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_;
  grpc::ByteBuffer buffer_;
  MemberTag<HealthWatch, &HealthWatch::OnRequestDone> request_tag_{this};
  MemberTag<HealthWatch, &HealthWatch::OnWriteDone> write_tag_{this};
  MemberTag<HealthWatch, &HealthWatch::OnFinishDone> finish_tag_{this};
  MemberTag<HealthWatch, &HealthWatch::OnCallDone> done_tag_{this};
  bool known_ = false;
  std::optional<grpc::health::v1::HealthCheckResponse::ServingStatus> sent_;
  grpc::Status end_status_;
  bool writing_ = false;
  bool ended_ = false;
  bool finished_ = false;
  bool call_done_ = false;
};

}  // namespace duetime::rpc
