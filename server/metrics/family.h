// SPDX-License-Identifier: Apache-2.0
//
// Builders of metric families: a name, a help text, and samples with at most a few labels.
#pragma once

#include <cstdint>
#include <prometheus/metric_family.h>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace duetime::metrics {

using Labels = std::vector<prometheus::ClientMetric::Label>;

inline constexpr prometheus::MetricType kCounter = prometheus::MetricType::Counter;
inline constexpr prometheus::MetricType kGauge = prometheus::MetricType::Gauge;

// Units per second.
inline constexpr double kMillis = 1e3;
inline constexpr double kMicros = 1e6;

// One exported field of a struct of plain numbers.
template <typename Struct>
struct Field {
  prometheus::MetricType type{};
  const char* name = nullptr;
  const char* help = nullptr;
  std::variant<uint64_t Struct::*, bool Struct::*> member;
  // The divisor that converts the value to the unit of the name.
  double per_unit = 1;

  double Of(const Struct& numbers) const {
    return std::visit([&](auto of) { return static_cast<double>(numbers.*of); }, member) / per_unit;
  }
};

// A family without samples.
prometheus::MetricFamily MakeFamily(prometheus::MetricType type, const std::string& name,
                                    const std::string& help);

// Adds a sample to a counter's or a gauge's family, by its type.
void AddSample(prometheus::MetricFamily* family, double value, Labels labels = {});

// Adds a family with one sample for each field.
template <typename Struct>
void AddFields(const Struct& numbers, std::span<const Field<Struct>> fields,
               std::vector<prometheus::MetricFamily>* out) {
  for (const Field<Struct>& field : fields) {
    AddSample(&out->emplace_back(MakeFamily(field.type, field.name, field.help)),
              field.Of(numbers));
  }
}

// Adds a sample to a histogram's family. `counts` are per bucket, not cumulative, and have one more
// element than `bounds`, for values beyond the last bound. `bounds` and `sum` are divided by
// `per_unit`, for example 1000 to convert milliseconds to seconds. (A factor of 0.001 is inexact,
// and the error would show in the bounds.)
void AddHistogram(prometheus::MetricFamily* family, std::span<const uint64_t> bounds,
                  std::span<const uint64_t> counts, double per_unit, double sum,
                  Labels labels = {});

}  // namespace duetime::metrics
