// SPDX-License-Identifier: Apache-2.0
//
// LogPlace: how far a store has applied the log that the members of a cell share.
#pragma once

#include <cstdint>

namespace duetime::storage {

struct LogPlace {
  // The next entry to read is at or after this offset.
  uint64_t offset = 0;
  // The last epoch that counted. 0: none.
  uint64_t epoch = 0;
  // The number of groups that counted, of all epochs, and their number when the epoch began.
  uint64_t groups = 0;
  uint64_t groups_before_epoch = 0;
  // JournalRecordHead::log of what counted.
  uint64_t log = 0;

  friend constexpr bool operator==(const LogPlace&, const LogPlace&) = default;
};

}  // namespace duetime::storage
