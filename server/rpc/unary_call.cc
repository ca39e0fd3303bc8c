// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::rpc {

void UnaryCall::Request(metrics::RpcMethod method) {
  DT_CHECK(phase_ == Phase::kIdle);
  phase_ = Phase::kRequested;
  method_ = method;
  context_.emplace();
  writer_.emplace(&*context_);
  gone_ = false;
  // The notice costs each call a turn of the queue.
  notice_ = method == metrics::RpcMethod::kStartBulk || method == metrics::RpcMethod::kPull;
  if (notice_) context_->AsyncNotifyWhenDone(&done_tag_);
  Services& services = worker_->services();
  grpc::ServerCompletionQueue* cq = worker_->cq();
  if (method == metrics::RpcMethod::kHealthCheck) {
    services.health.RequestCheck(&*context_, &buffer_, &*writer_, cq, cq, this);
  } else if (services.admin.Serves(method)) {
    services.admin.RequestUnary(method, &*context_, &buffer_, &*writer_, cq, this);
  } else {
    services.messages.RequestUnary(method, &*context_, &buffer_, &*writer_, cq, this);
  }
}

void UnaryCall::Complete(bool ok) {
  if (phase_ == Phase::kFinishing) {
    phase_ = Phase::kFinished;
    return RecycleIfOver();
  }
  DT_CHECK(phase_ == Phase::kRequested);
  if (!ok) {  // the server shuts down; the notice never comes
    Recycle();
    return;
  }
  phase_ = Phase::kWaiting;
  arrived_micros_ = base::ReadMicros();
  worker_->context().stats->of(method_).Start();
  worker_->OnCallArrived(this);
}

void UnaryCall::Finish(const google::protobuf::Message& response) {
  DT_CHECK(phase_ == Phase::kWaiting);
  phase_ = Phase::kFinishing;
  SerializeResponse(response, &buffer_);
  CountEnd(grpc::StatusCode::OK);
  writer_->Finish(buffer_, grpc::Status::OK, this);
}

void UnaryCall::FinishWithError(const absl::Status& status) {
  DT_CHECK(phase_ == Phase::kWaiting);
  phase_ = Phase::kFinishing;
  const grpc::Status grpc_status = ToGrpcStatus(status);
  CountEnd(grpc_status.error_code());
  writer_->FinishWithError(grpc_status, this);
}

void UnaryCall::CountEnd(int code) {
  worker_->context().stats->of(method_).EndTimed(code, base::ReadMicros() - arrived_micros_);
}

void UnaryCall::OnDone(bool ok) {
  static_cast<void>(ok);
  notice_ = false;
  gone_ = context_->IsCancelled();
  if (gone_ && phase_ == Phase::kWaiting) worker_->OnCallGone(this);
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
  job.Clear();
  state.reset();
  phase_ = Phase::kIdle;
  worker_->Recycle(this);
}

}  // namespace duetime::rpc
