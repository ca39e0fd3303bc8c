// SPDX-License-Identifier: Apache-2.0
//
// UnaryCall: a call of its own, with one request and one response. The object is reused for later
// calls.
#pragma once

#include <cstdint>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <optional>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/rpc/call.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/limits/untaken_answers.h"
#include "server/rpc/methods.h"
#include "server/rpc/services.h"

namespace duetime::rpc {

// Life: Request() posts the object to gRPC. gRPC completes the tag when a call arrives. The
// method's `run` reads request() and finishes the call, now or later. gRPC completes the tag again,
// and the object goes back to the worker's free list. Thread safety: confined to its worker's
// thread.
class UnaryCall final : public Call, public CompletionTag {
 public:
  explicit UnaryCall(CqWorker* worker) : Call(worker) {}
  ~UnaryCall() { Abandon(); }
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Asks gRPC for the next call of `method`. REQUIRES: fresh, or recycled.
  void Request(const UnaryMethod* method);

  void Complete(bool ok) override;

  using Call::Finish;
  void Finish(const google::protobuf::Message& response) override;
  void FinishWithError(const absl::Status& status) override;
  grpc::ByteBuffer* request() override { return &buffer_; }
  const grpc::ServerContext& server_context() const override { return *context_; }

  // Sends a delayed answer. The worker calls it once.
  void SendDelayed(const grpc::Status& status);
  // Ends the call although the client has not read the answer: the client sees CANCELLED, unless
  // gRPC has sent all of it meanwhile. Frees the memory of a delayed answer. REQUIRES: it is
  // finished with a response, and gRPC's notice that it is sent has not come.
  void DropAnswer();

  UntakenAnswers::Answer* answer() { return &answer_; }
  // True between arrival and Finish.
  bool waiting() const { return phase_ == Phase::kWaiting; }

 private:
  enum class Phase : uint8_t { kIdle, kRequested, kWaiting, kFinishing, kFinished };

  // What gRPC gets as the tag of the call's operations, and completes.
  void* tag() { return static_cast<CompletionTag*>(this); }
  // gRPC's notice that the call is over: answered, cancelled, or its connection is gone.
  void OnDone(bool ok);
  void RecycleIfOver();
  void Recycle();
  // Gives the answer to gRPC, now or after the delay.
  void Send(const grpc::Status& status);

  MemberTag<UnaryCall, &UnaryCall::OnDone> done_tag_{this};
  Phase phase_ = Phase::kIdle;
  // True until gRPC completes done_tag_, if the method has watch_client.
  bool notice_ = false;
  bool dropped_ = false;
  bool delayed_ = false;
  // gRPC needs a fresh context and writer for each call. They use this object's memory.
  std::optional<grpc::ServerContext> context_;
  std::optional<Writer> writer_;
  // First the request, then the response.
  grpc::ByteBuffer buffer_;
  UntakenAnswers::Answer answer_{this};
};

}  // namespace duetime::rpc
