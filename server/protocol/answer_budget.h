// SPDX-License-Identifier: Apache-2.0
//
// AnswerBudget: limits the memory of answers between the read of the store and gRPC.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"

#include "server/base/error.h"

namespace duetime::protocol {

// Counts the bytes of all open answers: of what was read for a call and is not given to gRPC yet. A
// request of 50 bytes may ask for a payload of 1 MiB, so no limit of requests bounds the answers.
//
// The rule: a call is admitted while the open answers have less than `bytes_max`, and then charged
// with the size of what it has read. So a thread exceeds the limit by one read at most, and an
// answer that is larger than the limit can still be given. Thread-safe.
class AnswerBudget {
 public:
  explicit AnswerBudget(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  AnswerBudget(const AnswerBudget&) = delete;
  AnswerBudget& operator=(const AnswerBudget&) = delete;

  // OK, or RESOURCE_EXHAUSTED OVERLOADED, which the caller must return to its client.
  absl::Status Admit() {
    if (bytes() < bytes_max_) return absl::OkStatus();
    refused_.fetch_add(1, std::memory_order_relaxed);
    return base::OverloadedError("room for open answers in bytes", bytes_max_);
  }

  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Calls refused since the start.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  friend class AnswerBytes;

  const uint64_t bytes_max_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> refused_{0};
};

using AnswerBudgetPtr = std::shared_ptr<AnswerBudget>;

// The bytes of one open answer.
class AnswerBytes {
 public:
  AnswerBytes(AnswerBudgetPtr budget, uint64_t bytes) : budget_(std::move(budget)), bytes_(bytes) {
    budget_->bytes_.fetch_add(bytes_, std::memory_order_relaxed);
  }
  ~AnswerBytes() { budget_->bytes_.fetch_sub(bytes_, std::memory_order_relaxed); }
  AnswerBytes(const AnswerBytes&) = delete;
  AnswerBytes& operator=(const AnswerBytes&) = delete;

 private:
  const AnswerBudgetPtr budget_;
  const uint64_t bytes_;
};

// Counts the bytes of an answer until the last copy is gone. Travels with the answer.
using AnswerCharge = std::shared_ptr<const AnswerBytes>;

// The functions below take a null budget for a caller without a limit.
inline absl::Status Admit(const AnswerBudgetPtr& budget) {
  return budget == nullptr ? absl::OkStatus() : budget->Admit();
}
inline AnswerCharge Charge(const AnswerBudgetPtr& budget, uint64_t bytes) {
  return budget == nullptr ? nullptr : std::make_shared<const AnswerBytes>(budget, bytes);
}

}  // namespace duetime::protocol
