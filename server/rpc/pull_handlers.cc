// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pull_handlers.h"

#include <algorithm>
#include <grpcpp/alarm.h>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/rpc/completion_tag.h"
#include "server/rpc/frame_queue.h"
#include "server/rpc/request_validation.h"
#include "server/rpc/stream_directory.h"
#include "server/rpc/subscription_settings.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {

// One Pull, from its request to its answer. The call must not be answered while a shard has yet to
// answer under its tag.
class PullHandlers::PullState final : public CallState,
                                      public StreamSink,
                                      public std::enable_shared_from_this<PullState> {
 public:
  PullState(PullHandlers* owner, UnaryCall* call) : owner_(owner), call_(call) {}
  ~PullState() override { StopCounting(); }

  void AddDeliveries(base::Now now, std::vector<delivery::Delivery> deliveries) override {
    static_cast<void>(now);
    for (auto& delivery : deliveries) deliveries_.push_back(std::move(delivery));
  }
  void AddSettles(const delivery::SettleReply& reply) override { static_cast<void>(reply); }
  void Pump() override {
    if (phase_ == Phase::kWaiting && !deliveries_.empty()) Leave();
  }

  // The subscription is there. Looks what there is.
  void Attach(const SubscriptionRegistry::Subscription& subscription);
  // All shards have answered, or one.
  void OnShard();
  // Nothing more is to come: the time is up, or the client is gone, or the server ends.
  void Stop() {
    stopped_ = true;
    if (phase_ == Phase::kWaiting) Leave();
  }
  void OnClientGone() {
    gone_ = true;
    Stop();
  }
  void OnSweep() {
    if (phase_ == Phase::kWaiting && SubscriptionGone()) Leave();
  }
  // The shards say nothing more, and the call is not this one's any more.
  void Abandon() {
    phase_ = Phase::kOver;
    owner_->env_.streams->Remove(id_);
    if (held_by_alarm_ != nullptr) alarm_.Cancel();
  }

  // It is no stream any more.
  void StopCounting() {
    if (std::exchange(counted, false)) owner_->env_.context->streams.fetch_sub(1);
  }

  TopicRegistry::Topic topic;
  std::string name;
  ValidStart start;
  uint64_t wait_ms = 0;
  bool counted = false;
  // Of the registry when the subscription was last known to be there.
  uint64_t seen_version = 0;

 private:
  enum class Phase : uint8_t {
    // The subscription is being made.
    kMaking,
    // Every shard looks once.
    kLooking,
    kWaiting,
    // The shards are being told that it is over.
    kLeaving,
    kOver,
  };

  void AskAll();
  void Leave();
  bool SubscriptionGone() {
    return owner_->env_.context->subscriptions.Gone(topic.id, name, made_, &seen_version);
  }
  void Answer();
  void OnAlarm(bool ok);
  runtime::Node* node() { return owner_->env_.context->node.load(); }

  PullHandlers* const owner_;
  UnaryCall* const call_;
  Phase phase_ = Phase::kMaking;
  delivery::StreamId id_{};
  uint64_t made_ = 0;
  // Shards that have yet to answer.
  size_t open_ = 0;
  bool stopped_ = false;
  bool gone_ = false;
  // Its subscription was deleted before there was something: what comes is for others.
  bool lost_ = false;
  std::vector<delivery::Delivery> deliveries_;
  MemberTag<PullState, &PullState::OnAlarm> alarm_tag_{this};
  grpc::Alarm alarm_;
  // The alarm is set, and comes back in any case.
  std::shared_ptr<PullState> held_by_alarm_;
};

// One Settle.
class PullHandlers::SettleState final : public CallState, public StreamSink {
 public:
  SettleState(PullHandlers* owner, UnaryCall* call) : owner_(owner), call_(call) {}

  void AddDeliveries(base::Now now, std::vector<delivery::Delivery> deliveries) override {
    static_cast<void>(now);
    DT_CHECK(deliveries.empty());  // it has no credit
  }
  void AddSettles(const delivery::SettleReply& reply) override;
  void Pump() override {
    if (open == 0) Finish(absl::OkStatus());
  }
  void Finish(const absl::Status& status);

  delivery::StreamId id{};
  // Tokens that a shard has yet to answer.
  size_t open = 0;
  v1::SettleResponse response;

 private:
  PullHandlers* const owner_;
  UnaryCall* const call_;
};

// ---- Pull --------------------------------------------------------------------------------------

