// SPDX-License-Identifier: Apache-2.0
//
// UnaryCall: one call with one answer, from the moment it is asked for to the moment its object is
// used for the next.
#pragma once

#include <cstdint>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/byte_buffer.h>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/delivery/commands.h"
#include "server/metrics/rpc_stats.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/schedule_job.h"

namespace duetime::rpc {

class CqWorker;

// What a handler remembers of a call between its steps, if it is more than a few words.
class CallState {
 public:
  virtual ~CallState() = default;
};

// Model: Request() posts it to gRPC; gRPC completes the tag when a call has come; the worker's
// handlers read request() and, now or later, Finish() it; gRPC completes the tag again and the
// object goes back to the worker's free list. Each call is finished exactly once.
// Thread safety: confined to its worker's thread.
class UnaryCall final : public CompletionTag {
 public:
  // `tag` names this object in commands and effects.
  UnaryCall(CqWorker* worker, delivery::CallTag tag) : worker_(worker), tag_(tag) {}
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Asks gRPC for the next call of `method`. REQUIRES: fresh, or recycled; `method` is unary.
  void Request(metrics::RpcMethod method);

  void Complete(bool ok) override;

  // Answers the call. REQUIRES: it has arrived and is not finished.
  void Finish(const google::protobuf::Message& response);
  void FinishWithError(const absl::Status& status);

  metrics::RpcMethod method() const { return method_; }
  delivery::CallTag tag() const { return tag_; }
  grpc::ByteBuffer* request() { return &buffer_; }
  // True between arrival and Finish.
  bool waiting() const { return phase_ == Phase::kWaiting; }
  // True once it is known that nobody waits for the answer any more. Known only of calls that may
  // take long: StartBulk, and Pull, which is also told (CqWorker::OnCallGone).
  bool gone() const { return gone_; }

  // For the handlers, between their steps.
  ScheduleJob job;
  bool full_view = false;
  std::shared_ptr<CallState> state;

 private:
  enum class Phase : uint8_t { kIdle, kRequested, kWaiting, kFinishing, kFinished };

  // gRPC's notice that the call is over: answered, cancelled, or its connection is gone.
  void OnDone(bool ok);
  void RecycleIfOver();
  void Recycle();
  void CountEnd(int code);

  CqWorker* const worker_;
  const delivery::CallTag tag_;
  MemberTag<UnaryCall, &UnaryCall::OnDone> done_tag_{this};
  Phase phase_ = Phase::kIdle;
  // The notice is on its way.
  bool notice_ = false;
  bool gone_ = false;
  metrics::RpcMethod method_{};
  uint64_t arrived_micros_ = 0;
  // gRPC wants a fresh context and writer for each call; the memory is this object's.
  std::optional<grpc::ServerContext> context_;
  std::optional<grpc::ServerAsyncResponseWriter<grpc::ByteBuffer>> writer_;
  // First the request, then the response.
  grpc::ByteBuffer buffer_;
};

}  // namespace duetime::rpc
