// SPDX-License-Identifier: Apache-2.0
//
// NumberState: what a member of a cell has applied, as a list of numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "server/cell/applied_state.h"
#include "storage/types.h"

namespace duetime::test {

// A group with a number, which tells it from other groups.
inline std::vector<storage::RecordBatch> GroupOf(uint32_t number) {
  return {{storage::Record{
      .type = storage::RecordType::kTopic, .topic = storage::TopicId{number}, .value = "t"}}};
}

// Keeps the numbers of the groups, and every state before, because a crash may lose the last ones.
class NumberState final : public cell::AppliedState {
 public:
  cell::LogPlace place() const override { return places_.back(); }
  // What the next Apply returns, unless OK.
  absl::Status error;

  absl::Status Apply(std::span<const storage::RecordBatch> group,
                     const cell::LogPlace& place) override {
    if (!error.ok()) return error;
    for (const storage::RecordBatch& batch : group) {
      for (const storage::Record& record : batch)
        numbers_.push_back(static_cast<uint32_t>(record.topic));
    }
    places_.push_back(place);
    sizes_.push_back(numbers_.size());
    return absl::OkStatus();
  }
  void LoseLast(size_t count) {
    const size_t keep = places_.size() - std::min(count, places_.size() - 1);
    places_.resize(keep);
    sizes_.resize(keep);
    numbers_.resize(sizes_.back());
  }
  const std::vector<uint32_t>& numbers() const { return numbers_; }

 private:
  std::vector<uint32_t> numbers_;
  std::vector<cell::LogPlace> places_{{}};
  std::vector<size_t> sizes_{0};
};

}  // namespace duetime::test
