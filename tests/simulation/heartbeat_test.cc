// SPDX-License-Identifier: Apache-2.0
//
// A key whose message is pushed back over and over.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/shard/shard.h"
#include "storage/memory_store.h"
#include "storage/message_record.h"
#include "tests/support/replies.h"
#include "tests/support/test_scale.h"

namespace duetime::simulation {
namespace {

using storage::TopicId;

// A heartbeat costs one pending message and one or two timers, and is delivered once, at its last
// time.
class HeartbeatTest : public testing::TestWithParam<uint64_t> {
 protected:
  static constexpr TopicId kTopic{1};

  void Commit() {
    for (bool more = true; more;) {
      more = shard_.Step(now_).more;
      if (auto batch = shard_.TakeBatch(); batch.has_value()) {
        const auto outcome = store_.Append(std::span(&batch->records, 1), batch->durability);
        shard_.OnCommitted(now_, batch->sequence, outcome);
        more = true;
      }
      Take(shard_.TakeEffects());
      timers_max_ = std::max(timers_max_, shard_.stats().wheel_timers);
    }
  }

  void Take(const protocol::Effects& effects) {
    for (const auto& reply : test::RepliesOf<protocol::ScheduleReply>(effects)) {
      ASSERT_TRUE(reply.status.ok());
      for (const protocol::AcceptedMessage& accepted : reply.accepted) {
        ASSERT_TRUE(accepted.status.ok());
        ++accepted_;
        ASSERT_EQ(accepted.outcome, accepted_ == 1 ? protocol::ScheduleOutcome::kCreated
                                                   : protocol::ScheduleOutcome::kReplaced);
        last_ms_ = accepted.deliver_ms;
      }
    }
    for (const protocol::DeliveryFrame& frame : effects.frames) {
      for (const protocol::Delivery& delivery : frame.deliveries) {
        deliveries_.push_back(delivery.dispatch_ms);
      }
    }
  }

  void Push(uint64_t delay_ms, protocol::ScheduleCommand* command) {
    storage::MessageRecord record;
    record.header = {
        .topic = kTopic, .deliver_ms = now_.wall_ms + delay_ms, .accept_ms = now_.wall_ms};
    record.key = "heartbeat";
    protocol::NewMessage message = protocol::MakeNewMessage(record, /*slot=*/0);
    message.options = std::make_unique<protocol::ScheduleOptions>();
    message.options->key = "heartbeat";
    message.options->content.low = ++pushes_;
    message.options->on_conflict = protocol::OnConflict::kPushBack;
    command->messages.push_back(std::move(message));
  }

  size_t Stored() {
    storage::Page<storage::MessageRef> page;
    const auto end = storage::MessageKey::FirstAt(storage::MessageId::kDueMax);
    EXPECT_TRUE(store_.Scan(0, {}, end, {}, &page).ok());
    return page.items.size();
  }

  base::Now now_{.wall_ms = 1'800'000'000'000, .mono_ms = 1000};
  storage::MemoryDisk disk_{1};
  storage::MemoryStore store_{&disk_};
  shard::Shard shard_{0, {}, &store_};
  uint64_t pushes_ = 0;
  uint64_t accepted_ = 0;
  uint64_t last_ms_ = 0;
  uint64_t timers_max_ = 0;
  std::vector<uint64_t> deliveries_;
};

TEST_P(HeartbeatTest, AMillionPushesLeaveOneMessage) {
  const auto pushes = static_cast<uint64_t>(test::Scaled(1'000'000));
  ASSERT_TRUE(shard_.Recover(now_).ok());
  shard_.Handle(now_, protocol::AttachCommand{
                          .stream = protocol::StreamId{1},
                          .topic = kTopic,
                          .subscription = storage::FirstSubscription(kTopic),
                          .lease_ms = 1'000'000,
                          .credit = std::make_shared<protocol::StreamCredit>(10, 10'000)});
  while (pushes_ < pushes) {
    protocol::ScheduleCommand command;
    for (int i = 0; i < 4; ++i) Push(GetParam(), &command);
    now_.wall_ms += 1;
    now_.mono_ms += 1;
    shard_.Handle(now_, std::move(command));
    Commit();
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(accepted_, pushes_);
  EXPECT_TRUE(deliveries_.empty());
  EXPECT_EQ(Stored(), 1u);
  EXPECT_LE(timers_max_, 4u);
  while (now_.wall_ms < last_ms_ + 100'000) {
    now_.wall_ms += now_.wall_ms < last_ms_ && now_.wall_ms + 10 >= last_ms_ ? 1 : 10;
    now_.mono_ms += 10;
    Commit();
  }
  EXPECT_EQ(deliveries_, std::vector<uint64_t>{last_ms_});
}

// Delays within the loaded window and beyond it.
INSTANTIATE_TEST_SUITE_P(Delays, HeartbeatTest, testing::Values(5'000, 100'000));

}  // namespace
}  // namespace duetime::simulation
