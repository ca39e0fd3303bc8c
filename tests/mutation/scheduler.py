# SPDX-License-Identifier: Apache-2.0
"""Faults between Schedule and due (run.py says how they are planted).

This table is new: it has not been run as a whole yet.
"""

SCHEDULER = "server/scheduler/scheduler.cc"
WRITES = "server/scheduler/pending_writes.h"
TURNS = "server/scheduler/due_turns.cc"
WATERMARK = "server/scheduler/low_watermark.cc"
LOCKS = "server/scheduler/key_locks.h"
COUNTS = "server/scheduler/minute_counts.cc"

UNIT = "scheduler_test"
SIMULATION = "simulation_test"
BOTH = f"{UNIT} {SIMULATION}"

FAULTS = [
    ("a place may lie before the clock", SCHEDULER,
     "std::max({deliver_ms, now.wall_ms, low_watermark_ms_})", "std::max({deliver_ms, low_watermark_ms_})", BOTH),
    ("a place may lie below the low watermark", SCHEDULER,
     "std::max({deliver_ms, now.wall_ms, low_watermark_ms_})", "std::max({deliver_ms, now.wall_ms})", BOTH),
    ("every message of an epoch has the same sequence", SCHEDULER,
     "const uint64_t sequence = next_sequence_++;", "const uint64_t sequence = next_sequence_;", BOTH),
    ("a spread goes beyond its range", SCHEDULER,
     "% (spread_ms + 1)", "% (spread_ms + 2)", BOTH),
    ("a start forgets the claim of the last run", SCHEDULER,
     "recovered_claim_ms_ = marks->claim_ms;", "recovered_claim_ms_ = 0;", BOTH),
    ("a low watermark of a clock that was ahead stays", SCHEDULER,
     "low_watermark_ms_ = now.wall_ms; AddSafeRecord();", "", BOTH),
    ("the low watermark passes a commit in flight", SCHEDULER,
     "safe_.Hold(message.key.due_ms); writer_->Put(", "safe_.Hold(UINT64_MAX >> 20); writer_->Put(", BOTH),
    ("a message that is due soon brings no claim", SCHEDULER,
     "if (message.key.due_ms <= now.wall_ms + options_.limits.claim_renew_ms) Claim(now);", "", UNIT),
    ("an accepted message above the horizon enters the wheel", SCHEDULER,
     "if (!horizon_.Covers(message.key)) return false;", "", BOTH),
    ("an accepted message below the horizon waits for the loader", SCHEDULER,
     "const bool added = OfferAccepted(message);", "const bool added = false;", BOTH),
    ("a full wheel does not move the horizon back", SCHEDULER,
     "horizon_.Publish(message.key); return false;", "return false;", BOTH),
    ("the horizon is published after the store was read", SCHEDULER,
     "horizon_.Publish(until); // before the store is read: see Horizon", "", BOTH),
    ("a page that ends early is taken for the whole window", SCHEDULER,
     "if (page.next.has_value()) { horizon_.Publish(*page.next);", "if (page.next.has_value()) {", BOTH),
    ("the loader goes on with a full wheel", SCHEDULER,
     "return timers() <= options_.limits.loaded_max / 2;", "return true;", UNIT),
    ("a claim is buffered", SCHEDULER,
     "writes_->Add(std::move(record), Durability::kSynced); claim_decided_ms_",
     "writes_->Add(std::move(record), Durability::kBuffered); claim_decided_ms_", BOTH),
    ("a claim holds before it is committed", SCHEDULER,
     "claim_decided_ms_ = mark_ms;", "claim_decided_ms_ = claim_ms_ = mark_ms;", BOTH),
    ("a message fires before its claim", SCHEDULER,
     "std::min({now.wall_ms, claim_ms_, horizon_.until().due_ms})", "std::min({now.wall_ms, horizon_.until().due_ms})",
     BOTH),
    ("a message fires before older ones are loaded", SCHEDULER,
     "std::min({now.wall_ms, claim_ms_, horizon_.until().due_ms})", "std::min({now.wall_ms, claim_ms_})", BOTH),
    ("a moved message fires at its former time, too", SCHEDULER,
     "const bool stale = moved.to.key.due_ms != key.due_ms;", "const bool stale = false;", BOTH),
    ("the timer of a moved message does not follow it", SCHEDULER,
     "if (loaded) AddTimer(moved.to);", "", BOTH),
    ("a recurring message loses its flag in the wheel", SCHEDULER,
     "timer.recurs = (message.flags & storage::MessageFlags::kRecurs) != 0 ? 1u : 0u;", "timer.recurs = 0u;", BOTH),
    ("the low watermark passes messages in the queue of due ones", SCHEDULER,
     "turns_.LowestDue(std::min(wheel_.now() + 1, horizon_.until().due_ms))",
     "std::min(wheel_.now() + 1, horizon_.until().due_ms)", BOTH),
    ("the low watermark passes held messages", SCHEDULER,
     "safe_.LowestHeld(turns_.LowestDue(std::min(wheel_.now() + 1, horizon_.until().due_ms)));",
     "turns_.LowestDue(std::min(wheel_.now() + 1, horizon_.until().due_ms));", BOTH),
    ("one synced record does not make its batch synced", WRITES,
     "if (durability == storage::Durability::kSynced) open_.durability = durability;", "", "pending_writes_test"),
    ("a continuation does not hear that its batch failed", WRITES,
     "continuation(now, accepted);", "continuation(now, true);", "pending_writes_test"),
    ("continuations of the open batch are forgotten when the shard fails", WRITES,
     "for (Continuation& continuation : continuations) continuation(now, false);", "", "pending_writes_test"),
    ("a continuation is told of a batch before it", WRITES,
     "taken_.push_back(std::move(continuations_));", "taken_.push_front(std::move(continuations_));", UNIT),
    ("the low watermark forgets all but one holder of a bucket", WATERMARK,
     "if (--it->second.holders == 0) buckets_.erase(it);", "buckets_.erase(it);", UNIT),
    ("the cookies of a bucket that has not ended are taken", WATERMARK,
     "((it->first + 1) << kBucketBits) <= before_ms", "(it->first << kBucketBits) <= before_ms", UNIT),
    ("the cookies of a bucket are taken twice", WATERMARK, "it->second.cookies = {};", "", UNIT),
    ("a topic takes all turns", TURNS, "std::min(count, kTurn)", "count", "due_turns_test"),
    ("the lowest due time looks at the first topic only", TURNS,
     "limit_ms = std::min(limit_ms, first.due); });", "limit_ms = std::min(limit_ms, first.due); }); break;",
     "due_turns_test"),
    ("a lock lets its waiters run in any order", LOCKS,
     "for (Waiter& late : again->second) waiters.push_back(std::move(late));",
     "for (Waiter& late : again->second) waiters.push_front(std::move(late));", UNIT),
    ("a lock that is taken again runs its waiters all the same", LOCKS,
     "again != held_.end()", "again != held_.end() && false", BOTH),
    ("a minute that is not loaded counts as empty", COUNTS,
     "minute.messages = static_cast<int64_t>((stored++)->messages);", "++stored;", "minute_counts_test"),
    ("a minute with a change in flight is forgotten", COUNTS,
     "it->second.batch < first_in_flight", "true", "minute_counts_test"),
    ("an erased message is counted on", "server/scheduler/message_writer.cc",
     "Count(topic, key.due_ms, -1, -static_cast<int64_t>(bytes));", "", BOTH),
    ("the counts of a batch are written to one bucket", "server/scheduler/message_writer.cc",
     "last_ = bucket; last_delta_ = {};", "last_delta_ = {};", BOTH),
]
