// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/lifecycle_handlers.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "server/base/check.h"
#include "server/rpc/explanation.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_view.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/validation_error.h"
#include "storage/slot.h"

namespace duetime::rpc {
namespace {

using delivery::Outcome;

v1::CancelResponse::Outcome ToCancelOutcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return v1::CancelResponse::CANCELLED;
    case Outcome::kInFlight:
      return v1::CancelResponse::IN_FLIGHT;
    case Outcome::kSettled:
      return v1::CancelResponse::SETTLED;
    case Outcome::kAlreadyCancelled:
      return v1::CancelResponse::ALREADY_CANCELLED;
    case Outcome::kNotFound:
      return v1::CancelResponse::NOT_FOUND;
  }
  return v1::CancelResponse::OUTCOME_UNSPECIFIED;
}

v1::RescheduleResponse::Outcome ToRescheduleOutcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return v1::RescheduleResponse::RESCHEDULED;
    case Outcome::kInFlight:
      return v1::RescheduleResponse::IN_FLIGHT;
    case Outcome::kSettled:
      return v1::RescheduleResponse::SETTLED;
    case Outcome::kAlreadyCancelled:
      return v1::RescheduleResponse::ALREADY_CANCELLED;
    case Outcome::kNotFound:
      return v1::RescheduleResponse::NOT_FOUND;
  }
  return v1::RescheduleResponse::OUTCOME_UNSPECIFIED;
}

bool HasEnded(Outcome outcome) {
  return outcome == Outcome::kSettled || outcome == Outcome::kAlreadyCancelled;
}

void FillCancel(const delivery::CancelReply& reply, v1::CancelResponse* response) {
  response->set_outcome(ToCancelOutcome(reply.outcome));
  if (reply.outcome == Outcome::kNotFound) return;
  response->set_state(ToProto(reply.state));
  response->set_redelivery_stopped(reply.redelivery_stopped);
  response->set_delivery_uncertain(reply.delivery_uncertain);
  response->set_message_id(reply.id.ToString());
  if (HasEnded(reply.outcome)) SetTimestamp(reply.end_ms, response->mutable_end_time());
}

// Of a CancelBatch.
struct CancelBatchState final : CallState {
  v1::CancelBatchResponse response;
  // Items that a shard has not answered yet.
  size_t open = 0;
  absl::Status status;
};

}  // namespace

bool LifecycleHandlers::Route(const ValidTarget& valid, delivery::Target* target,
                              uint16_t* shard) const {
  uint32_t slot = valid.id.slot();
  target->id = valid.id;
  if (!valid.key.empty()) {
    const auto topic = context_->topics.FindEvenIfDeleted(valid.topic);
    if (!topic.has_value()) return false;
    target->topic = topic->id;
    target->key = std::string(valid.key);
    slot = storage::SlotOfName(valid.topic, valid.key);
  }
  *shard = storage::ShardOfSlot(slot, context_->node.load()->shard_count());
  return true;
}

void LifecycleHandlers::Post(UnaryCall* call, uint16_t shard, delivery::Command command) {
  runtime::Node* node = context_->node.load(std::memory_order_acquire);
  if (absl::Status status = node->Post(shard, std::move(command)); !status.ok()) {
    call->FinishWithError(status);
  }
}

void LifecycleHandlers::Cancel(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::CancelRequest* request = cancel_request_.Take(call->request()->Length());
  ValidTarget valid;
  absl::Status status = ParseRequest(call->request(), request);
  if (status.ok()) status = ValidateTarget(*request, kSingle, &valid);
  if (!status.ok()) return call->FinishWithError(status);
  delivery::CancelCommand command;
  command.tag = call->tag();
  command.stop_redelivery = request->stop_redelivery();
  uint16_t shard = 0;
  if (!Route(valid, &command.target, &shard)) {
    v1::CancelResponse* response = cancel_response_.Take(0);
    response->set_outcome(v1::CancelResponse::NOT_FOUND);
    return call->Finish(*response);
  }
  Post(call, shard, std::move(command));
}

void LifecycleHandlers::OnCancelReply(UnaryCall* call, const delivery::CancelReply& reply) {
  if (call->method() == metrics::RpcMethod::kCancelBatch) return OnCancelBatchReply(call, reply);
  if (!reply.status.ok()) return call->FinishWithError(reply.status);
  v1::CancelResponse* response = cancel_response_.Take(0);
  FillCancel(reply, response);
  call->Finish(*response);
}

