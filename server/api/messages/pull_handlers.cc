// SPDX-License-Identifier: Apache-2.0
#include "server/api/messages/pull_handlers.h"

#include <algorithm>
#include <coroutine>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/api/access/authorization.h"
#include "server/api/await.h"
#include "server/api/messages/frame_queue.h"
#include "server/api/messages/settle_routing.h"
#include "server/api/request_validation.h"
#include "server/api/subscriptions/subscription_watch.h"
#include "server/api/unary.h"
#include "server/base/check.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "server/protocol/lease_token.h"
#include "server/protocol/stream_credit.h"
#include "server/rpc/stream_count.h"

namespace duetime::api {
namespace {

bool IsEnding(ServingState state) {
  return state == ServingState::kDraining || state == ServingState::kStorageFailed;
}

// One Pull in all shards. The first shard that has messages ends the wait of the others. The wait
// also ends with the client, the subscription or the server.
class PulledShards final : public StateListener {
 public:
  PulledShards(ApiWorker* worker, rpc::Call* call)
      : worker_(worker), call_(call), replies_(worker) {
    worker_->AddListener(this);
    call_->on_gone = [this] { End(/*keep_leases=*/false); };
  }
  ~PulledShards() {
    worker_->RemoveListener(this);
    call_->on_gone = nullptr;
  }
  PulledShards(const PulledShards&) = delete;
  PulledShards& operator=(const PulledShards&) = delete;

  // Sends the Pull to every shard.
  void Start(const catalog::SubscriptionPtr& subscription, const ValidStart& start,
             uint64_t wait_ms) {
    watch_ = SubscriptionWatch(subscription);
    id_ = worker_->streams().NewId();
    protocol::PullCommand command;
    command.stream = id_;
    command.topic = subscription->topic;
    command.subscription = subscription->id;
    command.lease_ms = LeaseMs(start, subscription->settings);
    command.credit = std::make_shared<protocol::StreamCredit>(start.max_outstanding_messages,
                                                              start.max_outstanding_bytes);
    const bool ending = IsEnding(worker_->context().state.load()) || call_->gone();
    command.wait_ms = ending ? 0 : wait_ms;
    if (worker_->context().clock_driver != nullptr && command.wait_ms > 0) {
      // A client waits by the machine's clock.
      end_machine_ms_ = worker_->context().machine_clock->Read().mono_ms + command.wait_ms;
      command.wait_ms = storage::MessageId::kDueMax;
    }
    command.budget = worker_->context().open_answers;
    command.client_id = std::string(start.client_id);
    replies_.on_reply = [this](auto& from) {
      const bool more_to_wait_for = from.reply.deliveries.empty() && from.reply.status.ok();
      if (!more_to_wait_for) End(/*keep_leases=*/true);
    };
    replies_.PostToAll(command);
  }
  Replies<protocol::PullReply>& replies() { return replies_; }
  protocol::StreamId id() const { return id_; }

  // True if the deliveries are for another subscription or for a client that has gone. Their leases
  // then end.
  bool Void() {
    if (!call_->gone() && !watch_.Gone(worker_->context())) return false;
    End(/*keep_leases=*/false);
    return true;
  }

  void OnServingState() override {
    if (IsEnding(worker_->context().state.load())) End(/*keep_leases=*/true);
  }
  void OnSweep() override {
    if (id_ != protocol::StreamId{} && watch_.Gone(worker_->context())) End(/*keep_leases=*/false);
    const bool waits = end_machine_ms_ != 0;
    if (waits && worker_->context().machine_clock->Read().mono_ms >= end_machine_ms_) {
      End(/*keep_leases=*/true);
    }
  }

 private:
  void End(bool keep_leases) {
    if (id_ == protocol::StreamId{}) return;  // Start checks the states
    if (keep_leases ? std::exchange(ended_, true) : std::exchange(released_, true)) return;
    for (uint16_t shard = 0; shard < worker_->node().shard_count(); ++shard) {
      worker_->node().PostAlways(
          shard, protocol::EndPullCommand{.stream = id_, .keep_leases = keep_leases});
    }
  }

