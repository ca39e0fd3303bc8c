// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/backlog/backlog.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/last_attempts.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

using storage::BacklogEntry;
using storage::MessageKey;
using storage::Progress;

namespace {

// The entries that one call of ListOld examines.
constexpr size_t kListedPerStep = 2000;

}  // namespace

Backlog::Backlog(const Core& core) : core_(core), spill_age_ms_(core.limits.spill_age_ms) {}

absl::Status Backlog::Recover() {
  const auto listed = core_.store.BacklogSubscriptions(core_.shard);
  if (!listed.ok()) return listed.status();
  for (const storage::SubscriptionId id : listed->subscriptions) {
    Subscription* subscription = core_.subscriptions.Find(id);
    if (subscription == nullptr) {
      // Its object is lost. The catalog makes it again, and its fill begins at the front.
      if (static_cast<uint32_t>(id) >= storage::kSecondSubscription) continue;
      // A subscription without an object is the first one of its topic.
      const auto topic = storage::TopicId{static_cast<uint32_t>(id)};
      subscription = core_.subscriptions.TopicOf(topic)->subscriptions.front();
    }
    if (subscription->state.id == id) Inherit(subscription);
  }
  if (!listed->damaged) return absl::OkStatus();
  const auto topics = core_.store.Topics();
  if (!topics.ok()) return topics.status();
  for (const auto& [topic, name] : *topics) core_.subscriptions.TopicOf(topic);
  core_.subscriptions.ForEach([this](Subscription& subscription) { Inherit(&subscription); });
  return absl::OkStatus();
}

void Backlog::Inherit(Subscription* subscription) {
  FallBehind(subscription, MessageKey{});
  subscription->listed.Forget();
  // The backlog may hold messages that wait for their next attempt.
  subscription->forgot_delivered = true;
}

// ---- Positions

void Backlog::FallBehind(Subscription* subscription, const MessageKey& place) {
  if (subscription->backlog.FallBehind(place)) ++behind_;
  DT_CHECK_LE(behind_, core_.subscriptions.size());
}

void Backlog::Park(base::Now now, Subscription* subscription, const MessageKey& first) {
  DT_CHECK_GT(first.due_ms, now.wall_ms);
  DT_CHECK_GT(behind_, 0u);
  subscription->backlog.Park(first);
  --behind_;
  Unpark(now, subscription);
}

void Backlog::Unpark(base::Now now, Subscription* subscription) {
  if (!subscription->backlog.parked().has_value()) return;
  const MessageKey first = *subscription->backlog.parked();
  if (first.due_ms <= now.wall_ms) {
    FallBehind(subscription, first);
  } else {
    core_.timers.WakeAt(now.mono_ms + first.due_ms - now.wall_ms, subscription);
  }
}

void Backlog::FallBehindForKey(Subscription* subscription) {
  OrderingKeyLocks& order = subscription->order;
  const BacklogPosition& backlog = subscription->backlog;
  const MessageKey from =
      backlog.behind() ? std::min(backlog.cursor(), order.wanted()) : order.wanted();
  order.BeginRead(from);
  if (subscription->backlog.ReadAgain(from)) ++behind_;
}

void Backlog::ClearButRests(Subscription* subscription) {
  DT_CHECK_EQ(subscription->spills_in_flight, 0u);
  DT_CHECK(!subscription->reading);
  if (subscription->backlog.Clear()) {
    DT_CHECK_GT(behind_, 0u);
    --behind_;
  }
}

void Backlog::Clear(Subscription* subscription) {
  ClearButRests(subscription);
  subscription->order.ClearRests();
  subscription->backlog.ClearRest();
  subscription->listed.Clear();
}

// ---- Listing

void Backlog::ListNew(const storage::MessageRef& message, Subscription* subscription,
                      const Progress* row, bool uncertain) {
  DT_CHECK(row == nullptr || row->state != Progress::State::kSettled);
  const bool later = row != nullptr && row->retry_ms > message.key.due_ms;
  const MessageKey place = {.due_ms = later ? row->retry_ms : message.key.due_ms,
                            .id = message.key.id};
  FallBehind(subscription, place);
  if (row != nullptr) subscription->forgot_delivered = true;
  if (later) {
    Progress listed = *row;
    listed.listed = true;
    core_.records.PutProgress(message.key, subscription->state.id, listed);
  }
  core_.scheduler.low_watermark()->Pin(message.key.due_ms);
  Add({.place = place, .due_ms = message.key.due_ms, .subscription = subscription},
      {.attempts = row != nullptr ? row->attempts : 0,
       .bytes = message.bytes,
       .maybe_delivered = uncertain || core_.scheduler.MaybeDelivered(message.key),
       .due_ms = later ? message.key.due_ms : 0});
}

void Backlog::List(EntryIndex index) { ListAt(index, core_.table[index].place().due_ms); }

