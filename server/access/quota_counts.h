// SPDX-License-Identifier: Apache-2.0
//
// QuotaCounts: what principals with a quota have used and were refused, for metrics.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"

#include "server/base/mutex.h"

namespace duetime::access {

enum class QuotaName : uint8_t {
  kMessagesPerSecond,
  kBytesPerSecond,
  kPendingMessages,
  kPendingBytes,
  kStreams,
  kCallsInFlight
};
inline constexpr std::array<const char*, 6> kQuotaNames = {
    "messages_per_second", "bytes_per_second", "pending_messages",
    "pending_bytes",       "streams",          "calls_in_flight"};

// Of one principal, since the start. Counted only under a limit of the quota. Thread-safe.
class QuotaCounts {
 public:
  struct Count {
    // Messages, bytes, streams or calls that the quota admitted.
    std::atomic<uint64_t> used{0};
    // Requests, streams or calls that it refused.
    std::atomic<uint64_t> refused{0};
    // Pending messages or bytes, as they were counted last. 0 for other quotas.
    std::atomic<uint64_t> pending{0};
  };

  Count& of(QuotaName name) { return counts_[static_cast<size_t>(name)]; }
  const Count& of(QuotaName name) const { return counts_[static_cast<size_t>(name)]; }

 private:
  std::array<Count, kQuotaNames.size()> counts_;
};

// The counts by principal. The first kPrincipalsMax principals have counts of their own, and keep
// them. The others share those of kOthers, so that the number of time series is bounded and no
// counter falls. Thread-safe.
class QuotaCountTable {
 public:
  static constexpr size_t kPrincipalsMax = 100;
  // No principal has this name, because names of tokens have no asterisk.
  static constexpr char kOthers[] = "*";

  struct Row {
    std::string principal;
    std::shared_ptr<const QuotaCounts> counts;
  };

  std::shared_ptr<QuotaCounts> Of(const std::string& principal);
  std::vector<Row> Rows() const;

 private:
  mutable base::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<QuotaCounts>> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::access
