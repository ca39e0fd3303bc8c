// SPDX-License-Identifier: Apache-2.0
//
// Builders of metric families: a name, a help text, and samples with at most a few labels.
#pragma once

#include <cstdint>
#include <prometheus/metric_family.h>
#include <span>
#include <string>
#include <vector>

namespace duetime::metrics {

using Labels = std::vector<prometheus::ClientMetric::Label>;

// A family without samples.
prometheus::MetricFamily MakeFamily(prometheus::MetricType type, const std::string& name,
                                    const std::string& help);

// Adds a sample to a counter's or a gauge's family, by its type.
void AddSample(prometheus::MetricFamily* family, double value, Labels labels = {});

// Adds a sample to a histogram's family. `counts` are per bucket, not cumulative, and have one more
// element than `bounds`, for values beyond the last bound. `bounds` and `sum` are divided by
// `per_unit`, for example 1000 to convert milliseconds to seconds. (A factor of 0.001 is inexact,
// and the error would show in the bounds.)
void AddHistogram(prometheus::MetricFamily* family, std::span<const uint64_t> bounds,
                  std::span<const uint64_t> counts, double per_unit, double sum,
                  Labels labels = {});

}  // namespace duetime::metrics
