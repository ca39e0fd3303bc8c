// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/delivery_states.h"

#include <utility>

#include "server/base/check.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

DeliveryStates::DeliveryStates(const DeliveryParts& parts)
    : scheduler_(parts.scheduler),
      table_(parts.table),
      memory_(parts.memory),
      timers_(parts.timers),
      leases_(parts.leases),
      turns_(parts.turns) {
  DT_CHECK(AllSet(scheduler_, table_, memory_, timers_, leases_, turns_));
}

void DeliveryStates::Pin(EntryIndex index) {
  PendingDelivery& entry = (*table_)[index];
  DT_CHECK(!entry.pinned);
  DT_CHECK(entry.state != EntryState::kFree);
  DT_CHECK(entry.state != EntryState::kEnding);
  entry.pinned = true;
  scheduler_->low_watermark()->Pin(entry.due_ms, index);
}

void DeliveryStates::Unpin(EntryIndex index) {
  PendingDelivery& entry = (*table_)[index];
  DT_CHECK(entry.state != EntryState::kFree);
  if (std::exchange(entry.pinned, false)) scheduler_->low_watermark()->Release(entry.due_ms);
}

void DeliveryStates::MakeReady(EntryIndex index) {
  PendingDelivery& entry = (*table_)[index];
  DT_CHECK(entry.state == EntryState::kTaken);
  table_->SetState(index, EntryState::kReady);
  entry.stream = protocol::StreamId{};
  table_->PushBack(&entry.subscription->ready, index);
  turns_->Serve(entry.subscription);
}

void DeliveryStates::MakeDelayed(base::Now now, EntryIndex index, uint64_t delay_ms) {
  DT_CHECK_GT(delay_ms, 0u);
  table_->SetState(index, EntryState::kDelayed);
  (*table_)[index].stream = protocol::StreamId{};
  timers_->Start(index, now.mono_up_ms() + delay_ms);
}

OrderingKeyLocks::Turn DeliveryStates::LockOrder(EntryIndex index, uint64_t key) {
  PendingDelivery& entry = (*table_)[index];
  DT_CHECK(entry.state == EntryState::kTaken);
  const auto turn = entry.subscription->order.Acquire(key, index, memory_->RoomToWait());
  if (turn != OrderingKeyLocks::Turn::kNoRoom) entry.order = key;
  if (turn == OrderingKeyLocks::Turn::kWaits) table_->SetState(index, EntryState::kBlocked);
  return turn;
}

void DeliveryStates::MakeEnding(EntryIndex index, bool ends_message) {
  PendingDelivery& entry = (*table_)[index];
  DT_CHECK_EQ(entry.order, 0u);
  table_->SetState(index, EntryState::kEnding);
  entry.ends_message = ends_message;
}

void DeliveryStates::MakeForgetting(EntryIndex index) {
  PendingDelivery& entry = (*table_)[index];
  DT_CHECK(entry.spilled);
  UnlockOrder(index);
  table_->SetState(index, EntryState::kForgetting);
  entry.stream = protocol::StreamId{};
}

EntryIndex DeliveryStates::TakeReady(Subscription* subscription) {
  const EntryIndex index = subscription->ready.head;
  DT_CHECK(index != kNoEntry);
  DT_CHECK((*table_)[index].state == EntryState::kReady);
  table_->Unlink(&subscription->ready, index);
  table_->SetState(index, EntryState::kTaken);
  return index;
}

void DeliveryStates::TakeDelayed(EntryIndex index) {
  DT_CHECK((*table_)[index].state == EntryState::kDelayed);
  DT_CHECK((*table_)[index].timer.none());
  table_->SetState(index, EntryState::kTaken);
}

void DeliveryStates::TakeOut(EntryIndex index) {
  PendingDelivery& entry = (*table_)[index];
  switch (entry.state) {
    case EntryState::kReady:
      table_->Unlink(&entry.subscription->ready, index);
      table_->SetState(index, EntryState::kTaken);
      break;
    case EntryState::kInFlight:
      leases_->End(index);
      break;
    case EntryState::kDelayed:
      timers_->Cancel(index);
      table_->SetState(index, EntryState::kTaken);
      break;
    case EntryState::kBlocked:
      entry.subscription->order.RemoveWaiting(std::exchange(entry.order, 0), index);
      table_->SetState(index, EntryState::kTaken);
      break;
    case EntryState::kForgetting:
      table_->SetState(index, EntryState::kTaken);
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
  PendingDelivery& entry = (*table_)[index];
  if (entry.order == 0) return;
  Subscription* const subscription = entry.subscription;
  const EntryIndex next = subscription->order.Release(std::exchange(entry.order, 0), index);
  if (next == kNoEntry) return turns_->ReadBack(subscription);
  DT_CHECK((*table_)[next].state == EntryState::kBlocked);
  DT_CHECK((*table_)[next].subscription == subscription);
  DT_CHECK_NE((*table_)[next].order, 0u);
  // The blocked entry is older than the ready ones.
  table_->SetState(next, EntryState::kReady);
  table_->PushFront(&subscription->ready, next);
  turns_->Serve(subscription);
}

void DeliveryStates::Remove(EntryIndex index) {
  DT_CHECK(MayFollow((*table_)[index].state, EntryState::kFree));
  Subscription* const subscription = (*table_)[index].subscription;
  UnlockOrder(index);
  Unpin(index);
  table_->Remove(index);
  scheduler_->NoteProgress();
  turns_->ReadBack(subscription);
}

void DeliveryStates::CheckInvariants() const {
  size_t timers = 0;
  table_->ForEach([&](EntryIndex index, const PendingDelivery& entry) {
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
  DT_CHECK_LE(timers, timers_->size());
}

}  // namespace duetime::delivery
