// SPDX-License-Identifier: Apache-2.0
//
// The server's metrics, as the console reads them.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "client/cli/console/console_address.h"

namespace duetime::cli {

// Reads the page of metrics. UNAVAILABLE with METRICS_UNAVAILABLE if that fails.
absl::StatusOr<std::string> FetchMetrics(const ConsoleAddress& address);

// Calls `use(labels, value)` for each line `name{labels} value`.
void ForEach(absl::string_view metrics, absl::string_view name,
             const std::function<void(absl::string_view labels, double value)>& use);

// The value of the label `name` of `labels`, `a="b",c="d"`; "" if there is none. The names of
// topics and subscriptions have nothing that is written in another way there.
absl::string_view LabelOf(absl::string_view labels, absl::string_view name);

// The sum of a metric over all its labels; 0 if there is none.
double SumOf(absl::string_view metrics, absl::string_view name);

// For each bound of a histogram, in its unit, how many values it has not exceeded.
using Buckets = std::map<double, double>;
Buckets BucketsOf(absl::string_view metrics, absl::string_view name);

// The bound that `share` of the values between two readings did not exceed; the largest finite one
// if they were larger. NaN if there were no values.
double QuantileOf(const Buckets& before, const Buckets& now, double share);

}  // namespace duetime::cli
