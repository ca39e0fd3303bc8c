// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/unary_handlers.h"

#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/health.h"
#include "server/rpc/proto_time.h"

namespace duetime::rpc {
namespace {

v1::Message::State ToProto(delivery::MessageState state) {
  switch (state) {
    case delivery::MessageState::kUnspecified:
      return v1::Message::STATE_UNSPECIFIED;
    case delivery::MessageState::kScheduled:
      return v1::Message::SCHEDULED;
    case delivery::MessageState::kDue:
      return v1::Message::DUE;
    case delivery::MessageState::kInFlight:
      return v1::Message::IN_FLIGHT;
  }
  return v1::Message::STATE_UNSPECIFIED;
}

v1::CancelResponse::Outcome ToProto(delivery::CancelOutcome outcome) {
  switch (outcome) {
    case delivery::CancelOutcome::kCancelled:
      return v1::CancelResponse::CANCELLED;
    case delivery::CancelOutcome::kInFlight:
      return v1::CancelResponse::IN_FLIGHT;
    case delivery::CancelOutcome::kNotFound:
      return v1::CancelResponse::NOT_FOUND;
  }
  return v1::CancelResponse::OUTCOME_UNSPECIFIED;
}

void FillAccepted(const ScheduledItem& item, const delivery::AcceptedMessage& accepted,
                  uint64_t accept_ms, v1::Message* message) {
  message->set_id(accepted.id.ToString());
  message->set_topic(item.topic.data(), item.topic.size());
  SetTimestamp(item.deliver_ms, message->mutable_deliver_time());
  SetTimestamp(accept_ms, message->mutable_accept_time());
  message->set_state(ToProto(accepted.state));
  message->set_payload_bytes(static_cast<int64_t>(item.payload_bytes));
}

// Puts a stored record into the API's form.
void FillStored(const storage::MessageRecord& record, absl::string_view topic, bool full,
                v1::Message* message) {
  message->set_topic(topic.data(), topic.size());
  SetTimestamp(record.header.deliver_ms, message->mutable_deliver_time());
  SetTimestamp(record.header.accept_ms, message->mutable_accept_time());
  message->set_payload_bytes(static_cast<int64_t>(record.payload.size()));
  if (!full) return;
  message->set_payload(record.payload.data(), record.payload.size());
  for (const auto& [key, value] : record.attributes) {
    (*message->mutable_attributes())[std::string(key)] = std::string(value);
  }
}

absl::Status DamagedError() {
  return base::MakeError(
      absl::StatusCode::kDataLoss, "the message's bytes on disk are damaged",
      {.reason = "CHECKSUM_MISMATCH", .field = "", .metadata = {}, .retry_after_ms = 0});
}

}  // namespace

void UnaryHandlers::Handle(UnaryCall* call) {
  switch (call->method()) {
    case metrics::RpcMethod::kSchedule:
      return Schedule(call);
    case metrics::RpcMethod::kScheduleBatch:
      return ScheduleBatch(call);
    case metrics::RpcMethod::kCancel:
      return Cancel(call);
    case metrics::RpcMethod::kGet:
      return Get(call);
    case metrics::RpcMethod::kServerInfo:
      return ServerInfo(call);
    case metrics::RpcMethod::kHealthCheck:
      return HealthCheck(call);
    case metrics::RpcMethod::kSubscribe:
    case metrics::RpcMethod::kHealthWatch:
      break;
  }
  DT_CHECK(false);
}

// Slots are dealt out by a stride that is odd, hence meets every slot before it repeats one, and
// large, so that consecutive calls go to different shards.
uint32_t UnaryHandlers::NextSlot() {
  constexpr uint32_t kStride = 6'367;
  next_slot_ = (next_slot_ + kStride) % storage::MessageId::kSlotCount;
  return next_slot_;
}

void UnaryHandlers::Post(UnaryCall* call, uint32_t slot, delivery::Command command) {
  runtime::Node* node = context_->node.load(std::memory_order_acquire);
  const uint16_t shard = storage::ShardOfSlot(slot, node->shard_count());
  if (absl::Status status = node->Post(shard, std::move(command)); !status.ok()) {
    call->FinishWithError(status);
  }
}

absl::Status UnaryHandlers::Accept(uint32_t slot, uint64_t now_ms, UnaryCall* call,
                                   delivery::ScheduleCommand* command) {
  if (!last_topic_.durable || last_topic_.name != valid_.topic) {
    if (absl::Status status =
            context_->topics.Resolve(valid_.topic, TopicRegistry::Use::kSchedule, &last_topic_);
        !status.ok()) {
      last_topic_ = {};
      return status;
    }
    if (!last_topic_.durable && named_.insert(static_cast<uint32_t>(last_topic_.id)).second) {
      command->new_topics.emplace_back(last_topic_.id, std::string(last_topic_.name));
      call->new_topics.push_back(last_topic_.id);
    }
  }
  const storage::MessageRecord record = {
      .header = {.topic = last_topic_.id, .deliver_ms = valid_.deliver_ms, .accept_ms = now_ms},
      .attributes = valid_.attributes,
      .payload = valid_.payload};
  command->messages.push_back(
      {.topic = last_topic_.id,
       .slot = slot,
       .deliver_ms = valid_.deliver_ms,
       .record = storage::EncodeMessageRecord(record)});
  call->items.push_back({.topic = last_topic_.name,
                         .deliver_ms = valid_.deliver_ms,
                         .payload_bytes = valid_.payload.size(),
                         .error = absl::OkStatus()});
  return absl::OkStatus();
}

void UnaryHandlers::Schedule(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ScheduleRequest* request = schedule_request_.Take(call->request()->Length());
  if (absl::Status status = ParseRequest(call->request(), request); !status.ok()) {
    return call->FinishWithError(status);
  }
  call->accept_ms = context_->clock->Read().wall_ms;
  if (absl::Status status =
          ValidateSchedule(*request, context_->options.limits, call->accept_ms, kSingle, &valid_);
      !status.ok()) {
    return call->FinishWithError(status);
  }
  delivery::ScheduleCommand command{.tag = call->tag(), .messages = {}, .new_topics = {}};
  named_.clear();
  const uint32_t slot = NextSlot();
  if (absl::Status status = Accept(slot, call->accept_ms, call, &command); !status.ok()) {
    return call->FinishWithError(status);
  }
  Post(call, slot, std::move(command));
}

void UnaryHandlers::ScheduleBatch(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  const RequestLimits& limits = context_->options.limits;
  const size_t bytes = call->request()->Length();
  WireSummary summary;
  absl::Status status =
      CheckRequest(call->request(), v1::ScheduleBatchRequest::GetDescriptor(), &summary);
  if (status.ok()) status = ValidateBatchSize(summary.elements, bytes, limits);
  if (!status.ok()) return call->FinishWithError(status);
  v1::ScheduleBatchRequest* request = batch_request_.Take(bytes);
  status = ParseChecked(call->request(), request);
  if (!status.ok()) return call->FinishWithError(status);

  call->accept_ms = context_->clock->Read().wall_ms;
  delivery::ScheduleCommand command{.tag = call->tag(), .messages = {}, .new_topics = {}};
  command.messages.reserve(static_cast<size_t>(request->messages_size()));
  call->items.reserve(static_cast<size_t>(request->messages_size()));
  named_.clear();
  const uint32_t slot = NextSlot();
  for (int i = 0; i < request->messages_size(); ++i) {
    absl::Status item = ValidateSchedule(request->messages(i), limits, call->accept_ms, i, &valid_);
    if (item.ok()) item = Accept(slot, call->accept_ms, call, &command);
    if (!item.ok()) {
      call->items.push_back(
          {.topic = "", .deliver_ms = 0, .payload_bytes = 0, .error = std::move(item)});
    }
  }
  if (command.messages.empty()) return AnswerBatch(call, {});
  Post(call, slot, std::move(command));
}

void UnaryHandlers::OnScheduleReply(UnaryCall* call, const delivery::ScheduleReply& reply) {
  if (!reply.status.ok()) return call->FinishWithError(reply.status);
  for (const storage::TopicId topic : call->new_topics) context_->topics.MarkDurable(topic);
  if (call->method() == metrics::RpcMethod::kScheduleBatch) {
    return AnswerBatch(call, reply.accepted);
  }
  DT_CHECK_EQ(reply.accepted.size(), 1u);
  v1::ScheduleResponse* response = schedule_response_.Take(0);
  FillAccepted(call->items[0], reply.accepted[0], call->accept_ms, response->mutable_message());
  call->Finish(*response);
}

void UnaryHandlers::AnswerBatch(UnaryCall* call,
                                const std::vector<delivery::AcceptedMessage>& accepted) {
  v1::ScheduleBatchResponse* response =
      batch_response_.Take(call->items.size() * sizeof(v1::Message));
  size_t next = 0;
  for (const ScheduledItem& item : call->items) {
    v1::ScheduleResult* result = response->add_results();
    if (!item.error.ok()) {
      ToRpcStatus(item.error, result->mutable_error());
      continue;
    }
    DT_CHECK_LT(next, accepted.size());
    FillAccepted(item, accepted[next++], call->accept_ms, result->mutable_message());
  }
  DT_CHECK_EQ(next, accepted.size());
  call->Finish(*response);
}

void UnaryHandlers::Cancel(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::CancelRequest* request = cancel_request_.Take(call->request()->Length());
  absl::Status status = ParseRequest(call->request(), request);
  if (status.ok()) status = ValidateCancel(*request, &call->id);
  if (!status.ok()) return call->FinishWithError(status);
  Post(call, call->id.slot(),
       delivery::CancelCommand{
           .tag = call->tag(), .id = call->id, .stop_redelivery = request->stop_redelivery()});
}

void UnaryHandlers::OnCancelReply(UnaryCall* call, const delivery::CancelReply& reply) {
  if (!reply.status.ok()) return call->FinishWithError(reply.status);
  v1::CancelResponse* response = cancel_response_.Take(0);
  response->set_outcome(ToProto(reply.outcome));
  response->set_state(ToProto(reply.state));
  response->set_redelivery_stopped(reply.redelivery_stopped);
  response->set_delivery_uncertain(reply.delivery_uncertain);
  call->Finish(*response);
}

void UnaryHandlers::Get(UnaryCall* call) {
  if (absl::Status status = context_->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::GetRequest* request = get_request_.Take(call->request()->Length());
  ValidGet valid;
  absl::Status status = ParseRequest(call->request(), request);
  if (status.ok()) status = ValidateGet(*request, &valid);
  if (!status.ok()) return call->FinishWithError(status);
  call->id = valid.id;
  call->full_view = valid.full;
  Post(call, call->id.slot(), delivery::GetCommand{.tag = call->tag(), .id = call->id});
}

void UnaryHandlers::OnGetReply(UnaryCall* call, const delivery::GetReply& reply) {
  if (!reply.status.ok()) return call->FinishWithError(reply.status);
  if (!storage::DecodeMessageRecord(reply.record, &record_).ok()) {
    return call->FinishWithError(DamagedError());
  }
  v1::GetResponse* response = get_response_.Take(reply.record.size());
  v1::Message* message = response->mutable_message();
  message->set_id(call->id.ToString());
  FillStored(record_, context_->topics.Name(record_.header.topic).value_or(""), call->full_view,
             message);
  message->set_state(ToProto(reply.state));
  message->set_attempts(static_cast<int32_t>(reply.attempts));
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
