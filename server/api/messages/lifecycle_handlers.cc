// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/lifecycle_handlers.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/api/access/authorization.h"
#include "server/api/await.h"
#include "server/api/failure.h"
#include "server/api/messages/explanation.h"
#include "server/api/messages/message_view.h"
#include "server/api/messages/target_validation.h"
#include "server/api/proto_time.h"
#include "server/api/unary.h"
#include "server/api/validation_error.h"
#include "server/protocol/commands.h"
#include "storage/message_record.h"
#include "storage/slot.h"

namespace duetime::api {
namespace {

using protocol::Outcome;

v1::CancelResponse::Outcome ToCancelOutcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return v1::CancelResponse::OUTCOME_CANCELLED;
    case Outcome::kInFlight:
      return v1::CancelResponse::OUTCOME_IN_FLIGHT;
    case Outcome::kSettled:
      return v1::CancelResponse::OUTCOME_SETTLED;
    case Outcome::kAlreadyCancelled:
      return v1::CancelResponse::OUTCOME_ALREADY_CANCELLED;
    case Outcome::kNotFound:
      return v1::CancelResponse::OUTCOME_NOT_FOUND;
  }
  return v1::CancelResponse::OUTCOME_UNSPECIFIED;
}

v1::RescheduleResponse::Outcome ToRescheduleOutcome(Outcome outcome) {
  switch (outcome) {
    case Outcome::kDone:
      return v1::RescheduleResponse::OUTCOME_RESCHEDULED;
    case Outcome::kInFlight:
      return v1::RescheduleResponse::OUTCOME_IN_FLIGHT;
    case Outcome::kSettled:
      return v1::RescheduleResponse::OUTCOME_SETTLED;
    case Outcome::kAlreadyCancelled:
      return v1::RescheduleResponse::OUTCOME_ALREADY_CANCELLED;
    case Outcome::kNotFound:
      return v1::RescheduleResponse::OUTCOME_NOT_FOUND;
  }
  return v1::RescheduleResponse::OUTCOME_UNSPECIFIED;
}

bool HasEnded(Outcome outcome) {
  return outcome == Outcome::kSettled || outcome == Outcome::kAlreadyCancelled;
}

void FillCancel(const protocol::CancelReply& reply, v1::CancelResponse* response) {
  response->set_outcome(ToCancelOutcome(reply.outcome));
  if (reply.outcome == Outcome::kNotFound) return;
  response->set_state(ToProto(reply.state));
  response->set_redelivery_stopped(reply.redelivery_stopped);
  response->set_delivery_uncertain(reply.delivery_uncertain);
  response->set_message_id(reply.id.ToString());
  if (HasEnded(reply.outcome)) SetTimestamp(reply.end_ms, response->mutable_end_time());
}

// Finds the shard of a target, and fills in the target for it. False: its topic does not exist.
bool Route(ApiWorker& worker, const ValidTarget& valid, protocol::Target* target, uint16_t* shard) {
  uint32_t slot = valid.id.slot();
  target->id = valid.id;
  if (!valid.key.empty()) {
    const auto topic = worker.context().catalog().FindTopicEvenIfDeleted(valid.topic);
    if (topic == nullptr) return false;
    target->topic = topic->id;
    target->key = std::string(valid.key);
    slot = storage::SlotOfName(valid.topic, valid.key);
  }
  *shard = storage::ShardOfSlot(slot, worker.node().shard_count());
  return true;
}

absl::string_view TopicName(ApiWorker& worker, storage::TopicId topic) {
  return worker.context().catalog().TopicName(topic);
}

void FillSubscriptionStates(ApiWorker& worker, const protocol::GetReply& reply,
                            google::protobuf::RepeatedPtrField<v1::SubscriptionStatus>* states) {
  for (const protocol::SubscriptionStatus& from : reply.subscriptions) {
    v1::SubscriptionStatus* to = states->Add();
    to->set_subscription(worker.context().catalog().SubscriptionName(from.subscription));
    to->set_state(ToProto(from.state));
    to->set_attempts(static_cast<int32_t>(from.attempts));
    if (from.lease_end_ms > 0) SetTimestamp(from.lease_end_ms, to->mutable_lease_end_time());
    if (from.retry_ms > 0) SetTimestamp(from.retry_ms, to->mutable_retry_time());
    to->set_wait_reason(ToProto(from.wait_reason));
    if (from.holder != storage::MessageId{}) to->set_ordering_key_holder(from.holder.ToString());
    if (from.dead_letter != storage::MessageId{}) {
      to->set_dead_letter_id(from.dead_letter.ToString());
    }
    FillAttempts(from.last_attempts, to->mutable_last_attempts());
  }
  std::sort(states->begin(), states->end(),
            [](const auto& a, const auto& b) { return a.subscription() < b.subscription(); });
}

