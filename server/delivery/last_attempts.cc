// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/last_attempts.h"

#include <utility>

#include "server/delivery/delivery_records.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscription.h"

namespace duetime::delivery {

std::string LastAttemptsOf(const Core& core, const PendingDelivery& entry) {
  if (!entry.progress) return "";
  const storage::SubscriptionId subscription = entry.subscription->state.id;
  const auto* const uncommitted = core.records.Uncommitted(entry.key(), subscription);
  if (uncommitted != nullptr) return uncommitted->last_attempts;
  auto row = core.reader.ProgressOf(entry.key(), subscription);
  return row.ok() && row->has_value() ? std::move((*row)->last_attempts) : "";
}

}  // namespace duetime::delivery
