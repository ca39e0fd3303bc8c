// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/subscriber_stream.h"

#include <algorithm>
#include <spdlog/spdlog.h>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/api/access/authorization.h"
#include "server/api/call_table.h"
#include "server/api/proto_time.h"
#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "server/protocol/stream_credit.h"
#include "server/rpc/client_credentials.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/message_io.h"

namespace duetime::api {

void SubscriberStream::OnOpened() {
  ServingContext& context = api_->context();
  opened_mono_ms_ = context.machine_clock->Read().mono_ms;
  absl::Status status = caller_.Open(*server_context());
  // A client without any right must not hold a stream until its first request.
  if (status.ok()) {
    status = CheckRights(context, caller_.caller(), MethodOf<v1::SubscribeRequest>(),
                         v1::SubscribeRequest::default_instance());
  }
  if (status.ok()) status = context.Admit(CallKind::kSubscribe);
  if (!status.ok()) return Fail(status);
  status = Count(&context.streams, context.options.streams_max);
  if (!status.ok()) return Fail(status);
  StartRead();
}

void SubscriberStream::OnMessage(grpc::ByteBuffer* buffer) {
  if (absl::Status status = HandleRequest(buffer); !status.ok()) return Fail(status);
  if (ended()) return;
  ReadOn();
  Pump();
}

absl::Status SubscriberStream::HandleRequest(grpc::ByteBuffer* buffer) {
  v1::SubscribeRequest* request = ApiWorker::Reused<v1::SubscribeRequest>(buffer->Length());
  absl::Status status = ParseSettles(api_->context().options.limits, buffer, request);
  if (!status.ok()) return status;
  if (phase_ == Phase::kAwaitStart) {
    if (!request->has_start()) {
      return InvalidSubscribeError("start", "required in the first request");
    }
    status =
        CheckRights(api_->context(), caller_.caller(), MethodOf<v1::SubscribeRequest>(), *request);
    if (status.ok()) status = Start(request->start());
    if (!status.ok()) return status;
  } else if (request->has_start()) {
    return InvalidSubscribeError("start", "allowed in the first request only");
  }
  if (ended()) return absl::OkStatus();
  if (request->begun_size() > 0 && !start_.reports_begun) {
    return InvalidSubscribeError("begun", "allowed only on a stream with reports_begun");
  }
  // Before the settlements, so that no released message comes back here.
  if (request->no_more_deliveries()) StopDeliveries();
  Settle(*request);
  return absl::OkStatus();
}

absl::Status SubscriberStream::Start(const v1::SubscribeStart& start) {
  ServingContext& context = api_->context();
  // The state may have changed since the call arrived.
  if (absl::Status status = context.Admit(CallKind::kSubscribe); !status.ok()) return status;
  if (absl::Status status = ValidateStart(start, context.options.limits, &start_); !status.ok()) {
    return status;
  }
  topic_ = std::string(start_.topic);
  subscription_ = std::string(start_.subscription);
  spdlog::debug("subscriber: topic={} subscription={} client={} peer={}", topic_, subscription_,
                absl::CHexEscape(start_.client_id), server_context()->peer());
  client_id_ = std::string(start_.client_id);
  // Clear the views: the request is reused after this function.
  start_.topic = start_.subscription = start_.client_id = {};
  phase_ = Phase::kCreating;
  id_ = api_->streams().Add(this);
  if (auto found = context.FindSubscription(topic_, subscription_); found != nullptr) {
    Open(std::move(found));
    return absl::OkStatus();
  }
  return PostToCatalog(
      catalog::CreateSubscription{.topic = topic_, .name = subscription_, .by_use = true});
}

template <typename Command>
absl::Status SubscriberStream::PostToCatalog(Command command) {
  DT_CHECK(!asked_.has_value());
  asked_ = api_->catalog_replies().Add(this);
  command.tag = *asked_;
  absl::Status status = api_->node().PostToCatalog(std::move(command));
  if (!status.ok()) api_->catalog_replies().Remove(*std::exchange(asked_, std::nullopt));
  return status;
}

void SubscriberStream::OnReply(catalog::Reply reply) {
  api_->catalog_replies().Remove(*std::exchange(asked_, std::nullopt));
  DT_CHECK(!ended());
  if (phase_ == Phase::kCreating) {
    if (!reply.status.ok()) return Fail(reply.status);
    return Open(std::move(reply.subscription));
  }
  SendLettersAgain();
  LinkDeadLetters();
  ReadOn();
  Pump();
}

void SubscriberStream::Open(catalog::SubscriptionPtr subscription) {
  Attach(*subscription);
  Show();
  if (std::exchange(deliveries_stopped_, false)) StopDeliveries();
  watch_ = SubscriptionWatch(std::move(subscription));
  phase_ = Phase::kOpen;
  queue_.set_lease_ms(start_.lease_ms);
  send_started_ = true;
  if (first_.has_value()) Post(std::move(std::exchange(first_, std::nullopt)->by_shard));
  ReadOn();
  Pump();
}

void SubscriberStream::Attach(const catalog::Subscription& subscription) {
  attached_ = true;
  start_.lease_ms = LeaseMs(start_, subscription.settings);
  // The stream counts until every shard has taken its end: streams that come and go while a shard
  // stands still must not fill the mailbox of that shard.
  credit_ = std::shared_ptr<protocol::StreamCredit>(
      new protocol::StreamCredit(start_.max_outstanding_messages, start_.max_outstanding_bytes,
                                 api_->context().options.stream_unsent_bytes_max,
                                 start_.max_deliveries),
      [counted = count()](const protocol::StreamCredit* credit) { delete credit; });
  runtime::Node* node = api_->context().node.load();
  received_.assign(node->shard_count(), 0);
  for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
    node->PostAlways(shard, protocol::AttachCommand{.stream = id_,
                                                    .topic = subscription.topic,
                                                    .subscription = subscription.id,
                                                    .lease_ms = start_.lease_ms,
                                                    .credit = credit_,
                                                    .reports_begun = start_.reports_begun,
                                                    .client_id = client_id_});
  }
}

