// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/subscription_handlers.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "duetime/v1/admin.pb.h"
#include "server/base/check.h"
#include "server/delivery/backlog_place.h"
#include "server/rpc/message_io.h"
#include "server/rpc/page_token.h"
#include "server/rpc/proto_time.h"
#include "server/rpc/query_validation.h"
#include "server/rpc/subscription_settings.h"
#include "server/rpc/validation_error.h"

namespace duetime::rpc {
namespace {

using Subscription = SubscriptionRegistry::Subscription;

void FillSubscription(const Subscription& from, absl::string_view topic, v1::Subscription* to) {
  to->set_topic(std::string(topic));
  to->set_name(from.name);
  ToProto(from.settings, to->mutable_settings());
  SetTimestamp(from.create_ms, to->mutable_create_time());
}

void Add(const delivery::SubscriptionGauges& part, delivery::SubscriptionGauges* sum) {
  sum->ready += part.ready;
  sum->in_flight += part.in_flight;
  sum->delayed += part.delayed;
  sum->blocked += part.blocked;
  // Each shard knows every stream.
  sum->streams = std::max(sum->streams, part.streams);
  sum->behind |= part.behind;
  sum->slowed |= part.slowed;
  sum->delivered += part.delivered;
  sum->acked += part.acked;
  sum->dead_lettered += part.dead_lettered;
  sum->dropped += part.dropped;
}

void FillCounts(const delivery::SubscriptionGauges& sum, v1::SubscriptionCounts* counts) {
  counts->set_ready(static_cast<int64_t>(sum.ready));
  counts->set_in_flight(static_cast<int64_t>(sum.in_flight));
  counts->set_delayed(static_cast<int64_t>(sum.delayed));
  counts->set_blocked(static_cast<int64_t>(sum.blocked));
  counts->set_streams(static_cast<int64_t>(sum.streams));
  counts->set_behind(sum.behind);
  counts->set_slowed(sum.slowed);
  if (sum.oldest_due_ms > 0) SetTimestamp(sum.oldest_due_ms, counts->mutable_oldest_due_time());
  counts->set_delivered(static_cast<int64_t>(sum.delivered));
  counts->set_acked(static_cast<int64_t>(sum.acked));
  counts->set_dead_lettered(static_cast<int64_t>(sum.dead_lettered));
  counts->set_dropped(static_cast<int64_t>(sum.dropped));
}

// Of a GetSubscription.
struct GaugesState final : CallState {
  absl::string_view topic;
  Subscription subscription;
  delivery::SubscriptionGauges sum;
  absl::Status status;
  size_t open = 0;
  // Where the backlogs go on, by shard.
  std::vector<std::pair<uint16_t, storage::MessageKey>> backlogs;
};

void TakeOldest(uint64_t due_ms, delivery::SubscriptionGauges* sum) {
  if (due_ms == 0) return;
  sum->oldest_due_ms = sum->oldest_due_ms == 0 ? due_ms : std::min(sum->oldest_due_ms, due_ms);
}

// What the backlogs begin with may be older than what is in memory.
absl::Status ReadOldest(storage::MessageStore* store, GaugesState* state) {
  for (const auto& [shard, from] : state->backlogs) {
    storage::Page<storage::BacklogRef> page;
    absl::Status status =
        store->ScanBacklog(shard, state->subscription.id, from, {.entries = 1, .bytes = 1}, &page);
    if (!status.ok()) return status;
    if (!page.items.empty()) TakeOldest(delivery::KeyOf(page.items[0]).due_ms, &state->sum);
  }
  return absl::OkStatus();
}

void AnswerWithCounts(UnaryCall* call, const GaugesState& state) {
  v1::GetSubscriptionResponse response;
  FillSubscription(state.subscription, state.topic, response.mutable_subscription());
  FillCounts(state.sum, response.mutable_subscription()->mutable_counts());
  call->Finish(response);
}

// The topic and the name that a request names.
struct Named {
  TopicRegistry::Topic topic;
  std::string name;
};

absl::Status FindNamed(TopicRegistry* topics, absl::string_view topic, absl::string_view name,
                       const std::string& prefix, Named* named) {
  absl::string_view valid;
  absl::Status status = ValidateTopic(topic, absl::StrCat(prefix, "topic"));
  if (status.ok()) status = ValidateSubscription(name, absl::StrCat(prefix, "name"), &valid);
  if (!status.ok()) return status;
  const auto found = topics->Find(topic);
  if (!found.has_value()) return TopicNotFoundError(topic);
  named->topic = *found;
  named->name = std::string(valid);
  return absl::OkStatus();
}

absl::Status ReadStart(v1::CreateSubscriptionRequest::Start start, bool* from_now) {
  using Request = v1::CreateSubscriptionRequest;
  *from_now = start != Request::ALL;
  if (start == Request::START_UNSPECIFIED || start == Request::NEW || start == Request::ALL) {
    return absl::OkStatus();
  }
  return Invalid("INVALID_SUBSCRIPTION", "start", absl::StrCat("unknown value ", start),
                 {{"value", absl::StrCat(start)}});
}

}  // namespace

template <typename Response>
SubscriptionChanges::Done SubscriptionHandlers::AnswerWith(UnaryCall* call,
                                                           const TopicRegistry::Topic& topic,
                                                           const std::string& name) {
  return [this, call, topic, name](const absl::Status& status) {
    if (!status.ok()) return call->FinishWithError(status);
    const auto found = env_.context->subscriptions.Find(topic.id, name);
    // Deleted again before this could be said.
    if (!found.has_value()) {
      return call->FinishWithError(SubscriptionNotFoundError(topic.name, name));
    }
    Response response;
    FillSubscription(*found, topic.name, response.mutable_subscription());
    call->Finish(response);
  };
}

void SubscriptionHandlers::Create(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kSchedule); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::CreateSubscriptionRequest request;
  SubscriptionChanges::Wish wish;
  absl::string_view name;
  absl::Status status = ParseRequest(call->request(), &request);
  const v1::Subscription& asked = request.subscription();
  if (status.ok()) status = ValidateTopic(asked.topic(), "subscription.topic");
  if (status.ok()) status = ValidateSubscription(asked.name(), "subscription.name", &name);
  if (status.ok()) status = ReadStart(request.start(), &wish.from_now);
  if (status.ok()) {
    status = ValidateSubscriptionSettings(asked.settings(), asked.topic(), context->options.limits,
                                          "subscription.settings", &wish.settings);
  }
  if (!status.ok()) return call->FinishWithError(status);
  // One that was deleted is brought back when the turn of this has come: its deletion may be under
  // way.
  if (const auto known = context->topics.FindEvenIfDeleted(asked.topic()); known.has_value()) {
    wish.topic = *known;
  } else if (status = context->topics.Resolve(asked.topic(), TopicRegistry::Use::kSubscribe,
                                              &wish.topic);
             !status.ok()) {
    return call->FinishWithError(status);
  }
  wish.name = std::string(name);
  auto answer = AnswerWith<v1::CreateSubscriptionResponse>(call, wish.topic, wish.name);
  changes_->Create(std::move(wish), std::move(answer));
}

