// SPDX-License-Identifier: Apache-2.0
//
// Caller: the client of a call, with its rights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

#include "server/access/meter.h"
#include "server/access/policy.h"
#include "server/access/quota_counts.h"

namespace duetime::access {

// Immutable but for its meter, so any thread may use it. It stands for one version of the access
// files: AccessControl makes a new one when they change.
class Caller {
 public:
  Caller(std::shared_ptr<const Policy> policy, Identity identity, std::shared_ptr<Meter> meter,
         uint64_t generation, std::shared_ptr<QuotaCounts> counts)
      : policy_(std::move(policy)),
        identity_(std::move(identity)),
        rules_(policy_->RulesFor(identity_)),
        quota_(policy_->QuotaOf(identity_)),
        meter_(std::move(meter)),
        generation_(generation),
        counts_(std::move(counts)) {}

  const Identity& identity() const { return identity_; }
  const std::string& principal() const { return identity_.principal; }
  const Policy& policy() const { return *policy_; }

  Decision Decide(Verb verb, absl::string_view topic) const {
    return policy_->Decide(identity_, rules_, verb, topic);
  }
  bool Allows(Verb verb, absl::string_view topic) const { return Decide(verb, topic).allowed; }
  bool AllowsEverywhere(Verb verb) const {
    return policy_->AllowsEverywhere(identity_, rules_, verb);
  }
  bool AllowsSomewhere(Verb verb) const {
    return policy_->AllowsSomewhere(identity_, rules_, verb);
  }

  // Null: no limits.
  const Quota* quota() const { return quota_; }
  Meter* meter() const { return meter_.get(); }
  // Count what the quota admitted, or that it refused something. Do nothing without a quota.
  void CountUsed(QuotaName quota, uint64_t amount) const {
    if (counts_ != nullptr) counts_->of(quota).used.fetch_add(amount, std::memory_order_relaxed);
  }
  void CountRefused(QuotaName quota) const {
    if (counts_ != nullptr) counts_->of(quota).refused.fetch_add(1, std::memory_order_relaxed);
  }

  // Stores the latest count of pending messages and bytes for the metrics.
  void NotePending(uint64_t messages, uint64_t bytes) const {
    if (counts_ == nullptr) return;
    counts_->of(QuotaName::kPendingMessages).pending.store(messages, std::memory_order_relaxed);
    counts_->of(QuotaName::kPendingBytes).pending.store(bytes, std::memory_order_relaxed);
  }

  bool Expired(uint64_t now_ms) const {
    return identity_.expires_ms != 0 && now_ms >= identity_.expires_ms;
  }
  // The version of the access files.
  uint64_t generation() const { return generation_; }

 private:
  const std::shared_ptr<const Policy> policy_;
  const Identity identity_;
  const Policy::RuleSet rules_;
  const Quota* const quota_;
  const std::shared_ptr<Meter> meter_;
  const uint64_t generation_;
  // Null: no quota.
  const std::shared_ptr<QuotaCounts> counts_;
};

using CallerPtr = std::shared_ptr<const Caller>;

}  // namespace duetime::access