void SubscriberStream::Show() {
  ServingContext& context = api_->context();
  shown_ = std::make_shared<rpc::OpenStream>();
  shown_->topic = topic_;
  shown_->subscription = subscription_;
  shown_->client_id = client_id_;
  shown_->peer = rpc::PeerAddress(*server_context());
  if (caller_.caller() != nullptr) shown_->principal = caller_.caller()->principal();
  shown_->messages_max = start_.max_outstanding_messages;
  shown_->bytes_max = start_.max_outstanding_bytes;
  shown_->start_ms = context.clock->Read().wall_ms;
  shown_->in_flight = [credit = std::weak_ptr(credit_)] {
    const auto now = credit.lock();
    return now == nullptr ? 0 : now->messages();
  };
  shown_->worker = &worker();
  shown_->end = [this] {
    if (!ended()) Fail(base::StreamEndedError());
  };
  context.open_streams.Add(shown_);
}

void SubscriberStream::Detach() {
  if (!attached_) return;
  attached_ = false;
  runtime::Node* node = api_->context().node.load();
  for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
    node->PostAlways(shard,
                     protocol::DetachCommand{
                         .stream = id_, .broke = !closed_by_server_, .received = received_[shard]});
  }
}

void SubscriberStream::StopDeliveries() {
  if (std::exchange(deliveries_stopped_, true) || !attached_) return;
  runtime::Node* node = api_->context().node.load();
  for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
    node->PostAlways(shard, protocol::DetachCommand{.stream = id_, .keep_leases = true});
  }
  GiveBack(queue_.TakeDeliveries());
  MakeRoom();
}

void SubscriberStream::GiveBack(const std::vector<protocol::LeaseToken>& unsent) {
  if (unsent.empty()) return;
  runtime::Node* node = api_->context().node.load();
  std::vector<protocol::SettleCommand> commands(node->shard_count());
  for (const protocol::LeaseToken token : unsent) {
    given_back_.insert(static_cast<uint64_t>(token));
    commands[protocol::ShardOfLease(token)].settlements.push_back(
        {.token = token, .action = protocol::SettleAction::kRelease});
  }
  for (protocol::SettleCommand& command : commands) command.stream = id_;
  Post(std::move(commands));
}

void SubscriberStream::Settle(const v1::SubscribeRequest& request) {
  RoutedSettles routed;
  RouteSettles(request, id_, api_->node().shard_count(), &routed);
  for (auto& [token, reason] : routed.refused) queue_.AddRefused(std::move(token), reason);
  settles_open_ += routed.posted;
  bool acks_only = true;
  for (const v1::Settlement& settlement : request.settlements()) {
    rejects_ = rejects_ || settlement.has_dead_letter();
    acks_only = acks_only && settlement.action_case() == v1::Settlement::ACTION_NOT_SET;
  }
  const bool may_wait = acks_only && credit_ != nullptr && !credit_->awaited();
  for (protocol::SettleCommand& command : routed.by_shard) command.may_wait = may_wait;
  if (phase_ == Phase::kCreating) {
    first_ = std::move(routed);
  } else {
    Post(std::move(routed.by_shard));
  }
}

void SubscriberStream::Post(std::vector<protocol::SettleCommand> by_shard) {
  runtime::Node* node = api_->context().node.load();
  for (uint16_t shard = 0; shard < by_shard.size(); ++shard) {
    if (by_shard[shard].empty()) continue;
    node->PostAlways(shard, std::move(by_shard[shard]));
  }
}

