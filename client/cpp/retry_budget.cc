// SPDX-License-Identifier: Apache-2.0
#include "client/cpp/retry_budget.h"

#include <algorithm>

namespace duetime::client {

void RetryBudget::OnCall(SteadyTime now) {
  const base::MutexLock lock(&mutex_);
  Fill(now);
  Add(kTokensPerCall);
}

bool RetryBudget::Take(SteadyTime now) {
  const base::MutexLock lock(&mutex_);
  Fill(now);
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

void RetryBudget::GiveBack() {
  const base::MutexLock lock(&mutex_);
  Add(2);
}

void RetryBudget::Fill(SteadyTime now) {
  if (now <= at_) return;
  Add(std::chrono::duration<double>(now - at_).count() * kTokensPerSecond);
  at_ = now;
}

void RetryBudget::Add(double tokens) { tokens_ = std::min(tokens_ + tokens, kTokensMax); }

}  // namespace duetime::client