  ApiWorker* const worker_;
  rpc::Call* const call_;
  SubscriptionWatch watch_;
  protocol::StreamId id_{};
  // With a test clock: when the wait ends, on the machine's clock. 0: it does not wait.
  uint64_t end_machine_ms_ = 0;
  bool ended_ = false;
  bool released_ = false;
  Replies<protocol::PullReply> replies_;
};

// One Settle: co_await returns when the shards have answered every token, or the storage has
// failed.
class SettledTokens final : public StreamSink, public StateListener {
 public:
  explicit SettledTokens(ApiWorker* worker) : worker_(worker), id_(worker->streams().Add(this)) {
    worker_->AddListener(this);
  }
  ~SettledTokens() override {
    worker_->RemoveListener(this);
    worker_->streams().Remove(id_);
  }
  SettledTokens(const SettledTokens&) = delete;
  SettledTokens& operator=(const SettledTokens&) = delete;

  protocol::StreamId id() const { return id_; }
  v1::SettleResponse& response() { return response_; }

  // Sends the settlements to their shards.
  absl::Status Post(RoutedSettles routed) {
    for (auto& [token, reason] : routed.refused) *AddRefused(reason) = std::move(token);
    open_ = routed.posted;
    return Post(std::move(routed.by_shard));
  }
  // Dead letters whose topics have no dead-letter topic, so far as the shards know.
  const std::vector<protocol::RefusedSettlement>& letters() const { return letters_; }
  // Sends those of this topic again.
  absl::Status SendAgain(storage::TopicId topic) {
    const size_t before = letters_.size();
    auto by_shard = AgainByShard(topic, id_, worker_->node().shard_count(), &letters_);
    open_ += before - letters_.size();
    return Post(std::move(by_shard));
  }

  void AddDeliveries(base::Now, std::vector<protocol::Delivery> deliveries) override {
    DT_CHECK(deliveries.empty());  // a Settle has no credit
  }
  void AddSettles(const protocol::SettleReply& reply) override {
    for (const auto token : reply.settled) protocol::WriteLease(token, response_.add_settled());
    for (const auto token : reply.extended) protocol::WriteLease(token, response_.add_extended());
    for (const protocol::RefusedSettlement& refused : reply.refused) {
      if (refused.topic != storage::TopicId{}) {
        letters_.push_back(refused);
      } else {
        protocol::WriteLease(refused.token, AddRefused(api::ToProto(refused.refusal)));
      }
    }
    const size_t answered = reply.settled.size() + reply.extended.size() + reply.refused.size();
    open_ -= std::min(open_, answered);
  }
  void Pump() override {
    if (open_ == 0 && waiting_) std::exchange(waiting_, {}).resume();
  }
  void OnServingState() override {
    if (worker_->context().state.load() != ServingState::kStorageFailed || !waiting_) return;
    status_ = base::StorageFailedError();
    std::exchange(waiting_, {}).resume();
  }
  void OnSweep() override {}

  bool await_ready() const { return open_ == 0; }
  void await_suspend(std::coroutine_handle<> waiting) { waiting_ = waiting; }
  absl::Status await_resume() { return status_; }

