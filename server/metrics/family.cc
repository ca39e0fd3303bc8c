// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/family.h"

#include <limits>
#include <utility>

#include "server/base/check.h"

namespace duetime::metrics {

prometheus::MetricFamily MakeFamily(prometheus::MetricType type, const std::string& name,
                                    const std::string& help) {
  prometheus::MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void AddSample(prometheus::MetricFamily* family, double value, Labels labels) {
  prometheus::ClientMetric& metric = family->metric.emplace_back();
  metric.label = std::move(labels);
  if (family->type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    DT_CHECK(family->type == prometheus::MetricType::Gauge);
    metric.gauge.value = value;
  }
}

void AddHistogram(prometheus::MetricFamily* family, std::span<const uint64_t> bounds,
                  std::span<const uint64_t> counts, double per_unit, double sum, Labels labels) {
  DT_CHECK(family->type == prometheus::MetricType::Histogram);
  DT_CHECK_EQ(counts.size(), bounds.size() + 1);
  prometheus::ClientMetric& metric = family->metric.emplace_back();
  metric.label = std::move(labels);
  uint64_t cumulative = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    cumulative += counts[i];
    const double bound = i < bounds.size() ? static_cast<double>(bounds[i]) / per_unit
                                           : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({.cumulative_count = cumulative, .upper_bound = bound});
  }
  metric.histogram.sample_count = cumulative;
  metric.histogram.sample_sum = sum / per_unit;
}

}  // namespace duetime::metrics