void SubscriptionHandlers::Get(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::GetSubscriptionRequest request;
  Named named;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) {
    status = FindNamed(&context->topics, request.topic(), request.name(), "", &named);
  }
  if (!status.ok()) return call->FinishWithError(status);
  const auto found = context->subscriptions.Find(named.topic.id, named.name);
  if (!found.has_value()) {
    return call->FinishWithError(SubscriptionNotFoundError(named.topic.name, named.name));
  }
  auto state = std::make_shared<GaugesState>();
  state->topic = named.topic.name;
  state->subscription = *found;
  runtime::Node* node = context->node.load();
  for (uint16_t shard = 0; shard < node->shard_count(); ++shard) {
    delivery::InspectSubscriptionCommand command;
    command.tag = call->tag();
    command.position = shard;
    command.subscription = found->id;
    if (status = node->Post(shard, command); status.ok()) ++state->open;
  }
  call->state = state;
  if (state->open == 0) call->FinishWithError(status);
}

void SubscriptionHandlers::OnInspectReply(UnaryCall* call,
                                          const delivery::InspectSubscriptionReply& reply) {
  const auto state = std::static_pointer_cast<GaugesState>(call->state);
  DT_CHECK(state != nullptr && state->open > 0);
  state->status.Update(reply.status);
  if (reply.status.ok()) {
    Add(reply.gauges, &state->sum);
    TakeOldest(reply.gauges.oldest_due_ms, &state->sum);
    if (reply.backlog_from.has_value()) {
      state->backlogs.emplace_back(static_cast<uint16_t>(reply.position), *reply.backlog_from);
    }
  }
  if (--state->open > 0) return;
  // It is being deleted.
  if (!state->status.ok()) {
    return call->FinishWithError(SubscriptionNotFoundError(state->topic, state->subscription.name));
  }
  if (state->backlogs.empty()) return AnswerWithCounts(call, *state);
  env_.ReadThen(call, state, &ReadOldest, [call](GaugesState* of) { AnswerWithCounts(call, *of); });
}