 private:
  absl::Status Post(std::vector<protocol::SettleCommand> by_shard) {
    for (uint16_t shard = 0; shard < by_shard.size(); ++shard) {
      if (by_shard[shard].empty()) continue;
      absl::Status status = worker_->node().Post(shard, std::move(by_shard[shard]));
      // Post fails only when the server ends. The outcome of the other settlements is then unknown.
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  // Returns where to put the token.
  std::string* AddRefused(v1::SettleRefusal::Reason reason) {
    v1::SettleRefusal* refused = response_.add_refused();
    refused->set_reason(reason);
    return refused->mutable_lease_token();
  }

  ApiWorker* const worker_;
  const protocol::StreamId id_;
  // Tokens that no shard has answered yet.
  size_t open_ = 0;
  std::vector<protocol::RefusedSettlement> letters_;
  absl::Status status_;
  v1::SettleResponse response_;
  std::coroutine_handle<> waiting_;
};

// Finds the subscription of a Pull. If the server creates subscriptions by use, creates a missing
// one with its topic.
Co<absl::StatusOr<catalog::SubscriptionPtr>> EnsureSubscription(ApiWorker& worker,
                                                                std::string topic,
                                                                std::string name) {
  if (auto found = worker.context().FindSubscription(topic, name); found != nullptr) {
    co_return found;
  }
  AskCatalog ask(&worker, catalog::CreateSubscription{
                              .topic = std::move(topic), .name = std::move(name), .by_use = true});
  catalog::Reply reply = co_await ask;
  if (!reply.status.ok()) co_return reply.status;
  co_return std::move(reply.subscription);
}

}  // namespace

Co<absl::Status> Pull(ApiWorker& worker, rpc::Call& call, const v1::PullRequest& request,
                      v1::PullResponse* response) {
  ServingContext& context = worker.context();
  ValidStart start;
  uint64_t wait_ms = 0;
  absl::Status status = ValidatePull(request, context.options.limits, &start, &wait_ms);
  if (!status.ok()) co_return status;
  const rpc::StreamCount count(&context.streams, context.options.streams_max);
  if (status = count.status(); !status.ok()) co_return status;
  const std::string topic(start.topic);
  const std::string name(start.subscription);
  PulledShards shards(&worker, &call);
  const auto subscription = co_await EnsureSubscription(worker, topic, name);
  if (!subscription.ok()) co_return subscription.status();
  shards.Start(*subscription, start, wait_ms);
  auto& replies = shards.replies();
  // A shard refuses a Pull while the server ends, or without room for the answer. The call still
  // returns the messages of the other shards.
  const absl::Status refused = co_await replies;
  if (shards.Void()) {
    if (call.gone()) co_return absl::CancelledError("the client has gone");
    co_return SubscriptionNotFoundError(topic, name);
  }
  storage::MessageRecord record;
  std::vector<protocol::LeaseToken> damaged;
  for (const auto& [shard, reply] : replies.all()) {
    for (const protocol::Delivery& delivery : reply.deliveries) {
      if (storage::DecodeMessageRecord(delivery.record, &record).ok()) {
        FillDelivery(delivery, record, response->add_deliveries());
      } else {
        damaged.push_back(delivery.token);
      }
    }
  }
  if (!damaged.empty()) context.GiveBackDamaged(shards.id(), damaged);
  if (!response->deliveries().empty()) co_return absl::OkStatus();
  status = context.Admit(CallKind::kSubscribe);
  co_return status.ok() ? refused : status;
}

CallTask Settle(ApiWorker& worker, rpc::Call& call) {
  v1::SettleRequest request;
  absl::Status status = ParseSettles(worker.context().options.limits, call.request(), &request);
  if (status.ok()) status = Authorize(worker, call, request);
  if (status.ok()) status = worker.context().Admit(CallKind::kOther);
  const rpc::OpenCount count(&worker.context().settle_calls,
                             worker.context().node_options.mailbox.commands_max);
  if (status.ok()) status = count.Admit("Settle calls");
  if (!status.ok()) co_return call.FinishWithError(status);
  SettledTokens settled(&worker);
  RoutedSettles routed;
  RouteSettles(request, settled.id(), worker.node().shard_count(), &routed);
  status = settled.Post(std::move(routed));
  if (status.ok()) status = co_await settled;
  while (status.ok() && !settled.letters().empty()) {
    const storage::TopicId id = settled.letters().front().topic;
    const catalog::TopicPtr topic = worker.context().catalog().TopicOf(id);
    // If the dead-letter topic cannot be created, the shards refuse the dead letters for good. A
    // topic that is deleted meanwhile must not come back.
    if (topic != nullptr && topic->exists()) {
      AskCatalog ask(
          &worker, catalog::EnsureTopic{.name = std::string(topic->name()), .dead_letters = true});
      static_cast<void>(co_await ask);
    }
    // The journal may have failed in the meantime; then no shard answers.
    status = worker.context().Admit(CallKind::kOther);
    if (status.ok()) status = settled.SendAgain(id);
    if (status.ok()) status = co_await settled;
  }
  call.Finish(status, settled.response());
}

}  // namespace duetime::api
