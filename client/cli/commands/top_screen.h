// SPDX-License-Identifier: Apache-2.0
//
// The screen of `duetime top`. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "duetime/v1/admin.pb.h"

namespace duetime::cli {

struct TopicSample {
  v1::Topic topic;
  std::vector<v1::Subscription> subscriptions{};
};

// What the server told at one moment.
struct Sample {
  v1::ServerInfoResponse info;
  std::vector<TopicSample> topics{};
};

// A topic as the screen shows it, with its subscriptions together. A topic of which no earlier
// sample exists has no rates.
struct TopicLine {
  std::string name{};
  int64_t pending = 0;
  int64_t due = 0;
  int64_t in_flight = 0;
  int64_t streams = 0;
  std::optional<double> delivered_rate{};
  std::optional<double> acked_rate{};
  // For how long the oldest waiting message has been due. Absent if none waits.
  std::optional<absl::Duration> late{};
  // States that explain why messages wait: "paused, slowed".
  std::string note{};
};

// Changes per second of a counter. A counter that went back began again, in a new run of the
// server. Absent if no time passed.
std::optional<double> RateOf(int64_t before, int64_t now, absl::Duration between);

enum class Order { kRate, kLate, kDue, kPending, kName };

// The order of a word: "rate", "late", "due", "pending" or "name". Its first letter is enough.
// Absent for other words.
std::optional<Order> OrderOf(absl::string_view word);

// `before` is null for the first sample.
std::vector<TopicLine> MakeLines(const Sample* before, const Sample& now, Order order);

struct ScreenSize {
  size_t width = 80;
  size_t height = 24;
};

// The lines of the screen. Shows as many topics as the screen has room for, and says how many more
// there are. `server` is the address; `error` is empty if the last sample is new.
std::string ScreenText(const std::string& server, const Sample* before, const Sample& now,
                       Order order, const std::string& error, const ScreenSize& size);

}  // namespace duetime::cli
