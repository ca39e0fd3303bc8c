// SPDX-License-Identifier: Apache-2.0
#include "server/api/pair_collector.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "server/query/backlog_query.h"
#include "server/query/forecast_query.h"

namespace duetime::api {
namespace {

// The topics and the subscriptions of one command: about 0.1 ms of an engine.
constexpr size_t kAskedAtOnce = 500;

void Add(const protocol::SubscriptionActivity& part, protocol::SubscriptionActivity* sum) {
  sum->in_flight += part.in_flight;
  // Every shard counts every stream.
  sum->streams = std::max(sum->streams, part.streams);
  sum->delivered += part.delivered;
  sum->acked += part.acked;
  sum->failed += part.failed;
  sum->dead_lettered += part.dead_lettered;
  for (size_t i = 0; i < sum->lateness.size(); ++i) sum->lateness[i] += part.lateness[i];
}

}  // namespace

void PairCollector::Refresh(std::chrono::milliseconds timeout) {
  if (context_->state.load() != ServingState::kServing) return;
  const base::MutexLock lock(&mutex_);
  if (!running_) {
    running_ = true;
    worker_->RunHere([this] { Begin(); });
  }
  // A wait that ends early shows the former numbers.
  if (running_) ended_.WaitFor(&mutex_, timeout);
}

void PairCollector::Begin() {
  constexpr size_t kAll = std::numeric_limits<size_t>::max();
  const catalog::Snapshot& catalog = context_->catalog();
  samples_ = {};
  for (const catalog::TopicPtr& topic : catalog.ListTopics("", "", kAll)) {
    const std::string name(topic->name());
    samples_.topics.push_back({.name = name, .id = topic->id, .activity = {}});
    const bool paused = topic->settings.paused();
    const auto subscriptions = catalog.ListSubscriptions(topic->id, "", kAll);
    for (const catalog::SubscriptionPtr& one : subscriptions) {
      const protocol::SubscriptionSettings& settings = one->settings;
      samples_.pairs.push_back({.topic = name,
                                .subscription = one->name,
                                .topic_id = topic->id,
                                .id = one->id,
                                .paused = paused || settings.paused(),
                                .retention_s = static_cast<double>(settings.retention_ms()) / 1e3,
                                .retention_messages = settings.retention_max_messages(),
                                .activity = {}});
    }
    if (!subscriptions.empty()) continue;
    samples_.pairs.push_back({.topic = name,
                              .subscription = "",
                              .topic_id = topic->id,
                              .id = storage::FirstSubscription(topic->id),
                              .paused = paused,
                              .activity = {}});
  }
  next_topic_ = next_pair_ = 0;
  failed_ = false;
  tag_ = worker_->replies().Add(this);
  AskNext();
}

void PairCollector::AskNext() {
  if (failed_ || (next_topic_ == samples_.topics.size() && next_pair_ == samples_.pairs.size())) {
    worker_->replies().Remove(tag_);
    if (failed_) return End();
    table_->Update(samples_);
    return ReadBacklogs();
  }
  auto list = std::make_shared<protocol::ActivityList>();
  for (size_t i = next_topic_; i < samples_.topics.size() && list->topics.size() < kAskedAtOnce;
       ++i) {
    list->topics.push_back(samples_.topics[i].id);
  }
  for (size_t i = next_pair_;
       i < samples_.pairs.size() && list->subscriptions.size() < kAskedAtOnce; ++i) {
    list->subscriptions.push_back(samples_.pairs[i].id);
  }
  asked_ = list;
  open_ = 0;
  for (uint16_t shard = 0; shard < worker_->node().shard_count(); ++shard) {
    const absl::Status posted = worker_->node().Post(
        shard, protocol::ActivityCommand{.tag = tag_, .position = shard, .list = list});
    if (posted.ok()) {
      ++open_;
    } else {
      failed_ = true;
    }
  }
  if (open_ == 0) AskNext();
}

void PairCollector::OnReply(uint16_t shard, protocol::Reply reply) {
  static_cast<void>(shard);
  const auto& activity = std::get<protocol::ActivityReply>(reply);
  if (!activity.status.ok()) failed_ = true;
  for (size_t i = 0; i < activity.topics.size(); ++i) {
    protocol::TopicActivity& sum = samples_.topics[next_topic_ + i].activity;
    sum.accepted += activity.topics[i].accepted;
    sum.cancelled += activity.topics[i].cancelled;
  }
  for (size_t i = 0; i < activity.subscriptions.size(); ++i) {
    Add(activity.subscriptions[i], &samples_.pairs[next_pair_ + i].activity);
  }
  if (--open_ > 0) return;
  next_topic_ += asked_->topics.size();
  next_pair_ += asked_->subscriptions.size();
  AskNext();
}

void PairCollector::ReadBacklogs() {
  shown_ = table_->shown();
  next_shown_ = 0;
  ReadNext();
}

void PairCollector::ReadNext() {
  // Other reads of the store come between two topics, and a server that stops waits for one.
  const bool more = next_shown_ < shown_.size() && context_->state.load() == ServingState::kServing;
  if (next_shown_ == shown_.size()) table_->SetComplete(context_->clock->Read().wall_ms);
  if (!more || !context_->reader->Post([this] { ReadTopic(); }).ok()) End();
}

void PairCollector::ReadTopic() {
  const uint64_t now_ms = context_->clock->Read().wall_ms;
  // The pairs of a topic are neighbours.
  const auto& topic = shown_[next_shown_];
  std::vector<metrics::PairTable::Shown> pairs;
  std::vector<storage::SubscriptionId> ids;
  for (; next_shown_ < shown_.size() && shown_[next_shown_].topic_id == topic.topic_id;
       ++next_shown_) {
    pairs.push_back(shown_[next_shown_]);
    ids.push_back(pairs.back().id);
  }
  std::vector<query::Backlog> read;
  query::PendingCount pending;
  absl::Status status = query::ReadBacklogs(context_->store, topic.topic_id, ids, now_ms,
                                            {.counted = 2'000, .searched = 2'000}, &read);
  if (status.ok()) status = query::ReadPending(context_->store, topic.topic_id, &pending);
  if (!status.ok()) return End();
  std::vector<metrics::PairBacklog> backlogs;
  for (const query::Backlog& one : read) {
    const uint64_t age_ms = one.oldest_ms == 0 ? 0 : now_ms - std::min(now_ms, one.oldest_ms);
    backlogs.push_back(
        {.messages = one.messages, .oldest_age_s = static_cast<double>(age_ms) / 1e3});
  }
  table_->SetBacklogs(pairs, backlogs);
  table_->SetPending({{pairs[0].topic, pending.messages}});
  ReadNext();
}

void PairCollector::End() {
  const base::MutexLock lock(&mutex_);
  running_ = false;
  ended_.NotifyAll();
}

}  // namespace duetime::api