void SubscriberStream::LinkDeadLetters() {
  while (!letters_.empty() && !asked_.has_value()) {
    const catalog::TopicPtr topic = api_->context().catalog().TopicOf(letters_.front().topic);
    // A topic that is deleted meanwhile must not come back.
    const bool exists = topic != nullptr && topic->exists();
    const bool asked =
        exists && PostToCatalog(catalog::EnsureTopic{.name = std::string(topic->name()),
                                                     .dead_letters = true})
                      .ok();
    if (!asked) SendLettersAgain();
  }
}

void SubscriberStream::SendLettersAgain() {
  if (letters_.empty()) return;
  Post(AgainByShard(letters_.front().topic, id_, api_->node().shard_count(), &letters_));
}

void SubscriberStream::ReadOn() {
  if (reading() || phase_ == Phase::kClosing || asked_.has_value()) return;
  if (settles_open_ + queue_.confirmations() > kSettlesOpenMax) return;  // Pump calls ReadOn again
  StartRead();
}

void SubscriberStream::AddDeliveries(base::Now now, std::vector<protocol::Delivery> deliveries) {
  // After Detach, the shards know from `received` that these deliveries were not sent.
  const bool attached = phase_ == Phase::kOpen || (phase_ == Phase::kClosing && attached_);
  if (!attached || deliveries.empty()) return;
  // A new subscription may have the same name, and these deliveries may be for it.
  if (watch_.Gone(api_->context())) return Fail(SubscriptionNotFoundError(topic_, subscription_));
  received_[protocol::ShardOfLease(deliveries.front().token)] += deliveries.size();
  if (deliveries_stopped_) {
    std::vector<protocol::LeaseToken> tokens;
    tokens.reserve(deliveries.size());
    for (const protocol::Delivery& delivery : deliveries) tokens.push_back(delivery.token);
    return GiveBack(tokens);
  }
  size_t bytes = 0;
  for (const protocol::Delivery& delivery : deliveries) bytes += delivery.record.size();
  unsent_ += bytes;
  api_->context().stats->unsent_bytes.fetch_add(bytes, std::memory_order_relaxed);
  queue_.AddDeliveries(now, std::move(deliveries));
  MakeRoom();  // some of the queue may have expired
}

void SubscriberStream::MakeRoom() {
  const size_t gone = unsent_ - queue_.bytes();
  if (gone == 0) return;
  unsent_ -= gone;
  api_->context().stats->unsent_bytes.fetch_sub(gone, std::memory_order_relaxed);
  const uint64_t mask = credit_->Sent(gone) | credit_->Refill(queue_.TakeDropped());
  if (mask == 0) return;
  runtime::Node* node = api_->context().node.load();
  for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
    if ((mask >> shard & 1) == 0) continue;
    node->PostAlways(shard, protocol::CreditCommand{.stream = id_});
  }
}

void SubscriberStream::AddSettles(const protocol::SettleReply& reply) {
  size_t answered =
      reply.settled.size() + reply.extended.size() + reply.begun.size() + reply.refused.size();
  for (const protocol::LeaseToken token : reply.begun) queue_.AddBegun(token);
  for (const protocol::LeaseToken token : reply.extended) queue_.AddExtended(token);
  for (const protocol::LeaseToken token : reply.settled) {
    if (!given_back_.empty() && given_back_.erase(static_cast<uint64_t>(token)) > 0) {
      --answered;
      continue;
    }
    queue_.AddSettled(token);
  }
  for (const protocol::RefusedSettlement& refused : reply.refused) {
    if (!given_back_.empty() && given_back_.erase(static_cast<uint64_t>(refused.token)) > 0) {
      --answered;
    } else if (refused.topic != storage::TopicId{}) {
      letters_.push_back(refused);
      --answered;
    } else {
      queue_.AddRefused(refused.token, ToProto(refused.refusal));
    }
  }
  settles_open_ -= std::min(settles_open_, answered);
  LinkDeadLetters();
}

