// SPDX-License-Identifier: Apache-2.0
//
// EventCounter: what happened on a server between two readings of its metrics. A pure class.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/string_view.h"

namespace duetime::cli {

// So many times, `what` happened in a topic, or in one of its subscriptions.
struct DevEvent {
  std::string what;
  std::string topic;
  // Empty for what happens to a topic.
  std::string subscription;
  double count = 0;

  bool operator==(const DevEvent&) const = default;
};

class EventCounter {
 public:
  // Returns what happened since the last call, or since the start of the server: messages come
  // before their deliveries, and these before their ends. A message that is due and ends between
  // two calls is in `acked` but not in `due`. A page without metrics, such as that of a server that
  // does not answer, changes nothing.
  std::vector<DevEvent> Take(absl::string_view metrics);

 private:
  // By metric, topic and subscription.
  std::map<std::tuple<std::string, std::string, std::string>, double> seen_;
};

}  // namespace duetime::cli
