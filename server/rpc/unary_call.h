// SPDX-License-Identifier: Apache-2.0
//
// UnaryCall: one call with one response. The object is reused for later calls.
#pragma once

#include <coroutine>
#include <cstdint>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "google/protobuf/message.h"

#include "server/access/caller.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/limits/untaken_answers.h"
#include "server/rpc/methods.h"
#include "server/rpc/services.h"

namespace duetime::rpc {

class CqWorker;

// Life: Request() posts the object to gRPC. gRPC completes the tag when a call arrives. The
// method's `run` reads request() and finishes the call, now or later. gRPC completes the tag again,
// and the object goes back to the worker's free list. Each call is finished exactly once. Thread
// safety: confined to its worker's thread.
class UnaryCall final : public CompletionTag {
 public:
  explicit UnaryCall(CqWorker* worker) : worker_(worker) {}
  ~UnaryCall() { Abandon(); }
  UnaryCall(const UnaryCall&) = delete;
  UnaryCall& operator=(const UnaryCall&) = delete;

  // Asks gRPC for the next call of `method`. REQUIRES: fresh, or recycled.
  void Request(const UnaryMethod* method);

  void Complete(bool ok) override;

  // Answers the call, with `response` or with the error. REQUIRES: it has arrived and is not
  // finished.
  void Finish(const absl::Status& status, const google::protobuf::Message& response) {
    if (status.ok()) {
      Finish(response);
    } else {
      FinishWithError(status);
    }
  }
  void Finish(const google::protobuf::Message& response);
  void FinishWithError(const absl::Status& status);
  // Sends a delayed answer. The worker calls it once.
  void SendDelayed(const grpc::Status& status);
  // Ends the call although the client has not read the answer: the client sees CANCELLED, unless
  // gRPC has sent all of it meanwhile. Frees the memory of a delayed answer. REQUIRES: it is
  // finished with a response, and gRPC's notice that it is sent has not come.
  void DropAnswer();

  const UnaryMethod& method() const { return *method_; }
  UntakenAnswers::Answer* answer() { return &answer_; }
  CqWorker& worker() { return *worker_; }
  grpc::ByteBuffer* request() { return &buffer_; }
  // REQUIRES: the call has arrived.
  const grpc::ServerContext& server_context() const { return *context_; }
  // True between arrival and Finish.
  bool waiting() const { return phase_ == Phase::kWaiting; }
  // True once the client has gone. Always false without watch_client.
  bool gone() const { return gone_; }
  // Destroys the coroutine that works on the call, wherever it waits.
  void Abandon() {
    if (task) std::exchange(task, {}).destroy();
  }

  // The coroutine of the call, while it waits. The coroutine resets the handle when it ends.
  std::coroutine_handle<> task;
  // Called when the client has gone. The coroutine sets and resets it.
  absl::AnyInvocable<void()> on_gone;
  // The client. Null if access control is off. The API sets it.
  access::CallerPtr caller;
  // The API has checked the client's rights for this request.
  bool authorized = false;
  // The answer leaves that much later, if the worker has room for it. The API sets it if it refuses
  // the call or a part of it.
  uint64_t delay_ms = 0;
  // What the call is about, for the audit log. The API sets it.
  struct Subject {
    std::string topic;
    std::string object;
  };
  std::optional<Subject> subject;
  // Called once, when the answer is known, with the status. May be empty.
  absl::AnyInvocable<void(const absl::Status&)> on_end;

 private:
  enum class Phase : uint8_t { kIdle, kRequested, kWaiting, kFinishing, kFinished };

  // gRPC's notice that the call is over: answered, cancelled, or its connection is gone.
  void OnDone(bool ok);
  void RecycleIfOver();
  void Recycle();
  // Gives the answer to gRPC, now or after the delay.
  void Send(const grpc::Status& status);
  void CountEnd(const absl::Status& status);
  void LogSlow(const absl::Status& status, uint64_t micros, uint64_t now_micros);

  CqWorker* const worker_;
  MemberTag<UnaryCall, &UnaryCall::OnDone> done_tag_{this};
  Phase phase_ = Phase::kIdle;
  // True until gRPC completes done_tag_, if the method has watch_client.
  bool notice_ = false;
  bool gone_ = false;
  bool dropped_ = false;
  bool delayed_ = false;
  const UnaryMethod* method_ = nullptr;
  uint64_t arrived_micros_ = 0;
  // gRPC needs a fresh context and writer for each call. They use this object's memory.
  std::optional<grpc::ServerContext> context_;
  std::optional<Writer> writer_;
  // First the request, then the response.
  grpc::ByteBuffer buffer_;
  UntakenAnswers::Answer answer_{this};
};

}  // namespace duetime::rpc
