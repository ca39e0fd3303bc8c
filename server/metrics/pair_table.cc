// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/pair_table.h"

#include <algorithm>
#include <numeric>

#include "server/metrics/family.h"

namespace duetime::metrics {
namespace {

using prometheus::MetricFamily;
using protocol::LatenessCounts;
using protocol::SubscriptionActivity;
using protocol::TopicActivity;

constexpr const char* kOthers = "*";

// The increase of a counter. While a subscription is deleted, the shards forget it one by one.
uint64_t Increase(uint64_t before, uint64_t now) { return now - std::min(now, before); }

void AddIncrease(const SubscriptionActivity& before, const SubscriptionActivity& now,
                 SubscriptionActivity* sum) {
  for (const auto counter : {&SubscriptionActivity::delivered, &SubscriptionActivity::acked,
                             &SubscriptionActivity::failed, &SubscriptionActivity::dead_lettered}) {
    sum->*counter += Increase(before.*counter, now.*counter);
  }
}

// The bound below which this part of the deliveries lies, in seconds; nothing without deliveries.
std::optional<double> QuantileOf(const LatenessCounts& counts, double part) {
  const auto all = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  if (all == 0) return std::nullopt;
  uint64_t below = 0;
  for (size_t i = 0; i < protocol::kLatenessBoundsMs.size(); ++i) {
    below += counts[i];
    if (static_cast<double>(below) >= part * static_cast<double>(all)) {
      return static_cast<double>(protocol::kLatenessBoundsMs[i]) / kMillis;
    }
  }
  return static_cast<double>(protocol::kLatenessBoundsMs.back()) / kMillis;
}

}  // namespace

bool PairTable::First(const std::string& topic) const {
  return std::find(options_.topics.begin(), options_.topics.end(), topic) != options_.topics.end();
}

uint64_t PairTable::BusynessOf(const PairSample& pair) const {
  const auto of = [](const auto& last, auto id) {
    const auto found = last.find(id);
    return found == last.end() ? typename std::decay_t<decltype(last)>::mapped_type()
                               : found->second;
  };
  return pair.activity.in_flight + pair.activity.streams +
         Increase(of(last_, pair.id).delivered, pair.activity.delivered);
}

void PairTable::Choose(const PairSamples& samples) {
  if (pairs_.size() >= options_.pairs_max) return;
  struct Candidate {
    bool first = false;
    uint64_t busyness = 0;
    const PairSample* pair = nullptr;
  };
  std::vector<Candidate> candidates;
  for (const PairSample& pair : samples.pairs) {
    if (pairs_.contains({pair.topic, pair.subscription})) continue;
    candidates.push_back({First(pair.topic), BusynessOf(pair), &pair});
  }
  const size_t room = options_.pairs_max - pairs_.size();
  if (candidates.size() > room) {
    // Those that do nothing leave the room to others that will.
    std::erase_if(candidates, [](const Candidate& one) { return !one.first && one.busyness == 0; });
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return std::pair(a.first, a.busyness) > std::pair(b.first, b.busyness);
                     });
    candidates.resize(std::min(candidates.size(), room));
  }
  for (const Candidate& one : candidates) {
    pairs_[{one.pair->topic, one.pair->subscription}];
    topics_[one.pair->topic];
  }
}

