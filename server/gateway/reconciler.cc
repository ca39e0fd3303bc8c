// SPDX-License-Identifier: Apache-2.0
#include "server/gateway/reconciler.h"

#include <algorithm>
#include <spdlog/spdlog.h>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"

#include "duetime/v1/admin.pb.h"

namespace duetime::gateway {
namespace {

using google::protobuf::util::MessageDifferencer;

constexpr int kPage = 1'000;

// Asks one cell on the gateway's own behalf.
template <typename Request, typename Response>
Co<absl::Status> AskCell(GatewayWorker* worker, size_t cell, const Request& request,
                         Response* response) {
  const Passed passed = OwnPassed(*worker);
  co_return co_await Ask(*worker, passed, cell, request, response);
}

// Null if there is none of this name.
template <typename Map, typename Key>
const typename Map::mapped_type* FindIn(const Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? nullptr : &it->second;
}

const char* WhatIsWrong(const google::protobuf::Message* has) {
  return has == nullptr ? "is missing" : "differs";
}

}  // namespace

Reconciler::~Reconciler() {
  if (pass_) pass_.destroy();
}

void Reconciler::OnSweep() {
  if (pass_) {
    if (!pass_.done()) return;
    std::exchange(pass_, {}).destroy();
  }
  const uint64_t now_ms = worker_->context().clock->Read().mono_ms;
  if (now_ms < next_mono_ms_ || worker_->shell().ending()) return;
  pass_ = Pass().handle;
}

Background Reconciler::Pass() {
  const size_t cells = worker_->map().size();
  const uint64_t begun_ms = worker_->context().clock->Read().mono_ms;
  std::vector<Seen> seen(cells);
  Seen wanted;
  for (size_t cell = 0; cell < cells; ++cell) {
    const absl::Status status = co_await Look(cell, &seen[cell]);
    seen[cell].answers = status.ok();
    Tell(cell, status);
    if (!status.ok()) continue;
    // What the first cell says counts.
    wanted.topics.insert(seen[cell].topics.begin(), seen[cell].topics.end());
    wanted.subscriptions.insert(seen[cell].subscriptions.begin(), seen[cell].subscriptions.end());
  }
  now_.clear();
  const bool all_answer =
      std::all_of(seen.begin(), seen.end(), [](const Seen& one) { return one.answers; });
  const uint64_t age_ms =
      worker_->context().clock->Read().mono_ms - worker_->context().started.mono_ms;
  const bool may_be_complete = all_answer || age_ms >= kWaitForAllMs;
  bool all_complete = true;
  for (size_t cell = 0; cell < cells; ++cell) {
    bool differs = !seen[cell].answers;
    if (seen[cell].answers) {
      Tell(cell, co_await Mend(cell, wanted, seen[cell], &differs));
    }
    if (may_be_complete && !differs && !worker_->context().complete[cell].exchange(true)) {
      spdlog::info("gateway: the cell {} has all topics and subscriptions",
                   worker_->map().cell(cell).name);
    }
    all_complete = all_complete && worker_->context().complete[cell].load();
  }
  std::swap(before_, now_);
  const uint64_t end_ms = worker_->context().clock->Read().mono_ms;
  next_mono_ms_ = end_ms + std::max(all_complete ? kEveryMs : kFirstEveryMs,
                                    kPauseFactor * (end_ms - begun_ms));
}

Co<absl::Status> Reconciler::Look(size_t cell, Seen* seen) {
  v1::ListTopicsRequest request;
  request.set_page_size(kPage);
  do {
    v1::ListTopicsResponse page;
    const absl::Status status = co_await AskCell(worker_, cell, request, &page);
    if (!status.ok()) co_return status;
    for (const v1::Topic& topic : page.topics()) seen->topics[topic.name()] = topic;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  for (const auto& [name, topic] : seen->topics) {
    const absl::Status status = co_await LookAtSubscriptions(cell, name, seen);
    // It may have been deleted meanwhile.
    if (!status.ok() && !absl::IsNotFound(status)) co_return status;
  }
  co_return absl::OkStatus();
}

Co<absl::Status> Reconciler::LookAtSubscriptions(size_t cell, std::string topic, Seen* seen) {
  v1::ListSubscriptionsRequest request;
  request.set_topic(topic);
  request.set_page_size(kPage);
  do {
    v1::ListSubscriptionsResponse page;
    const absl::Status status = co_await AskCell(worker_, cell, request, &page);
    if (!status.ok()) co_return status;
    for (const v1::Subscription& subscription : page.subscriptions()) {
      seen->subscriptions[{topic, subscription.name()}] = subscription;
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  co_return absl::OkStatus();
}

Co<absl::Status> Reconciler::Mend(size_t cell, const Seen& wanted, const Seen& has, bool* differs) {
  // What fails does not hold up the rest.
  absl::Status result;
  for (const auto& [name, topic] : wanted.topics) {
    const v1::Topic* const here = FindIn(has.topics, name);
    // Whoever resumes a topic after a restore decides that for its cell.
    const bool same =
        here != nullptr && (here->paused_by_restore() || topic.paused_by_restore() ||
                            MessageDifferencer::Equals(here->settings(), topic.settings()));
    if (same) continue;
    *differs = true;
    if (!SeenBefore(absl::StrCat(cell, here == nullptr ? " lacks " : " differs ", name))) continue;
    const absl::Status status = co_await MendTopic(cell, topic, here);
    if (!status.ok()) result = status;
  }
  for (const auto& [name, subscription] : wanted.subscriptions) {
    const v1::Subscription* const here = FindIn(has.subscriptions, name);
    const bool same =
        here != nullptr && MessageDifferencer::Equals(here->settings(), subscription.settings());
    if (same) continue;
    *differs = true;
    if (!SeenBefore(absl::StrCat(cell, here == nullptr ? " lacks " : " differs ", name.first, " ",
                                 name.second)))
      continue;
    const absl::Status status = co_await MendSubscription(cell, subscription, here);
    if (!status.ok()) result = status;
  }
  co_return result;
}

Co<absl::Status> Reconciler::MendTopic(size_t cell, const v1::Topic& wanted, const v1::Topic* has) {
  spdlog::info("gateway: the topic {} {} in the cell {}", wanted.name(), WhatIsWrong(has),
               worker_->map().cell(cell).name);
  v1::Topic topic;
  topic.set_name(wanted.name());
  *topic.mutable_settings() = wanted.settings();
  if (has == nullptr) {
    v1::CreateTopicRequest request;
    request.mutable_topic()->Swap(&topic);
    v1::CreateTopicResponse response;
    co_return co_await AskCell(worker_, cell, request, &response);
  }
  v1::UpdateTopicRequest request;
  request.mutable_topic()->Swap(&topic);
  request.mutable_update_mask()->add_paths("settings");
  v1::UpdateTopicResponse response;
  co_return co_await AskCell(worker_, cell, request, &response);
}

Co<absl::Status> Reconciler::MendSubscription(size_t cell, const v1::Subscription& wanted,
                                              const v1::Subscription* has) {
  spdlog::info("gateway: the subscription {} of the topic {} {} in the cell {}", wanted.name(),
               wanted.topic(), WhatIsWrong(has), worker_->map().cell(cell).name);
  v1::Subscription subscription;
  subscription.set_topic(wanted.topic());
  subscription.set_name(wanted.name());
  *subscription.mutable_settings() = wanted.settings();
  if (has == nullptr) {
    v1::CreateSubscriptionRequest request;
    request.mutable_subscription()->Swap(&subscription);
    // The cell may have accepted messages since the others have the subscription.
    request.set_start(v1::CreateSubscriptionRequest::START_ALL);
    v1::CreateSubscriptionResponse response;
    co_return co_await AskCell(worker_, cell, request, &response);
  }
  v1::UpdateSubscriptionRequest request;
  request.mutable_subscription()->Swap(&subscription);
  request.mutable_update_mask()->add_paths("settings");
  v1::UpdateSubscriptionResponse response;
  co_return co_await AskCell(worker_, cell, request, &response);
}

bool Reconciler::SeenBefore(const std::string& difference) {
  now_.insert(difference);
  return before_.contains(difference);
}

void Reconciler::Tell(size_t cell, const absl::Status& status) {
  std::string& told = told_[cell];
  const std::string text(status.message());
  if (std::exchange(told, text) == text || status.ok()) return;
  spdlog::warn("gateway: cannot compare the topics of the cell {}: {}",
               worker_->map().cell(cell).name, text);
}

}  // namespace duetime::gateway
