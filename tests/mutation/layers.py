# SPDX-License-Identifier: Apache-2.0
"""One fault for each way in which a layer of the tests must protect a promise (run.py --table layers plants them).

The other tables ask whether any test of a room notices a fault. This one asks whether a layer does its own work: only the
named layer runs, and it must fail within its time limit. Each entry has two more fields:

  (what is wrong, file or folder, the text, its replacement, the layer, the promise, the limit in seconds)

A layer is a test of ctest, and arguments to choose a part of it.
"""

# ---- Unit and contract
BASE = "base_test"
RUNTIME = "runtime_test"
RPC = "rpc_unit_test"
MESSAGES = "messages_test"
SCHEDULER = "scheduler_test"
CONTRACT = "message_store_contract_test"
SCENARIOS = "scenario_test"

# ---- Simulation
SEQUENTIAL = "sequential_simulation_test --gtest_filter=SequentialCallsTest.*"
CATALOG = "sequential_simulation_test --gtest_filter=CatalogCallsTest.*"
CLOCK = "sequential_simulation_test --gtest_filter=ClockStepsTest.*"
CONCURRENT = "simulation_test --gtest_filter=ConcurrentCallsTest.*"
IN_A_CELL = "cell_simulation_test --gtest_filter=*CallsTest.*InACell"

# ---- Files
DATABASE = "storage/rocksdb/rocksdb_database.cc"
START = "storage/rocksdb/start_check.cc"
CLAIMS = "server/scheduler/scheduler.cc"
COMMITTER = "server/runtime/committer.cc"
ENDS = "server/delivery/endings/message_ends.cc"
REPLICA = "server/cell/replica.cc"
JOURNAL = "server/cell/replicated_journal.cc"