void Backlog::MoveToDisk(EntryIndex index) {
  MoveToDiskAt(index, core_.table[index].place().due_ms);
}

void Backlog::ListAt(EntryIndex index, uint64_t place_ms) {
  DT_CHECK(core_.table[index].state != EntryState::kForgetting);
  BacklogEntry record = MovePlace(index, place_ms);
  // A subscriber may receive the entry from memory without a new record.
  record.maybe_delivered = true;
  PendingDelivery& entry = core_.table[index];
  entry.listed_as_delivered = !entry.maybe_delivered;
  Add({.place = entry.place(),
       .due_ms = entry.due_ms,
       .subscription = entry.subscription,
       .index = index},
      record);
}

void Backlog::MoveToDiskAt(EntryIndex index, uint64_t place_ms) {
  Forget(index, place_ms, /*rest=*/false);
  FallBehind(core_.table[index].subscription, core_.table[index].place());
}

void Backlog::Forget(EntryIndex index, uint64_t place_ms, bool rest) {
  DT_CHECK(core_.table[index].state == EntryState::kTaken);
  const BacklogEntry record = MovePlace(index, place_ms);
  core_.states.MakeForgetting(index);
  const PendingDelivery& entry = core_.table[index];
  ++entry.subscription->forgets_in_flight;
  if (entry.attempts > 0) entry.subscription->forgot_delivered = true;
  Add({.place = entry.place(),
       .due_ms = entry.due_ms,
       .subscription = entry.subscription,
       .index = index,
       .forget = true,
       .rest = rest},
      record);
}

void Backlog::AddToRest(EntryIndex index, uint64_t ordering_key) {
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kTaken);
  Subscription* const subscription = entry.subscription;
  const MessageKey place = entry.place();
  subscription->order.AddToRest(ordering_key, place);
  subscription->backlog.AddToRest(place);
  // An entry that is listed and does not hold the low watermark has a committed listing. Nobody
  // knows better than that when the entry has left memory.
  if (!entry.spilled || entry.pinned || entry.listed_as_delivered) {
    return Forget(index, place.due_ms, /*rest=*/true);
  }
  if (entry.attempts > 0) subscription->forgot_delivered = true;
  if (subscription->bounded()) subscription->listed.Returned(place);
  core_.states.Remove(index);
}

void Backlog::WaitUntilDue(EntryIndex index) {
  const PendingDelivery& entry = core_.table[index];
  if (entry.progress) {
    // The record's retry time is of the clock before the step, and may name another place.
    core_.records.PutProgress(entry.key(), entry.subscription->state.id,
                              {.state = Progress::State::kFailed,
                               .attempts = entry.attempts,
                               .spared = 2 * entry.attempts - entry.half_failures,
                               .reason = entry.suspect ? kSuspectReason : uint8_t{0},
                               .last_attempts = LastAttemptsOf(core_, entry)});
  }
  MoveToDiskAt(index, entry.due_ms);
}

void Backlog::ListAsKnown(EntryIndex index) {
  const uint64_t place_ms = core_.table[index].place().due_ms;
  const BacklogEntry record = MovePlace(index, place_ms);
  const PendingDelivery& entry = core_.table[index];
  core_.records.List(entry.place(), entry.subscription->state.id, record);
}

BacklogEntry Backlog::MovePlace(EntryIndex index, uint64_t place_ms) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state != EntryState::kFree);
  DT_CHECK(entry.state != EntryState::kEnding);
  if (entry.listed_ms != place_ms) Unlist(index);
  entry.listed_ms = place_ms;
  entry.spilled = true;
  entry.listed_as_delivered = false;
  return {.attempts = entry.attempts,
          .bytes = entry.bytes,
          .maybe_delivered = entry.maybe_delivered,
          .due_ms = place_ms != entry.due_ms ? entry.due_ms : 0};
}

void Backlog::Unlist(EntryIndex index) {
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state != EntryState::kFree);
  if (entry.spilled) Unlist(entry.place(), *entry.subscription);
}

void Backlog::Unlist(const MessageKey& place, const Subscription& subscription) {
  core_.records.Unlist(place, subscription.state.id);
}

void Backlog::Add(const Listing& listing, const BacklogEntry& entry) {
  DT_CHECK(!listing.forget || listing.index != kNoEntry);
  Subscription* const subscription = listing.subscription;
  core_.records.List(listing.place, subscription->state.id, entry);
  ++subscription->spills_in_flight;
  if (subscription->bounded()) subscription->listed.Arriving(listing.place.id);
  ++core_.stats.spilled;
  if (listings_ == nullptr || batch_ != core_.writes.open_sequence()) {
    listings_ = std::make_shared<std::vector<Listing>>();
    batch_ = core_.writes.open_sequence();
    core_.writes.Then([this, listings = listings_](base::Now, bool accepted) {
      if (!accepted) return;
      for (const Listing& done : *listings) OnListed(done);
    });
  }
  listings_->push_back(listing);
}

