// SPDX-License-Identifier: Apache-2.0
//
// The part of SequentialCalls that restarts, lets time pass and compares.
#include "tests/simulation/sequential_calls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "tests/support/replies.h"

namespace duetime::simulation {

using protocol::OnConflict;
using storage::AppendOutcome;
using storage::CountLevel;
using storage::IndexKind;
using storage::MessageId;
using storage::MessageKey;
using storage::TopicId;

namespace {

constexpr uint64_t kEver = MessageId::kDueMax;

}  // namespace

SequentialCalls::SequentialCalls(const Setup& setup)
    // Few topics, keys and request ids, so that repeats and conflicts are common.
    : Calls(setup, 1, Lead::kKept, {"key-0", "key-1", "key-2"}, kTopics),
      clock_goes_back_(Random(3) == 0),
      retention_ms_([this] {
        limits_.tombstone_retention_ms = 500 + Random(8000);
        limits_.request_retention_ms = 500 + Random(8000);
        // The last topic keeps no tombstones. If the clock may go back, the topic keeps them for a
        // while, because an expired tombstone would become valid again.
        return std::map<TopicId, uint64_t>{{TopicId{1}, limits_.tombstone_retention_ms},
                                           {TopicId{2}, limits_.tombstone_retention_ms},
                                           {TopicId{3}, clock_goes_back_ ? 1000 : 0}};
      }()),
      contract_(retention_ms_, limits_.request_retention_ms) {
  Start(Host::End::kCrash);
}

void SequentialCalls::Start(Host::End how) {
  const bool clean = how == Host::End::kStop;
  Open();
  Recovered recovered;
  recovered.epoch = store_->epoch();
  // Reads the true claim, without the planted fault.
  const storage::ShardMarks marks = *store_->TestStore::Marks(0);
  recovered.claim_ms = marks.claim_ms;
  recovered.uncertain = marks.claim_return.value_or(
      storage::ClaimReturn{.until_ms = marks.claim_ms, .epoch = recovered.epoch - 1});
  if (clean && !marks.claim_return.has_value()) Violate("the record of the clean stop is missing");
  const auto behind = store_->BacklogSubscriptions(0);
  for (const storage::SubscriptionId subscription : behind->subscriptions) {
    storage::Page<storage::BacklogRef> page;
    if (!store_->ScanBacklog(0, subscription, {}, {}, &page).ok()) {
      Violate("ScanBacklog failed");
    }
    for (const storage::BacklogRef& item : page.items) {
      const uint64_t due_ms = item.entry.due_ms != 0 ? item.entry.due_ms : item.key.due_ms;
      recovered.backlog[{.due_ms = due_ms, .id = item.key.id}] = {item.key, item.entry};
    }
    const auto claim = store_->BacklogClaim(0, subscription);
    if (claim->has_value()) {
      recovered.backlog_claims[TopicId{static_cast<uint32_t>(subscription)}] = **claim;
    }
    if (claim->has_value() && (*claim)->due_ms > recovered.claim_ms) {
      Violate("a backlog was claimed beyond the claim");
    }
  }
  for (const auto& [id, message] : contract_.messages()) {
    const MessageKey key{.due_ms = message.place_ms, .id = id};
    const auto rows = store_->GetProgress(0, key);
    if (!rows.ok()) Violate("GetProgress failed");
    if (!rows->empty() && !message.pending()) Violate("something is noted of what ended");
    if (!rows->empty()) recovered.progress[key] = rows->front().second;
  }
  if (recovered.claim_ms > latest_wall_ms_ + limits_.scheduler.claim_ahead_ms) {
    Violate("the claim is further ahead than it may be");
  }
  contract_.OnRestart(recovered, how);
  latest_wall_ms_ = std::max(latest_wall_ms_, now_.wall_ms);
  checked_appends_ = UINT64_MAX;  // forces a new reading of the store
  const TopicId last{kTopics};
  protocol::TopicCommand command;
  command.topic = last;
  auto settings = std::make_shared<protocol::TopicSettings>();
  settings->set_tombstone_retention_ms(retention_ms_.at(last));
  command.settings = settings;
  Send(0, command);
}

void SequentialCalls::Crash() {
  // A process crash keeps every append. A power cut keeps only some of the unsynced ones.
  const size_t unsynced = host_->unsynced_appends();
  const bool power = Chance(50);
  const size_t kept = power ? Random(unsynced + 1) : unsynced;
  std::vector<MessageId> lost;
  if (unsynced > 0) lost = store_->EndsBeyond(kept);
  Count("ends lost", lost.size());
  contract_.OnLost(lost);
  Close(power ? Host::End::kPowerCut : Host::End::kCrash, kept, clock_goes_back_);
  Note("crash, ", lost.size(), " ends lost");
  Start(power ? Host::End::kPowerCut : Host::End::kCrash);
}

void SequentialCalls::Stop() {
  contract_.OnStop(now_);
  shards_[0]->Close();
  Rest();
  if (!shards_[0]->closed()) Violate("the shard does not write its last records");
  if (!ok()) return;
  Count("clean stops");
  Note("clean stop");
  Close(Host::End::kStop, 0, clock_goes_back_);
  Start(Host::End::kStop);
}

void SequentialCalls::Event() {
  host_->Pass();
  DoOneOf({{300, [this] { DoSchedule(); }},
           {100, [this] { DoCancel(); }},
           {120, [this] { DoReschedule(); }},
           {30, [this] { DoInspect(); }},
           {40, [this] { DoAttachAny(); }},
           {20, [this] { DoDetach(); }},
           {140, [this] { DoSettleAny(); }},
           {230, [this] { PassTime(); }},
           {10, [this] { Crash(); }},
           {8, [this] { Stop(); }},
           {clock_goes_back_ ? 0u : 10u, [this] { store_->DropExpired(now_.wall_ms); }}});
  for (int i = 0; i < 2 && ok(); ++i) DoGet();
  CheckIndex();
  CheckContract();
}

void SequentialCalls::DoAttachAny() {
  if (streams_.size() >= 4) return;
  const TopicId topic = AnyKeyedTopic();
  DoAttach(storage::FirstSubscription(topic), topic, AnyCredit(), AnyLeaseMs());
}

void SequentialCalls::PassTime() {
  const uint64_t what = Random(100);
  const uint64_t step = what < 70 ? Random(20) : (what < 95 ? Random(500) : Random(12'000));
  now_.mono_ms += step;
  // Now and then the wall clock stands still, as if it had been set back, or jumps ahead.
  if (!Chance(5)) now_.wall_ms += step;
  if (Chance(1)) now_.wall_ms += Random(60'000);
  latest_wall_ms_ = std::max(latest_wall_ms_, now_.wall_ms);
  Note("time passes, ", step, " ms");
  Rest();
  CheckNothingWaits();
}

// ---- Steps

void SequentialCalls::Send(uint16_t, protocol::Command command) {
  shards_[0]->Handle(now_, std::move(command));
  Rest();
}

void SequentialCalls::Rest() {
  protocol::Effects effects = RunToRest();
  if (next_call_ % 16 == 0) CheckInvariants();  // walks all structures
  // A batch's answers come as they are committed. The shard decides them in the batch's order.
  const auto position = [](const protocol::Reply& reply) {
    const auto* const cancel = std::get_if<protocol::CancelReply>(&reply);
    return cancel == nullptr ? 0 : cancel->position;
  };
  std::stable_sort(effects.replies.begin(), effects.replies.end(),
                   [&](const auto& a, const auto& b) { return position(a) < position(b); });
  Apply(0, effects);
  if (!calls_.empty()) Violate("a call without an answer");
  contract_.OnRest(now_, store_->TakeErased());
  CheckContract();
  if (ok()) CheckStored();
}

// ---- Calls

Ask SequentialCalls::NewAsk(bool in_batch) {
  if (!in_batch && !asks_.empty() && Chance(15)) {
    // Repeats an earlier ask, perhaps with another conflict rule.
    Ask ask = OneOf(asks_);
    if (!ask.key.empty() && Chance(50)) {
      ask.on_conflict = OneOf<OnConflict>(
          {OnConflict::kFail, OnConflict::kReplace, OnConflict::kOnce, OnConflict::kOnce});
      ask.only_if_exists = false;
      ask.max_wait_ms = 0;
    }
    return ask;
  }
  Ask ask;
  ask.number = next_call_;
  ask.topic = AnyKeyedTopic();
  // Few topics, keys and request ids, so that repeats and conflicts are common.
  if (Chance(75)) ask.key = OneOf(keys_);
  if (!in_batch && Chance(25)) ask.request_id = absl::StrCat("request-", Random(4));
  ask.payload = OneOf<std::string>({"a", "b", "", std::string(300, 'c')});
  std::string time_as_given;
  if (Chance(80)) {
    const int64_t delay_ms =
        OneOf<int64_t>({0, 0, 1, 5, 20, 100, 500, 500, 3000, 3000, 20'000, 100'000, -50, -3000});
    ask.deliver_ms = now_.wall_ms + static_cast<uint64_t>(delay_ms);
    time_as_given = absl::StrCat("in ", delay_ms);
  } else {
    ask.deliver_ms = (now_.wall_ms / 1000 + 1 + Random(3)) * 1000;
    time_as_given = absl::StrCat("at ", ask.deliver_ms);
  }
  if (Chance(25)) {
    ask.ttl_ms = OneOf<uint64_t>({1, 30, 1000});
    if (Chance(70)) ask.late_policy = storage::LatePolicy::kDrop;
  }
  if (Chance(15)) ask.spread_ms = OneOf<uint64_t>({1, 10, 1000});
  if (!ask.key.empty()) {
    ask.on_conflict =
        OneOf<OnConflict>({OnConflict::kFail, OnConflict::kReplace, OnConflict::kKeepTime,
                           OnConflict::kPushBack, OnConflict::kOnce});
    ask.only_if_exists = protocol::Replaces(ask.on_conflict) && Chance(20);
    if (ask.on_conflict == OnConflict::kPushBack && Chance(50)) {
      ask.max_wait_ms = OneOf<uint64_t>({10, 1000, 10'000});
    }
  }
  ask.validate_only = Chance(8);
  const std::string content = absl::StrCat(ask.payload, "|", time_as_given, "|", ask.ttl_ms, "|",
                                           static_cast<int>(ask.late_policy), "|", ask.spread_ms);
  ask.fingerprint = fingerprints_.emplace(content, fingerprints_.size() + 1).first->second;
  Remember(ask);
  return ask;
}

void SequentialCalls::DoInspect() {
  protocol::InspectCommand command;
  command.tag = NewTag();
  for (const auto& [id, place] : stored_) {
    if (Chance(30)) command.keys.push_back(place.first);
  }
  inspected_ = command.keys;
  calls_[command.tag];
  Send(0, std::move(command));
}

void SequentialCalls::OnOther(const protocol::Reply& reply) {
  const auto* const inspected = std::get_if<protocol::InspectReply>(&reply);
  if (inspected == nullptr) return;
  contract_.OnInspect(now_, inspected_, *inspected);
  CloseCall(inspected->tag);
}

// ---- Checks

void SequentialCalls::CheckStored() {
  if (checked_appends_ == store_->accepted_appends()) return;
  checked_appends_ = store_->accepted_appends();
  stored_.clear();
  storage::Page<storage::MessageRef> page;
  const storage::ScanLimit limit{.entries = 100'000, .bytes = 1 << 30};
  if (!store_->Scan(0, {}, MessageKey::FirstAt(kEver), limit, &page).ok()) {
    return Violate("Scan failed");
  }
  std::vector<MessageKey> keys;
  for (const storage::MessageRef& message : page.items) keys.push_back(message.key);
  std::vector<std::optional<std::string>> values;
  if (!store_->MultiGet(0, keys, &values).ok()) return Violate("MultiGet failed");
  std::map<std::pair<TopicId, uint64_t>, storage::CountDelta> minutes;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!stored_.emplace(keys[i].id, std::pair(keys[i], *values[i])).second) {
      return Violate("a message is in the store twice");
    }
    storage::CountDelta& count =
        minutes[{page.items[i].topic, storage::BucketStart(CountLevel::kMinute, keys[i].due_ms)}];
    ++count.messages;
    count.bytes += static_cast<int64_t>(values[i]->size());
  }
  contract_.OnStored(stored_);
  CheckCounts(minutes);
}

void SequentialCalls::CheckCounts(
    const std::map<std::pair<TopicId, uint64_t>, storage::CountDelta>& minutes) {
  for (const CountLevel level : storage::kCountLevels) {
    std::map<std::pair<TopicId, uint64_t>, storage::CountDelta> expected;
    for (const auto& [place, count] : minutes) {
      storage::CountDelta& sum = expected[{place.first, storage::BucketStart(level, place.second)}];
      sum.messages += count.messages;
      sum.bytes += count.bytes;
    }
    for (uint32_t topic = 1; topic <= kTopics; ++topic) {
      std::vector<storage::BucketCount> counts;
      if (!store_->ScanCounts(0, TopicId{topic}, level, {0, kEver}, 100'000, &counts).ok()) {
        return Violate("the counters cannot be read");
      }
      for (const storage::BucketCount& count : counts) {
        const auto it = expected.find({TopicId{topic}, count.start_ms});
        if (it == expected.end() || it->second.messages != static_cast<int64_t>(count.messages) ||
            it->second.bytes != static_cast<int64_t>(count.bytes)) {
          return Violate("a counter does not count what is in the store");
        }
        expected.erase(it);
      }
    }
    if (!expected.empty()) return Violate("messages that no counter counts");
  }
}

void SequentialCalls::CheckIndex() {
  for (uint32_t topic = 1; topic <= kTopics && ok(); ++topic) {
    std::vector<storage::IndexRef> entries;
    if (!store_->ScanIndex(0, TopicId{topic}, IndexKind::kUserKey, {"", ""}, 1000, &entries).ok()) {
      return Violate("the index cannot be read");
    }
    for (const storage::IndexRef& ref : entries) {
      const bool pending = stored_.contains(ref.entry.id);
      if (pending != (ref.entry.expire_ms == 0)) {
        Violate(absl::StrCat("the entry of ", ref.name, " for ", ref.entry.id.ToString(),
                             pending ? " ends before its message" : " leads nowhere"));
      }
    }
  }
}

// Checks that streams with credit have all due messages, unless memory is short. Does nothing if
// the clock may go back, because the backlog then waits.
void SequentialCalls::CheckNothingWaits() {
  if (!ok() || clock_goes_back_) return;
  size_t due = 0;
  for (const auto& [id, place] : stored_) due += place.first.due_ms <= now_.wall_ms ? 1 : 0;
  if (2 * due >= limits_.due_max) return;
  for (const auto& [stream_id, stream] : streams_) {
    if (stream.credit->messages() >= stream.messages_max) continue;
    for (const auto& [id, place] : stored_) {
      const SequentialContract::Message& message = contract_.messages().at(id);
      if (message.ask.topic == stream.topic && place.first.due_ms <= now_.wall_ms &&
          !message.Leased(now_) && message.retry_mono_ms <= now_.mono_ms &&
          message.retry_wall_ms <= now_.wall_ms) {
        return Violate(absl::StrCat(id.ToString(), " is due at ", place.first.due_ms,
                                    " and nobody is given it; ", Positions()));
      }
    }
  }
}

std::string SequentialCalls::Positions() const {
  const protocol::ShardStats stats = shards_[0]->stats();
  return absl::StrCat("next ", stats.timer_next_ms, ", claimed ", stats.claim_ms, ", loaded ",
                      stats.load_ms, ", ", stats.wheel_timers, " timers, ", stats.due_ready,
                      " ready, ", stats.in_flight, " in flight, ", stats.delayed, " delayed, ",
                      stats.topics_behind, " topics behind; due_max ", limits_.due_max,
                      ", due_idle_max ", limits_.due_idle_max);
}

void SequentialCalls::Drain() {
  Crash();
  for (uint32_t i = 1; i <= kTopics; ++i) {
    DoAttach(storage::FirstSubscription(TopicId{i}), TopicId{i}, 1000, 30'000);
  }
  constexpr int kRoundsMax = 500;
  for (int round = 0; round < kRoundsMax && ok() && !stored_.empty(); ++round) {
    uint64_t next_ms = kEver;
    for (const auto& [id, place] : stored_) next_ms = std::min(next_ms, place.first.due_ms);
    now_.mono_ms += 1000;
    // A retry waits by the wall clock of the run before, which may have been ahead.
    now_.wall_ms = std::max(now_.wall_ms + 1000, next_ms);
    Rest();
    for (const auto& [id, stream] : streams_) {
      if (!stream.held.empty()) DoSettle(id, /*ack_all=*/true);
    }
  }
  if (!ok()) return;
  if (!stored_.empty()) {
    const MessageKey& key = stored_.begin()->second.first;
    return Violate(absl::StrCat(key.id.ToString(), ", due at ", key.due_ms, ", at ", now_.wall_ms,
                                " never ended: lost (P1); ", Positions()));
  }
  contract_.CheckDrained();
  now_.wall_ms = std::max(now_.wall_ms, latest_wall_ms_);
  // Longer than every delay of an ask.
  constexpr uint64_t kLongMs = 1'000'000;
  now_.wall_ms += kLongMs;
  now_.mono_ms += kLongMs;
  Rest();
  for (const auto& [id, message] : contract_.messages()) {
    if (message.end == storage::EndState::kExpired) Count("expired");
  }
  CheckNothingLeft();
  CheckForgotten(contract_.ids(), kTopics);
  for (const MessageId& id : contract_.ids()) {
    if (ok()) Get({.id = id, .topic = {}, .key = ""});
  }
  CheckContract();
}

}  // namespace duetime::simulation