FAULTS = [
    ("one release of a clock that is ahead believes every later jump", "server/base/clock.cc", "release_ = false;", "",
     BASE, "P2", 30),
    ("the last batch of a group decides about the sync", COMMITTER,
     "if (item.durability == storage::Durability::kSynced) { group_durability_ = storage::Durability::kSynced; }",
     "group_durability_ = item.durability;", RUNTIME, "P1", 30),
    ("a closed connection counts against its peer for ever", "server/rpc/limits/connection_table.cc", "Leave(then.peer);", "",
     RPC, "P6", 30),
    ("requests of two keys with one request_id are one request", "server/messages/key_index.cc",
     "if (scope.empty()) return options.request_id;", "return options.request_id;", MESSAGES, "P1", 30),
    ("the low watermark stays, so each start reads more", CLAIMS,
     "if (mark_ms <= low_watermark_ms_) return;", "if (mark_ms >= low_watermark_ms_) return;", SCHEDULER, "P10", 30),
    ("the last message of a read is left out", "storage/rocksdb/rocksdb_source.cc",
     r"std::string(keys.back().bytes()) + '\0'", "std::string(keys.back().bytes())", CONTRACT, "P1", 60),
    ("a fenced journal is asked to write again", DATABASE,
     'if (fenced()) return absl::FailedPreconditionError("the store is fenced");', "", CONTRACT, "P7", 60),

    # ---- Scenarios
    ("a clean stop keeps its claim", "server/shard/shard.cc", "scheduler_.GiveBackClaim();", "", SCENARIOS, "P3", 60),
    ("a Schedule is answered although the journal failed", "server/messages/schedule_commands.cc",
     "if (!ok) call->reply.status = base::StorageFailedError();", "", SCENARIOS, "P7", 60),
    ("a message that waits for its retry frees its ordering key", "server/delivery/delivery_states.cc",
     "core_.table[index].stream = protocol::StreamId{}; core_.timers.Start(",
     "UnlockOrder(index); core_.table[index].stream = protocol::StreamId{}; core_.timers.Start(", SCENARIOS, "P8", 60),

    # ---- Simulation
    ("a cancel is answered before its sync", "server/messages/message_changes.cc",
     ".durability = Durability::kSynced});", ".durability = Durability::kBuffered});", SEQUENTIAL, "P3", 150),
    ("messages share a counter as their etag", "server/protocol/etag.h",
     "return base::Mix(id.high ^ base::Mix(id.low)) + revision;", "return revision;", SEQUENTIAL, "P4", 150),
    ("a deletion that is taken back leaves its record", "server/catalog/topic_deletion.cc",
     "entry->phase = TopicPhase::kLive; state_->Write(*entry, TopicPhase::kLive, entry->topic->settings);",
     "entry->phase = TopicPhase::kLive;", CATALOG, "P1", 150),
    ("the claim of a page of the backlog stays at its first message", "server/delivery/backlog/backlog_reader.cc",
     "subscription->claim = std::max(subscription->claim.value_or(item.key), item.key);",
     "subscription->claim = subscription->claim.value_or(item.key);", CONCURRENT, "P3", 150),
    ("a recurrence goes on and is not saved", "server/recurrences/recurrence_engine.cc",
     "if (entry->rule.has_value()) MakeNext(now, entry, state.nominal_ms); Save(*entry);",
     "if (entry->rule.has_value()) MakeNext(now, entry, state.nominal_ms);", CONCURRENT, "P1", 150),
    ("a start that a crash cut off goes on nowhere", "server/messages/bulk_runner.cc",
     "if (status.ok() && core_.shard != 0) status = CompleteStarts(now);", "", CONCURRENT, "P1", 150),
    ("a step back of the clock empties the wheel and keeps the horizon", CLAIMS,
     "horizon_.Publish(MessageKey::FirstAt(low_watermark_ms_)); load_from_ms_ = std::min(", "load_from_ms_ = std::min(",
     CLOCK, "P1", 150),
    ("after a step back of the clock, messages wait for the old time", CLAIMS,
     "moved_.clear(); TakeBackLowWatermark(now);", "moved_.clear();", CLOCK, "P5", 150),

    # ---- Simulation in a cell
    ("a group counts whatever its number is", REPLICA, "return of_this_epoch && head.number == place_.groups + 1;",
     "return of_this_epoch;", IN_A_CELL, "P1", 150),
    ("the last group counts again", REPLICA, "return of_this_epoch && head.number == place_.groups + 1;",
     "return of_this_epoch && head.number >= place_.groups;", IN_A_CELL, "P1", 150),
    ("an epoch begins twice", REPLICA, "return head.epoch == epoch_max;", "return head.epoch + 1 >= epoch_max;",
     IN_A_CELL, "P1", 150),
    ("a leader believes the report of an entry alone", JOURNAL,
     "(outcome == Outcome::kCounts && written.ok())", "written.ok()", IN_A_CELL, "P1", 150),
    ("what only one member has is trimmed", "server/cell/roster.cc", "offsets[1]});", "offsets[0]});",
     IN_A_CELL, "P1", 150),

    # ---- Power cuts, changed files, damaged blocks
    ("no append is synced", DATABASE, "WriteOut(durability == Durability::kSynced);", "WriteOut(false);",
     "storage_power_loss_test", "P1", 120),
    ("the witness counts what is not synced", DATABASE,
     "record.durable_sequence = durable_sequence_.load(std::memory_order_acquire);",
     "record.durable_sequence = db_->GetLatestSequenceNumber();", "storage_power_loss_test", "P1", 120),
    ("a start does not ask the witness where the log must end", START,
     "if (last_sequence_ < durable_sequence) {", "if (false) {", "storage_mutation_test", "P1", 150),
    ("a gap between two logs is taken for an overlap", START,
     "} else if (begin != last_sequence_ + 1) {", "} else if (begin < last_sequence_ + 1) {",
     "storage_mutation_test", "P1", 150),
    ("a damaged block is taken for the end of a range", "storage/rocksdb/range_reader.h",
     "if (gave_up() || iterator_->status().ok()) return absl::OkStatus(); "
     "return tables_->ErrorOf(family_, iterator_->status(), place_);", "return absl::OkStatus();",
     "storage_block_damage_test", "P1", 150),
    ("a scan passes over a damaged first block of a table", "storage/rocksdb/rocksdb_options.cc",
     "options.ignore_range_deletions = true;", "", "storage_block_damage_test", "P1", 150),

    # ---- kill -9
    ("a batch is reported before it is written", COMMITTER,
     "const storage::AppendOutcome outcome = journal_->Append(group_, group_durability_);",
     "Report(storage::AppendOutcome::kAccepted); group_begin_ = next_; "
     "const storage::AppendOutcome outcome = journal_->Append(group_, group_durability_);", "kill9_test", "P1", 240),
    ("what is not synced waits in the process", "storage/rocksdb/rocksdb_options.cc",
     "options.manual_wal_flush = false;", "options.manual_wal_flush = true;", "kill9_test", "P1", 240),
    ("a start forgets what the last run claimed", CLAIMS,
     ".until_ms = marks->claim_ms, .epoch = epoch_ - 1}", ".until_ms = 0, .epoch = epoch_ - 1}", "kill9_test", "P9", 240),
    ("a command does not wait for another change of its message", "server/messages/message_finder.cc",
     "if (!resolved.wait_for.has_value() && locks_->ChangeInFlight(resolved.id)) {", "if (false) {",
     "linear_test", "P3", 150),
    ("a changed message keeps its revision", "server/messages/message_changes.cc", "++record.revision;", "",
     "linear_test", "P4", 150),
    ("a settlement ends a message that waits on disk for another subscription", ENDS,
     "if (core_.table.FindAt(key, other) == kNoEntry && !rows->Settled(other->state.id)) {", "if (false) {",
     "fanout_crash_test", "P1", 120),
    ("the settlement of one of several subscriptions is not written", ENDS,
     "core_.records.PutProgress( entry.key(), subscription.state.id, {.state = Progress::State::kSettled,",
     "if (false) core_.records.PutProgress( entry.key(), subscription.state.id, {.state = Progress::State::kSettled,",
     "fanout_crash_test", "P1", 120),

    # ---- The daemon
    ("parts of a millisecond are cut off", "server/api/proto_time.cc",
     "(nanos + kNanosPerMs - 1) / kNanosPerMs", "nanos / kNanosPerMs", "daemon_delivery_test", "P2", 60),
    ("a time beyond the horizon becomes the horizon", "server/api/when.cc",
     "return CheckLatest(*when, place, horizon_ms, now_ms);",
     "when->deliver_ms = std::min(when->deliver_ms, LatestMs(horizon_ms, now_ms)); return absl::OkStatus();",
     "daemon_refusal_test", "P4", 60),
    ("the settings of a client count as the acknowledgement of ours", "server/rpc/limits/frame_budget.h",
     "if (type == kSettings && (flags & kAck) != 0) acked_ = true;", "if (type == kSettings) acked_ = true;",
     "daemon_hostile_peer_test", "P6", 60),
    ("a missing data directory is made anew", DATABASE,
     "if (options_.create_if_missing) {",
     "if (true) {", "daemon_start_test", "P1", 120),
    ("a damaged message stops the daemon", "server/messages/message_finder.cc",
     "return storage::IsDamage(status) ? status : StopShard(status);", "return StopShard(status);",
     "daemon_damage_test", "P7", 60),
    ("a subscription with streams has no limit in memory", "server/delivery/memory_share.h",
     "if (table_->size() + reserved_ < due_max_) return true;", "if (subscription.served()) return true;",
     "daemon_memory_test", "P6", 120),
    ("a nack is no failure", "server/delivery/endings/retries.cc",
     "pacing_->OnFailure(now, entry.subscription);", "", "daemon_subscriptions_test", "P5", 60),

    # ---- Fuzz targets on their corpora and on random bytes
    ("an id that is too large names another message", "storage/message_id.cc",
     "if (digit < 0 || (id.high >> 59) != 0) return", "if (digit < 0) return", "message_id_fuzz_replay", "P3", 30),
    ("a key of the backlog may have bytes behind it", "storage/key_codec.cc",
     "if (bytes.size() != kShardBytes + kSubscriptionBytes + kPlaceBytes) return",
     "if (bytes.size() < kShardBytes + kSubscriptionBytes + kPlaceBytes) return", "store_codec_fuzz_replay", "P1", 30),
    ("the checksum of a message begins a byte late", "storage/message_record.cc",
     "constexpr size_t kCheckedFrom = kTopicAt;", "constexpr size_t kCheckedFrom = kTopicAt + 1;",
     "record_codec_fuzz_replay", "P1", 30),
]
