// SPDX-License-Identifier: Apache-2.0
#include "client/cli/commands/bench_figures.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/text.h"

namespace duetime::cli {
namespace {

std::string RateText(const Throughput& throughput) {
  if (throughput.messages == 0) return "not measured";
  return absl::StrFormat("%.0f messages/s (%d in %.2f s)", throughput.PerSecond(),
                         throughput.messages, absl::ToDoubleSeconds(throughput.time));
}

std::string TimesText(const std::vector<absl::Duration>& times, absl::string_view what) {
  if (times.empty()) return "not measured";
  return absl::StrFormat("p50 %.1f ms, p99 %.1f ms (%d %s)",
                         absl::ToDoubleMilliseconds(Percentile(times, 0.5)),
                         absl::ToDoubleMilliseconds(Percentile(times, 0.99)), times.size(), what);
}

}  // namespace

double Throughput::PerSecond() const {
  return time > absl::ZeroDuration() ? static_cast<double>(messages) / absl::ToDoubleSeconds(time)
                                     : 0;
}

absl::Duration Percentile(std::vector<absl::Duration> values, double part) {
  if (values.empty()) return absl::ZeroDuration();
  const double rank = std::ceil(part * static_cast<double>(values.size()));
  const auto place = values.begin() + std::max<int64_t>(static_cast<int64_t>(rank) - 1, 0);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

std::string FiguresText(const Figures& figures) {
  return FieldsText({{"payloads", BytesText(figures.payload_bytes)},
                     {"schedule", RateText(figures.schedule)},
                     {"deliver, ack", RateText(figures.deliver)},
                     {"one schedule", TimesText(figures.calls, "calls, one after the other")},
                     {"lateness", TimesText(figures.lateness, "messages, each at its own time")}});
}

std::string FiguresJson(const Figures& figures) {
  nlohmann::ordered_json json = {{"payload_bytes", figures.payload_bytes}};
  const auto add_rate = [&](const std::string& name, const Throughput& throughput) {
    if (throughput.messages > 0) json[name + "_per_second"] = throughput.PerSecond();
  };
  const auto add_times = [&](const std::string& name, const std::vector<absl::Duration>& times) {
    if (times.empty()) return;
    json[name + "_p50_ms"] = absl::ToDoubleMilliseconds(Percentile(times, 0.5));
    json[name + "_p99_ms"] = absl::ToDoubleMilliseconds(Percentile(times, 0.99));
  };
  add_rate("schedule", figures.schedule);
  add_rate("deliver", figures.deliver);
  add_times("one_schedule", figures.calls);
  add_times("lateness", figures.lateness);
  return json.dump() + "\n";
}

}  // namespace duetime::cli
