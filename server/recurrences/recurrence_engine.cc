// SPDX-License-Identifier: Apache-2.0
#include "server/recurrences/recurrence_engine.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/protocol/commands.h"
#include "server/protocol/etag.h"
#include "server/protocol/reply_to.h"
#include "server/protocol/topic_scope.h"
#include "server/recurrences/recurrence_errors.h"
#include "storage/slot.h"

namespace duetime::recurrences {

using calendar::Recurrence;
using protocol::ReplyTo;
using scheduler::KeyLocks;
using storage::Durability;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;
using storage::ObjectKind;

namespace {

constexpr size_t kRecoverPage = 100;

int64_t Signed(uint64_t ms) { return static_cast<int64_t>(ms); }

// The nominal time, if a message can have it. A rule may reach beyond the latest due time of a
// message. Half of the range leaves room for jitter.
std::optional<int64_t> WithinIds(std::optional<int64_t> nominal_ms) {
  constexpr int64_t kLastMs = static_cast<int64_t>(MessageId::kDueMax) / 2;
  return nominal_ms.has_value() && *nominal_ms <= kLastMs ? nominal_ms : std::nullopt;
}

// The seed of the jitter. It must not change, so it is a hash that is the same in every process.
uint64_t SeedOf(absl::string_view name) { return storage::SlotOfName("jitter", name); }

}  // namespace

RecurrenceEngine::RecurrenceEngine(const delivery::Core& core, messages::BulkChanges* changes,
                                   messages::MessageLocks* locks)
    : core_(core),
      recurrences_max_(core.limits.recurrences_max),
      bytes_max_(core.limits.recurrence_bytes_max),
      repeats_ms_(core.limits.request_retention_ms),
      changes_(changes),
      locks_(locks),
      endings_(core) {}

absl::Status RecurrenceEngine::Recover() {
  DT_CHECK(entries_.empty());
  std::string after;
  for (;;) {
    std::vector<storage::ObjectRef> objects;
    if (absl::Status status = core_.store.ScanObjects(ObjectKind::kRecurrence, core_.shard, after,
                                                      kRecoverPage, &objects);
        !status.ok()) {
      return status;
    }
    for (const storage::ObjectRef& object : objects) {
      auto state = protocol::DecodeRecurrence(object.name, object.value);
      if (!state.ok()) return state.status();
      // Step looks whether it can make occurrences: the machine may have lost the time zone since.
      to_review_.push_back(state->name);
      auto rule = Recurrence::Compile(state->spec.rule, "recurrence.schedule");
      Insert(*std::move(state), rule.ok() ? std::optional(*std::move(rule)) : std::nullopt);
    }
    if (objects.size() < kRecoverPage) return absl::OkStatus();
    after = objects.back().name;
  }
}

RecurrenceEngine::Entry* RecurrenceEngine::Insert(protocol::RecurrenceState state,
                                                  std::optional<Recurrence> rule) {
  const std::string name = state.name;
  bytes_ += state.spec.message.size();
  auto entry = std::make_unique<Entry>(Entry{.state = std::move(state), .rule = std::move(rule)});
  if (entry->state.current.id != MessageId{}) current_[entry->state.current.id] = entry.get();
  const auto [inserted, fresh] = entries_.emplace(name, std::move(entry));
  DT_CHECK(fresh);
  return inserted->second.get();
}

void RecurrenceEngine::Erase(const std::string& name) {
  const auto it = entries_.find(name);
  DT_CHECK(it != entries_.end());
  DT_CHECK_GE(bytes_, it->second->state.spec.message.size());
  bytes_ -= it->second->state.spec.message.size();
  current_.erase(it->second->state.current.id);
  stalled_.erase(name);
  entries_.erase(it);
}

size_t RecurrenceEngine::CountOf(storage::TopicId topic) const {
  return static_cast<size_t>(
      std::count_if(entries_.begin(), entries_.end(), [topic](const auto& entry) {
        const protocol::RecurrenceState& state = entry.second->state;
        return state.spec.topic == topic && state.status != protocol::RecurrenceStatus::kCompleted;
      }));
}

void RecurrenceEngine::EndCompleted(storage::TopicId topic) {
  std::vector<std::string> ended;
  for (const auto& [name, entry] : entries_) {
    const protocol::RecurrenceState& state = entry->state;
    if (state.spec.topic == topic && state.status == protocol::RecurrenceStatus::kCompleted) {
      ended.push_back(name);
    }
  }
  for (const std::string& name : ended) {
    core_.writer.RemoveObject(ObjectKind::kRecurrence, name, Durability::kSynced);
    Erase(name);
  }
}

absl::Status RecurrenceEngine::MakeRoom(base::Now now, size_t bytes, const Entry* updated,
                                        bool check_only) {
  const size_t own = updated == nullptr ? 0 : updated->state.spec.message.size();
  DT_CHECK_GE(bytes_, own);
  const size_t others = bytes_ - own;
  size_t gone = 0;
  size_t gone_bytes = 0;
  const auto counts = [&] {
    return updated != nullptr || entries_.size() - gone < recurrences_max_;
  };
  const auto fits = [&] { return counts() && others - gone_bytes + bytes <= bytes_max_; };
  if (fits()) return absl::OkStatus();
  // When each completed recurrence ended, and its name.
  std::vector<std::pair<uint64_t, std::string>> old;
  size_t completed = 0;
  for (const auto& [name, entry] : entries_) {
    const protocol::RecurrenceState& state = entry->state;
    if (state.status != protocol::RecurrenceStatus::kCompleted || entry.get() == updated) continue;
    const uint64_t end_ms = std::max(state.nominal_ms, state.update_ms);
    if (end_ms + repeats_ms_ > now.wall_ms) {
      ++completed;
    } else {
      old.emplace_back(end_ms, name);
    }
  }
  std::sort(old.begin(), old.end());
  for (const auto& [end_ms, name] : old) {
    if (fits()) break;
    ++gone;
    gone_bytes += entries_.at(name)->state.spec.message.size();
  }
  DT_CHECK_GE(others, gone_bytes);
  if (!counts()) return RecurrenceLimitError("recurrences", recurrences_max_, completed);
  if (!fits()) return RecurrenceLimitError("bytes of templates", bytes_max_, completed);
  if (check_only) return absl::OkStatus();
  for (size_t i = 0; i < gone; ++i) {
    core_.writer.RemoveObject(ObjectKind::kRecurrence, old[i].second, Durability::kSynced);
    Erase(old[i].second);
  }
  return absl::OkStatus();
}

// ---- When an occurrence is due

bool RecurrenceEngine::OnOccurrenceDue(base::Now now, const MessageRef& message) {
  const auto it = current_.find(message.key.id);
  if (it == current_.end()) return true;  // the next one was made already
  Entry* const entry = it->second;
  DT_CHECK(entry->state.current.id == message.key.id);
  const auto record = core_.store.Get(core_.shard, message.key);
  if (storage::IsDamage(record.status())) {
    // Only this occurrence is lost.
    entry->state.current = message.key;
    Advance(now, entry);
    return true;
  }
  if (!record.ok()) {
    core_.reader.Fail(record.status());
    return true;
  }
  if (!record->has_value()) return true;  // it was moved away from that time
  entry->state.current = message.key;     // it may have been moved since it was made
  const bool delivered = !PassOver(now, entry, message, **record);
  Advance(now, entry);
  return delivered;
}

void RecurrenceEngine::OnOccurrenceCancelled(base::Now now, const MessageId& id) {
  const auto it = current_.find(id);
  if (it == current_.end()) return;
  // Advance keeps `current` as the previous occurrence, and that must not be the cancelled one.
  Entry* const entry = it->second;
  DT_CHECK(entry->state.current.id == id);
  current_.erase(it);
  entry->state.current = entry->state.previous;
  Advance(now, entry);
}

bool RecurrenceEngine::PreviousPending(const Entry& entry) {
  const MessageKey& previous = entry.state.previous;
  if (previous.id == MessageId{}) return false;
  if (core_.table.Find(previous.id) != delivery::kNoEntry) return true;
  const auto record = core_.store.Get(core_.shard, previous);
  if (storage::IsDamage(record.status())) return false;
  if (!record.ok()) core_.reader.Fail(record.status());
  return record.ok() && record->has_value();
}

bool RecurrenceEngine::PassOver(base::Now now, Entry* entry, const MessageRef& message,
                                const std::string& record) {
  protocol::RecurrenceState& state = entry->state;
  DT_CHECK(state.current == message.key);
  // An earlier run may have delivered the message, and its subscriber may have failed with it.
  if (core_.scheduler.MaybeDelivered(message.key)) return false;
  bool skip = false;
  if (state.spec.misfire == protocol::Misfire::kSkip && entry->rule.has_value()) {
    // The occurrence was missed if the time of the next one has come, too.
    const auto next = Next(*entry->rule, Signed(state.nominal_ms));
    skip = next.has_value() && *next <= Signed(now.wall_ms);
  }
  if (!skip && state.spec.overlap == protocol::Overlap::kSkip) skip = PreviousPending(*entry);
  if (!skip || !storage::DecodeMessageRecord(record, &decoded_).ok()) return false;
  storage::Tombstone tombstone;
  tombstone.state = storage::EndState::kSkipped;
  tombstone.topic = message.topic;
  tombstone.payload_bytes = static_cast<uint32_t>(decoded_.payload.size());
  tombstone.deliver_ms = decoded_.header.deliver_ms;
  tombstone.accept_ms = decoded_.header.accept_ms;
  tombstone.revision = decoded_.revision;
  tombstone.fire_ms = tombstone.end_ms = now.wall_ms;
  if (absl::Status status =
          endings_.Write(message.key, static_cast<uint32_t>(record.size()),
                         core_.subscriptions.TopicOf(message.topic)->tombstone_retention_ms,
                         std::move(tombstone), Durability::kSynced);
      !status.ok()) {
    core_.reader.Fail(status);
  }
  // The lock keeps the message from being offered again until its end is in the store.
  const KeyLocks::Name name(message.key.id);
  core_.key_locks.Acquire(name);
  core_.writes.Then(
      [this, name](base::Now then, bool ok) { core_.key_locks.Release(then, name, ok); });
  ++state.skipped;
  // Advance keeps `current` as the previous occurrence, and that must not be the skipped one.
  current_.erase(state.current.id);
  state.current = state.previous;
  return true;
}

void RecurrenceEngine::Advance(base::Now now, Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  current_.erase(state.current.id);
  state.previous = state.current;
  state.current = {};
  // A stalled recurrence stays active, without an occurrence.
  if (entry->rule.has_value()) MakeNext(now, entry, state.nominal_ms);
  Save(*entry);
}

std::optional<int64_t> RecurrenceEngine::Next(const Recurrence& rule, int64_t after_ms) {
  return WithinIds(rule.NextAfter(after_ms));
}

std::optional<int64_t> RecurrenceEngine::First(const Recurrence& rule, int64_t now_ms) {
  return WithinIds(rule.First(now_ms));
}

void RecurrenceEngine::MakeNext(base::Now now, Entry* entry, uint64_t after_ms) {
  protocol::RecurrenceState& state = entry->state;
  DT_CHECK(entry->rule.has_value());
  // Before anything is counted.
  if (!ReadTemplate(*entry)) return;
  const int64_t now_ms = Signed(now.wall_ms);
  const Recurrence& rule = *entry->rule;
  std::optional<int64_t> next = Next(rule, Signed(after_ms));
  if (state.spec.misfire != protocol::Misfire::kFireAll && next.has_value() && *next <= now_ms) {
    state.skipped += rule.Count(Signed(after_ms), now_ms);
    next = Next(rule, now_ms);
  }
  MakeOrComplete(now, entry, next);
}

void RecurrenceEngine::MakeOrComplete(base::Now now, Entry* entry,
                                      std::optional<int64_t> nominal_ms) {
  DT_CHECK(entry->rule.has_value());
  // Nothing of a completed recurrence is pending.
  DT_CHECK(entry->state.current.id == MessageId{});
  if (!nominal_ms.has_value() || entry->rule->IsComplete(entry->state.made)) {
    entry->state.status = protocol::RecurrenceStatus::kCompleted;
    return;
  }
  Make(now, entry, static_cast<uint64_t>(*nominal_ms));
}

void RecurrenceEngine::Make(base::Now now, Entry* entry, uint64_t nominal_ms) {
  protocol::RecurrenceState& state = entry->state;
  DT_CHECK(entry->rule.has_value());
  // A recurrence has at most one scheduled occurrence.
  DT_CHECK(state.current.id == MessageId{});
  state.status = protocol::RecurrenceStatus::kActive;
  if (!ReadTemplate(*entry)) return;
  const auto jitter_ms = entry->rule->JitterOf(SeedOf(state.name), Signed(nominal_ms));
  // The jitter of a very long interval may reach beyond the latest due time.
  const uint64_t deliver_ms =
      std::min(nominal_ms + static_cast<uint64_t>(jitter_ms), MessageId::kDueMax - 1);
  state.nominal_ms = nominal_ms;
  state.current_deliver_ms = deliver_ms;
  ++state.made;
  decoded_.header = {.topic = state.spec.topic,
                     .deliver_ms = deliver_ms,
                     .accept_ms = now.wall_ms,
                     .flags = decoded_.header.flags};
  decoded_.recurrence = state.name;
  decoded_.occurrence = state.made;
  std::string record = storage::EncodeMessageRecord(decoded_);
  const uint32_t slot = storage::SlotOfName("", state.name);
  const MessageRef ref = {
      .key = core_.scheduler.NewKey(now, slot, deliver_ms, 0),
      .topic = state.spec.topic,
      .bytes = static_cast<uint32_t>(record.size()),
      .flags = static_cast<uint8_t>(decoded_.header.flags | storage::MessageFlags::kRecurs)};
  DT_CHECK_GE(ref.key.due_ms, deliver_ms);
  state.current = ref.key;
  current_[ref.key.id] = entry;
  core_.scheduler.Put(now, ref, std::move(record));
  // Until the occurrence is in the store it cannot be cancelled, so a cancel waits.
  core_.key_locks.Acquire(KeyLocks::Name(ref.key.id));
  core_.writes.Then([this, ref](base::Now then, bool ok) {
    if (ok) {
      core_.scheduler.CountAccepted(1);
      ++core_.subscriptions.ActivityOf(ref.topic).accepted;
      core_.scheduler.OnPut(ref);
    }
    core_.key_locks.Release(then, KeyLocks::Name(ref.key.id), ok);
  });
}

void RecurrenceEngine::Save(const Entry& entry) {
  core_.writer.PutObject(ObjectKind::kRecurrence, entry.state.name,
                         protocol::EncodeRecurrence(entry.state), Durability::kSynced);
}

// ---- Commands

bool RecurrenceEngine::Withdraw(base::Now now, Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  if (state.current.id == MessageId{}) return false;
  const MessageId id = state.current.id;
  DT_CHECK(!locks_->ChangeInFlight(id));
  current_.erase(id);
  state.current = {};
  const absl::StatusOr<bool> cancelled = changes_->Cancel(now, id, /*stop_redelivery=*/false);
  if (!cancelled.ok() || !*cancelled) return false;
  // Undoes its creation: the search for the next occurrence begins just before its time.
  --state.made;
  --state.nominal_ms;
  return true;
}

void RecurrenceEngine::Handle(base::Now now, protocol::RecurrenceCommand command) {
  const auto it = entries_.find(command.name);
  const bool create = command.kind == protocol::RecurrenceCommand::Kind::kCreate;
  const bool known =
      it != entries_.end() && protocol::InScope(command.scope, it->second->state.spec.topic);
  Entry* const entry = known ? it->second.get() : nullptr;
  DT_CHECK(entry == nullptr || entry->state.name == command.name);
  if (entry != nullptr && !create && entry->state.current.id != MessageId{} &&
      locks_->ChangeInFlight(entry->state.current.id)) {
    // A client is cancelling or moving the scheduled occurrence.
    if (absl::Status room = locks_->CheckRoom(); !room.ok()) {
      return core_.Answer(ReplyTo(command, room));
    }
    const KeyLocks::Name name(entry->state.current.id);
    locks_->Wait(name, [this, command = std::move(command)](base::Now then, bool ok) mutable {
      if (ok) {
        Handle(then, std::move(command));
      } else {
        core_.Answer(ReplyTo(command, base::StorageFailedError()));
      }
    });
    return;
  }
  // Nothing is changed yet.
  protocol::RecurrenceReply reply = ReplyTo(command, protocol::Admit(command.budget));
  if (!reply.status.ok()) return core_.Answer(std::move(reply));
  if (create) {
    reply.status = Create(now, command, &reply);
  } else if (entry == nullptr) {
    reply.status = protocol::RecurrenceNotFoundError(command.name);
  } else {
    switch (command.kind) {
      case protocol::RecurrenceCommand::Kind::kUpdate:
        reply.status = Update(now, command, entry);
        break;
      case protocol::RecurrenceCommand::Kind::kPause:
        Pause(now, entry);
        break;
      case protocol::RecurrenceCommand::Kind::kResume:
        reply.status = Resume(now, entry);
        break;
      case protocol::RecurrenceCommand::Kind::kDelete:
        reply.occurrence_cancelled = Withdraw(now, entry);
        DT_CHECK(entry->state.current.id == MessageId{});
        core_.writer.RemoveObject(ObjectKind::kRecurrence, command.name, Durability::kSynced);
        break;
      case protocol::RecurrenceCommand::Kind::kCreate:
        break;
    }
    reply.state = entry->state;
    if (command.kind == protocol::RecurrenceCommand::Kind::kDelete) Erase(command.name);
  }
  reply.charge = protocol::Charge(command.budget, reply.state.spec.message.size());
  core_.AnswerAfterCommit(std::move(reply));
}

absl::Status RecurrenceEngine::Create(base::Now now, const protocol::RecurrenceCommand& command,
                                      protocol::RecurrenceReply* reply) {
  if (const auto it = entries_.find(command.name); it != entries_.end()) {
    reply->state = it->second->state;
    if (reply->state.spec.content == command.spec.content) return absl::OkStatus();
    return RecurrenceMismatchError(command.name);
  }
  auto rule = Recurrence::Compile(command.spec.rule, "recurrence.schedule");
  if (!rule.ok()) return rule.status();
  const auto first = First(*rule, Signed(now.wall_ms));
  if (!first.has_value()) return NoOccurrenceError();
  absl::Status room =
      MakeRoom(now, command.spec.message.size(), /*updated=*/nullptr, command.validate_only);
  if (!room.ok()) return room;
  protocol::RecurrenceState state;
  state.name = command.name;
  state.spec = command.spec;
  state.create_ms = now.wall_ms;
  if (command.validate_only) {
    state.nominal_ms = state.current_deliver_ms = static_cast<uint64_t>(*first);
    reply->state = std::move(state);
    return absl::OkStatus();
  }
  Entry* const entry = Insert(std::move(state), *std::move(rule));
  DT_CHECK_LE(entries_.size(), recurrences_max_);
  DT_CHECK_LE(bytes_, bytes_max_);
  Make(now, entry, static_cast<uint64_t>(*first));
  Save(*entry);
  reply->state = entry->state;
  return absl::OkStatus();
}

absl::Status RecurrenceEngine::Update(base::Now now, const protocol::RecurrenceCommand& command,
                                      Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  if (command.etag.has_value() && *command.etag != protocol::EtagOf(state)) {
    return RecurrenceEtagError(state);
  }
  protocol::RecurrenceSpec spec = state.spec;
  if (command.update_message) spec.message = command.spec.message;
  if (command.update_rule) spec.rule = command.spec.rule;
  if (command.update_overlap) spec.overlap = command.spec.overlap;
  if (command.update_misfire) spec.misfire = command.spec.misfire;
  auto rule = Recurrence::Compile(spec.rule, "recurrence.schedule");
  if (!rule.ok()) return rule.status();
  const int64_t now_ms = Signed(now.wall_ms);
  std::optional<int64_t> first;
  if (command.update_rule) {
    // If the start stays, the occurrences up to now exist already. They are not made again.
    const bool same_start = spec.rule.start_ms == state.spec.rule.start_ms;
    first =
        same_start ? Next(*rule, std::max(now_ms, spec.rule.start_ms - 1)) : First(*rule, now_ms);
    if (!first.has_value()) return NoOccurrenceError();
  }
  absl::Status room = MakeRoom(now, spec.message.size(), entry, command.validate_only);
  if (!room.ok() || command.validate_only) return room;
  const bool was_stalled = stalled_.contains(state.name);
  Withdraw(now, entry);
  EndStall(state.name);
  DT_CHECK_GE(bytes_, state.spec.message.size());
  bytes_ = bytes_ - state.spec.message.size() + spec.message.size();
  DT_CHECK_LE(bytes_, bytes_max_);
  state.spec = std::move(spec);
  entry->rule = *std::move(rule);
  ++state.revision;
  state.update_ms = now.wall_ms;
  if (state.status != protocol::RecurrenceStatus::kPaused) {
    if (command.update_rule) {
      MakeOrComplete(now, entry, first);
    } else if (was_stalled) {
      GoOn(now, entry);
    } else if (state.status == protocol::RecurrenceStatus::kActive) {
      // This holds even if Withdraw could not cancel the old occurrence: it is delivered, but does
      // not make another one.
      MakeNext(now, entry, state.nominal_ms);
    }
  }
  Save(*entry);
  return absl::OkStatus();
}

void RecurrenceEngine::Pause(base::Now now, Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  if (state.status != protocol::RecurrenceStatus::kActive) return;
  Withdraw(now, entry);
  EndStall(state.name);
  state.status = protocol::RecurrenceStatus::kPaused;
  ++state.revision;
  state.update_ms = now.wall_ms;
  Save(*entry);
}

absl::Status RecurrenceEngine::Resume(base::Now now, Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  if (state.status != protocol::RecurrenceStatus::kPaused) return absl::OkStatus();
  if (!entry->rule.has_value()) {
    auto compiled = Recurrence::Compile(state.spec.rule, "recurrence.schedule");
    if (!compiled.ok()) return compiled.status();
    entry->rule = *std::move(compiled);
  }
  ++state.revision;
  state.update_ms = now.wall_ms;
  state.status = protocol::RecurrenceStatus::kActive;
  // An occurrence that is still pending stays. Only the time of the next one was unknown.
  if (state.current.id == MessageId{}) GoOn(now, entry);
  Save(*entry);
  return absl::OkStatus();
}

void RecurrenceEngine::GoOn(base::Now now, Entry* entry) {
  protocol::RecurrenceState& state = entry->state;
  DT_CHECK(entry->rule.has_value());
  DT_CHECK(state.current.id == MessageId{});
  const Recurrence& rule = *entry->rule;
  if (!ReadTemplate(*entry)) return;
  const int64_t now_ms = Signed(now.wall_ms);
  const std::optional<int64_t> missed = Next(rule, Signed(state.nominal_ms));
  if (state.spec.misfire == protocol::Misfire::kFireOnce && missed.has_value() &&
      *missed <= now_ms && !rule.IsComplete(state.made)) {
    // Makes one occurrence for all missed ones: the latest.
    const int64_t latest = rule.LastBetween(Signed(state.nominal_ms), now_ms).value_or(*missed);
    state.skipped += rule.Count(Signed(state.nominal_ms), latest) - 1;
    Make(now, entry, static_cast<uint64_t>(latest));
  } else {
    MakeNext(now, entry, state.nominal_ms);
  }
}

void RecurrenceEngine::CheckInvariants() const {
  size_t bytes = 0;
  size_t scheduled = 0;
  for (const auto& [name, entry] : entries_) {
    const protocol::RecurrenceState& state = entry->state;
    DT_CHECK(name == state.name);
    bytes += state.spec.message.size();
    if (state.current.id == MessageId{}) continue;
    ++scheduled;
    DT_CHECK(current_.at(state.current.id) == entry.get());
  }
  DT_CHECK_EQ(bytes, bytes_);
  DT_CHECK_EQ(scheduled, current_.size());
  for (const std::string& name : stalled_) {
    DT_CHECK(entries_.at(name)->state.status == protocol::RecurrenceStatus::kActive);
  }
}

}  // namespace duetime::recurrences
