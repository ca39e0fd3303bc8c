// SPDX-License-Identifier: Apache-2.0
//
// LoggedStore: a store in memory as the state of a cell's member.
#pragma once

#include <span>

#include "server/cell/applied_state.h"
#include "tests/support/test_store.h"

namespace duetime::test {

class LoggedStore final : public cell::AppliedState {
 public:
  storage::MessageStore* store() { return &store_; }
  cell::LogPlace place() const override { return place_; }
  absl::Status Apply(std::span<const storage::RecordBatch> group,
                     const cell::LogPlace& place) override {
    if (store_.Append(group, storage::Durability::kBuffered) != storage::AppendOutcome::kAccepted) {
      return absl::InternalError("the store is fenced");
    }
    place_ = place;
    return absl::OkStatus();
  }

 private:
  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  cell::LogPlace place_;
};

}  // namespace duetime::test
