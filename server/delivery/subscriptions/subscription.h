// SPDX-License-Identifier: Apache-2.0
//
// Topics, subscriptions and streams of one shard. Plain state; the heading of each group of fields
// names the part that changes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/delivery/backlog/backlog_count.h"
#include "server/delivery/backlog/backlog_position.h"
#include "server/delivery/ordering_key_locks.h"
#include "server/delivery/pace/subscription_pacing.h"
#include "server/delivery/pending_deliveries.h"
#include "server/protocol/activity.h"
#include "server/protocol/subscription_state.h"
#include "server/protocol/topic_pace.h"

namespace duetime::protocol {
class AnswerBudget;
class StreamCredit;
}  // namespace duetime::protocol

namespace duetime::delivery {

// A subscriber's stream. After its end the object stays until the last lease ends.
struct Stream {
  protocol::StreamId id{};
  Subscription* subscription = nullptr;
  uint64_t lease_ms = 0;
  std::shared_ptr<protocol::StreamCredit> credit;
  // Set for a Pull: bounds the records of its deliveries.
  std::shared_ptr<protocol::AnswerBudget> budget;
  // The subscriber's name for itself, for the attempts that end.
  std::string client_id;
  // The entries that are leased to it.
  EntryList in_flight;
  // In its subscription's list of available streams: its credit was not found exhausted.
  bool available = false;
  bool attached = true;
  // The stream ended because its subscription was deleted.
  bool dismissed = false;
  // It was a Pull whose answer was not sent.
  bool unsent = false;
  // The subscriber reports the messages that it begins.
  bool reports_begun = false;
  // The stream ended, and the server had not closed it.
  bool broke = false;
  uint64_t handed_out = 0;
  // The last deliveries, which came after the stream's end and did not leave the server.
  uint64_t not_received = 0;
};

struct Topic {
  storage::TopicId id{};
  // At least one.
  std::vector<Subscription*> subscriptions;
  // The topic has, or had, more than one subscription, so the store may have progress records.
  bool several = false;
  // A subscription was deleted, and with it the records of earlier deliveries to it.
  bool some_deleted = false;
  // The object of a deleted subscription is kept on disk, so that the next run sets `several` and
  // `some_deleted`.
  bool deletion_kept = false;
  protocol::TopicSettingsPtr settings = protocol::DefaultTopicSettings();
  // How long tombstones are kept: the topic's, or else the server's.
  uint64_t tombstone_retention_ms = 0;
  std::shared_ptr<protocol::TopicPace> pace;
  storage::TopicId dead_letter{};
};

struct Subscription {
  // ---- Subscriptions
  //
  // The topic's first subscription has no name until a client names it.
  protocol::SubscriptionState state;
  Topic* topic = nullptr;

  // ---- PendingDeliveries and DeliveryStates
  EntryCounts counts;
  // Due messages that wait for credit, in the order in which deliveries start.
  EntryList ready;
  OrderingKeyLocks order;

  // ---- Streams
  size_t streams = 0;
  // Streams to try next, in turn.
  std::deque<Stream*> available;

  // ---- Turns
  bool serve_queued = false;
  bool read_queued = false;
  bool room_queued = false;

  // ---- Pacing
  SubscriptionPacing pacing;

  // ---- DeliveryTimers
  wheel::TimerStamp wake;
  uint64_t wake_mono_ms = 0;

  // ---- Backlog and BacklogReader
  BacklogPosition backlog;
  // The number of messages on disk and not in memory, for the retention by number.
  BacklogCount listed;
  // Listings that are not committed yet; and the listings among them that move entries from memory
  // to disk. Until the commit, a message that is read back would overtake such an entry.
  size_t spills_in_flight = 0;
  size_t forgets_in_flight = 0;
  // Some messages of the backlog have been delivered before. Their progress records must be read,
  // and their backlog records must not be written over.
  bool forgot_delivered = false;
  // A page waits for its claim.
  bool reading = false;
  // The place up to which earlier runs claimed the backlog (once it is read), and the place up to
  // which any run did.
  bool claim_read = false;
  std::optional<storage::MessageKey> recovered_claim;
  std::optional<storage::MessageKey> claim;

  // ---- Retention
  //
  // Listed messages that were dropped since the last count.
  size_t given_up = 0;
  // The place at which the walk over the listed messages continues, if it has not ended.
  storage::MessageKey retention_cursor;

  // ---- SubscriptionFill
  //
  // How much was damaged (BacklogDamage) when this run last filled the backlog because of damage.
  uint64_t refilled_damage = 0;
  storage::MessageKey fill_cursor;
  bool filling = false;
  // This run filled the backlog, or is filling it, because of damage.
  bool refilled = false;
  // The fill passed something that it could not read.
  bool fill_damaged = false;

  // ---- SubscriptionRelease
  EntryIndex release_index = 0;
  storage::MessageKey release_cursor;

  // ---- Counters since the start
  uint64_t delivered = 0;
  uint64_t acked = 0;
  uint64_t failed = 0;
  uint64_t dead_lettered = 0;
  uint64_t dead_letter_hops_refused = 0;
  uint64_t dropped = 0;
  // Null before the first delivery.
  std::unique_ptr<protocol::LatenessCounts> lateness;

  bool paused() const { return topic->settings->paused() || state.settings.paused(); }
  // True if streams may receive its messages now.
  bool served() const { return streams > 0 && !paused(); }
  // True if its next page of the backlog is the first one of a rest (OrderingKeyLocks).
  bool ReadsAgain() const { return order.wants_read() && backlog.MayReadAgain(order.wanted()); }
  bool bounded() const { return protocol::BoundsNumber(state.settings); }
  // True if it does not keep every message for ever.
  bool retains() const { return protocol::Retains(state.settings); }
  // True if the message is for this subscription.
  bool Covers(const storage::MessageId& id) const { return !state.deleting && state.start <= id; }
};

}  // namespace duetime::delivery
