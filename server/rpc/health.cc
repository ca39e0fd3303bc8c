// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/health.h"

#include <algorithm>
#include <memory>

#include "server/base/error.h"
#include "server/rpc/cq_worker.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::rpc {

using grpc::health::v1::HealthCheckResponse;

namespace {

// "" (the whole server) and the services of the API; all have the same health.
bool IsHealthService(const Services& services, const std::string& name) {
  return name.empty() || std::count(services.names().begin(), services.names().end(), name) > 0;
}

// NOT_SERVING while the server starts or drains, and after the storage has failed.
HealthCheckResponse::ServingStatus CurrentHealth(const ServerState& state) {
  return state.state.load() == ServingState::kServing ? HealthCheckResponse::SERVING
                                                      : HealthCheckResponse::NOT_SERVING;
}

void Check(WorkerApp&, Call& call) {
  grpc::health::v1::HealthCheckRequest request;
  if (absl::Status status = ParseRequest(call.request(), &request); !status.ok()) {
    return call.FinishWithError(status);
  }
  if (!IsHealthService(call.worker().services(), request.service())) {
    return call.FinishWithError(base::MakeError(
        absl::StatusCode::kNotFound, "no such service",
        {.reason = "UNKNOWN_SERVICE", .field = "service", .metadata = {}, .retry_after_ms = 0}));
  }
  HealthCheckResponse response;
  response.set_status(CurrentHealth(call.worker().state()));
  call.Finish(response);
}

}  // namespace

const UnaryMethod& HealthCheckMethod() {
  static constexpr UnaryMethod kMethod = {.id = kHealthCheck, .run = &Check};
  return kMethod;
}

void HealthWatch::Request(CqWorker* worker) {
  auto* fresh = new HealthWatch(worker);  // freed by its request tag or by the worker
  fresh->context_.AsyncNotifyWhenDone(&fresh->done_tag_);
  worker->services().health.RequestWatch(&fresh->context_, &fresh->buffer_, &fresh->writer_,
                                         worker->cq(), worker->cq(), &fresh->request_tag_);
}

void HealthWatch::OnRequestDone(bool ok) {
  std::unique_ptr<HealthWatch> self(this);
  if (!ok) return;  // the server shuts down; the done tag never comes
  worker_->OnSessionOpened(std::move(self));
  if (!worker_->ending()) Request(worker_);
  worker_->state().stats->of(kHealthWatch).Start();
  grpc::health::v1::HealthCheckRequest request;
  if (absl::Status status = ParseRequest(&buffer_, &request); !status.ok()) {
    return End(ToGrpcStatus(status));
  }
  if (worker_->sessions() > kSessionsMax) {
    return End(ToGrpcStatus(base::OverloadedError("list of watches", kSessionsMax)));
  }
  known_ = IsHealthService(worker_->services(), request.service());
  OnServingState();
}

void HealthWatch::OnServingState() {
  if (ended_) return;
  if (worker_->ending()) {
    // The client gets DRAINING as the status of the call, not as a last health.
    return End(ToGrpcStatus(base::DrainingError()));
  }
  SendIfChanged();
}

void HealthWatch::SendIfChanged() {
  const auto health =
      known_ ? CurrentHealth(worker_->state()) : HealthCheckResponse::SERVICE_UNKNOWN;
  if (writing_ || sent_ == health) return;
  sent_ = health;
  HealthCheckResponse response;
  response.set_status(health);
  SerializeResponse(response, &buffer_);
  writing_ = true;
  writer_.Write(buffer_, &write_tag_);
}

void HealthWatch::OnWriteDone(bool ok) {
  writing_ = false;
  if (ended_) {
    writer_.Finish(end_status_, &finish_tag_);
  } else if (!ok) {
    End(grpc::Status::CANCELLED);
  } else {
    SendIfChanged();
  }
}

void HealthWatch::End(const grpc::Status& status) {
  if (ended_) return;
  ended_ = true;
  end_status_ = status;
  worker_->state().stats->of(kHealthWatch).End(status.error_code());
  if (!writing_) writer_.Finish(end_status_, &finish_tag_);
}

void HealthWatch::OnFinishDone(bool ok) {
  static_cast<void>(ok);  // the call is over in any case
  finished_ = true;
  MaybeGo();
}

void HealthWatch::OnCallDone(bool ok) {
  static_cast<void>(ok);
  call_done_ = true;
  End(grpc::Status::CANCELLED);
  MaybeGo();
}

void HealthWatch::MaybeGo() {
  if (finished_ && call_done_) worker_->OnSessionEnded(this);
}

void HealthWatch::Sweep(base::Now now) { static_cast<void>(now); }

}  // namespace duetime::rpc
