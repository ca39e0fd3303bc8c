// SPDX-License-Identifier: Apache-2.0
//
// CountSum: the sum of the changes of one counter.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

#include "storage/day_counts.h"
#include "storage/types.h"

namespace duetime::storage {

// Adds up values and changes of one key of the family counts, for reads, writes and compactions. A
// key is that of a topic (CountDelta) or of a day (DayCounts).
//
// Guarantees: order and grouping make no difference: a sum of sums is the sum. Cost: that of all
// bytes added, and for a day about 2 us and 23 KB. Thread safety: confined.
class CountSum {
 public:
  // Begins at zero.
  explicit CountSum(absl::string_view key);
  // Adds a value or a change. Returns false if the bytes are not valid.
  bool Add(absl::string_view bytes);
  // The sum in the form of a value.
  std::string Encode() const;

  // True if the value of a key is a sum of zero, which means the same as an absent key.
  static bool IsZero(absl::string_view key, absl::string_view value);

 private:
  // The sum is here for the key of a day, else in total_.
  std::optional<DayCounts> day_;
  CountDelta total_;
};

}  // namespace duetime::storage