// Fills in a message. An error if the stored bytes are damaged.
absl::Status FillMessage(ApiWorker& worker, const protocol::GetReply& reply, bool full,
                         v1::Message* message) {
  if (reply.tombstone.has_value()) {
    FillTombstone(*reply.tombstone, reply.id, TopicName(worker, reply.tombstone->topic), message);
  } else {
    storage::MessageRecord record;
    if (!storage::DecodeMessageRecord(reply.record, &record).ok()) return DamagedError();
    FillRecord(record, reply.id, TopicName(worker, record.header.topic), record.payload.size(),
               full, message);
    message->set_attempts(static_cast<int32_t>(reply.attempts));
  }
  message->set_state(ToProto(reply.state));
  return absl::OkStatus();
}

absl::Status FillReschedule(ApiWorker& worker, const protocol::RescheduleReply& reply,
                            v1::RescheduleResponse* response) {
  response->set_outcome(ToRescheduleOutcome(reply.outcome));
  if (reply.outcome == Outcome::kNotFound) return absl::OkStatus();
  response->set_state(ToProto(reply.state));
  response->set_message_id(reply.id.ToString());
  response->set_delivery_uncertain(reply.delivery_uncertain);
  if (HasEnded(reply.outcome)) SetTimestamp(reply.end_ms, response->mutable_end_time());
  if (reply.outcome != Outcome::kDone) return absl::OkStatus();
  storage::MessageRecord record;
  if (!storage::DecodeMessageHead(reply.head, &record).ok()) return DamagedError();
  v1::Message* message = response->mutable_message();
  FillRecord(record, reply.id, TopicName(worker, record.header.topic),
             reply.bytes - reply.head.size(), /*full=*/false, message);
  message->set_state(ToProto(reply.state));
  SetTimestamp(reply.old_deliver_ms, response->mutable_old_deliver_time());
  return absl::OkStatus();
}

// Asks the shard of a message for the message.
Co<absl::StatusOr<protocol::GetReply>> FindMessage(ApiWorker& worker, ValidTarget valid,
                                                   protocol::TopicScopePtr scope) {
  protocol::GetCommand command;
  command.target.scope = std::move(scope);
  uint16_t shard = 0;
  if (!Route(worker, valid, &command.target, &shard)) {
    co_return KeyNotFoundError(valid.topic, valid.key);
  }
  command.budget = worker.context().open_answers;
  Ask<protocol::GetReply, protocol::GetCommand> ask(&worker, shard, std::move(command));
  auto found = co_await ask;
  // The shard knows the topic by its number.
  if (found.ok() || valid.key.empty()) co_return found;
  co_return WithMetadata(found.status(), "topic", valid.topic);
}

// Sorts the items of a batch by shard. Answers the refused items, and those that need no shard.
std::vector<protocol::CancelBatchCommand> RouteCancels(ApiWorker& worker, protocol::CallTag tag,
                                                       const protocol::TopicScopePtr& scope,
                                                       const v1::CancelBatchRequest& request,
                                                       const RefusedItems& refused,
                                                       v1::CancelBatchResponse* response) {
  std::vector<protocol::CancelBatchCommand> by_shard(worker.node().shard_count());
  for (int i = 0; i < request.cancels_size(); ++i) {
    v1::CancelResult* result = response->add_results();
    const auto denied = refused.find(static_cast<size_t>(i));
    absl::Status status = denied == refused.end() ? absl::OkStatus() : denied->second;
    ValidTarget valid;
    if (status.ok()) status = ValidateTarget(request.cancels(i), i, &valid);
    if (!status.ok()) {
      FillFailure(status, result->mutable_error());
      continue;
    }
    protocol::CancelCommand command;
    command.tag = tag;
    command.position = static_cast<uint32_t>(i);
    command.stop_redelivery = request.cancels(i).stop_redelivery();
    command.target.scope = scope;
    uint16_t shard = 0;
    if (Route(worker, valid, &command.target, &shard)) {
      by_shard[shard].items.push_back(std::move(command));
    } else {
      result->mutable_cancel()->set_outcome(v1::CancelResponse::OUTCOME_NOT_FOUND);
    }
  }
  return by_shard;
}

}  // namespace

CallTask Cancel(ApiWorker& worker, rpc::Call& call) {
  const auto* request = ParseOrFinish<v1::CancelRequest>(worker, call);
  if (request == nullptr) co_return;
  ValidTarget valid;
  absl::Status status = ValidateTarget(*request, kSingle, &valid);
  if (!status.ok()) co_return call.FinishWithError(status);
  protocol::CancelCommand command;
  command.stop_redelivery = request->stop_redelivery();
  command.target.scope = ScopeOf(worker, call.caller, access::Verb::kCancel);
  uint16_t shard = 0;
  protocol::CancelReply reply;
  reply.outcome = Outcome::kNotFound;
  if (Route(worker, valid, &command.target, &shard)) {
    Ask<protocol::CancelReply, protocol::CancelCommand> ask(&worker, shard, std::move(command));
    auto answer = co_await ask;
    if (!answer.ok()) co_return call.FinishWithError(answer.status());
    reply = *std::move(answer);
  }
  auto* response = ApiWorker::Reused<v1::CancelResponse>(0);
  FillCancel(reply, response);
  call.Finish(*response);
}

