// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/delivery_states.h"

#include <utility>

#include "server/base/check.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

DeliveryStates::DeliveryStates(const Core& core) : core_(core) {}

void DeliveryStates::Pin(EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(!entry.pinned);
  DT_CHECK(entry.state != EntryState::kFree);
  DT_CHECK(entry.state != EntryState::kEnding);
  entry.pinned = true;
  core_.scheduler.low_watermark()->Pin(entry.due_ms, index);
}

void DeliveryStates::Unpin(EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state != EntryState::kFree);
  if (std::exchange(entry.pinned, false)) core_.scheduler.low_watermark()->Release(entry.due_ms);
}

void DeliveryStates::MakeReady(EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kTaken);
  core_.table.SetState(index, EntryState::kReady);
  entry.stream = protocol::StreamId{};
  core_.table.PushBack(&entry.subscription->ready, index);
  core_.turns.Serve(entry.subscription);
}

void DeliveryStates::MakeDelayed(base::Now now, EntryIndex index, uint64_t delay_ms) {
  DT_CHECK_GT(delay_ms, 0u);
  core_.table.SetState(index, EntryState::kDelayed);
  core_.table[index].stream = protocol::StreamId{};
  core_.timers.Start(index, now.mono_up_ms() + delay_ms);
}

OrderingKeyLocks::Turn DeliveryStates::LockOrder(EntryIndex index, uint64_t key) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.state == EntryState::kTaken);
  const auto turn = entry.subscription->order.Acquire(key, index, core_.memory.RoomToWait());
  if (turn != OrderingKeyLocks::Turn::kNoRoom) entry.order = key;
  if (turn == OrderingKeyLocks::Turn::kWaits) core_.table.SetState(index, EntryState::kBlocked);
  return turn;
}

void DeliveryStates::MakeEnding(EntryIndex index, bool ends_message) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK_EQ(entry.order, 0u);
  core_.table.SetState(index, EntryState::kEnding);
  entry.ends_message = ends_message;
}

void DeliveryStates::MakeForgetting(EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.spilled);
  UnlockOrder(index);
  core_.table.SetState(index, EntryState::kForgetting);
  entry.stream = protocol::StreamId{};
}

EntryIndex DeliveryStates::TakeReady(Subscription* subscription) {
  const EntryIndex index = subscription->ready.head;
  DT_CHECK(index != kNoEntry);
  DT_CHECK(core_.table[index].state == EntryState::kReady);
  core_.table.Unlink(&subscription->ready, index);
  core_.table.SetState(index, EntryState::kTaken);
  return index;
}

void DeliveryStates::TakeDelayed(EntryIndex index) {
  DT_CHECK(core_.table[index].state == EntryState::kDelayed);
  DT_CHECK(core_.table[index].timer.none());
  core_.table.SetState(index, EntryState::kTaken);
}

void DeliveryStates::TakeOut(EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  switch (entry.state) {
    case EntryState::kReady:
      core_.table.Unlink(&entry.subscription->ready, index);
      core_.table.SetState(index, EntryState::kTaken);
      break;
    case EntryState::kInFlight:
      core_.leases.End(index);
      break;
    case EntryState::kDelayed:
      core_.timers.Cancel(index);
      core_.table.SetState(index, EntryState::kTaken);
      break;
    case EntryState::kBlocked:
      entry.subscription->order.RemoveWaiting(std::exchange(entry.order, 0), index);
      core_.table.SetState(index, EntryState::kTaken);
      break;
    case EntryState::kForgetting:
      core_.table.SetState(index, EntryState::kTaken);
      break;
    case EntryState::kTaken:
      break;
    case EntryState::kFree:
    case EntryState::kEnding:
      DT_CHECK(false);
  }
  UnlockOrder(index);
  DT_CHECK(entry.state == EntryState::kTaken);
  DT_CHECK_EQ(entry.order, 0u);
}

void DeliveryStates::UnlockOrder(EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  if (entry.order == 0) return;
  Subscription* const subscription = entry.subscription;
  const EntryIndex next = subscription->order.Release(std::exchange(entry.order, 0), index);
  if (next == kNoEntry) return core_.turns.ReadBack(subscription);
  DT_CHECK(core_.table[next].state == EntryState::kBlocked);
  DT_CHECK(core_.table[next].subscription == subscription);
  DT_CHECK_NE(core_.table[next].order, 0u);
  // The blocked entry is older than the ready ones.
  core_.table.SetState(next, EntryState::kReady);
  core_.table.PushFront(&subscription->ready, next);
  core_.turns.Serve(subscription);
}

void DeliveryStates::Remove(EntryIndex index) {
  DT_CHECK(MayFollow(core_.table[index].state, EntryState::kFree));
  Subscription* const subscription = core_.table[index].subscription;
  UnlockOrder(index);
  Unpin(index);
  core_.table.Remove(index);
  core_.scheduler.NoteProgress();
  core_.turns.ReadBack(subscription);
}

void DeliveryStates::CheckInvariants() const {
  size_t timers = 0;
  core_.table.ForEach([&](EntryIndex index, const PendingDelivery& entry) {
    const OrderingKeyLocks& order = entry.subscription->order;
    const bool timed = entry.state == EntryState::kInFlight || entry.state == EntryState::kDelayed;
    DT_CHECK_EQ(!entry.timer.none(), timed);
    timers += timed ? 1u : 0u;
    switch (entry.state) {
      case EntryState::kReady:
      case EntryState::kInFlight:
      case EntryState::kDelayed:
        DT_CHECK(entry.order == 0 || order.Holds(entry.order, index));
        break;
      case EntryState::kBlocked:
        DT_CHECK(entry.order != 0);
        DT_CHECK(!order.Holds(entry.order, index));
        break;
      case EntryState::kEnding:
      case EntryState::kForgetting:
        DT_CHECK_EQ(entry.order, 0u);
        break;
      case EntryState::kFree:
      case EntryState::kTaken:
        DT_CHECK(false);
    }
    DT_CHECK(entry.pinned || entry.spilled || entry.state == EntryState::kEnding);
  });
  DT_CHECK_LE(timers, core_.timers.size());
}

}  // namespace duetime::delivery
