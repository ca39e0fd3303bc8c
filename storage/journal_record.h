// SPDX-License-Identifier: Apache-2.0
//
// Journal records: the bytes of a group of batches, or of a change of leader, in a log that several
// machines share. FORMAT.md documents them ("Records of a shared log").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/types.h"

namespace duetime::storage {

struct JournalRecordHead {
  enum class Kind : uint8_t {
    // Batches that are applied together or not at all.
    kGroup = 1,
    // Begins an epoch. Has no batches.
    kEpoch = 2,
    // What a member says of itself. Never counts; its batches are not applied.
    kReport = 3,
  };

  Kind kind = Kind::kGroup;
  // kGroup: the epoch of the leader that wrote it. kEpoch: the epoch that begins. kReport: the last
  // epoch that its author has applied.
  uint64_t epoch = 0;
  // kGroup: counts the groups of all epochs, from 1. kEpoch: a random number, by which its author
  // knows it again. kReport: the last group that its author has applied.
  uint64_t number = 0;
  // Which log it is: a random number that the first epoch brings.
  uint64_t log = 0;

  friend constexpr bool operator==(const JournalRecordHead&, const JournalRecordHead&) = default;
};

// REQUIRES: no text of a record has 4 GiB or more. Cost: copies each byte once.
std::string EncodeJournalRecord(const JournalRecordHead& head, std::span<const RecordBatch> group);

// Reads the head, which has the same form in all versions.
//   DATA_LOSS        the bytes are damaged, or not a record
//   UNIMPLEMENTED    a kind of a later version
absl::StatusOr<JournalRecordHead> DecodeJournalRecordHead(absl::string_view bytes);

// Reads the batches; none of kEpoch. REQUIRES: DecodeJournalRecordHead has accepted the bytes.
//   UNIMPLEMENTED    of a version that this program does not know
//   INTERNAL         no program writes this
absl::StatusOr<std::vector<RecordBatch>> DecodeJournalGroup(absl::string_view bytes);

}  // namespace duetime::storage
