// SPDX-License-Identifier: Apache-2.0
//
// The subscription that a stream or a Pull takes messages from.
#pragma once

#include <cstdint>
#include <utility>

#include "server/api/serving_context.h"

namespace duetime::api {

// Detects that a subscription was deleted, even if another one has its name and number by then.
// Plain data.
class SubscriptionWatch {
 public:
  SubscriptionWatch() = default;
  explicit SubscriptionWatch(catalog::SubscriptionPtr subscription)
      : subscription_(std::move(subscription)) {}

  // Costs nothing while the catalog does not change. REQUIRES: subscription() is not null.
  bool Gone(const ServingContext& context) {
    const catalog::Snapshot& catalog = context.catalog();
    if (catalog.version() == seen_version_) return false;
    const catalog::SubscriptionPtr now =
        catalog.FindSubscription(subscription_->topic, subscription_->name);
    if (now == nullptr || now->incarnation != subscription_->incarnation) return true;
    seen_version_ = catalog.version();
    return false;
  }

  const catalog::SubscriptionPtr& subscription() const { return subscription_; }

 private:
  catalog::SubscriptionPtr subscription_;
  // The version of the catalog that last had the subscription.
  uint64_t seen_version_ = 0;
};

}  // namespace duetime::api
