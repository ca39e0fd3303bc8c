// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/serving_context.h"

#include "server/base/error.h"

namespace duetime::rpc {
namespace {

absl::Status StartingError() {
  return base::MakeError(
      absl::StatusCode::kUnavailable, "the server is opening its storage",
      {.reason = "STARTING", .field = "", .metadata = {}, .retry_after_ms = 1000});
}

absl::Status DiskLowError() {
  return base::MakeError(
      absl::StatusCode::kResourceExhausted,
      "the disk is nearly full: no new messages are taken; acks and cancels still work",
      {.reason = "DISK_LOW", .field = "", .metadata = {}, .retry_after_ms = 10'000});
}

}  // namespace

absl::Status ServingContext::Admit(CallKind kind) const {
  switch (state.load(std::memory_order_acquire)) {
    case ServingState::kStarting:
      return StartingError();
    case ServingState::kServing:
      break;
    case ServingState::kDraining:
      if (kind != CallKind::kOther || ending.load()) return base::DrainingError();
      if (node.load() == nullptr) return StartingError();  // stopped before it had started
      break;
    case ServingState::kStorageFailed:
      return base::StorageFailedError();
  }
  if (kind == CallKind::kSchedule && DiskLow()) return DiskLowError();
  return absl::OkStatus();
}

bool ServingContext::Advance(ServingState next) {
  ServingState current = state.load();
  while (current < next) {
    if (state.compare_exchange_weak(current, next)) return true;
  }
  return false;
}

}  // namespace duetime::rpc
