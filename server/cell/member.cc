// SPDX-License-Identifier: Apache-2.0
#include "server/cell/member.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace duetime::cell {

using storage::AppendOutcome;
using storage::Record;
using storage::RecordType;

namespace {

constexpr char kLeaderName[] = "leader";

Record LeaderObject(RecordType type, std::string value) {
  return Record{.type = type,
                .shard = storage::kNoShard,
                .kind = static_cast<uint8_t>(storage::ObjectKind::kCell),
                .name = kLeaderName,
                .value = std::move(value)};
}

}  // namespace

Member::Member(const MemberOptions& options, Log* log, AppliedState* state,
               storage::MessageStore* store, base::Clock* clock,
               const std::function<uint64_t()>& draw, Roster* roster)
    : options_(options),
      store_(store),
      clock_(clock),
      roster_(roster),
      replica_(log, state, roster, clock),
      journal_(log, &replica_, draw,
               {.clock = clock,
                .idle_append_ms = options.heartbeat_ms,
                .serve_for_ms = options.suspect_ms * 2 / 3}),
      alive_ms_(clock->Read().mono_ms),
      suspect_ms_(options.suspect_ms + draw() % (options.suspect_ms / 5 + 1)) {}

absl::StatusOr<bool> Member::Step() {
  const auto entry = replica_.Step();
  const uint64_t now_ms = clock_->Read().mono_ms;
  if (!entry.ok()) {
    alive_ms_ = now_ms;
    if (MayTryAgain(entry.status())) return false;
    return entry.status();
  }
  if (absl::Status status = ReadLeader(); !status.ok()) return status;
  if (entry->has_value()) {
    alive_ms_ = now_ms;
    journal_.PostReport();
    return false;
  }
  const LogPlace& place = replica_.place();
  // A leader that has just begun its epoch announces itself next.
  const bool begins = place.epoch != 0 && place.groups == place.groups_before_epoch;
  const bool nobody_leads = leader_.name.empty() && !begins;
  // The leader serves for two thirds of its own time, which may be longer.
  const uint64_t longer_ms =
      std::max(leader_.suspect_ms, options_.suspect_ms) - options_.suspect_ms;
  const uint64_t try_ms = alive_ms_ + (nobody_leads ? 0 : suspect_ms_ + longer_ms);
  if (now_ms < try_ms) return false;
  // Not for ever: the other member may be gone.
  if (now_ms < try_ms + MemberOptions::kYieldSuspects * options_.suspect_ms && roster_ != nullptr &&
      roster_->JudgeLead(options_.self.name).yields) {
    return false;
  }
  return TryToLead();
}

// The log may have entries that do not arrive here: End shows them, or fails.
absl::StatusOr<bool> Member::TryToLead() {
  const LogPlace before = replica_.place();
  absl::Status status = journal_.Follow();
  if (status.ok() && replica_.place() == before) {
    status = journal_.Lead(before);
    if (status.ok()) return true;
  }
  alive_ms_ = clock_->Read().mono_ms;
  if (status.ok() || MayTryAgain(status) || absl::IsAborted(status)) return false;
  return status;
}

absl::Status Member::ReadLeader() {
  const auto value = store_->GetObject(storage::ObjectKind::kCell, storage::kNoShard, kLeaderName);
  if (!value.ok()) return value.status();
  leader_ = value->has_value() ? DecodeLeader(**value).value_or(LeaderRecord{}) : LeaderRecord{};
  if (leader_.shards != 0 && leader_.shards != options_.self.shards) {
    return absl::FailedPreconditionError(absl::StrCat("the leader ", leader_.name, " has ",
                                                      leader_.shards, " shards, and this member ",
                                                      options_.self.shards, " (knob shards)"));
  }
  return absl::OkStatus();
}

AppendOutcome Member::Announce() {
  leader_ = options_.self;
  leader_.suspect_ms = options_.suspect_ms;
  const storage::RecordBatch batch = {LeaderObject(RecordType::kObject, EncodeLeader(leader_))};
  return journal_.Append(std::span(&batch, 1), storage::Durability::kSynced);
}

AppendOutcome Member::Resign() {
  // The former leader may still serve. The next leader would not wait for it after a resignation.
  if (!journal_.former_is_gone(clock_->Read().mono_ms)) return AppendOutcome::kFenced;
  const storage::RecordBatch batch = {LeaderObject(RecordType::kUnobject, "")};
  journal_.StopServing();
  return journal_.Append(std::span(&batch, 1), storage::Durability::kSynced);
}

}  // namespace duetime::cell