void PairTable::Update(const PairSamples& samples) {
  const base::MutexLock lock(&mutex_);
  Choose(samples);
  for (auto& [name, series] : pairs_) {
    series.present = false;
    series.recent = {};
    series.sum.in_flight = series.sum.streams = 0;
  }
  other_pairs_.sum.in_flight = other_pairs_.sum.streams = 0;
  other_pairs_.recent = {};
  decltype(last_) last;
  for (const PairSample& pair : samples.pairs) {
    const auto own = pairs_.find({pair.topic, pair.subscription});
    Series& series = own == pairs_.end() ? other_pairs_ : own->second;
    const auto found = last_.find(pair.id);
    const SubscriptionActivity before =
        found == last_.end() ? SubscriptionActivity() : found->second;
    AddIncrease(before, pair.activity, &series.sum);
    series.sum.in_flight += pair.activity.in_flight;
    series.sum.streams += pair.activity.streams;
    for (size_t i = 0; i < series.recent.size(); ++i) {
      series.recent[i] += Increase(before.lateness[i], pair.activity.lateness[i]);
    }
    series.present = true;
    series.paused = pair.paused;
    series.retention_s = pair.retention_s;
    series.retention_messages = pair.retention_messages;
    series.shown = {pair.topic, pair.subscription, pair.topic_id, pair.id};
    last[pair.id] = pair.activity;
  }
  for (auto& [name, series] : pairs_) {
    if (!series.present) series.backlog.reset();
  }
  last_ = std::move(last);
  for (auto& [name, series] : topics_) series.pending.reset();
  decltype(last_topics_) last_topics;
  for (const TopicSample& topic : samples.topics) {
    const auto own = topics_.find(topic.name);
    TopicSeries& series = own == topics_.end() ? other_topics_ : own->second;
    const TopicActivity before = last_topics_[topic.id];
    series.sum.accepted += Increase(before.accepted, topic.activity.accepted);
    series.sum.cancelled += Increase(before.cancelled, topic.activity.cancelled);
    last_topics[topic.id] = topic.activity;
  }
  last_topics_ = std::move(last_topics);
}

std::vector<PairTable::Shown> PairTable::shown() const {
  const base::MutexLock lock(&mutex_);
  std::vector<Shown> shown;
  for (const auto& [name, series] : pairs_) {
    if (series.present) shown.push_back(series.shown);
  }
  return shown;
}

void PairTable::SetBacklogs(const std::vector<Shown>& shown,
                            const std::vector<PairBacklog>& backlogs) {
  const base::MutexLock lock(&mutex_);
  for (size_t i = 0; i < std::min(shown.size(), backlogs.size()); ++i) {
    pairs_[{shown[i].topic, shown[i].subscription}].backlog = backlogs[i];
  }
}

void PairTable::SetPending(const std::vector<std::pair<std::string, uint64_t>>& topics) {
  const base::MutexLock lock(&mutex_);
  for (const auto& [name, pending] : topics) topics_[name].pending = pending;
}

// The value of a field of the sums.
auto PairTable::NumberOf(uint64_t SubscriptionActivity::*field) {
  return [field](const Series& series) -> std::optional<double> {
    return static_cast<double>(series.sum.*field);
  };
}

// Adds a family with value(series), a std::optional, of each pair and of the others.
template <typename Value>
void PairTable::AddPairs(prometheus::MetricType type, const char* name, const char* help,
                         Value value, Registry::Families* out) const {
  MetricFamily family = MakeFamily(type, name, help);
  const auto sample = [&](const std::string& topic, const std::string& subscription,
                          const Series& series) {
    const std::optional<double> number = value(series);
    if (!number.has_value()) return;
    AddSample(&family, *number, {{"topic", topic}, {"subscription", subscription}});
  };
  for (const auto& [pair, series] : pairs_) sample(pair.first, pair.second, series);
  // Settings and backlogs have no sum.
  Series others;
  others.sum = other_pairs_.sum;
  sample(kOthers, kOthers, others);
  out->push_back(std::move(family));
}

void PairTable::AddStates(Registry::Families* out) const {
  AddPairs(
      kGauge, "duetime_subscription_backlog",
      "Due messages that the subscription has not settled, in memory and on disk.",
      [](const Series& series) -> std::optional<double> {
        if (!series.backlog.has_value()) return std::nullopt;
        return static_cast<double>(series.backlog->messages);
      },
      out);
  AddPairs(
      kGauge, "duetime_subscription_oldest_age_seconds",
      "How long the oldest of these messages has been due; 0 if there is none.",
      [](const Series& series) -> std::optional<double> {
        if (!series.backlog.has_value()) return std::nullopt;
        return series.backlog->oldest_age_s;
      },
      out);
  AddPairs(kGauge, "duetime_subscription_in_flight", "Messages in flight.",
           NumberOf(&SubscriptionActivity::in_flight), out);
  AddPairs(kGauge, "duetime_subscription_streams", "Open Subscribe streams and waiting Pulls.",
           NumberOf(&SubscriptionActivity::streams), out);
  AddPairs(
      kGauge, "duetime_subscription_paused", "1 while the subscription or its topic is paused.",
      [](const Series& series) -> std::optional<double> { return series.paused ? 1 : 0; }, out);
  const auto bound = [](auto field) {
    return [field](const Series& series) -> std::optional<double> {
      if (series.*field == 0 || !series.present) return std::nullopt;
      return static_cast<double>(series.*field);
    };
  };
  AddPairs(kGauge, "duetime_subscription_retention_seconds",
           "Messages that are later than this are given up. Absent without such a bound.",
           bound(&Series::retention_s), out);
  AddPairs(kGauge, "duetime_subscription_retention_messages",
           "If more messages wait, the oldest are given up. Absent without such a bound.",
           bound(&Series::retention_messages), out);
}

