// SPDX-License-Identifier: Apache-2.0
//
// Backlog: each subscription's due messages that are on disk only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "server/base/clock.h"
#include "server/delivery/core.h"
#include "server/delivery/subscriptions/subscription.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Whether a message is listed at a place. kUnknown: what the disk has of it is damaged.
enum class Listed : uint8_t { kNo, kYes, kUnknown };

// Lists messages on disk, in the order in which a subscription must receive them, and keeps the
// subscription's position in its backlog (BacklogPosition). BacklogReader brings the messages back.
//
// A message is listed at a place: its due time, or the time of its next attempt. A message that
// stays in memory may be listed, too, so that the low watermark can pass it.
//
// Guarantees: (1) an entry leaves memory only when its listing is committed; (2) a message holds
// the low watermark back until its listing is committed. Cost: O(1) for each message; one
// continuation for all listings of a batch. Thread safety: confined to the engine thread.
class Backlog {
 public:
  explicit Backlog(const Core& core);

  // Finds the subscriptions that have a backlog, or may have one because of damage. An error means
  // that the store cannot be read.
  absl::Status Recover();

  // ---- Positions
  //
  // Notes that a message of the subscription is on disk only, at `place`.
  void FallBehind(Subscription* subscription, const storage::MessageKey& place);
  // Parks the backlog: its first message waits until the time of `first`. REQUIRES: behind.
  void Park(base::Now now, Subscription* subscription, const storage::MessageKey& first);
  // If the backlog is parked: makes the subscription behind when the time of the first place has
  // come, otherwise sets the wake-up timer.
  void Unpark(base::Now now, Subscription* subscription);
  // Reads from the first rest that an ordering key wants. REQUIRES: one wants to.
  void FallBehindForKey(Subscription* subscription);
  // Notes that nothing but rests of ordering keys is on disk only.
  void ClearButRests(Subscription* subscription);
  // Notes that no message is on disk only.
  void Clear(Subscription* subscription);

  // ---- Listing
  //
  // Lists a message that is not in memory. `row`: its progress record, or nullptr. `uncertain`: the
  // message may have been delivered, whatever the records say.
  void ListNew(const storage::MessageRef& message, Subscription* subscription,
               const storage::Progress* row, bool uncertain = false);
  // Lists an entry at its place. The entry stays in memory.
  void List(EntryIndex index);
  // Lists an entry at its place. The entry leaves memory at the commit. REQUIRES: it is taken.
  void MoveToDisk(EntryIndex index);
  // As List and MoveToDisk, at the place with the time `place_ms`.
  void ListAt(EntryIndex index, uint64_t place_ms);
  void MoveToDiskAt(EntryIndex index, uint64_t place_ms);
  // Moves an entry to disk for which its ordering key has no room (OrderingKeyLocks). The entry
  // leaves memory at once if its listing is committed. The position stays: the key says when the
  // backlog must be read again. REQUIRES: the entry is taken.
  void AddToRest(EntryIndex index, uint64_t ordering_key);
  // As MoveToDisk, at the due time, for an entry whose time has not come because the clock was set
  // back. If an attempt has failed, the next one waits for nothing else.
  void WaitUntilDue(EntryIndex index);
  // Writes the listing of an entry that stays in memory until the run ends, with what memory knows
  // of its deliveries.
  void ListAsKnown(EntryIndex index);
  // Removes the entry's listing, if there is one.
  void Unlist(EntryIndex index);
  void Unlist(const storage::MessageKey& place, const Subscription& subscription);

  // ---- Entries that hold the low watermark back for too long
  //
  // Collects the entries that have been unsettled for the spill age.
  void CollectOld(base::Now now);
  // Lists a slice of the collected entries. True if more remain.
  bool ListOld();

  // ---- Reads from disk
  //
  // Whether the message is listed at `place`. kYes also if the store cannot be read.
  Listed ListedAt(const storage::MessageKey& place, const Subscription& subscription);
  // Reads, once, the place up to which earlier runs claimed the backlog.
  absl::Status ReadClaim(Subscription* subscription);
  // True if an earlier run may have handed out the message at `place`. REQUIRES: ReadClaim.
  bool ClaimedBefore(const Subscription& subscription, const storage::MessageKey& place) const;

  // The number of subscriptions that are behind.
  size_t behind() const { return behind_; }

 private:
  // A listing in a batch that is not committed yet. `index` is kNoEntry if the message is not in
  // memory.
  struct Listing {
    storage::MessageKey place;
    uint64_t due_ms = 0;
    Subscription* subscription = nullptr;
    EntryIndex index = kNoEntry;
    // The entry leaves memory at the commit.
    bool forget = false;
    // It belongs to the rest of its ordering key.
    bool rest = false;
  };

  // The subscription has a backlog of an earlier run.
  void Inherit(Subscription* subscription);
  // Sets the entry's place, and returns its backlog record.
  storage::BacklogEntry MovePlace(EntryIndex index, uint64_t place_ms);
  void Add(const Listing& listing, const storage::BacklogEntry& entry);
  void OnListed(const Listing& listing);
  void OnEntryListed(const Listing& listing);
  // Lists the entry at its place, and puts it into kForgetting.
  void Forget(EntryIndex index, uint64_t place_ms, bool rest);
  void MoveReadyToDisk(Subscription* subscription);

  const Core& core_;
  const uint64_t spill_age_ms_;
  size_t behind_ = 0;
  // The listings of the batch with the sequence `batch_`.
  uint64_t batch_ = 0;
  std::shared_ptr<std::vector<Listing>> listings_;
  // The entries that ListOld still has to examine.
  std::deque<EntryIndex> old_;
};

}  // namespace duetime::delivery
