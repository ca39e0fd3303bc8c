// SPDX-License-Identifier: Apache-2.0
#include "server/api/subscriptions/subscription_handlers.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/api/await.h"
#include "server/api/page_token.h"
#include "server/api/proto_time.h"
#include "server/api/query_validation.h"
#include "server/api/subscriptions/subscription_settings.h"
#include "server/api/validation_error.h"
#include "server/delivery/backlog_place.h"
#include "server/protocol/commands.h"

namespace duetime::api {
namespace {

using Subscription = SubscriptionRegistry::Subscription;

void FillSubscription(const Subscription& from, absl::string_view topic, v1::Subscription* to) {
  to->set_topic(std::string(topic));
  to->set_name(from.name);
  ToProto(from.settings, to->mutable_settings());
  SetTimestamp(from.create_ms, to->mutable_create_time());
}

void Add(const protocol::SubscriptionGauges& part, protocol::SubscriptionGauges* sum) {
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

void FillCounts(const protocol::SubscriptionGauges& sum, v1::SubscriptionCounts* counts) {
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

void TakeOldest(uint64_t due_ms, protocol::SubscriptionGauges* sum) {
  if (due_ms == 0) return;
  sum->oldest_due_ms = sum->oldest_due_ms == 0 ? due_ms : std::min(sum->oldest_due_ms, due_ms);
}

// The place of a subscription's backlog in one shard.
using Backlogs = std::vector<std::pair<uint16_t, storage::MessageKey>>;

// The due times of the first messages of backlogs, 0 where there is none.
absl::StatusOr<std::vector<uint64_t>> ReadOldest(storage::MessageStore* store,
                                                 storage::SubscriptionId subscription,
                                                 const Backlogs& backlogs) {
  std::vector<uint64_t> oldest;
  for (const auto& [shard, from] : backlogs) {
    storage::Page<storage::BacklogRef> page;
    absl::Status status =
        store->ScanBacklog(shard, subscription, from, {.entries = 1, .bytes = 1}, &page);
    if (!status.ok()) return status;
    oldest.push_back(page.items.empty() ? 0 : delivery::KeyOf(page.items[0]).due_ms);
  }
  return oldest;
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

// Fills in the subscription as it is now. NOT_FOUND if it was deleted again.
absl::Status FillNow(ApiWorker& worker, const TopicRegistry::Topic& topic, const std::string& name,
                     v1::Subscription* response) {
  const auto found = worker.context().subscriptions.Find(topic.id, name);
  if (!found.has_value()) return SubscriptionNotFoundError(topic.name, name);
  FillSubscription(*found, topic.name, response);
  return absl::OkStatus();
}

}  // namespace

Co<absl::Status> CreateSubscription(ApiWorker& worker, rpc::UnaryCall&,
                                    const v1::CreateSubscriptionRequest& request,
                                    v1::CreateSubscriptionResponse* response) {
  ServingContext& context = worker.context();
  SubscriptionChanges::Wish wish;
  absl::string_view name;
  const v1::Subscription& asked = request.subscription();
  absl::Status status = ValidateTopic(asked.topic(), "subscription.topic");
  if (status.ok()) status = ValidateSubscription(asked.name(), "subscription.name", &name);
  if (status.ok()) status = ReadStart(request.start(), &wish.from_now);
  if (status.ok()) {
    status = ValidateSubscriptionSettings(asked.settings(), asked.topic(), context.options.limits,
                                          "subscription.settings", &wish.settings);
  }
  if (!status.ok()) co_return status;
  // A deleted topic is brought back in the turn of this change: its deletion may be under way.
  if (const auto known = context.topics.FindEvenIfDeleted(asked.topic()); known.has_value()) {
    wish.topic = *known;
  } else {
    status = context.topics.Resolve(asked.topic(), TopicRegistry::Use::kSubscribe, &wish.topic);
    if (!status.ok()) co_return status;
  }
  wish.name = std::string(name);
  const TopicRegistry::Topic topic = wish.topic;
  auto creating = WaitFor<absl::Status>([&](std::function<void(absl::Status)> done) {
    worker.subscription_changes().Create(wish, std::move(done));
  });
  status = co_await creating;
  if (status.ok()) status = FillNow(worker, topic, wish.name, response->mutable_subscription());
  co_return status;
}

Co<absl::Status> GetSubscription(ApiWorker& worker, rpc::UnaryCall&,
                                 const v1::GetSubscriptionRequest& request,
                                 v1::GetSubscriptionResponse* response) {
  ServingContext& context = worker.context();
  Named named;
  absl::Status status = FindNamed(&context.topics, request.topic(), request.name(), "", &named);
  if (!status.ok()) co_return status;
  const auto found = context.subscriptions.Find(named.topic.id, named.name);
  if (!found.has_value()) co_return SubscriptionNotFoundError(named.topic.name, named.name);
  Replies<protocol::InspectSubscriptionReply> replies(&worker);
  replies.PostToAll(protocol::InspectSubscriptionCommand{.subscription = found->id});
  if (replies.open() == 0) co_return replies.status();
  co_await replies;
  protocol::SubscriptionGauges sum;
  Backlogs backlogs;
  for (const auto& [shard, reply] : replies.all()) {
    // It is being deleted.
    if (!reply.status.ok()) co_return SubscriptionNotFoundError(named.topic.name, named.name);
    Add(reply.gauges, &sum);
    TakeOldest(reply.gauges.oldest_due_ms, &sum);
    if (reply.backlog_from.has_value()) backlogs.emplace_back(shard, *reply.backlog_from);
  }
  if (!backlogs.empty()) {
    // The first messages of the backlogs may be older than those in memory.
    ReadStore reading(worker, [id = found->id, backlogs](storage::MessageStore* store) {
      return ReadOldest(store, id, backlogs);
    });
    const auto oldest = co_await reading;
    if (!oldest.ok()) co_return oldest.status();
    for (const uint64_t due_ms : *oldest) TakeOldest(due_ms, &sum);
  }
  FillSubscription(*found, named.topic.name, response->mutable_subscription());
  FillCounts(sum, response->mutable_subscription()->mutable_counts());
  co_return absl::OkStatus();
}

absl::Status ListSubscriptions(ApiWorker& worker, const v1::ListSubscriptionsRequest& request,
                               v1::ListSubscriptionsResponse* response) {
  ServingContext& context = worker.context();
  absl::Status status = ValidateTopic(request.topic(), "topic");
  const std::string filter = absl::StrCat("subscriptions;", request.topic());
  size_t page_size = 0;
  std::string after;
  if (status.ok()) {
    status = ValidatePage(request.page_size(), request.page_token(), filter, &page_size, &after);
  }
  if (!status.ok()) return status;
  const auto topic = context.topics.Find(request.topic());
  if (!topic.has_value()) return TopicNotFoundError(request.topic());
  // One more than asked for tells whether there are more.
  auto list = context.subscriptions.List(topic->id, after, page_size + 1);
  if (list.size() > page_size) {
    list.resize(page_size);
    response->set_next_page_token(MakePageToken(filter, {.place = {}, .key = list.back().name}));
  }
  for (const Subscription& subscription : list) {
    FillSubscription(subscription, topic->name, response->add_subscriptions());
  }
  return absl::OkStatus();
}

Co<absl::Status> UpdateSubscription(ApiWorker& worker, rpc::UnaryCall&,
                                    const v1::UpdateSubscriptionRequest& request,
                                    v1::UpdateSubscriptionResponse* response) {
  ServingContext& context = worker.context();
  Named named;
  protocol::SubscriptionSettings given;
  const v1::Subscription& asked = request.subscription();
  absl::Status status =
      FindNamed(&context.topics, asked.topic(), asked.name(), "subscription.", &named);
  if (status.ok()) {
    status = ValidateSubscriptionSettings(asked.settings(), asked.topic(), context.options.limits,
                                          "subscription.settings", &given);
  }
  if (!status.ok()) co_return status;
  auto updating = WaitFor<absl::Status>([&](std::function<void(absl::Status)> done) {
    const auto edit = [mask = request.update_mask(), given](protocol::SubscriptionSettings* now) {
      return ApplySubscriptionMask(mask, given, now);
    };
    worker.subscription_changes().Update(named.topic, named.name, edit, std::move(done));
  });
  status = co_await updating;
  if (!status.ok()) co_return status;
  co_return FillNow(worker, named.topic, named.name, response->mutable_subscription());
}

Co<absl::Status> DeleteSubscription(ApiWorker& worker, rpc::UnaryCall&,
                                    const v1::DeleteSubscriptionRequest& request,
                                    v1::DeleteSubscriptionResponse*) {
  Named named;
  absl::Status status =
      FindNamed(&worker.context().topics, request.topic(), request.name(), "", &named);
  if (!status.ok()) co_return status;
  auto deleting = WaitFor<absl::Status>([&](std::function<void(absl::Status)> done) {
    worker.subscription_changes().Delete(named.topic, named.name, std::move(done));
  });
  co_return co_await deleting;
}

}  // namespace duetime::api
