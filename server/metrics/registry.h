// SPDX-License-Identifier: Apache-2.0
//
// Registry: the metrics of the process. Each metric is registered once, with its name, its text and
// the function that reads it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <vector>

#include "server/metrics/family.h"

namespace duetime::metrics {

// A function reads its metrics at each scrape, and costs nothing between two scrapes. Labels are
// bounded: shard, method, code, knob, cell, and principals with a quota. Thread safety: any thread
// may call Collect as long as the objects that the functions read exist.
class Registry final : public prometheus::Collectable {
 public:
  using Families = std::vector<prometheus::MetricFamily>;

  // A metric with one sample: `get(*from)`. 0 if `from` is null, because this process has no such
  // part.
  template <typename From, typename Get>
  void Gauge(const char* name, const char* help, From* from, Get get) {
    AddOne(prometheus::MetricType::Gauge, name, help, ReadOf(from, get));
  }
  template <typename From, typename Get>
  void Counter(const char* name, const char* help, From* from, Get get) {
    AddOne(prometheus::MetricType::Counter, name, help, ReadOf(from, get));
  }
  // The same for a function without an object.
  void Gauge(const char* name, const char* help, double (*get)()) {
    AddOne(prometheus::MetricType::Gauge, name, help, get);
  }
  void Counter(const char* name, const char* help, double (*get)()) {
    AddOne(prometheus::MetricType::Counter, name, help, get);
  }
  // Metrics that are read together, or that have several samples.
  void Add(std::function<void(Families*)> read) { reads_.push_back(std::move(read)); }

  Families Collect() const override;

  // Counts a connection to the exporter that was closed before its answer.
  void CountCut() { cut_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t cut() const { return cut_.load(std::memory_order_relaxed); }

 private:
  template <typename From, typename Get>
  static std::function<double()> ReadOf(From* from, Get get) {
    return
        [from, get] { return from == nullptr ? 0 : static_cast<double>(std::invoke(get, *from)); };
  }
  void AddOne(prometheus::MetricType type, const char* name, const char* help,
              std::function<double()> read);

  std::vector<std::function<void(Families*)>> reads_;
  std::atomic<uint64_t> cut_{0};
};

}  // namespace duetime::metrics