void LifecycleHandlers::CancelBatch(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  const size_t bytes = call->request()->Length();
  WireSummary summary;
  absl::Status status =
      CheckRequest(call->request(), v1::CancelBatchRequest::GetDescriptor(), &summary);
  if (status.ok()) {
    status = ValidateBatchSize(summary.elements, bytes, context_->options.limits);
  }
  if (!status.ok()) return call->FinishWithError(status);
  v1::CancelBatchRequest* request = cancel_batch_request_.Take(bytes);
  status = ParseChecked(call->request(), request);
  if (!status.ok()) return call->FinishWithError(status);

  runtime::Node* node = context_->node.load(std::memory_order_acquire);
  cancels_.resize(node->shard_count());
  auto state = std::make_shared<CancelBatchState>();
  for (int i = 0; i < request->cancels_size(); ++i) {
    v1::CancelResult* result = state->response.add_results();
    ValidTarget valid;
    if (status = ValidateTarget(request->cancels(i), i, &valid); !status.ok()) {
      ToRpcStatus(status, result->mutable_error());
      continue;
    }
    delivery::CancelCommand command;
    command.tag = call->tag();
    command.position = static_cast<uint32_t>(i);
    command.stop_redelivery = request->cancels(i).stop_redelivery();
    uint16_t shard = 0;
    if (Route(valid, &command.target, &shard)) {
      cancels_[shard].items.push_back(std::move(command));
    } else {
      result->mutable_cancel()->set_outcome(v1::CancelResponse::NOT_FOUND);
    }
  }
  for (uint16_t shard = 0; shard < cancels_.size(); ++shard) {
    delivery::CancelBatchCommand command = std::exchange(cancels_[shard], {});
    if (command.items.empty()) continue;
    std::vector<uint32_t> positions;
    for (const auto& item : command.items) positions.push_back(item.position);
    if (status = node->Post(shard, std::move(command)); status.ok()) {
      state->open += positions.size();
      continue;
    }
    for (const uint32_t position : positions) {
      ToRpcStatus(status,
                  state->response.mutable_results(static_cast<int>(position))->mutable_error());
    }
  }
  if (state->open == 0) return call->Finish(state->response);
  call->state = std::move(state);
}

void LifecycleHandlers::OnCancelBatchReply(UnaryCall* call, const delivery::CancelReply& reply) {
  auto* state = static_cast<CancelBatchState*>(call->state.get());
  DT_CHECK(state != nullptr && state->open > 0);
  if (reply.status.code() == absl::StatusCode::kUnavailable) {
    state->status = reply.status;
  } else {
    auto* result = state->response.mutable_results(static_cast<int>(reply.position));
    if (reply.status.ok()) {
      FillCancel(reply, result->mutable_cancel());
    } else {
      ToRpcStatus(reply.status, result->mutable_error());
    }
  }
  if (--state->open > 0) return;
  if (!state->status.ok()) return call->FinishWithError(state->status);
  call->Finish(state->response);
}

void LifecycleHandlers::Reschedule(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::RescheduleRequest* request = reschedule_request_.Take(call->request()->Length());
  ValidReschedule valid;
  absl::Status status = ParseRequest(call->request(), request);
  if (status.ok()) {
    status = ValidateReschedule(*request, context_->options.limits, context_->clock->Read().wall_ms,
                                &valid);
  }
  if (!status.ok()) return call->FinishWithError(status);
  delivery::RescheduleCommand command;
  command.tag = call->tag();
  command.deliver_ms = valid.when.deliver_ms;
  command.civil_time = std::string(valid.when.civil_time);
  command.time_zone = std::string(valid.when.time_zone);
  command.revision = valid.revision;
  uint16_t shard = 0;
  if (!Route(valid.target, &command.target, &shard)) {
    v1::RescheduleResponse* response = reschedule_response_.Take(0);
    response->set_outcome(v1::RescheduleResponse::NOT_FOUND);
    return call->Finish(*response);
  }
  Post(call, shard, std::move(command));
}

