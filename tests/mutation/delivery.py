# SPDX-License-Identifier: Apache-2.0
"""Faults between due and settled, and in what clients do to messages (run.py says how they are planted).

This table is new: it has not been run as a whole yet.
"""

ROOM = "server/delivery"
MESSAGES = "server/messages"

PARTS = "delivery_parts_test"
WORLD = "delivery_world_test"
SETTLE = "settle_test"
SCENARIOS = "scenario_test"
SIMULATION = "simulation_test"
ALL = f"{WORLD} {SETTLE} {SCENARIOS} {SIMULATION}"
CHANGES = f"messages_test {SCENARIOS} {SIMULATION}"

FAULTS = [
    # ---- Leases
    ("a delivery does not count as an attempt", f"{ROOM}/leases.cc", "++entry.attempts;", "", ALL),
    ("a lease of an earlier epoch still counts", f"{ROOM}/leases.cc",
     "if (token != protocol::MakeToken(shard_, scheduler_->epoch(), bits)) return kNoEntry;", "", ALL),
    ("a lease of a deleted subscription still counts", f"{ROOM}/leases.cc",
     "return entry.subscription->state.deleting ? kNoEntry : it->second;", "return it->second;", ALL),
    ("a lease is extended from its end", f"{ROOM}/leases.cc",
     "timers_->Cancel(index); timers_->Start(index, now.mono_ms + duration_ms);",
     "const uint64_t end = (*table_)[index].wait_end_mono_ms; timers_->Cancel(index); "
     "timers_->Start(index, std::max(now.mono_ms, end) + duration_ms);", ALL),
    ("a lease never ends", f"{ROOM}/lease_ends.cc",
     "now.mono_ms < entry.wait_end_mono_ms + kGraceMaxMs", "now.mono_ms > 0", ALL),
    ("a lease that a waiting settlement may name ends", f"{ROOM}/lease_ends.cc",
     "return any_lease_ || waiting_.contains(entry.stream);", "return false;", ALL),
    ("a settlement overtakes those that wait", f"{ROOM}/lease_ends.cc",
     "it != waiting_.end()) {", "it != waiting_.end() && false) {", ALL),
    ("an ack is answered before it is committed", f"{ROOM}/lease_ends.cc",
     "batch->later.settled.push_back(token); batch->acked.push_back(index);",
     "batch->now.settled.push_back(token); batch->acked.push_back(index); batch->later.settled.push_back(token);", ALL),
    ("an ack of a failed journal is answered", f"{ROOM}/lease_ends.cc",
     "if (!accepted) return; FinishAcks(acked);", "FinishAcks(acked); (void)accepted;", ALL),
    ("the credit of acked messages does not return", f"{ROOM}/lease_ends.cc",
     "states_->Remove(index); } if (messages > 0) streams_->ReturnCredit(stream, messages, bytes);",
     "states_->Remove(index); }", ALL),
    ("a shard that cannot read refuses a dead letter", f"{ROOM}/lease_ends.cc",
     "} else if (reader_->ok()) {", "} else {", ALL),
    # ---- Retries
    ("a failed attempt is not written", f"{ROOM}/retries.cc",
     "entry.progress = true; records_->PutProgress(entry.key(), entry.subscription->state.id, "
     "{.state = Progress::State::kFailed,", "entry.progress = true; if (false) records_->PutProgress(entry.key(), "
     "entry.subscription->state.id, {.state = Progress::State::kFailed,", ALL),
    ("a retry does not wait", f"{ROOM}/retries.cc", "if (delay_ms > 0) {", "if (delay_ms > UINT64_MAX / 2) {", ALL),
    ("the time of a retry is lost at a restart", f"{ROOM}/retries.cc",
     ".retry_ms = retry_ms,", ".retry_ms = 0,", ALL),
    ("a retry returns no credit", f"{ROOM}/retries.cc", "streams_->ReturnCredit(stream, 1, entry.bytes);", "", ALL),
    ("a backoff begins anew at each attempt", f"{ROOM}/retries.cc",
     "BackoffMs(policy, entry.attempts, entry.id.low)", "BackoffMs(policy, 1, entry.id.low)", ALL),
    ("a message is tried for ever", f"{ROOM}/retries.cc", "if (OutOfAttempts(entry) &&", "if (false &&", ALL),
    # ---- Dead letters
    ("a dead letter forgets its origin's attempts", f"{ROOM}/dead_letters.cc",
     "origin.attempts = entry.attempts;", "", ALL),
    ("a dead letter is due, and never offered", f"{ROOM}/dead_letters.cc", "scheduler_->OnPut(ref);", "", ALL),
    ("a subscription's own dead-letter topic is ignored", f"{ROOM}/dead_letters.cc",
     "return own != TopicId{} ? own : subscription.topic->dead_letter;", "return subscription.topic->dead_letter;", ALL),
    # ---- The end of a message
    ("the first settlement ends a message for all", f"{ROOM}/message_ends.cc",
     "if (!topic.several) return ProgressRows();", "return ProgressRows();", ALL),
    ("a settlement waits for subscriptions made after the message", f"{ROOM}/message_ends.cc",
     "!other->Covers(key.id)) continue; if (table_->FindAt(key, other) == kNoEntry",
     "false) continue; if (table_->FindAt(key, other) == kNoEntry", ALL),
    ("one of many entries is not found", f"{ROOM}/pending_deliveries.cc", "wide_[{key.id, subscription}] = index;", "", ALL),
    ("a message is searched as one of many for ever", f"{ROOM}/pending_deliveries.cc",
     "if (chain.wide) DT_CHECK_EQ(wide_.erase({entry.id, entry.subscription}), 1u);", "", ALL),
    ("the settlement of one subscription is not written", f"{ROOM}/message_ends.cc",
     "records_->PutProgress(entry.key(), subscription.state.id, {.state = Progress::State::kSettled,",
     "if (false) records_->PutProgress(entry.key(), subscription.state.id, {.state = Progress::State::kSettled,", ALL),
    ("the progress of an ended message stays", f"{ROOM}/message_ends.cc",
     "for (const auto& [id, progress] : rows) records_->RemoveProgress(key, id);", "", ALL),
    ("a tombstone forgets its key", f"{ROOM}/message_ends.cc", "tombstone.key = details->key;", "", ALL),
    ("a moved message stays in the backlog", f"{ROOM}/message_ends.cc",
     "backlog_->Unlist(place, *subscription); // The count", "// The count", ALL),
    # ---- Offers
    ("a message in change is offered", f"{ROOM}/offers.cc",
     "if (key_locks_->Held(message.key.id)) return;", "", ALL),
    ("an offer of a message that is being settled is not repeated", f"{ROOM}/offers.cc",
     "takers_.empty() && ends_->OnlySettling(message.key)", "false", ALL),
    ("a settled subscription is offered the message again", f"{ROOM}/offers.cc",
     "if (row != nullptr && row->state == Progress::State::kSettled) continue;", "", ALL),
    ("a message on disk is offered from memory, too", f"{ROOM}/offers.cc",
     "return !ask_disk || !backlog_->Contains(message.key, subscription);", "return true;", ALL),
    ("a restart forgets that a message may have been delivered", f"{ROOM}/offers.cc",
     "entry.maybe_delivered = scheduler_->MaybeDelivered(message.key);", "", ALL),
    ("an offer forgets the attempts on disk", f"{ROOM}/offers.cc", "entry.attempts = row->attempts;", "", ALL),
    ("an offer forgets the wait on disk", f"{ROOM}/offers.cc",
     "if (row->retry_ms > now.wall_ms) return retries_->ResumeDelay(now, index, *row); } states_->MakeReady(index);",
     "} states_->MakeReady(index);", ALL),
    # ---- The backlog
    ("a page of the backlog is handed out without a claim", f"{ROOM}/backlog_reader.cc",
     "records_->ClaimBacklog(subscription->claim.value_or(MessageKey{}), subscription->state.id);", "", ALL),
    ("an older message that came meanwhile is passed over", f"{ROOM}/backlog_reader.cc",
     "if (subscription->backlog.cursor() <= page.back().key) {", "if (false) {", ALL),
    ("a backlog is read beyond the clock", f"{ROOM}/backlog_reader.cc",
     "return item.key.due_ms > now.wall_ms;", "return item.key.due_ms > now.wall_ms + 1000;", ALL),
    ("what was read back is not marked as perhaps delivered", f"{ROOM}/backlog_reader.cc",
     "entry.maybe_delivered = uncertain;", "", ALL),
    ("an entry leaves memory before its listing is committed", f"{ROOM}/backlog.cc",
     "if (!listing.forget || !forgetting) return;", "if (!forgetting) return;", ALL),
    ("the low watermark passes a listing in flight", f"{ROOM}/backlog.cc",
     "scheduler_->low_watermark()->Hold(message.key.due_ms); Add(",
     "scheduler_->low_watermark()->Hold(UINT64_MAX >> 20); Add(", ALL),
    ("a parked backlog is never read again", f"{ROOM}/backlog.cc",
     "timers_->WakeAt(now.mono_ms + first.due_ms - now.wall_ms, subscription);", "", ALL),
    ("a listing loses the attempts", f"{ROOM}/backlog.cc",
     "return {.attempts = entry.attempts,", "return {.attempts = 0,", ALL),
    # ---- Hand-out
    ("an expired message is delivered", f"{ROOM}/hand_out.cc",
     "return head.ttl_ms > 0 && now.wall_ms > head.header.deliver_ms + head.ttl_ms;", "return false;", ALL),
    ("messages of an ordering key are delivered side by side", f"{ROOM}/hand_out.cc",
     "return !states_->LockOrder(index, head->ordering_key);", "return false;", ALL),
    ("a repeat does not say so", f"{ROOM}/hand_out.cc",
     "entry.attempts > 1 || entry.maybe_delivered", "entry.attempts > 1", ALL),
    ("the first stream gets all of a burst", f"{ROOM}/hand_out.cc",
     "std::min({frame_messages_max_, share, turn})", "std::min({frame_messages_max_, turn})", f"{SETTLE} crowd_test "
     f"{SCENARIOS} {SIMULATION}"),
    ("what is held back keeps its credit", f"{ROOM}/hand_out.cc",
     "streams_->ReturnCredit(stream->id, held_back, bytes);", "", ALL),
    ("the next message of an ordering key is not made ready", f"{ROOM}/delivery_states.cc",
     "table_->PushFront(&subscription->ready, next);", "table_->PushBack(&subscription->ready, next);", ALL),
    # ---- Retention, fill, release
    ("an old message is kept", f"{ROOM}/retention.cc",
     "return retention_ms > 0 && now.wall_ms > entry.due_ms + retention_ms;", "return false;", ALL),
    ("the number of messages of a shard is not bounded", f"{ROOM}/retention.cc", "return max > 0 &&", "return false &&",
     ALL),
    ("a new subscription gets no earlier messages", f"{ROOM}/subscription_fill.cc", "backlog_->ListNew(", "if (false) "
     "backlog_->ListNew(", ALL),
    ("a fill begins anew after each restart", f"{ROOM}/subscription_fill.cc", "subscriptions_->Save(*subscription);", "",
     ALL),
    ("a deleted subscription keeps its backlog", f"{ROOM}/subscription_release.cc",
     "if (index != kNoEntry) ends_->Drop(now, index);", "if (index != kNoEntry) ends_->DropStale(index);", ALL),
    ("a deleted subscription keeps its object", f"{ROOM}/subscriptions.cc",
     "} else { RemoveObject(id); }", "}", WORLD),
    ("a deleted subscription keeps its turn", f"{ROOM}/subscription_release.cc", "turns_->Forget(subscription);", "",
     WORLD),
    ("the next run does not know of a deletion", f"{ROOM}/subscriptions.cc",
     "return !std::exchange(topic->deletion_kept, true) ||", "return", WORLD),
    ("clocks of deleted subscriptions are kept", "server/protocol/topic_pace.h",
     "absl::erase_if(clocks_, [](const auto& item) { return item.second.expired(); });", "", WORLD),
    ("retention reads the same page again", f"{ROOM}/retention.cc",
     "subscription->retention_cursor = After(page->items.back().key);", "", WORLD),
    # ---- Small parts
    ("an ordering key passes to the last that waits", f"{ROOM}/ordering_key_locks.h",
     "const EntryIndex next = it->second.head;", "const EntryIndex next = it->second.tail;", PARTS),
    ("memory is full one message late", f"{ROOM}/memory_share.h",
     "return table_->size() >= due_max_;", "return table_->size() > due_max_;", ALL),
    ("a subscription without room keeps new messages", f"{ROOM}/memory_share.h",
     "if (!subscription.served() && !small) return false;", "", f"crowd_test {ALL}"),
    ("a paused subscription has its turn", f"{ROOM}/turns.h",
     "!subscription.pacing.waiting && !subscription.paused();", "!subscription.pacing.waiting;", ALL),
    # ---- Client operations
    ("a message that a subscriber has can be cancelled", f"{MESSAGES}/change_commands.cc",
     "if (!reply->status.ok() || (!untouched && !command.stop_redelivery)) return false;",
     "if (!reply->status.ok()) return false;", CHANGES),
    ("an etag is not compared", f"{MESSAGES}/change_commands.cc",
     "if (command.revision.has_value() && *command.revision != found.record.revision) {", "if (false) {", CHANGES),
    ("a change is answered before it is committed", f"{MESSAGES}/change_commands.cc",
     "writes_->Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {",
     "effects_->replies.push_back(std::move(reply)); return; writes_->Then([this, reply = std::move(reply)](base::Now, "
     "bool ok) mutable {", CHANGES),
    ("a command does not wait for a change in flight", f"{MESSAGES}/message_finder.cc",
     "!resolved.wait_for.has_value() && locks_->ChangeInFlight(resolved.id)", "false", CHANGES),
    ("a moved message is not found by its id", f"{MESSAGES}/message_changes.cc",
     "if (due_ms != id.due_ms()) {", "if (false) {", CHANGES),
    ("a moved message stays at its former place, too", f"{MESSAGES}/message_changes.cc",
     "writer_->Erase(found.key, to.topic, static_cast<uint32_t>(found.bytes.size()), Durability::kSynced);", "", CHANGES),
    ("a key that expired is still known", f"{MESSAGES}/key_index.cc",
     "if (expire_ms != 0 && expire_ms <= now.wall_ms) return IndexEntry{};", "", CHANGES),
    ("an expired tombstone still answers", f"{MESSAGES}/message_finder.cc",
     "if (tombstone->expire_ms <= now.wall_ms) return absl::OkStatus();", "", CHANGES),
]