void SubscriptionHandlers::List(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::ListSubscriptionsRequest request;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) status = ValidateTopic(request.topic(), "topic");
  const std::string filter = absl::StrCat("subscriptions;", request.topic());
  size_t page_size = 0;
  std::string after;
  if (status.ok()) {
    status = ValidatePage(request.page_size(), request.page_token(), filter, &page_size, &after);
  }
  if (!status.ok()) return call->FinishWithError(status);
  const auto topic = context->topics.Find(request.topic());
  if (!topic.has_value()) return call->FinishWithError(TopicNotFoundError(request.topic()));
  // One more than asked for tells whether there are more.
  auto list = context->subscriptions.List(topic->id, after, page_size + 1);
  v1::ListSubscriptionsResponse response;
  if (list.size() > page_size) {
    list.resize(page_size);
    response.set_next_page_token(MakePageToken(filter, {.place = {}, .key = list.back().name}));
  }
  for (const Subscription& subscription : list) {
    FillSubscription(subscription, topic->name, response.add_subscriptions());
  }
  call->Finish(response);
}

void SubscriptionHandlers::Update(UnaryCall* call) {
  ServingContext* context = env_.context;
  // Also with the disk nearly full: it may be what empties it.
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::UpdateSubscriptionRequest request;
  Named named;
  delivery::SubscriptionSettings given;
  absl::Status status = ParseRequest(call->request(), &request);
  const v1::Subscription& asked = request.subscription();
  if (status.ok()) {
    status = FindNamed(&context->topics, asked.topic(), asked.name(), "subscription.", &named);
  }
  if (status.ok()) {
    status = ValidateSubscriptionSettings(asked.settings(), asked.topic(), context->options.limits,
                                          "subscription.settings", &given);
  }
  if (!status.ok()) return call->FinishWithError(status);
  const auto edit = [mask = request.update_mask(), given](delivery::SubscriptionSettings* now) {
    return ApplySubscriptionMask(mask, given, now);
  };
  changes_->Update(named.topic, named.name, edit,
                   AnswerWith<v1::UpdateSubscriptionResponse>(call, named.topic, named.name));
}

void SubscriptionHandlers::Delete(UnaryCall* call) {
  ServingContext* context = env_.context;
  if (absl::Status status = context->Admit(CallKind::kOther); !status.ok()) {
    return call->FinishWithError(status);
  }
  v1::DeleteSubscriptionRequest request;
  Named named;
  absl::Status status = ParseRequest(call->request(), &request);
  if (status.ok()) {
    status = FindNamed(&context->topics, request.topic(), request.name(), "", &named);
  }
  if (!status.ok()) return call->FinishWithError(status);
  changes_->Delete(named.topic, named.name, [call](const absl::Status& deleted) {
    if (!deleted.ok()) return call->FinishWithError(deleted);
    call->Finish(v1::DeleteSubscriptionResponse());
  });
}

}  // namespace duetime::rpc
