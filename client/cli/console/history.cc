// SPDX-License-Identifier: Apache-2.0
#include "client/cli/console/history.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "client/cpp/convert.h"

namespace duetime::cli {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

float Value(const std::optional<double>& value) {
  return value.has_value() ? static_cast<float>(*value) : kUnknown;
}

// Three decimals are enough for a chart, and a double prints no more of them than it was given.
nlohmann::json Number(float value) {
  constexpr double kDecimals = 1'000;
  if (!std::isfinite(value)) return nullptr;
  return std::round(static_cast<double>(value) * kDecimals) / kDecimals;
}

template <typename Names, typename Rows>
std::string RowsJson(const Names& names, const Rows& rows) {
  nlohmann::json json = {{"period_ms", absl::ToInt64Milliseconds(History::kPeriod)},
                         {"times", nlohmann::json::array()},
                         {"values", nlohmann::json::object()}};
  for (const auto& row : rows) json["times"].push_back(row.time_ms);
  for (size_t i = 0; i < names.size(); ++i) {
    nlohmann::json& values = json["values"][names[i]] = nlohmann::json::array();
    for (const auto& row : rows) values.push_back(Number(row.values[i]));
  }
  return json.dump();
}

}  // namespace

void History::AddRow(const Row& row, Rows* rows) {
  rows->push_back(row);
  if (rows->size() > kRowsMax) rows->pop_front();
}

void History::Add(const Sample* before, const Sample& now, const Lateness& lateness) {
  const absl::Time time = client::FromProto(now.info.server_time());
  const v1::Counts& counts = now.info.counts();
  const auto rate = [&](int64_t (v1::Counts::*count)() const) {
    // A client without the right to operate gets no counts.
    if (before == nullptr || !before->info.has_counts() || !now.info.has_counts()) return kUnknown;
    return Value(RateOf((before->info.counts().*count)(), (counts.*count)(),
                        time - client::FromProto(before->info.server_time())));
  };
  const int64_t time_ms = absl::ToUnixMillis(time);
  const Row server = {
      time_ms,
      {rate(&v1::Counts::accepted), rate(&v1::Counts::delivered), rate(&v1::Counts::acked),
       static_cast<float>(lateness.half_ms), static_cast<float>(lateness.most_ms)}};
  const std::vector<TopicLine> lines = MakeLines(before, now, Order::kName);
  const base::MutexLock lock(&mutex_);
  AddRow(server, &server_);
  std::map<std::string, Rows> kept;
  for (const TopicLine& line : lines) {
    Rows& rows = kept[line.name] = std::move(topics_[line.name]);
    AddRow({time_ms,
            {static_cast<float>(line.pending), static_cast<float>(line.due),
             Value(line.delivered_rate), Value(line.acked_rate),
             static_cast<float>(
                 absl::ToDoubleMilliseconds(line.late.value_or(absl::ZeroDuration())))}},
           &rows);
  }
  topics_ = std::move(kept);
}

void History::AddGap(absl::Time now) {
  Row gap = {absl::ToUnixMillis(now)};
  gap.values.fill(kUnknown);
  const base::MutexLock lock(&mutex_);
  AddRow(gap, &server_);
  for (auto& [name, rows] : topics_) AddRow(gap, &rows);
}

std::string History::ServerJson() const {
  static constexpr std::array<const char*, kColumns> kNames = {"accepted", "delivered", "acked",
                                                               "late_half_ms", "late_most_ms"};
  const base::MutexLock lock(&mutex_);
  return RowsJson(kNames, server_);
}

std::string History::TopicJson(const std::string& topic) const {
  static constexpr std::array<const char*, kColumns> kNames = {"pending", "due", "delivered",
                                                               "acked", "late_ms"};
  const base::MutexLock lock(&mutex_);
  const auto found = topics_.find(topic);
  return RowsJson(kNames, found == topics_.end() ? Rows() : found->second);
}

}  // namespace duetime::cli
