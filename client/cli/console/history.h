// SPDX-License-Identifier: Apache-2.0
//
// History: what a server did in the last hours.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "client/cli/commands/top_screen.h"
#include "server/base/mutex.h"

namespace duetime::cli {

// For how long half of the first deliveries, and 99 % of them, were late at most, in milliseconds.
// NaN if it is not known.
struct Lateness {
  double half_ms;
  double most_ms;
};

// Keeps the samples of the last six hours, of the server and of each of its first 200 topics, for
// the charts of the page. Forgets topics that are deleted. Takes at most 5 MB. Thread-safe.
class History {
 public:
  // The time between two samples.
  static constexpr absl::Duration kPeriod = absl::Seconds(30);
  static constexpr size_t kRowsMax = 720;

  // Adds a sample. `before` is the one before, null if there is none: then no rates are known.
  void Add(const Sample* before, const Sample& now, const Lateness& lateness);
  // Adds that nothing is known of this moment, so that no line of a chart runs over it.
  void AddGap(absl::Time now);

  // The rows of the server, as JSON:
  // `{"period_ms":30000,"times":[...],"values":{"accepted":[...]}}`. Times are milliseconds since
  // 1970, rates are for each second; null is not known.
  std::string ServerJson() const;
  // The rows of a topic; none for a topic that is not known.
  std::string TopicJson(const std::string& topic) const;

 private:
  static constexpr size_t kColumns = 5;
  // Of the server: accepted, delivered, acked, late_half_ms, late_most_ms. Of a topic: pending,
  // due, delivered, acked, late_ms.
  struct Row {
    int64_t time_ms = 0;
    std::array<float, kColumns> values{};
  };
  using Rows = std::deque<Row>;

  static void AddRow(const Row& row, Rows* rows);

  mutable base::Mutex mutex_;
  Rows server_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Rows> topics_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::cli
