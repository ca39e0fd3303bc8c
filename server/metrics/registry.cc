// SPDX-License-Identifier: Apache-2.0
#include "server/metrics/registry.h"

namespace duetime::metrics {

Registry::Families Registry::Collect() const {
  Families families;
  for (const auto& read : reads_) read(&families);
  return families;
}

void Registry::AddOne(prometheus::MetricType type, const char* name, const char* help,
                      std::function<double()> read) {
  Add([=, read = std::move(read)](Families* out) {
    AddSample(&out->emplace_back(MakeFamily(type, name, help)), read());
  });
}

}  // namespace duetime::metrics
