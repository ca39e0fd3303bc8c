// SPDX-License-Identifier: Apache-2.0
//
// Topics, subscriptions and streams as one shard sees them. Plain state of the Dispatcher.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/delivery/backlog_count.h"
#include "server/delivery/catch_up.h"
#include "server/delivery/due_table.h"
#include "server/delivery/failure_brake.h"
#include "server/delivery/key_holds.h"
#include "server/delivery/subscription_state.h"
#include "server/delivery/topic_pace.h"

namespace duetime::delivery {

// A subscriber's stream. It outlives its end until its leases are given back or over.
struct Stream {
  StreamId id{};
  Subscription* subscription = nullptr;
  uint64_t lease_ms = 0;
  std::shared_ptr<StreamCredit> credit;
  // Leased to it.
  EntryList in_flight;
  // In its subscription's willing list: credit was not found exhausted.
  bool willing = false;
  bool attached = true;
  // It did not end by itself: its subscription was deleted.
  bool dismissed = false;
};

struct Topic {
  storage::TopicId id{};
  // At least one.
  std::vector<Subscription*> subscriptions;
  // It has, or had, more than one: the store may know how far others have come with its messages.
  bool several = false;
  // One of them was deleted: nothing may tell any more what an earlier run gave it.
  bool some_deleted = false;
  // How long it is remembered how its messages ended.
  uint64_t fate_retention_ms = 0;
  bool paused = false;
  std::shared_ptr<TopicPace> pace;
  storage::TopicId dead_letter{};
  std::string dead_letter_name;
};

struct Subscription {
  // Without a name: the topic's first one, which nobody has asked for yet.
  SubscriptionState state;
  Topic* topic = nullptr;
  // Due, waiting for credit, in the order in which deliveries start.
  EntryList ready;
  // All its entries in the table, and some of them by state.
  size_t entries = 0;
  size_t in_flight = 0;
  size_t delayed = 0;
  size_t streams = 0;
  // Ordering keys in flight, and who waits behind them.
  KeyHolds holds;
  // Streams to try next, in turn.
  std::deque<Stream*> willing;
  // In the dispatcher's queue of subscriptions to serve.
  bool queued = false;

  // How fast it may be served.
  PaceClock* pace = nullptr;
  CatchUp catch_up;
  FailureBrake brake;
  // Waits for the time when it may be served again.
  bool throttled = false;
  // When it is to be looked at for that, or because a place in the backlog comes of age.
  wheel::TimerStamp wake;
  uint64_t wake_mono_ms = 0;

  // Part of its due messages is only on disk: new ones go there too, behind the older.
  bool behind = false;
  // Everything in the backlog below this has been read back.
  storage::MessageKey backlog_cursor;
  // All that is left on disk is for later; this is the first. Not with `behind`.
  std::optional<storage::MessageKey> parked;
  // What is on disk and not in memory, for the retention by number; and how much of it was given up
  // since it was counted last.
  BacklogCount listed;
  size_t given_up = 0;
  // It was filled with what was due until then; 0: it was not.
  uint64_t filled_until_ms = 0;
  // Some of the backlog has been delivered before: its records must not be written over.
  bool forgot_delivered = false;
  // A page read back waits for its claim.
  bool reading = false;
  // In the dispatcher's queue of subscriptions to read back for.
  bool read_queued = false;
  // Spills on their way to the journal.
  size_t spills_in_flight = 0;
  // Those of them that move entries from memory to disk: until they are there, reading back would
  // overtake them.
  size_t forgets_in_flight = 0;
  // How far the backlog was claimed by earlier runs (once read), and by any.
  bool claim_read = false;
  std::optional<storage::MessageKey> recovered_claim;
  std::optional<storage::MessageKey> claim;

  // How far it is released, if it is deleted: entries, and the backlog.
  EntryIndex release_index = 0;
  storage::MessageKey release_cursor;
  // How far it is filled with what was there before it.
  storage::MessageKey fill_cursor;

  // Since start.
  uint64_t delivered = 0;
  uint64_t acked = 0;
  uint64_t dead_lettered = 0;
  uint64_t dropped = 0;

  bool paused() const { return topic->paused || state.settings.paused; }
  // Somebody may be given its messages now.
  bool served() const { return streams > 0 && !paused(); }
  bool has_backlog() const { return behind || parked.has_value(); }
  // It keeps so many messages and no more; it does not keep everything for ever.
  bool bounded() const { return state.settings.retention_max_messages > 0; }
  bool retains() const { return state.settings.retention_ms > 0 || bounded(); }
  // The message is for it.
  bool Covers(const storage::MessageId& id) const { return !state.deleting && state.start <= id; }
};

}  // namespace duetime::delivery