void PullHandlers::PullState::Attach(const SubscriptionRegistry::Subscription& subscription) {
  id_ = owner_->env_.streams->Add(this);
  made_ = subscription.made;
  const uint64_t lease_ms = LeaseMs(start, subscription.settings);
  const auto credit = std::make_shared<delivery::StreamCredit>(start.max_outstanding_messages,
                                                               start.max_outstanding_bytes);
  for (uint16_t shard = 0; shard < node()->shard_count(); ++shard) {
    delivery::AttachCommand command;
    command.stream = id_;
    command.topic = topic.id;
    command.subscription = subscription.id;
    command.lease_ms = lease_ms;
    command.credit = credit;
    static_cast<void>(node()->Post(shard, std::move(command)));
  }
  phase_ = Phase::kLooking;
  AskAll();
}

// A shard's answer comes behind all deliveries that it made before.
void PullHandlers::PullState::AskAll() {
  for (uint16_t shard = 0; shard < node()->shard_count(); ++shard) {
    if (node()->Post(shard, delivery::EchoCommand{.tag = call_->tag()}).ok()) ++open_;
  }
  if (open_ == 0) Answer();  // the shards take nothing more
}

void PullHandlers::PullState::OnShard() {
  DT_CHECK_GT(open_, 0u);
  if (--open_ > 0) return;
  if (phase_ == Phase::kLeaving) return Answer();
  DT_CHECK(phase_ == Phase::kLooking);
  phase_ = Phase::kWaiting;
  if (stopped_ || wait_ms == 0 || !deliveries_.empty()) return Leave();
  held_by_alarm_ = shared_from_this();
  owner_->env_.set_alarm(wait_ms, &alarm_, &alarm_tag_);
}

void PullHandlers::PullState::OnAlarm(bool ok) {
  const std::shared_ptr<PullState> self = std::move(held_by_alarm_);
  if (ok) Stop();
}

void PullHandlers::PullState::Leave() {
  phase_ = Phase::kLeaving;
  if (held_by_alarm_ != nullptr) alarm_.Cancel();
  lost_ = SubscriptionGone();
  for (uint16_t shard = 0; shard < node()->shard_count(); ++shard) {
    delivery::DetachCommand command;
    command.stream = id_;
    command.keep_leases = !gone_ && !lost_;
    static_cast<void>(node()->Post(shard, std::move(command)));
  }
  AskAll();
}

void PullHandlers::PullState::Answer() {
  const std::shared_ptr<PullState> self = shared_from_this();
  const HandlerEnv& env = owner_->env_;
  env.streams->Remove(id_);
  owner_->pulls_.erase(call_);
  StopCounting();
  if (gone_) return call_->FinishWithError(absl::CancelledError("the client has gone"));
  if (lost_) return call_->FinishWithError(SubscriptionNotFoundError(topic.name, name));
  v1::PullResponse response;
  storage::MessageRecord record;
  std::vector<delivery::LeaseToken> damaged;
  for (const delivery::Delivery& delivery : deliveries_) {
    if (storage::DecodeMessageRecord(delivery.record, &record).ok()) {
      FillDelivery(delivery, record, response.add_deliveries());
    } else {
      damaged.push_back(delivery.token);
    }
  }
  if (!damaged.empty()) env.context->GiveBackDamaged(id_, damaged);
  if (response.deliveries().empty()) {
    absl::Status status = env.context->Admit(CallKind::kSubscribe);
    if (!status.ok()) return call_->FinishWithError(status);
  }
  call_->Finish(response);
}

void PullHandlers::Pull(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kSubscribe); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::PullRequest request;
  auto pull = std::make_shared<PullState>(this, call);
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) {
    status = ValidatePull(request, context->options.limits, &pull->start, &pull->wait_ms);
  }
  if (status.ok()) {
    pull->counted = true;
    if (context->streams.fetch_add(1) >= context->options.streams_max) {
      status = StreamLimitError(context->options.streams_max);
    }
  }
  if (status.ok()) {
    status = context->Resolve(pull->start.topic, TopicRegistry::Use::kSubscribe, &pull->topic);
  }
  if (!status.ok()) return call->FinishWithError(status);
  pull->name = std::string(pull->start.subscription);
  // The request is gone when this call is over.
  pull->start.topic = pull->start.subscription = pull->start.client_id = {};
  call->state = pull;
  pull->seen_version = context->subscriptions.version();
  pulls_.emplace(call, pull);
  changes_->Find(pull->topic, pull->name,
                 [this, call, pull](absl::StatusOr<SubscriptionRegistry::Subscription> found) {
                   if (found.ok()) return pull->Attach(*found);
                   pulls_.erase(call);
                   call->FinishWithError(found.status());
                 });
}

void PullHandlers::OnEcho(UnaryCall* call) {
  const auto found = pulls_.find(call);
  DT_CHECK(found != pulls_.end());
  const std::shared_ptr<PullState> pull = found->second;
  pull->OnShard();
}