void LifecycleHandlers::OnRescheduleReply(UnaryCall* call, const delivery::RescheduleReply& reply) {
  if (!reply.status.ok()) return call->FinishWithError(reply.status);
  v1::RescheduleResponse* response = reschedule_response_.Take(reply.head.size());
  response->set_outcome(ToRescheduleOutcome(reply.outcome));
  if (reply.outcome == Outcome::kNotFound) return call->Finish(*response);
  response->set_state(ToProto(reply.state));
  response->set_message_id(reply.id.ToString());
  response->set_delivery_uncertain(reply.delivery_uncertain);
  if (HasEnded(reply.outcome)) SetTimestamp(reply.end_ms, response->mutable_end_time());
  if (reply.outcome == Outcome::kDone) {
    if (!storage::DecodeMessageHead(reply.head, &record_).ok()) {
      return call->FinishWithError(DamagedError());
    }
    v1::Message* message = response->mutable_message();
    FillRecord(record_, context_->topics.Name(record_.header.topic).value_or(""),
               reply.bytes - reply.head.size(), /*full=*/false, message);
    message->set_id(reply.id.ToString());
    message->set_state(ToProto(reply.state));
    SetTimestamp(reply.old_deliver_ms, response->mutable_old_deliver_time());
  }
  call->Finish(*response);
}

void LifecycleHandlers::Get(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::GetRequest* request = get_request_.Take(call->request()->Length());
  ValidTarget valid;
  absl::Status status = ParseRequest(call->request(), request);
  if (status.ok()) status = ValidateView(request->view(), &call->full_view);
  if (status.ok()) status = ValidateTarget(*request, &valid);
  if (!status.ok()) return call->FinishWithError(status);
  delivery::GetCommand command;
  command.tag = call->tag();
  uint16_t shard = 0;
  if (!Route(valid, &command.target, &shard)) {
    return call->FinishWithError(KeyNotFoundError(valid.topic, valid.key));
  }
  Post(call, shard, std::move(command));
}

void LifecycleHandlers::Explain(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ExplainRequest request;
  ValidTarget valid;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateTarget(request, &valid);
  if (!status.ok()) return call->FinishWithError(status);
  delivery::GetCommand command;
  command.tag = call->tag();
  uint16_t shard = 0;
  if (!Route(valid, &command.target, &shard)) {
    return call->FinishWithError(KeyNotFoundError(valid.topic, valid.key));
  }
  Post(call, shard, std::move(command));
}

void LifecycleHandlers::FillStandings(
    const delivery::GetReply& reply,
    google::protobuf::RepeatedPtrField<v1::SubscriptionStanding>* standings) {
  for (const delivery::SubscriptionStanding& from : reply.subscriptions) {
    v1::SubscriptionStanding* to = standings->Add();
    to->set_subscription(context_->subscriptions.Name(from.subscription));
    to->set_state(ToProto(from.state));
    to->set_attempts(static_cast<int32_t>(from.attempts));
    if (from.lease_end_ms > 0) SetTimestamp(from.lease_end_ms, to->mutable_lease_end_time());
    if (from.retry_ms > 0) SetTimestamp(from.retry_ms, to->mutable_retry_time());
  }
  std::sort(standings->begin(), standings->end(),
            [](const auto& a, const auto& b) { return a.subscription() < b.subscription(); });
}

absl::Status LifecycleHandlers::FillMessage(const delivery::GetReply& reply, bool full,
                                            v1::Message* message) {
  if (reply.fate.has_value()) {
    FillFate(*reply.fate, context_->topics.Name(reply.fate->topic).value_or(""), message);
  } else {
    if (!storage::DecodeMessageRecord(reply.record, &record_).ok()) return DamagedError();
    FillRecord(record_, context_->topics.Name(record_.header.topic).value_or(""),
               record_.payload.size(), full, message);
    message->set_attempts(static_cast<int32_t>(reply.attempts));
  }
  message->set_id(reply.id.ToString());
  message->set_state(ToProto(reply.state));
  return absl::OkStatus();
}

void LifecycleHandlers::OnGetReply(UnaryCall* call, const delivery::GetReply& reply) {
  if (!reply.status.ok()) return call->FinishWithError(reply.status);
  if (call->method() == metrics::RpcMethod::kExplain) {
    v1::ExplainResponse response;
    absl::Status status = FillMessage(reply, /*full=*/false, response.mutable_message());
    if (!status.ok()) return call->FinishWithError(status);
    FillStandings(reply, response.mutable_subscriptions());
    FillExplanation(reply.timeline, context_->clock->Read().wall_ms, &response);
    return call->Finish(response);
  }
  v1::GetResponse* response = get_response_.Take(reply.record.size());
  absl::Status status = FillMessage(reply, call->full_view, response->mutable_message());
  if (!status.ok()) return call->FinishWithError(status);
  FillStandings(reply, response->mutable_subscriptions());
  call->Finish(*response);
}

}  // namespace duetime::rpc
