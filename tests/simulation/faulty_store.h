// SPDX-License-Identifier: Apache-2.0
//
// FaultyStore: a store in memory with one fault planted in it.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/test_store.h"

namespace duetime::simulation {

// The topic of all dead letters.
inline constexpr storage::TopicId kDeadLetters{9};

// A deliberate fault. The simulation must find it.
enum class PlantedFault : uint8_t {
  kNone,
  // ---- The runtime
  // The runtime reports a batch as appended one event too early.
  kAnswerBeforeAppend,
  // The catalog does not get the report that a shard accepted a message of a deleted topic.
  kForgetUse,
  // The shards read a clock that is 5 ms ahead.
  kEarlyClock,
  // ---- The journal
  // A power cut also loses synced appends.
  kUnsyncedAppends,
  // The batches of a group apply in reverse order.
  kReverseGroups,
  // A power cut leaves half of an append.
  kTornAppends,
  // ---- Reads
  // A restart finds no claim.
  kForgetClaim,
  // A restart finds the low watermark two seconds too far ahead.
  kLowWatermarkTooFar,
  // A restart finds no claim of a backlog.
  kForgetBacklogClaim,
  // Reads find no progress, so the last settlement does not end a message.
  kForgetProgress,
  // A scan ends at damage as at the end of its range.
  kStopAtDamage,
  // A scan goes around damage and does not say so.
  kHideDamage,
  // ---- Records that the store drops
  // Locators and tombstones; only locators; only tombstones.
  kLoseLocators,
  kLoseMoves,
  kLoseTombstones,
  // All entries of a key after the first.
  kLoseKeyChanges,
  // The end of a message that has a key.
  kLoseKeyEnds,
  kLoseRequestIds,
  // All states of a recurrence after the first.
  kLoseOccurrences,
  // The erase of a moved message's old place.
  kKeepOldPlace,
  // The counts of messages that leave a bucket.
  kMiscount,
  kLoseProgress,
  kLoseDeadLetters,
  kLoseSubscriptions,
  // The catalog's records of topics.
  kLoseTopics,
  // ---- Records that the store changes
  // The time of the next attempt is 0.
  kLoseRetryTimes,
  // The number of attempts is 0.
  kLoseAttempts,
  // ---- Commands
  // A reschedule ignores the etag.
  kIgnoreEtags,
  // PUSH_BACK replaces the time.
  kPullForward,
  // The shards get greater limits than the topic has.
  kLooseLimits,
  // ---- A cell
  // A leader serves for ever.
  kServeOn,
  // Members that follow pass over some groups.
  kSkipGroups,
  // All leaders have the same epoch.
  kEpochTwice,
  // The leader trims the log by what it has itself.
  kTrimTooFar,
};

// A store in memory with one fault. Also records the messages that leave the store, and which of
// these ends a power cut undoes.
class FaultyStore : public test::TestStore {
 public:
  FaultyStore(test::TestDisk* disk, PlantedFault fault)
      : TestStore(disk), disk_(disk), fault_(fault) {}

  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override;
  absl::StatusOr<storage::ShardMarks> Marks(uint16_t shard) override;
  absl::Status Scan(uint16_t shard, const storage::MessageKey& from,
                    const storage::MessageKey& until, const storage::ScanLimit& limit,
                    storage::Page<storage::MessageRef>* page) override;
  absl::StatusOr<std::optional<storage::MessageKey>> BacklogClaim(
      uint16_t shard, storage::SubscriptionId subscription) override;
  absl::StatusOr<std::vector<storage::ProgressRef>> GetProgress(
      uint16_t shard, const storage::MessageKey& key) override;

  // The messages that left the store since the previous call.
  std::vector<storage::MessageId> TakeErased() { return std::exchange(erased_, {}); }

  // The messages whose ends a power cut undoes if it keeps only `kept` unsynced appends.
  std::vector<storage::MessageId> EndsBeyond(size_t kept) const;

 private:
  // `moves`: the batch also puts this message at another place.
  bool Loses(const storage::Record& record, bool moves);

  test::TestDisk* const disk_;
  const PlantedFault fault_;
  // Names of the index entries and objects that were written.
  std::set<std::string> names_;
  std::vector<storage::MessageId> erased_;
  // Ended messages by unsynced append.
  std::vector<std::vector<storage::MessageId>> unsynced_ends_;
};

}  // namespace duetime::simulation
