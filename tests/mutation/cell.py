# SPDX-License-Identifier: Apache-2.0
"""Faults in the rules of a shared log (run.py says how they are planted)."""

REPLICA = "server/cell/replica.cc"
JOURNAL = "server/cell/replicated_journal.cc"
MEMBER = "server/cell/member.cc"
RECORD = "storage/journal_record.cc"

CELL = "cell_test"
CODEC = "storage_test"
STORE = "rocksdb_store_test"
SEARCH = "server/cell/leader_search.cc"
ROSTER = "server/cell/roster.cc"
FETCHED = "storage/rocksdb_fetched.cc"

FAULTS = [
    ("a group of an earlier epoch counts", REPLICA,
     "return of_this_epoch && head.number == place_.groups + 1;",
     "return head.epoch <= place_.epoch && head.number == place_.groups + 1;", CELL),
    ("a group counts twice", REPLICA, "return of_this_epoch && head.number == place_.groups + 1;",
     "return of_this_epoch && head.number >= place_.groups;", CELL),
    ("an epoch begins twice", REPLICA, "return head.epoch == epoch_max;", "return head.epoch + 1 >= epoch_max;", CELL),
    ("a damaged entry stops the member", REPLICA, "if (absl::IsDataLoss(head.status())) {", "if (false) {", CELL),
    ("a later version is passed over", REPLICA, "if (!group.ok()) return group.status();",
     "if (!group.ok()) { place_ = next; return Entry{}; }", CELL),
    ("the place is not applied with the group", REPLICA, "state_->Apply(*group, next)", "state_->Apply(*group, place_)", CELL),
    ("a member passes over an epoch that is too high", REPLICA, "if (head.epoch > epoch_max ||", "if (", CELL),
    ("a member passes over a number that is too high", REPLICA, "&& head.number <= place_.groups + 1;", ";", CELL),
    ("a member passes over a number from before the epoch", REPLICA, "head.number > place_.groups_before_epoch &&", "", CELL),
    ("a member goes on with a log that has lost entries", REPLICA, "if (stopped_.ok() && end < place_.offset) {", "if (false) {",
     CELL),
    ("a member goes on after an entry that it could not apply", REPLICA, "if (!entry.ok()) stopped_ = entry.status();", "", CELL),
    ("a leader believes the report alone", JOURNAL, "(outcome == Outcome::kCounts && written.ok())", "written.ok()", CELL),
    ("an author does not know its own epoch", JOURNAL, "if (read == head) {",
     "if (read.kind == head.kind && read.epoch == head.epoch) {", CELL),
    ("a group that counted is called fenced", JOURNAL, "if (*outcome == Outcome::kOpen) *outcome = Outcome::kRefused;",
     "*outcome = Outcome::kRefused;", CELL),
    ("a journal leads twice", JOURNAL, "if (has_led_) return", "if (false) return", CELL),
    ("what the log refuses is tried for ever", JOURNAL, "return absl::IsUnavailable(error) ||", "return !error.ok() ||", CELL),
    ("a former leader does not notice", JOURNAL, "StopLeading(); if (*outcome == Outcome::kOpen)",
     "if (*outcome == Outcome::kOpen)", CELL),
    ("a member leads although another epoch has begun", JOURNAL,
     "|| replica_->place().epoch != head.epoch) {", ") {", CELL),
    ("a fenced group is unknown", JOURNAL, "return outcome.ok() ? AppendOutcome::kFenced : AppendOutcome::kUnknown;",
     "return AppendOutcome::kUnknown;", CELL),
    # ---- Which log, and what of it may go
    ("a member does not look whether it is its log", REPLICA,
     "head.ok() && head->log == place_.log && head->epoch == place_.epoch &&", "head.ok() &&", CELL),
    ("entries of another cell count", REPLICA, "if (place_.epoch > 0 && head.log != place_.log) {", "if (false) {", CELL),
    ("two members that begin a log at once contradict each other", REPLICA,
     "if (begins_epoch && head.epoch == 1) return place_.epoch == 0;", "", CELL),
    ("a checkpoint comes from another cell", SEARCH, "place.epoch > 0 && head->log != place.log", "false", CELL),
    ("a checkpoint comes from a member that follows", SEARCH, "|| !report->leads", "", CELL),
    ("what one member has may go", ROSTER, "offsets[1]});", "offsets[0]});", CELL),
    ("members that are away count", ROSTER, "if (entry.report_ms + kRecentMs >= now_ms_) offsets", "offsets", CELL),
    ("what two members had once may go", ROSTER, "return std::min_element(", "return std::max_element(", CELL),
    ("a copy of the store does not hold the log", ROSTER,
     "void Roster::ForgetMarks() { const base::MutexLock lock(&mutex_); marks_.clear();",
     "void Roster::ForgetMarks() { const base::MutexLock lock(&mutex_);", CELL),
    ("a store of another cell is taken over", FETCHED, "before.epoch > 0 && place.log != before.log", "false", STORE),
    ("an older store is taken over", FETCHED, "place.offset <= before.offset", "false", STORE),
    ("a fetched store is not verified", FETCHED, "if (status.ok()) { status = VerifyDirectory(",
     "if (false) { status = VerifyDirectory(", STORE),
    ("a fetched store is taken before it is complete", FETCHED, "if (!*there) { // Either",
     "if (false) { // Either", STORE),
    # ---- Who leads and serves
    ("a new leader does not wait for one that lived until then", JOURNAL,
     "serve_from_ms_.store(MonoMs() + pulse_.serve_for_ms);", "", CELL),
    ("a repeated append counts from its last attempt", JOURNAL,
     "while (!Stopped()) { const absl::StatusOr<uint64_t> written",
     "while (!Stopped()) { last_begun_ms_ = MonoMs(); const absl::StatusOr<uint64_t> written", CELL),
    ("a leader serves on after the epoch of another", JOURNAL,
     "if (leads_.has_value()) serve_until_ms_.store(", "serve_until_ms_.store(", CELL),
    ("an append counts from its end", JOURNAL,
     "if (leads_.has_value()) serve_until_ms_.store(last_begun_ms_ +",
     "if (leads_.has_value()) serve_until_ms_.store(MonoMs() +", CELL),
    ("a leader that resigns serves on", MEMBER, "journal_.StopServing();", "", CELL),
    ("a member suspects without asking for the end of the log", MEMBER,
     "if (status.ok() && replica_.place() == before) {", "if (status.ok()) {", CELL),
    ("a member suspects a leader while it cannot read", MEMBER,
     "if (!entry.ok()) { alive_ms_ = now_ms;", "if (!entry.ok()) {", CELL),
    ("an epoch without an announcement is a resignation", MEMBER,
     "leader_.name.empty() && !begins;", "leader_.name.empty();", CELL),
    ("members may have different shards", MEMBER, "if (leader_.shards != 0 && leader_.shards != options_.self.shards) {",
     "if (false) {", CELL),
    # ---- The bytes
    ("the checksum is not looked at", RECORD, "!= ChecksumOf(content)) {", "!= ChecksumOf(content) && content.empty()) {", CODEC),
    ("bytes after a group pass", RECORD, "if (!in.ok() || !in.empty())", "if (!in.ok())", CODEC),
    ("a flag may be any number", RECORD, "ok_ = ok_ && number <= 1;", "", CODEC),
    ("an unknown state of progress passes", RECORD, "|| !IsKnown(record.progress.state)", "", CODEC),
    ("an erase forgets the size", RECORD, "io(record.bytes); return true;", "return true;", CODEC),
]