void SubscriberStream::Pump() {
  if (ended() || writing()) return;
  if (phase_ == Phase::kAwaitStart || phase_ == Phase::kCreating) return;
  const bool notices = send_started_ || send_heartbeat_ || send_drain_;
  if (notices || !queue_.empty()) {
    const base::Now now = api_->context().clock->Read();
    v1::SubscribeResponse* response = ApiWorker::Reused<v1::SubscribeResponse>(
        std::min(queue_.bytes(), FrameQueue::kFrameBytesMax));
    if (std::exchange(send_started_, false)) {
      v1::SubscribeStarted* started = response->mutable_started();
      started->set_max_outstanding_messages(start_.max_outstanding_messages);
      started->set_max_outstanding_bytes(start_.max_outstanding_bytes);
      SetDuration(start_.lease_ms, started->mutable_lease_duration());
      started->set_test_clock(api_->context().clock_driver != nullptr);
    }
    if (std::exchange(send_heartbeat_, false)) {
      SetTimestamp(now.wall_ms, response->mutable_heartbeat()->mutable_server_time());
    }
    if (std::exchange(send_drain_, false)) {
      SetDuration(api_->context().options.drain_grace_ms,
                  response->mutable_drain()->mutable_grace());
    }
    std::vector<protocol::LeaseToken> damaged;
    const size_t bytes = queue_.Fill(now, response, &damaged);
    MakeRoom();
    for (const protocol::LeaseToken token : damaged) {
      given_back_.insert(static_cast<uint64_t>(token));
    }
    if (response->settled_size() > 0) shown_->settled_ms.store(now.wall_ms);
    if (!damaged.empty()) api_->context().GiveBackDamaged(id_, damaged);
    if (bytes > 0 || notices) {
      last_write_mono_ms_ = api_->context().machine_clock->Read().mono_ms;
      StartWrite(*response);
    }
    ReadOn();
    return;
  }
  if (phase_ == Phase::kClosing && settles_open_ == 0) End(closing_status_);
}

void SubscriberStream::OnWritten() { Pump(); }

void SubscriberStream::OnReadsDone() {
  if (phase_ == Phase::kAwaitStart) {
    return Fail(InvalidSubscribeError("start", "required in the first request"));
  }
  if (phase_ == Phase::kClosing) return;
  // No more settlements will come, so the stream delivers no more messages. It still confirms the
  // last settlements, because the client may have half-closed to wait for them.
  Close(grpc::Status::OK, kClosingTimeoutMs);
}

void SubscriberStream::Close(const grpc::Status& status, uint64_t timeout_ms) {
  phase_ = Phase::kClosing;
  closed_by_server_ = !status.ok();
  closing_status_ = status;
  close_by_mono_ms_ = api_->context().machine_clock->Read().mono_ms + timeout_ms;
  // Other streams get the deliveries that were not sent. The order matters: see StopDeliveries.
  StopDeliveries();
  // A dead letter that is sent again needs its lease. OnEnded detaches then.
  if (!rejects_ || settles_open_ == 0) Detach();
  Pump();
}

void SubscriberStream::OnEnded() {
  StopDeliveries();
  Detach();
  api_->context().open_streams.Remove(shown_);
  api_->streams().Remove(id_);
  if (asked_.has_value()) api_->catalog_replies().Remove(*std::exchange(asked_, std::nullopt));
  queue_.Clear();
  MakeRoom();
}

void SubscriberStream::OnServingState() {
  if (ended()) return;
  const ServingContext& context = api_->context();
  switch (context.state.load()) {
    case ServingState::kStarting:
    case ServingState::kStandby:
    case ServingState::kServing:
      return;
    case ServingState::kStorageFailed:
      return Fail(context.FailedError());
    case ServingState::kDraining:
      break;
  }
  if (phase_ == Phase::kAwaitStart || phase_ == Phase::kCreating) {
    return Fail(base::DrainingError());
  }
  if (context.ending.load()) {
    // Still send the confirmations. kEndingTimeoutMs and the shutdown's deadline bound the wait.
    if (phase_ == Phase::kOpen) Close(rpc::ToGrpcStatus(base::DrainingError()), kEndingTimeoutMs);
    return;
  }
  if (!std::exchange(drain_sent_, true)) send_drain_ = true;
  Pump();
}

void SubscriberStream::OnSweep(base::Now now) {
  if (phase_ == Phase::kAwaitStart && now.mono_ms >= opened_mono_ms_ + kStartTimeoutMs) {
    return Fail(InvalidSubscribeError("start", "no request within 10 s"));
  }
  if (phase_ == Phase::kClosing && now.mono_ms >= close_by_mono_ms_) {
    return End(closing_status_);
  }
  if (phase_ == Phase::kOpen && watch_.Gone(api_->context())) {
    return Fail(SubscriptionNotFoundError(topic_, subscription_));
  }
  if (absl::Status status = caller_.Recheck(now, access::Verb::kSubscribe, topic_); !status.ok()) {
    return Fail(status);
  }
  if (phase_ == Phase::kOpen && !writing() &&
      now.mono_ms >= last_write_mono_ms_ + api_->context().options.heartbeat_ms) {
    send_heartbeat_ = true;
    Pump();
  }
}

void SubscriberStream::Fail(const absl::Status& status) {
  caller_.AuditEnd(MethodOf<v1::SubscribeRequest>(), topic_, status);
  closed_by_server_ = true;
  End(rpc::ToGrpcStatus(status));
}

}  // namespace duetime::api
