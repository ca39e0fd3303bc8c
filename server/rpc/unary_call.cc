// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_call.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::rpc {

void UnaryCall::Request(metrics::RpcMethod method) {
  DT_CHECK(state_ == State::kIdle);
  state_ = State::kRequested;
  method_ = method;
  context_.emplace();
  writer_.emplace(&*context_);
  Services& services = worker_->services();
  grpc::ServerCompletionQueue* cq = worker_->cq();
  switch (method) {
    case metrics::RpcMethod::kSchedule:
    case metrics::RpcMethod::kScheduleBatch:
    case metrics::RpcMethod::kCancel:
    case metrics::RpcMethod::kGet:
      services.messages.RequestUnary(method, &*context_, &buffer_, &*writer_, cq, this);
      return;
    case metrics::RpcMethod::kServerInfo:
      services.admin.RequestUnary(method, &*context_, &buffer_, &*writer_, cq, this);
      return;
    case metrics::RpcMethod::kHealthCheck:
      services.health.RequestCheck(&*context_, &buffer_, &*writer_, cq, cq, this);
      return;
    case metrics::RpcMethod::kSubscribe:
    case metrics::RpcMethod::kHealthWatch:
      break;
  }
  DT_CHECK(false);
}

void UnaryCall::Complete(bool ok) {
  if (state_ == State::kFinishing) {
    Recycle();
    worker_->OnCallEnded();
    return;
  }
  DT_CHECK(state_ == State::kRequested);
  if (!ok) {  // the server shuts down
    Recycle();
    return;
  }
  state_ = State::kWaiting;
  arrived_micros_ = base::ReadMicros();
  worker_->context().stats->of(method_).Start();
  worker_->OnCallArrived(this);
}

void UnaryCall::Finish(const google::protobuf::Message& response) {
  DT_CHECK(state_ == State::kWaiting);
  state_ = State::kFinishing;
  SerializeResponse(response, &buffer_);
  CountEnd(grpc::StatusCode::OK);
  writer_->Finish(buffer_, grpc::Status::OK, this);
}

void UnaryCall::FinishWithError(const absl::Status& status) {
  DT_CHECK(state_ == State::kWaiting);
  state_ = State::kFinishing;
  const grpc::Status grpc_status = ToGrpcStatus(status);
  CountEnd(grpc_status.error_code());
  writer_->FinishWithError(grpc_status, this);
}

void UnaryCall::CountEnd(int code) {
  worker_->context().stats->of(method_).EndTimed(code, base::ReadMicros() - arrived_micros_);
}

void UnaryCall::Recycle() {
  writer_.reset();
  context_.reset();
  buffer_.Clear();
  // A large batch must not leave its size behind in every object of the free list.
  constexpr size_t kItemsKept = 64;
  if (items.capacity() > kItemsKept) {
    items = {};
  } else {
    items.clear();
  }
  new_topics.clear();
  state_ = State::kIdle;
  worker_->Recycle(this);
}

}  // namespace duetime::rpc
