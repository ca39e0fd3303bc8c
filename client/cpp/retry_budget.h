// SPDX-License-Identifier: Apache-2.0
//
// RetryBudget: how many repeats of calls a client may make. Internal to the client library.
#pragma once

#include <chrono>

#include "server/base/mutex.h"

namespace duetime::client {

// A bucket of tokens that bounds the repeats of a client's calls, so that many clients do not keep
// a server down that is in trouble. Each repeat takes a token. A repeat that the server answers,
// also with an error that ends the call, gives back its token and one more: only repeats in vain
// are a load that helps nobody, and after a restart each answer lets two of the calls that wait
// try.
//
// It has no clock: the caller passes the time. Thread-safe.
class RetryBudget {
 public:
  using SteadyTime = std::chrono::steady_clock::time_point;

  static constexpr double kTokensMax = 100;
  static constexpr double kTokensPerCall = 0.1;
  static constexpr double kTokensPerSecond = 1;

  explicit RetryBudget(SteadyTime now, double tokens = kTokensMax) : tokens_(tokens), at_(now) {}

  // Adds the share of a call. Call before its first try.
  void OnCall(SteadyTime now);
  // Takes a token for a repeat. Returns false if there is none.
  bool Take(SteadyTime now);
  // Gives two tokens back, after a repeat that the server has answered.
  void GiveBack();

 private:
  void Fill(SteadyTime now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(double tokens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  double tokens_ ABSL_GUARDED_BY(mutex_);
  // The time that `tokens_` is of.
  SteadyTime at_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::client
