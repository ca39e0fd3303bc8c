// SPDX-License-Identifier: Apache-2.0
#include "server/access/quota_counts.h"

namespace duetime::access {

std::shared_ptr<QuotaCounts> QuotaCountTable::Of(const std::string& principal) {
  const base::MutexLock lock(&mutex_);
  const bool own = counts_.contains(principal) || counts_.size() < kPrincipalsMax;
  std::shared_ptr<QuotaCounts>& counts = counts_[own ? principal : kOthers];
  if (counts == nullptr) counts = std::make_shared<QuotaCounts>();
  return counts;
}

std::vector<QuotaCountTable::Row> QuotaCountTable::Rows() const {
  const base::MutexLock lock(&mutex_);
  std::vector<Row> rows;
  rows.reserve(counts_.size());
  for (const auto& [principal, counts] : counts_) rows.push_back({principal, counts});
  return rows;
}

}  // namespace duetime::access
