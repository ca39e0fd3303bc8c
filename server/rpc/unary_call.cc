// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include <utility>

#include "server/base/check.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::rpc {

void UnaryCall::Request(const UnaryMethod* method) {
  DT_CHECK(phase_ == Phase::kIdle);
  phase_ = Phase::kRequested;
  method_ = method;
  context_.emplace();
  writer_.emplace(&*context_);
  dropped_ = delayed_ = false;
  notice_ = method->watch_client;
  if (notice_) context_->AsyncNotifyWhenDone(&done_tag_);
  worker_->services().RequestUnary(method->id, &*context_, &buffer_, &*writer_, worker_->cq(),
                                   tag());
}

void UnaryCall::Complete(bool ok) {
  if (phase_ == Phase::kFinishing) {
    phase_ = Phase::kFinished;
    worker_->OnAnswerTaken(this);
    // gRPC may have sent the answer already when it was dropped.
    if (dropped_ && !ok) {
      worker_->state().stats->answers_dropped.fetch_add(1, std::memory_order_relaxed);
    }
    return RecycleIfOver();
  }
  DT_CHECK(phase_ == Phase::kRequested);
  // The server shuts down; the notice never comes.
  if (!ok) return Recycle();
  phase_ = Phase::kWaiting;
  BeginCall(method_);
  worker_->OnCallArrived(this);
}

void UnaryCall::Finish(const google::protobuf::Message& response) {
  DT_CHECK(phase_ == Phase::kWaiting);
  phase_ = Phase::kFinishing;
  SerializeResponse(response, &buffer_);
  EndCall(absl::OkStatus());
  worker_->OnAnswer(this, buffer_.Length());
  Send(grpc::Status::OK);
}

void UnaryCall::DropAnswer() {
  DT_CHECK(phase_ == Phase::kFinishing);
  dropped_ = true;
  if (delayed_) buffer_.Clear();
  // After the cancel, gRPC no longer knows the peer.
  worker_->LogDrop(context_->peer());
  context_->TryCancel();
}

void UnaryCall::FinishWithError(const absl::Status& status) {
  DT_CHECK(phase_ == Phase::kWaiting);
  phase_ = Phase::kFinishing;
  buffer_.Clear();
  EndCall(status);
  Send(ToGrpcStatus(status));
}

void UnaryCall::Send(const grpc::Status& status) {
  delayed_ = delay_ms > 0 && worker_->Delay(this, status);
  if (!delayed_) SendDelayed(status);
}

void UnaryCall::SendDelayed(const grpc::Status& status) {
  DT_CHECK(phase_ == Phase::kFinishing);
  delayed_ = false;
  if (!status.ok()) return writer_->FinishWithError(status, tag());
  // The call is cancelled, and the answer is gone.
  if (dropped_) return writer_->FinishWithError(grpc::Status::CANCELLED, tag());
  writer_->Finish(buffer_, grpc::Status::OK, tag());
}

void UnaryCall::OnDone(bool ok) {
  static_cast<void>(ok);
  notice_ = false;
  gone_ = context_->IsCancelled();
  if (gone_ && phase_ == Phase::kWaiting && on_gone) std::exchange(on_gone, nullptr)();
  RecycleIfOver();
}

void UnaryCall::RecycleIfOver() {
  if (phase_ != Phase::kFinished || notice_) return;
  Recycle();
  worker_->OnCallEnded();
}

void UnaryCall::Recycle() {
  writer_.reset();
  context_.reset();
  buffer_.Clear();
  ResetCall();
  phase_ = Phase::kIdle;
  worker_->Recycle(this);
}

}  // namespace duetime::rpc