void Backlog::OnListed(const Listing& listing) {
  Subscription* const subscription = listing.subscription;
  DT_CHECK_GT(subscription->spills_in_flight, 0u);
  --subscription->spills_in_flight;
  if (listing.forget) {
    DT_CHECK_GT(subscription->forgets_in_flight, 0u);
    --subscription->forgets_in_flight;
  }
  DT_CHECK_LE(subscription->forgets_in_flight, subscription->spills_in_flight);
  core_.scheduler.NoteProgress();
  if (listing.index != kNoEntry) return OnEntryListed(listing);
  subscription->listed.Arrived(listing.place, /*only_there=*/true);
  core_.scheduler.low_watermark()->Release(listing.due_ms);
  FallBehind(subscription, listing.place);
  core_.turns.ReadBack(subscription);
}

void Backlog::OnEntryListed(const Listing& listing) {
  Subscription* const subscription = listing.subscription;
  core_.turns.ReadBack(subscription);
  DT_CHECK_LT(listing.index, core_.table.capacity());
  // The entry may have ended meanwhile, and another entry may have its index, perhaps of the same
  // message, which was offered again. That one is not listed.
  const PendingDelivery& entry = core_.table[listing.index];
  const bool same = entry.state != EntryState::kFree && entry.spilled &&
                    entry.place() == listing.place && entry.subscription == subscription;
  const bool forgetting = same && entry.state == EntryState::kForgetting;
  subscription->listed.Arrived(listing.place, forgetting);
  if (!same) return;
  core_.states.Unpin(listing.index);
  // Only a listing with `forget` removes the entry. After an earlier listing the entry's progress
  // record may not be committed yet, and the end of the message would miss that record.
  if (!listing.forget || !forgetting) return;
  if (!listing.rest) FallBehind(subscription, listing.place);
  core_.states.Remove(listing.index);
}

// ---- Entries that hold the low watermark back for too long

void Backlog::CollectOld(base::Now now) {
  if (now.wall_ms <= spill_age_ms_) return;
  const std::vector<uint32_t> cookies =
      core_.scheduler.low_watermark()->TakeCookies(now.wall_ms - spill_age_ms_);
  old_.insert(old_.end(), cookies.begin(), cookies.end());
}

bool Backlog::ListOld() {
  for (size_t i = 0; i < kListedPerStep && !old_.empty(); ++i) {
    const EntryIndex index = old_.front();
    old_.pop_front();
    const PendingDelivery& entry = core_.table[index];
    // A cookie may be stale: its index is free, or belongs to another entry. Listing that entry
    // early does no harm.
    if (entry.state == EntryState::kFree || entry.state == EntryState::kEnding ||
        entry.state == EntryState::kForgetting || entry.spilled || !entry.pinned) {
      continue;
    }
    if (entry.state == EntryState::kReady && !entry.subscription->served()) {
      MoveReadyToDisk(entry.subscription);
    } else {
      List(index);
    }
  }
  return !old_.empty();
}

void Backlog::MoveReadyToDisk(Subscription* subscription) {
  DT_CHECK(!subscription->served());
  // No stream takes the ready entries. All of them move, because an entry that stayed would
  // overtake older ones.
  while (subscription->ready.head != kNoEntry) {
    const EntryIndex index = subscription->ready.head;
    core_.states.TakeOut(index);
    MoveToDisk(index);
  }
  DT_CHECK_EQ(subscription->ready.count, 0u);
}

// ---- Reads from disk

Listed Backlog::ListedAt(const MessageKey& place, const Subscription& subscription) {
  const auto entry = core_.reader.Backlog(subscription.state.id, place);
  if (storage::IsDamage(entry.status())) return Listed::kUnknown;
  return !entry.ok() || entry->has_value() ? Listed::kYes : Listed::kNo;
}

absl::Status Backlog::ReadClaim(Subscription* subscription) {
  if (subscription->claim_read) return absl::OkStatus();
  DT_CHECK(!subscription->claim.has_value());
  const auto claim = core_.store.BacklogClaim(core_.shard, subscription->state.id);
  if (!claim.ok()) {
    core_.reader.Fail(claim.status());
    return claim.status();
  }
  subscription->claim_read = true;
  subscription->recovered_claim = subscription->claim = *claim;
  return absl::OkStatus();
}

bool Backlog::ClaimedBefore(const Subscription& subscription, const MessageKey& place) const {
  DT_CHECK(subscription.claim_read);
  return subscription.recovered_claim.has_value() && place <= *subscription.recovered_claim &&
         core_.scheduler.OfUncertainRun(place.id);
}

}  // namespace duetime::delivery
