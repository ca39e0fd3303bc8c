// SPDX-License-Identifier: Apache-2.0
#include "client/cli/dev/event_counter.h"

#include <utility>

#include "client/cli/console/metrics.h"

namespace duetime::cli {

std::vector<DevEvent> EventCounter::Take(absl::string_view metrics) {
  static constexpr std::pair<const char*, const char*> kEvents[] = {
      {"duetime_topic_accepted_total", "scheduled"},
      {"duetime_topic_cancelled_total", "cancelled"},
      // A gauge: it falls with the ends, and its rises are messages that became due.
      {"duetime_subscription_backlog", "due"},
      {"duetime_subscription_delivered_total", "delivered"},
      {"duetime_subscription_acked_total", "acked"},
      {"duetime_subscription_failed_total", "failed"},
      {"duetime_subscription_dead_lettered_total", "dead-lettered"}};
  std::vector<DevEvent> events;
  for (const auto& [metric, what] : kEvents) {
    ForEach(metrics, metric, [&, name = metric, word = what](absl::string_view labels, double now) {
      const std::string topic(LabelOf(labels, "topic"));
      const std::string subscription(LabelOf(labels, "subscription"));
      double& before = seen_[{name, topic, subscription}];
      const double count = now - std::exchange(before, now);
      if (count > 0) events.push_back({word, topic, subscription, count});
    });
  }
  return events;
}

}  // namespace duetime::cli
