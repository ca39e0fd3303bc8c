// SPDX-License-Identifier: Apache-2.0
#include "server/api/subscriptions/subscription_handlers.h"

#include <algorithm>
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
#include "server/protocol/commands.h"
#include "server/query/backlog_query.h"

namespace duetime::api {
namespace {

void FillSubscription(const catalog::Subscription& from, absl::string_view topic,
                      v1::Subscription* to) {
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
  // Every shard counts every stream, so take the maximum, not the sum.
  sum->streams = std::max(sum->streams, part.streams);
  sum->behind |= part.behind;
  sum->slowed |= part.slowed;
  sum->delivered += part.delivered;
  sum->acked += part.acked;
  sum->dead_lettered += part.dead_lettered;
  sum->dead_letter_hops_refused += part.dead_letter_hops_refused;
  sum->dropped += part.dropped;
  const auto length = [](const std::optional<protocol::LongestKey>& key) {
    return key.has_value() ? std::pair(key->on_disk, key->waiting) : std::pair(false, uint64_t{0});
  };
  if (length(part.longest_key) > length(sum->longest_key)) sum->longest_key = part.longest_key;
}

void FillCounts(const protocol::SubscriptionGauges& sum, v1::SubscriptionCounts* counts) {
  counts->set_ready(static_cast<int64_t>(sum.ready));
  counts->set_in_flight(static_cast<int64_t>(sum.in_flight));
  counts->set_delayed(static_cast<int64_t>(sum.delayed));
  counts->set_blocked(static_cast<int64_t>(sum.blocked));
  counts->set_streams(static_cast<int64_t>(sum.streams));
  counts->set_behind(sum.behind);
  counts->set_slowed(sum.slowed);
  counts->set_delivered(static_cast<int64_t>(sum.delivered));
  counts->set_acked(static_cast<int64_t>(sum.acked));
  counts->set_dead_lettered(static_cast<int64_t>(sum.dead_lettered));
  counts->set_dead_letter_hops_refused(static_cast<int64_t>(sum.dead_letter_hops_refused));
  counts->set_dropped(static_cast<int64_t>(sum.dropped));
  if (!sum.longest_key.has_value()) return;
  v1::HeldKey* const key = counts->mutable_longest_key();
  key->set_ordering_key(sum.longest_key->ordering_key);
  key->set_message_id(sum.longest_key->holder.ToString());
  key->set_waiting(static_cast<int64_t>(sum.longest_key->waiting));
  key->set_on_disk(sum.longest_key->on_disk);
}

// Reads the backlogs of subscriptions of one topic.
Co<absl::Status> FillBacklogs(ApiWorker& worker, storage::TopicId topic,
                              const std::vector<catalog::SubscriptionPtr>& list,
                              google::protobuf::RepeatedPtrField<v1::Subscription>* to) {
  std::vector<storage::SubscriptionId> ids;
  ids.reserve(list.size());
  for (const catalog::SubscriptionPtr& subscription : list) ids.push_back(subscription->id);
  const uint64_t now_ms = worker.context().clock->Read().wall_ms;
  ReadStore reading(
      worker,
      [topic, ids,
       now_ms](storage::MessageStore* store) -> absl::StatusOr<std::vector<query::Backlog>> {
        std::vector<query::Backlog> backlogs;
        absl::Status read = query::ReadBacklogs(store, topic, ids, now_ms, {}, &backlogs);
        if (!read.ok()) return read;
        return backlogs;
      });
  const auto read = co_await reading;
  if (!read.ok()) co_return read.status();
  for (size_t i = 0; i < read->size(); ++i) {
    v1::SubscriptionBacklog* const backlog = to->Mutable(static_cast<int>(i))->mutable_backlog();
    backlog->set_messages(static_cast<int64_t>((*read)[i].messages));
    if ((*read)[i].oldest_ms == 0) continue;
    SetTimestamp((*read)[i].oldest_ms, backlog->mutable_oldest_due_time());
  }
  co_return absl::OkStatus();
}

// The valid name of the subscription that a request names. The topic exists; the subscription need
// not.
absl::StatusOr<std::string> NameInTopic(ApiWorker& worker, absl::string_view topic,
                                        absl::string_view name, const std::string& prefix) {
  absl::string_view valid;
  absl::Status status = ValidateTopic(topic, absl::StrCat(prefix, "topic"));
  if (status.ok()) status = ValidateSubscription(name, absl::StrCat(prefix, "name"), &valid);
  if (status.ok()) status = worker.context().FindTopic(topic, "topic").status();
  if (!status.ok()) return status;
  return std::string(valid);
}

absl::Status ReadStart(v1::CreateSubscriptionRequest::Start start, bool* from_now) {
  using Request = v1::CreateSubscriptionRequest;
  *from_now = start != Request::START_ALL;
  if (start == Request::START_UNSPECIFIED || start == Request::START_NEW ||
      start == Request::START_ALL) {
    return absl::OkStatus();
  }
  return Invalid("INVALID_SUBSCRIPTION", "start", absl::StrCat("unknown value ", start),
                 {{"value", absl::StrCat(start)}});
}

// Sends a command to the catalog, and fills in the subscription after the change.
template <typename Command>
Co<absl::Status> Change(ApiWorker& worker, Command command, v1::Subscription* response) {
  const std::string topic = command.topic;
  AskCatalog ask(&worker, std::move(command));
  const catalog::Reply reply = co_await ask;
  if (reply.status.ok()) FillSubscription(*reply.subscription, topic, response);
  co_return reply.status;
}

}  // namespace

Co<absl::Status> CreateSubscription(ApiWorker& worker, rpc::Call&,
                                    const v1::CreateSubscriptionRequest& request,
                                    v1::CreateSubscriptionResponse* response) {
  const v1::Subscription& asked = request.subscription();
  catalog::CreateSubscription command;
  command.topic = asked.topic();
  absl::string_view name;
  absl::Status status = ValidateTopic(asked.topic(), "subscription.topic");
  if (status.ok()) status = ValidateSubscription(asked.name(), "subscription.name", &name);
  if (status.ok()) status = ReadStart(request.start(), &command.from_now);
  if (status.ok()) {
    status = ValidateSubscriptionSettings(asked.settings(), asked.topic(),
                                          worker.context().options.limits, "subscription.settings",
                                          &command.settings);
  }
  if (!status.ok()) co_return status;
  command.name = std::string(name);
  co_return co_await Change(worker, std::move(command), response->mutable_subscription());
}

Co<absl::Status> GetSubscription(ApiWorker& worker, rpc::Call&,
                                 const v1::GetSubscriptionRequest& request,
                                 v1::GetSubscriptionResponse* response) {
  const auto name = NameInTopic(worker, request.topic(), request.name(), "");
  if (!name.ok()) co_return name.status();
  const auto found = worker.context().FindSubscription(request.topic(), *name);
  if (found == nullptr) co_return SubscriptionNotFoundError(request.topic(), *name);
  Replies<protocol::InspectSubscriptionReply> replies(&worker);
  replies.PostToAll(protocol::InspectSubscriptionCommand{.subscription = found->id});
  absl::Status status = co_await replies;
  // The subscription is being deleted.
  if (absl::IsNotFound(status)) status = SubscriptionNotFoundError(request.topic(), *name);
  if (!status.ok()) co_return status;
  protocol::SubscriptionGauges sum;
  for (const auto& [shard, reply] : replies.all()) Add(reply.gauges, &sum);
  google::protobuf::RepeatedPtrField<v1::Subscription> one;
  FillSubscription(*found, request.topic(), one.Add());
  FillCounts(sum, one.Mutable(0)->mutable_counts());
  const std::vector<catalog::SubscriptionPtr> list(1, found);
  status = co_await FillBacklogs(worker, found->topic, list, &one);
  response->mutable_subscription()->Swap(one.Mutable(0));
  co_return status;
}

Co<absl::Status> ListSubscriptions(ApiWorker& worker, rpc::Call&,
                                   const v1::ListSubscriptionsRequest& request,
                                   v1::ListSubscriptionsResponse* response) {
  absl::Status status = ValidateTopic(request.topic(), "topic");
  const std::string filter = absl::StrCat("subscriptions;", request.topic());
  size_t page_size = 0;
  std::string after;
  if (status.ok()) {
    status = ValidatePage(request.page_size(), request.page_token(), filter, &page_size, &after);
  }
  if (!status.ok()) co_return status;
  const auto topic = worker.context().FindTopic(request.topic(), "topic");
  if (!topic.ok()) co_return topic.status();
  // One row beyond the page shows if a next page exists.
  auto list = worker.context().catalog().ListSubscriptions((*topic)->id, after, page_size + 1);
  if (list.size() > page_size) {
    list.resize(page_size);
    response->set_next_page_token(MakePageToken(filter, {.place = {}, .key = list.back()->name}));
  }
  for (const catalog::SubscriptionPtr& subscription : list) {
    FillSubscription(*subscription, request.topic(), response->add_subscriptions());
  }
  co_return co_await FillBacklogs(worker, (*topic)->id, list, response->mutable_subscriptions());
}

Co<absl::Status> UpdateSubscription(ApiWorker& worker, rpc::Call&,
                                    const v1::UpdateSubscriptionRequest& request,
                                    v1::UpdateSubscriptionResponse* response) {
  const v1::Subscription& asked = request.subscription();
  const auto name = NameInTopic(worker, asked.topic(), asked.name(), "subscription.");
  if (!name.ok()) co_return name.status();
  const auto mask = SettingsMask::Read(request.update_mask(), "a subscription",
                                       *v1::SubscriptionSettings::descriptor());
  if (!mask.ok()) co_return mask.status();
  v1::SubscriptionSettings given = asked.settings();
  mask->Trim(&given);
  catalog::UpdateSubscription command;
  command.topic = asked.topic();
  command.name = *name;
  // Runs on the catalog's thread, with the settings of that moment.
  command.edit = [mask = *mask, given, topic = asked.topic(),
                  limits = worker.context().options.limits](protocol::SubscriptionSettings* now) {
    return ApplySubscriptionMask(mask, given, topic, limits, now);
  };
  co_return co_await Change(worker, std::move(command), response->mutable_subscription());
}

Co<absl::Status> DeleteSubscription(ApiWorker& worker, rpc::Call&,
                                    const v1::DeleteSubscriptionRequest& request,
                                    v1::DeleteSubscriptionResponse*) {
  const auto name = NameInTopic(worker, request.topic(), request.name(), "");
  if (!name.ok()) co_return name.status();
  AskCatalog ask(&worker, catalog::DeleteSubscription{.topic = request.topic(), .name = *name});
  const catalog::Reply reply = co_await ask;
  co_return reply.status;
}

}  // namespace duetime::api
