// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_handlers.h"

#include <utility>

#include "grpc/health/v1/health.pb.h"
#include "server/base/check.h"
#include "server/rpc/health.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {

void UnaryHandlers::Handle(UnaryCall* call) {
  using metrics::RpcMethod;
  switch (call->method()) {
    case RpcMethod::kSchedule:
      return Schedule(call);
    case RpcMethod::kScheduleBatch:
      return ScheduleBatch(call);
    case RpcMethod::kCancel:
      return lifecycle_.Cancel(call);
    case RpcMethod::kCancelBatch:
      return lifecycle_.CancelBatch(call);
    case RpcMethod::kReschedule:
      return lifecycle_.Reschedule(call);
    case RpcMethod::kGet:
      return lifecycle_.Get(call);
    case RpcMethod::kExplain:
      return lifecycle_.Explain(call);
    case RpcMethod::kList:
      return queries_.List(call);
    case RpcMethod::kForecast:
      return queries_.Forecast(call);
    case RpcMethod::kCreateTopic:
      return admin_.topics.Create(call);
    case RpcMethod::kGetTopic:
      return admin_.topics.Get(call);
    case RpcMethod::kListTopics:
      return admin_.topics.List(call);
    case RpcMethod::kUpdateTopic:
      return admin_.topics.Update(call);
    case RpcMethod::kDeleteTopic:
      return admin_.topics.Delete(call);
    case RpcMethod::kPauseTopic:
    case RpcMethod::kResumeTopic:
      return admin_.topics.SetPaused(call);
    case RpcMethod::kCreateSubscription:
      return admin_.subscriptions.Create(call);
    case RpcMethod::kGetSubscription:
      return admin_.subscriptions.Get(call);
    case RpcMethod::kListSubscriptions:
      return admin_.subscriptions.List(call);
    case RpcMethod::kUpdateSubscription:
      return admin_.subscriptions.Update(call);
    case RpcMethod::kDeleteSubscription:
      return admin_.subscriptions.Delete(call);
    case RpcMethod::kPull:
      return pulls_.Pull(call);
    case RpcMethod::kSettle:
      return pulls_.Settle(call);
    case RpcMethod::kStartBulk:
      return admin_.operations.Start(call);
    case RpcMethod::kGetOperation:
      return admin_.operations.Get(call);
    case RpcMethod::kListOperations:
      return admin_.operations.List(call);
    case RpcMethod::kCancelOperation:
      return admin_.operations.Cancel(call);
    case RpcMethod::kCreateRecurrence:
      return recurrences_.Create(call);
    case RpcMethod::kGetRecurrence:
      return recurrences_.Get(call);
    case RpcMethod::kListRecurrences:
      return recurrences_.List(call);
    case RpcMethod::kUpdateRecurrence:
      return recurrences_.Update(call);
    case RpcMethod::kPauseRecurrence:
      return recurrences_.Pause(call);
    case RpcMethod::kResumeRecurrence:
      return recurrences_.Resume(call);
    case RpcMethod::kDeleteRecurrence:
      return recurrences_.Delete(call);
    case RpcMethod::kPreviewRecurrence:
      return recurrences_.Preview(call);
    case RpcMethod::kServerInfo:
      return ServerInfo(call);
    case RpcMethod::kHealthCheck:
      return HealthCheck(call);
    case RpcMethod::kScheduleStream:
    case RpcMethod::kSubscribe:
    case RpcMethod::kHealthWatch:
      break;
  }
  DT_CHECK(false);
}

void UnaryHandlers::Schedule(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ScheduleRequest* request = schedule_request_.Take(call->request()->Length());
  if (absl::Status status = ParseRequest(call->request(), request); !status.ok()) {
    return call->FinishWithError(status);
  }
  intake_.Begin(1, &call->job);
  intake_.Add(*request, kSingle, &call->job);
  if (!intake_.Post(call->tag(), &call->job)) AnswerSchedule(call);
}

void UnaryHandlers::ScheduleBatch(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  const size_t bytes = call->request()->Length();
  WireSummary summary;
  absl::Status status =
      CheckRequest(call->request(), v1::ScheduleBatchRequest::GetDescriptor(), &summary);
  if (status.ok()) status = ValidateBatchSize(summary.elements, bytes, context_->options.limits);
  if (!status.ok()) return call->FinishWithError(status);
  v1::ScheduleBatchRequest* request = batch_request_.Take(bytes);
  status = ParseChecked(call->request(), request);
  if (!status.ok()) return call->FinishWithError(status);
  intake_.Begin(static_cast<size_t>(request->messages_size()), &call->job);
  for (int i = 0; i < request->messages_size(); ++i) {
    intake_.Add(request->messages(i), i, &call->job);
  }
  if (!intake_.Post(call->tag(), &call->job)) AnswerBatch(call);
}

void UnaryHandlers::OnScheduleReply(UnaryCall* call, uint16_t shard,
                                    delivery::ScheduleReply reply) {
  if (!intake_.Take(shard, std::move(reply), &call->job)) return;
  if (call->method() == metrics::RpcMethod::kScheduleBatch) return AnswerBatch(call);
  AnswerSchedule(call);
}

void UnaryHandlers::AnswerSchedule(UnaryCall* call) {
  if (!call->job.status.ok()) return call->FinishWithError(call->job.status);
  v1::ScheduleResponse* response = schedule_response_.Take(0);
  if (absl::Status status = intake_.FillResponse(call->job, response); !status.ok()) {
    return call->FinishWithError(status);
  }
  call->Finish(*response);
}

void UnaryHandlers::AnswerBatch(UnaryCall* call) {
  if (!call->job.status.ok()) return call->FinishWithError(call->job.status);
  v1::ScheduleBatchResponse* response =
      batch_response_.Take(call->job.items.size() * sizeof(v1::Message));
  intake_.FillResults(call->job, response->mutable_results());
  call->Finish(*response);
}

void UnaryHandlers::HealthCheck(UnaryCall* call) {
  grpc::health::v1::HealthCheckRequest request;
  if (absl::Status status = ParseRequest(call->request(), &request); !status.ok()) {
    return call->FinishWithError(status);
  }
  if (!IsHealthService(request.service())) {
    return call->FinishWithError(UnknownServiceError());
  }
  grpc::health::v1::HealthCheckResponse response;
  response.set_status(CurrentHealth(*context_));
  call->Finish(response);
}

}  // namespace duetime::rpc