void PullHandlers::OnCallGone(UnaryCall* call) {
  const auto found = pulls_.find(call);
  if (found == pulls_.end()) return;
  const std::shared_ptr<PullState> pull = found->second;
  pull->OnClientGone();
}

void PullHandlers::OnServingState() {
  const ServingState state = env_.context->state.load();
  if (state == ServingState::kStarting || state == ServingState::kServing) return;
  for (const auto& pull : Pulls()) pull->Stop();
  if (state != ServingState::kStorageFailed) return;
  std::vector<std::shared_ptr<SettleState>> settles;
  for (const auto& [call, settle] : settles_) settles.push_back(settle);
  for (const auto& settle : settles) settle->Finish(base::StorageFailedError());
}

void PullHandlers::OnSweep() {
  if (pulls_.empty()) return;
  for (const auto& pull : Pulls()) pull->OnSweep();
}

void PullHandlers::Abandon() {
  for (const auto& [call, pull] : pulls_) pull->Abandon();
  pulls_.clear();
  for (const auto& [call, settle] : settles_) env_.streams->Remove(settle->id);
  settles_.clear();
}

std::vector<std::shared_ptr<PullHandlers::PullState>> PullHandlers::Pulls() const {
  std::vector<std::shared_ptr<PullState>> pulls;
  for (const auto& [call, pull] : pulls_) pulls.push_back(pull);
  return pulls;
}

// ---- Settle ------------------------------------------------------------------------------------

void PullHandlers::SettleState::AddSettles(const delivery::SettleReply& reply) {
  for (const delivery::LeaseToken token : reply.settled) {
    response.add_settled(static_cast<uint64_t>(token));
  }
  for (const delivery::LeaseToken token : reply.extended) {
    response.add_extended(static_cast<uint64_t>(token));
  }
  for (const auto& [token, refusal] : reply.refused) {
    v1::SettleRefusal* refused = response.add_refused();
    refused->set_lease_token(static_cast<uint64_t>(token));
    refused->set_reason(ToProto(refusal));
  }
  const size_t answered = reply.settled.size() + reply.extended.size() + reply.refused.size();
  open -= std::min(open, answered);
}

void PullHandlers::SettleState::Finish(const absl::Status& status) {
  owner_->env_.streams->Remove(id);
  // The call holds this, too.
  owner_->settles_.erase(call_);
  if (!status.ok()) return call_->FinishWithError(status);
  call_->Finish(response);
}

void PullHandlers::Settle(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  const auto settles_max = static_cast<size_t>(context->options.limits.outstanding_messages_max);
  v1::SettleRequest request;
  WireSummary summary;
  absl::Status status = CheckRequest(call->request(), v1::SettleRequest::GetDescriptor(), &summary);
  size_t count = summary.elements;
  if (status.ok() && count <= settles_max) {
    status = ParseChecked(call->request(), &request);
    count += static_cast<size_t>(request.ack_size());
  }
  if (status.ok() && count > settles_max) {
    status = OverLimit("INVALID_SETTLE", "ack", count, settles_max, "settlements");
  }
  if (status.ok() && request.dead_letter_size() > 0) {
    status = PrepareDeadLetters(request.topic());
  }
  if (!status.ok()) return call->FinishWithError(status);

  auto settle = std::make_shared<SettleState>(this, call);
  settle->id = env_.streams->Add(settle.get());
  runtime::Node* node = context->node.load();
  RoutedSettles routed;
  RouteSettles(request, settle->id, node->shard_count(), &routed);
  for (const auto& [token, reason] : routed.refused) {
    v1::SettleRefusal* refused = settle->response.add_refused();
    refused->set_lease_token(static_cast<uint64_t>(token));
    refused->set_reason(reason);
  }
  settle->open = routed.posted;
  call->state = settle;
  settles_.emplace(call, settle);
  for (uint16_t shard = 0; shard < routed.by_shard.size() && status.ok(); ++shard) {
    if (IsEmpty(routed.by_shard[shard])) continue;
    status = node->Post(shard, std::move(routed.by_shard[shard]));
  }
  // Refused only when the server ends: then it is not known what became of the others.
  if (!status.ok() || settle->open == 0) settle->Finish(status);
}

absl::Status PullHandlers::PrepareDeadLetters(const std::string& name) {
  if (absl::Status status = ValidateTopic(name, "topic"); !status.ok()) return status;
  const auto topic = env_.context->topics.Find(name);
  if (!topic.has_value()) return TopicNotFoundError(name);
  // If there is none and none can be made, the shards say so of those whose subscription names
  // none.
  TopicRegistry::Topic dead_letters;
  static_cast<void>(env_.context->DeadLettersOf(*topic, &dead_letters));
  return absl::OkStatus();
}

}  // namespace duetime::rpc
