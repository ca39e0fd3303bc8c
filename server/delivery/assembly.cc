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

// The objects of Core, and then the parts: each calls only those before it.
struct DeliveryAssembly::Owned {
  Owned(const ShardParts& shard, scheduler::Scheduler* scheduler)
      : core(CoreOf(shard, scheduler)),
        reader(shard.shard, shard.store),
        records(shard.shard, shard.writes),
        memory(*shard.limits, &table),
        subscriptions(shard),
        timers(&table, &subscriptions, shard.slabs),
        turns(*shard.limits, &memory),
        streams(core),
        leases(core),
        states(core),
        backlog(core),
        pacing(core),
        status(core),
        ends(core),
        dead_letters(core, &ends),
        retries(core, &pacing, &dead_letters),
        fill(core, &ends),
        backlog_reader(core, &retries, &fill),
        retention(core, &ends, &dead_letters, &backlog_reader, &fill),
        expiry(core, &ends, &dead_letters, &backlog_reader),
        release(core, &ends, &backlog_reader, &fill),
        offers(core, &status, &ends, &retries),
        lease_ends(core, &pacing, &ends, &dead_letters, &retries),
        hand_out(core, &pacing, &dead_letters, &retention, &expiry),
        changes(core, &pacing, &fill, &expiry, &release),
        clean_stop(core, &ends, &retries) {}

  Core CoreOf(const ShardParts& shard, scheduler::Scheduler* scheduler) {
    DT_CHECK(shard.limits != nullptr && shard.store != nullptr && shard.slabs != nullptr);
    DT_CHECK(shard.writes != nullptr && shard.writer != nullptr && shard.key_locks != nullptr);
    DT_CHECK(shard.effects != nullptr && shard.stats != nullptr && shard.names != nullptr);
    DT_CHECK(scheduler != nullptr);
    return {.shard = shard.shard,
            .limits = *shard.limits,
            .store = *shard.store,
            .writes = *shard.writes,
            .writer = *shard.writer,
            .key_locks = *shard.key_locks,
            .effects = *shard.effects,
            .stats = *shard.stats,
            .names = *shard.names,
            .scheduler = *scheduler,
            .occurrences = nullptr,
            .reader = reader,
            .records = records,
            .table = table,
            .memory = memory,
            .subscriptions = subscriptions,
            .timers = timers,
            .turns = turns,
            .streams = streams,
            .leases = leases,
            .states = states,
            .backlog = backlog};
  }

  DeliveryParts Pointers() {
    return {.pacing = &pacing,
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

  Core core;
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
  const DeliveryParts pointers = Pointers();
};

DeliveryAssembly::DeliveryAssembly(const ShardParts& shard, scheduler::Scheduler* scheduler)
    : owned_(std::make_unique<Owned>(shard, scheduler)) {}

DeliveryAssembly::~DeliveryAssembly() = default;

const Core& DeliveryAssembly::core() const { return owned_->core; }

const DeliveryParts& DeliveryAssembly::parts() const { return owned_->pointers; }

void DeliveryAssembly::SetOccurrences(OccurrenceSink* occurrences) {
  DT_CHECK(occurrences != nullptr);
  owned_->core.occurrences = occurrences;
}

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
