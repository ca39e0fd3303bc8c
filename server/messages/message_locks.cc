// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_locks.h"

#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"
#include "storage/locator.h"

namespace duetime::messages {

using storage::IndexKind;
using storage::MessageId;
using storage::TopicId;

namespace {

bool HasRoom(const MessageLocks::Move& move) {
  return move.changes < MessageLocks::kChangesMax && move.bytes < MessageLocks::kBytesMax;
}

}  // namespace

MessageLocks::MessageLocks(const delivery::Core& core, const delivery::MessageEnds* ends)
    : core_(core), ends_(ends), waiting_max_(core.limits.waiting_max) {
  DT_CHECK_GT(waiting_max_, 0u);
}

MessageLocks::Name MessageLocks::KeyName(TopicId topic, absl::string_view key) {
  DT_CHECK(!key.empty());
  return Name(static_cast<uint8_t>(IndexKind::kUserKey), topic, key);
}

MessageLocks::Name MessageLocks::RequestName(TopicId topic, absl::string_view name) {
  DT_CHECK(!name.empty());
  return Name(static_cast<uint8_t>(IndexKind::kRequest), topic, name);
}

bool MessageLocks::ChangeInFlight(const MessageId& id) const {
  return core_.key_locks.Locked(id) || ends_->AnyEnding(id);
}

absl::Status MessageLocks::CheckRoom() const {
  if (waiting() < waiting_max_) return absl::OkStatus();
  return base::OverloadedError("commands that wait for the same message or key", waiting_max_);
}

void MessageLocks::Wait(const Name& name, Waiter waiter, Kind kind) {
  if (core_.key_locks.Locked(name)) {
    core_.key_locks.Wait(name, std::move(waiter), kind);
    return;
  }
  // A settlement is ending this message. Its batch commits before or with the open one, or has just
  // been committed and its continuations are running. So the settlement is over when the
  // continuations of the open batch run.
  DT_CHECK(ends_->AnyEnding(MessageId{.high = name.high, .low = name.low}));
  ++for_settlements_;
  core_.writes.Then([this, waiter = std::move(waiter)](base::Now now, bool ok) mutable {
    --for_settlements_;
    waiter(now, ok);
  });
}

void MessageLocks::Unlock(base::Now now, const Name& name, bool ok) {
  DT_CHECK(!moves_.contains(name));
  core_.key_locks.Release(now, name, ok,
                          [&] { return InOpenBatch(name) && HasRoom(moves_.find(name)->second); });
}

void MessageLocks::LockCreated(const storage::MessageId& id, storage::TopicId topic,
                               absl::string_view key, std::vector<Name>* locked) {
  for (const Name& name : {Name(id), KeyName(topic, key)}) {
    Lock(name);
    locked->push_back(name);
  }
}

void MessageLocks::LockMoved(const MessageId& id, const Move& move) {
  DT_CHECK(move.batch == core_.writes.open_sequence());
  const Name name(id);
  Lock(name);
  DT_CHECK(moves_.try_emplace(name, move).second);
}

MessageLocks::Move MessageLocks::EndMove(const MessageId& id) {
  const auto it = moves_.find(Name(id));
  DT_CHECK(it != moves_.end());
  const Move move = it->second;
  moves_.erase(it);
  return move;
}

bool MessageLocks::InOpenBatch(const Name& name) const {
  const auto it = moves_.find(name);
  return it != moves_.end() && it->second.batch == core_.writes.open_sequence();
}

MessageLocks::Move* MessageLocks::FindOpenMove(const MessageId& id) {
  const Name name(id);
  // A command that waits is not overtaken by one that comes later.
  if (!InOpenBatch(name) || core_.key_locks.AnyWaits(name)) return nullptr;
  return &moves_.find(name)->second;
}

const MessageLocks::Move* MessageLocks::FindMoveToJoin(const MessageId& id) {
  const Move* const move = FindOpenMove(id);
  return move != nullptr && HasRoom(*move) ? move : nullptr;
}

absl::string_view MessageLocks::RecordOf(const Move& move) const {
  DT_CHECK(move.batch == core_.writes.open_sequence());
  DT_CHECK_LT(move.position, core_.writes.open_records().size());
  return core_.writes.open_records()[move.position].value;
}

void MessageLocks::CheckInvariants() const {
  for (const auto& [name, move] : moves_) {
    DT_CHECK(Locked(name));
    DT_CHECK(name == Name(move.from.id) && name == Name(move.to.key.id));
    DT_CHECK_GT(move.changes, 0u);
    DT_CHECK_LE(move.batch, core_.writes.open_sequence());
  }
}

}  // namespace duetime::messages