CallTask CancelBatch(ApiWorker& worker, rpc::Call& call) {
  RefusedItems refused;
  const auto* request = ParseBatchOrFinish<v1::CancelBatchRequest>(worker, call, &refused);
  if (request == nullptr) co_return;
  v1::CancelBatchResponse response;
  const auto result_of = [&](uint32_t position) {
    return response.mutable_results(static_cast<int>(position));
  };
  Replies<protocol::CancelReply> replies(&worker);
  auto by_shard =
      RouteCancels(worker, replies.tag(), ScopeOf(worker, call.caller, access::Verb::kCancel),
                   *request, refused, &response);
  for (uint16_t shard = 0; shard < by_shard.size(); ++shard) {
    const std::vector<protocol::CancelCommand>& items = by_shard[shard].items;
    if (items.empty()) continue;
    absl::Status posted = replies.PostItems(shard, by_shard[shard], items.size());
    if (posted.ok()) continue;
    for (const auto& item : items) {
      FillFailure(posted, result_of(item.position)->mutable_error());
    }
  }
  // Each item has a result of its own, so an error of one shard is not the answer of the call.
  static_cast<void>(co_await replies);
  for (const auto& [shard, reply] : replies.all()) {
    // The outcome of an item is unknown, so the whole call fails.
    if (absl::IsUnavailable(reply.status)) co_return call.FinishWithError(reply.status);
    if (reply.status.ok()) {
      FillCancel(reply, result_of(reply.position)->mutable_cancel());
    } else {
      FillFailure(reply.status, result_of(reply.position)->mutable_error());
    }
  }
  call.Finish(response);
}

CallTask Reschedule(ApiWorker& worker, rpc::Call& call) {
  const auto* request = ParseOrFinish<v1::RescheduleRequest>(worker, call);
  if (request == nullptr) co_return;
  ServingContext& context = worker.context();
  ValidReschedule valid;
  absl::Status status = ValidateReschedule(*request, context.options.limits,
                                           AcceptMs(*request, context.clock->Read()), &valid);
  if (!status.ok()) co_return call.FinishWithError(status);
  protocol::RescheduleCommand command;
  command.deliver_ms = valid.when.deliver_ms;
  command.civil_time = std::string(valid.when.civil_time);
  command.time_zone = std::string(valid.when.time_zone);
  command.etag = valid.etag;
  command.target.scope = ScopeOf(worker, call.caller, access::Verb::kSchedule);
  uint16_t shard = 0;
  protocol::RescheduleReply reply;
  reply.outcome = Outcome::kNotFound;
  if (Route(worker, valid.target, &command.target, &shard)) {
    Ask<protocol::RescheduleReply, protocol::RescheduleCommand> ask(&worker, shard,
                                                                    std::move(command));
    auto answer = co_await ask;
    if (!answer.ok()) co_return call.FinishWithError(answer.status());
    reply = *std::move(answer);
  }
  auto* response = ApiWorker::Reused<v1::RescheduleResponse>(reply.head.size());
  status = FillReschedule(worker, reply, response);
  call.Finish(status, *response);
}

Co<absl::Status> Get(ApiWorker& worker, rpc::Call& call, const v1::GetRequest& request,
                     v1::GetResponse* response) {
  bool full = false;
  ValidTarget valid;
  absl::Status status = ValidateView(request.view(), &full);
  if (status.ok()) status = ValidateTarget(request, &valid);
  if (!status.ok()) co_return status;
  const access::Verb verb = full ? access::Verb::kReadPayloads : access::Verb::kRead;
  const auto found = co_await FindMessage(worker, valid, ScopeOf(worker, call.caller, verb));
  if (!found.ok()) co_return found.status();
  status = FillMessage(worker, *found, full, response->mutable_message());
  if (status.ok()) FillSubscriptionStates(worker, *found, response->mutable_subscriptions());
  co_return status;
}

Co<absl::Status> Explain(ApiWorker& worker, rpc::Call& call, const v1::ExplainRequest& request,
                         v1::ExplainResponse* response) {
  ValidTarget valid;
  absl::Status status = ValidateTarget(request, &valid);
  if (!status.ok()) co_return status;
  const auto found =
      co_await FindMessage(worker, valid, ScopeOf(worker, call.caller, access::Verb::kRead));
  if (!found.ok()) co_return found.status();
  status = FillMessage(worker, *found, /*full=*/false, response->mutable_message());
  if (!status.ok()) co_return status;
  FillSubscriptionStates(worker, *found, response->mutable_subscriptions());
  FillExplanation(found->timeline, worker.context().clock->Read().wall_ms, response);
  co_return absl::OkStatus();
}

}  // namespace duetime::api