void PairTable::AddCounters(Registry::Families* out) const {
  AddPairs(kCounter, "duetime_subscription_delivered_total", "Deliveries, including redeliveries.",
           NumberOf(&SubscriptionActivity::delivered), out);
  AddPairs(kCounter, "duetime_subscription_acked_total", "Messages acknowledged.",
           NumberOf(&SubscriptionActivity::acked), out);
  AddPairs(kCounter, "duetime_subscription_failed_total", "Attempts that failed.",
           NumberOf(&SubscriptionActivity::failed), out);
  AddPairs(kCounter, "duetime_subscription_dead_lettered_total", "Messages dead-lettered.",
           NumberOf(&SubscriptionActivity::dead_lettered), out);
  // The deliveries since the scrape before.
  AddPairs(
      kGauge, "duetime_subscription_lateness_p50_seconds",
      "Half of the first deliveries since the scrape before were at most that late; 3,600 is an "
      "hour or more.",
      [](const Series& series) { return QuantileOf(series.recent, 0.5); }, out);
  AddPairs(
      kGauge, "duetime_subscription_lateness_p99_seconds",
      "99 of 100 first deliveries since the scrape before were at most that late; 3,600 is an hour "
      "or more.",
      [](const Series& series) { return QuantileOf(series.recent, 0.99); }, out);
}

void PairTable::AddTopics(Registry::Families* out) const {
  MetricFamily accepted =
      MakeFamily(kCounter, "duetime_topic_accepted_total", "Messages accepted, by topic.");
  MetricFamily cancelled =
      MakeFamily(kCounter, "duetime_topic_cancelled_total", "Messages cancelled, by topic.");
  MetricFamily pending = MakeFamily(kGauge, "duetime_topic_pending", "Pending messages, by topic.");
  const auto of_topic = [&](const std::string& name, const TopicSeries& series) {
    const Labels labels = {{"topic", name}};
    AddSample(&accepted, static_cast<double>(series.sum.accepted), labels);
    AddSample(&cancelled, static_cast<double>(series.sum.cancelled), labels);
    if (series.pending.has_value()) {
      AddSample(&pending, static_cast<double>(*series.pending), labels);
    }
  };
  for (const auto& [name, series] : topics_) of_topic(name, series);
  of_topic(kOthers, other_topics_);
  for (MetricFamily* const family : {&accepted, &cancelled, &pending}) {
    out->push_back(std::move(*family));
  }
}

void PairTable::SetComplete(uint64_t wall_ms) {
  const base::MutexLock lock(&mutex_);
  complete_ms_ = wall_ms;
}

void PairTable::AddFamilies(Registry::Families* out) const {
  const base::MutexLock lock(&mutex_);
  AddStates(out);
  AddCounters(out);
  AddTopics(out);
  AddSample(&out->emplace_back(
                MakeFamily(kGauge, "duetime_metrics_pairs",
                           "Pairs of topic and subscription with series of their own; the limit is "
                           "metrics_pairs_max.")),
            static_cast<double>(pairs_.size()));
  AddSample(&out->emplace_back(
                MakeFamily(kGauge, "duetime_metrics_pairs_timestamp_seconds",
                           "When the numbers of all pairs were read last. It stands still while a "
                           "shard refuses, and the numbers then are old. 0: not yet.")),
            static_cast<double>(complete_ms_) / 1e3);
}

}  // namespace duetime::metrics
