// SPDX-License-Identifier: Apache-2.0
//
// PairTable: the metrics of pairs of a topic and a subscription.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "server/base/mutex.h"
#include "server/metrics/registry.h"
#include "server/protocol/activity.h"

namespace duetime::metrics {

struct PairOptions {
  // The number of pairs that have series of their own. The others share the names `*`.
  size_t pairs_max = 500;
  // The topics whose pairs come first.
  std::vector<std::string> topics = {};
};

// The due messages that a subscription has not settled.
struct PairBacklog {
  uint64_t messages = 0;
  double oldest_age_s = 0;
};

// A subscription at one moment, over all shards. A topic without a named subscription has one whose
// name is empty.
struct PairSample {
  std::string topic;
  std::string subscription;
  storage::TopicId topic_id{};
  storage::SubscriptionId id{};
  // Its settings. 0: no bound.
  bool paused = false;
  double retention_s = 0;
  uint64_t retention_messages = 0;
  protocol::SubscriptionActivity activity;
};
struct TopicSample {
  std::string name;
  storage::TopicId id{};
  protocol::TopicActivity activity;
};
struct PairSamples {
  std::vector<TopicSample> topics = {};
  std::vector<PairSample> pairs = {};
};

// Chooses the pairs that have series of their own: those of the given topics, then the busiest. A
// chosen pair keeps its series until the process ends. The counters of all others are added up
// under `*`. Counters add differences, so that none of them ever goes back: not when a pair is
// chosen, and not when a subscription is deleted.
//
// Memory: about 600 bytes for each subscription, those of the last samples included. Thread-safe.
class PairTable {
 public:
  explicit PairTable(PairOptions options) : options_(std::move(options)) {}

  void Update(const PairSamples& samples);
  // The chosen pairs that the last Update had, for those that read more about them.
  struct Shown {
    std::string topic;
    std::string subscription;
    storage::TopicId topic_id{};
    storage::SubscriptionId id{};
  };
  std::vector<Shown> shown() const;
  // Sets what a read of the store has found, in the order of `shown`.
  void SetBacklogs(const std::vector<Shown>& shown, const std::vector<PairBacklog>& backlogs);
  void SetPending(const std::vector<std::pair<std::string, uint64_t>>& topics);

  // Notes that all numbers are those of this time.
  void SetComplete(uint64_t wall_ms);

  void AddFamilies(Registry::Families* out) const;

 private:
  using Name = std::pair<std::string, std::string>;
  struct Series {
    protocol::SubscriptionActivity sum;
    // First deliveries between the last two updates.
    protocol::LatenessCounts recent{};
    // The last update had it.
    bool present = false;
    bool paused = false;
    double retention_s = 0;
    uint64_t retention_messages = 0;
    Shown shown;
    std::optional<PairBacklog> backlog;
  };
  struct TopicSeries {
    protocol::TopicActivity sum;
    std::optional<uint64_t> pending;
  };

  static auto NumberOf(uint64_t protocol::SubscriptionActivity::*field);
  template <typename Value>
  void AddPairs(prometheus::MetricType type, const char* name, const char* help, Value value,
                Registry::Families* out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddStates(Registry::Families* out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddCounters(Registry::Families* out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddTopics(Registry::Families* out) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Choose(const PairSamples& samples) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool First(const std::string& topic) const;
  uint64_t BusynessOf(const PairSample& pair) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const PairOptions options_;
  mutable base::Mutex mutex_;
  // What the last update said.
  absl::flat_hash_map<storage::SubscriptionId, protocol::SubscriptionActivity> last_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<storage::TopicId, protocol::TopicActivity> last_topics_
      ABSL_GUARDED_BY(mutex_);
  std::map<Name, Series> pairs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, TopicSeries> topics_ ABSL_GUARDED_BY(mutex_);
  Series other_pairs_ ABSL_GUARDED_BY(mutex_);
  TopicSeries other_topics_ ABSL_GUARDED_BY(mutex_);
  uint64_t complete_ms_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::metrics
