// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/assembly.h"

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/clean_stop.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/expiry.h"
#include "server/delivery/endings/lease_ends.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/message_status.h"
#include "server/delivery/endings/retention.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/hand_out.h"
#include "server/delivery/leases.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/offers.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscription_changes.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscription_release.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

// The parts, in the order of DeliveryParts: a part calls only the parts before it.
struct DeliveryAssembly::Owned {
  Owned(const ShardParts& shard, scheduler::Scheduler* scheduler)
      : pointers(PointersOf(shard, scheduler)),
        reader(shard.shard, shard.store),
        records(shard.shard, shard.writes),
        memory(*shard.limits, &table),
        subscriptions(shard),
        timers(&table, &subscriptions, shard.slabs),
        turns(*shard.limits, &memory),
        streams(pointers),
        leases(pointers),
        states(pointers),
        backlog(pointers),
        pacing(pointers),
        status(pointers),
        ends(pointers),
        dead_letters(pointers),
        retries(pointers),
        fill(pointers),
        backlog_reader(pointers),
        retention(pointers),
        expiry(pointers),
        release(pointers),
        offers(pointers),
        lease_ends(pointers),
        hand_out(pointers),
        changes(pointers),
        clean_stop(pointers) {}

  DeliveryParts PointersOf(const ShardParts& shard, scheduler::Scheduler* scheduler) {
    DT_CHECK(AllSet(shard.limits, shard.store, shard.slabs));
    DT_CHECK(AllSet(shard.writes, shard.writer, shard.key_locks));
    DT_CHECK(AllSet(shard.occurrences, shard.effects, shard.stats));
    DT_CHECK(scheduler != nullptr);
    return {.shard = shard,
            .scheduler = scheduler,
            .reader = &reader,
            .records = &records,
            .table = &table,
            .memory = &memory,
            .subscriptions = &subscriptions,
            .timers = &timers,
            .turns = &turns,
            .streams = &streams,
            .leases = &leases,
            .states = &states,
            .backlog = &backlog,
            .pacing = &pacing,
            .status = &status,
            .ends = &ends,
            .dead_letters = &dead_letters,
            .retries = &retries,
            .fill = &fill,
            .backlog_reader = &backlog_reader,
            .retention = &retention,
            .expiry = &expiry,
            .release = &release,
            .offers = &offers,
            .lease_ends = &lease_ends,
            .hand_out = &hand_out,
            .changes = &changes,
            .clean_stop = &clean_stop};
  }

  const DeliveryParts pointers;
  StoreReader reader;
  DeliveryRecords records;
  PendingDeliveries table;
  MemoryShare memory;
  Subscriptions subscriptions;
  DeliveryTimers timers;
  Turns turns;
  Streams streams;
  Leases leases;
  DeliveryStates states;
  Backlog backlog;
  Pacing pacing;
  MessageStatus status;
  MessageEnds ends;
  DeadLetters dead_letters;
  Retries retries;
  SubscriptionFill fill;
  BacklogReader backlog_reader;
  Retention retention;
  Expiry expiry;
  SubscriptionRelease release;
  Offers offers;
  LeaseEnds lease_ends;
  HandOut hand_out;
  SubscriptionChanges changes;
  CleanStop clean_stop;
};

DeliveryAssembly::DeliveryAssembly(const ShardParts& shard, scheduler::Scheduler* scheduler)
    : owned_(std::make_unique<Owned>(shard, scheduler)) {}

DeliveryAssembly::~DeliveryAssembly() = default;

const DeliveryParts& DeliveryAssembly::parts() const { return owned_->pointers; }

void DeliveryAssembly::CheckInvariants() const {
  owned_->table.CheckInvariants();
  owned_->memory.CheckInvariants();
  owned_->subscriptions.CheckInvariants();
  owned_->timers.CheckInvariants();
  owned_->streams.CheckInvariants();
  owned_->leases.CheckInvariants();
  owned_->states.CheckInvariants();
  const PendingDeliveries& table = owned_->table;
  size_t timers = table.count(EntryState::kInFlight) + table.count(EntryState::kDelayed);
  size_t behind = 0;
  size_t entries = 0;
  size_t to_serve = 0;
  size_t to_read_back = 0;
  owned_->subscriptions.ForEach([&](const Subscription& subscription) {
    Turns::CheckInvariants(subscription);
    const EntryCounts& counts = subscription.counts;
    DT_CHECK_EQ(counts.of(EntryState::kReady), subscription.ready.count);
    DT_CHECK_EQ(counts.of(EntryState::kBlocked), subscription.order.waiting());
    subscription.order.CheckInvariants(subscription.backlog.behind());
    DT_CHECK(subscription.order.rests() == 0 || subscription.backlog.any());
    timers += subscription.wake.none() ? 0u : 1u;
    behind += subscription.backlog.behind() ? 1u : 0u;
    entries += counts.total;
    to_serve += subscription.serve_queued ? 1u : 0u;
    to_read_back += subscription.read_queued ? 1u : 0u;
  });
  DT_CHECK_EQ(timers, owned_->timers.size());
  DT_CHECK_EQ(behind, owned_->backlog.behind());
  DT_CHECK_EQ(entries, table.size());
  DT_CHECK_EQ(to_serve, owned_->turns.to_serve());
  DT_CHECK_EQ(to_read_back, owned_->turns.to_read_back());
}

}  // namespace duetime::delivery
