// SPDX-License-Identifier: Apache-2.0
//
// DeliveryWorld: the parts of delivery over a store in memory, for tests of single parts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/delivery/assembly.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/scheduler/scheduler.h"
#include "tests/support/shard_parts.h"

namespace duetime::delivery {

// One shard without commands: a test calls the parts itself and says when a batch is committed.
class DeliveryWorld : public test::ShardPartsTest {
 protected:
  static constexpr storage::TopicId kTopic{1};
  static constexpr storage::TopicId kDeadLetters{2};
  static constexpr protocol::StreamId kStream{1};
  static constexpr protocol::StreamId kOtherStream{2};

  explicit DeliveryWorld(const ShardLimits& limits = {}) : ShardPartsTest(limits) {
    assembly_.SetOccurrences(this);
    EXPECT_TRUE(scheduler_.Recover(now_).ok());
    EXPECT_TRUE(core_.subscriptions.Recover(now_).ok());
    one_ = core_.subscriptions.TopicOf(kTopic)->subscriptions.front();
  }
  ~DeliveryWorld() override { assembly_.CheckInvariants(); }

  // Another subscription of the topic, with a number of its own.
  Subscription* AddSubscription(uint32_t number = 1) {
    protocol::SubscriptionState state;
    state.id = storage::SubscriptionId{(uint32_t{1} << 31) + number};
    state.topic = kTopic;
    return core_.subscriptions.Add(std::move(state), one_->topic);
  }

  // Puts a message into the store that is due now, or at `due_ms`. What is due soon is claimed.
  storage::MessageRef Put(storage::MessageRecord record = {}, uint64_t due_ms = 0) {
    if (due_ms == 0) due_ms = now_.wall_ms;
    record.header = {.topic = kTopic, .deliver_ms = due_ms, .accept_ms = now_.wall_ms};
    std::string bytes = storage::EncodeMessageRecord(record);
    storage::MessageHeader header;
    EXPECT_TRUE(storage::DecodeMessageHeader(bytes, &header).ok());
    const storage::MessageRef ref = {.key = scheduler_.NewKey(now_, 0, due_ms, 0),
                                     .topic = kTopic,
                                     .bytes = static_cast<uint32_t>(bytes.size()),
                                     .flags = header.flags};
    scheduler_.Put(now_, ref, std::move(bytes));
    Commit();
    EXPECT_FALSE(scheduler_.OnPut(ref)) << "nothing is in the wheel: tests offer it themselves";
    return ref;
  }
  // The same, and an entry for it, taken and learned.
  EntryIndex Take(Subscription* subscription, const storage::MessageRef& message) {
    const EntryIndex index = core_.table.Insert(message.key, subscription);
    core_.table[index].bytes = message.bytes;
    core_.states.Pin(index);
    const auto record = core_.reader.Record(message.key);
    if (record.ok() && record->has_value()) core_.table.Learn(index, **record);
    return index;
  }
  EntryIndex Take() { return Take(one_, Put()); }
  EntryIndex Ready(Subscription* subscription, const storage::MessageRef& message) {
    const EntryIndex index = Take(subscription, message);
    core_.states.MakeReady(index);
    return index;
  }
  // A stream that waits for messages of the subscription.
  Stream* Attach(Subscription* subscription, protocol::StreamId id = kStream,
                 int64_t messages = 100) {
    core_.streams.Attach({.stream = id,
                          .topic = kTopic,
                          .subscription = subscription->state.id,
                          .lease_ms = 1'000,
                          .credit = std::make_shared<protocol::StreamCredit>(messages, 1'000'000)},
                         subscription);
    Stream* const stream = core_.streams.Get(id);
    core_.streams.MakeAvailable(stream);
    return stream;
  }
  // A message of the subscription that is on disk only.
  storage::MessageRef PutListed(Subscription* subscription) {
    const storage::MessageRef message = Put();
    core_.backlog.ListNew(message, subscription, nullptr);
    Commit();
    return message;
  }
  PendingDelivery& At(EntryIndex index) { return core_.table[index]; }

  bool Stored(const storage::MessageKey& key) {
    const auto record = store_.Get(0, key);
    return record.ok() && record->has_value();
  }
  bool Listed(const storage::MessageKey& place, storage::SubscriptionId subscription) {
    const auto entry = store_.GetBacklog(0, subscription, place);
    return entry.ok() && entry->has_value();
  }
  bool Listed(const storage::MessageKey& place, const Subscription& subscription) {
    return Listed(place, subscription.state.id);
  }
  // The subscription's progress record of the message, or nothing.
  std::optional<storage::Progress> Row(const storage::MessageKey& key,
                                       const Subscription& subscription) {
    const auto rows = core_.reader.Progress(key);
    const storage::Progress* const row = rows.ok() ? rows->Find(subscription.state.id) : nullptr;
    return row == nullptr ? std::nullopt : std::optional(*row);
  }
  std::optional<storage::Tombstone> TombstoneOf(const storage::MessageId& id) {
    const auto locator = store_.GetLocator(0, id);
    return locator.ok() && locator->has_value() ? (*locator)->tombstone : std::nullopt;
  }

  scheduler::Scheduler scheduler_{SmallScheduler(), &store_, &writes_, &writer_};
  DeliveryAssembly assembly_{Parts(), &scheduler_};
  const Core& core_ = assembly_.core();
  const DeliveryParts& p_ = assembly_.parts();
  // The topic's first subscription.
  Subscription* one_ = nullptr;
};

}  // namespace duetime::delivery
