// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/last_attempts.h"

#include "server/delivery/delivery_records.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscription.h"

namespace duetime::delivery {

std::string LastAttemptsOf(const Core& core, const PendingDelivery& entry) {
  if (!entry.progress) return "";
  const storage::SubscriptionId subscription = entry.subscription->state.id;
  const storage::Progress* row = core.records.Uncommitted(entry.key(), subscription);
  if (row != nullptr) return row->last_attempts;
  const auto rows = core.reader.Progress(entry.key());
  if (!rows.ok()) return "";
  row = rows->Find(subscription);
  return row == nullptr ? "" : row->last_attempts;
}

}  // namespace duetime::delivery
