// SPDX-License-Identifier: Apache-2.0
//
// A topic's message beside a crowd of another's, in steps of the shard: what a step may cost is
// bounded, so the number of steps bounds how late the message may be.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "server/protocol/commands.h"
#include "server/shard/shard.h"
#include "storage/message_record.h"
#include "tests/support/shard_parts.h"
#include "tests/support/test_store.h"

namespace duetime::delivery {
namespace {

using storage::TopicId;

constexpr TopicId kCrowd{1};
constexpr TopicId kOther{2};
constexpr int64_t kCreditBytes = int64_t{1} << 30;
constexpr int64_t kCrowdSize = 100'000;

class CrowdTest : public ::testing::Test {
 protected:
  CrowdTest() : shard_(0, test::LimitsWithRetriesAtOnce(), &store_) {
    EXPECT_TRUE(shard_.Recover(now_).ok());
    for (const TopicId topic : {kCrowd, kOther}) {
      protocol::TopicCommand command;
      command.topic = topic;
      shard_.Handle(now_, std::move(command));
    }
  }

  void Schedule(TopicId topic, int64_t count, uint64_t due_ms) {
    storage::MessageRecord record;
    record.header = {.topic = topic, .deliver_ms = due_ms, .accept_ms = now_.wall_ms};
    record.payload = "p";
    protocol::ScheduleCommand command;
    for (int64_t i = 0; i < count; ++i) {
      command.messages.push_back(protocol::MakeNewMessage(record, /*slot=*/0));
    }
    shard_.Handle(now_, std::move(command));
    do {
      Step();
    } while (more_);
  }

  void Attach(TopicId topic, int64_t credit) {
    shard_.Handle(now_, protocol::AttachCommand{.stream = static_cast<protocol::StreamId>(topic),
                                                .topic = topic,
                                                .subscription = storage::FirstSubscription(topic),
                                                .lease_ms = 30'000,
                                                .credit = std::make_shared<protocol::StreamCredit>(
                                                    credit, kCreditBytes)});
  }

  // One step, whose batch is committed; all of the crowd that comes is acked.
  void Step() {
    more_ = shard_.Step(now_).more;
    if (auto batch = shard_.TakeBatch(); batch.has_value()) {
      const auto outcome = store_.Append(std::span(&batch->records, 1), batch->durability);
      shard_.OnCommitted(now_, batch->sequence, outcome);
      more_ = true;
    }
    protocol::Effects effects = shard_.TakeEffects();
    for (const protocol::DeliveryFrame& frame : effects.frames) {
      if (frame.stream == static_cast<protocol::StreamId>(kOther)) {
        others_ += frame.deliveries.size();
        continue;
      }
      protocol::SettleCommand acks{.stream = frame.stream};
      for (const protocol::Delivery& delivery : frame.deliveries) {
        acks.settlements.push_back({.token = delivery.token});
      }
      crowd_ += frame.deliveries.size();
      shard_.Handle(now_, std::move(acks));
    }
  }

  // Steps until the other topic has its message; how many that takes.
  int StepsUntilOther() {
    for (int steps = 1; steps < 10'000; ++steps) {
      Step();
      if (others_ > 0) return steps;
    }
    return -1;
  }

  base::Now now_{.wall_ms = 1'000'000'000, .mono_ms = 1};
  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  shard::Shard shard_;
  bool more_ = false;
  size_t crowd_ = 0;
  size_t others_ = 0;
};

// What has to leave the wheel before the message does, after a jump of time over which nothing was
// moved down in advance: a step does 32,000 of both together.
constexpr int kStepsOfCrowd = 2 * kCrowdSize / 32'000 + 1;

TEST_F(CrowdTest, AMessageDoesNotWaitForAMillisecondsCrowdOfAnotherTopic) {
  const uint64_t due_ms = now_.wall_ms + 5'000;
  Schedule(kCrowd, kCrowdSize, due_ms);
  Schedule(kOther, 1, due_ms + 1);
  Attach(kCrowd, 1'000'000);
  Attach(kOther, 10);
  now_.wall_ms += 5'001;
  now_.mono_ms += 5'001;
  // One more to claim what is due, one to hand it out.
  EXPECT_LE(StepsUntilOther(), kStepsOfCrowd + 2);
  EXPECT_LT(crowd_, static_cast<size_t>(kCrowdSize) / 4);
}

TEST_F(CrowdTest, NorForACrowdThatNobodyReads) {
  const uint64_t due_ms = now_.wall_ms + 5'000;
  Schedule(kCrowd, kCrowdSize, due_ms);
  Schedule(kOther, 1, due_ms + 1);
  Attach(kOther, 10);
  now_.wall_ms += 5'001;
  now_.mono_ms += 5'001;
  EXPECT_LE(StepsUntilOther(), kStepsOfCrowd + 2);
}

// Found in review: what was late when it was accepted, and behind a crowd of its topic, did not
// hold the low watermark.
TEST_F(CrowdTest, WhatIsLateBehindACrowdHoldsTheLowWatermark) {
  const uint64_t due_ms = now_.wall_ms + 5'000;
  Schedule(kCrowd, kCrowdSize, due_ms);
  now_.wall_ms = due_ms - 400;
  Step();  // claims
  now_.wall_ms = due_ms - 10;
  protocol::ScheduleCommand late;
  for (const TopicId topic : {kOther, kCrowd}) {
    storage::MessageRecord record;
    record.header = {.topic = topic, .deliver_ms = now_.wall_ms, .accept_ms = now_.wall_ms};
    late.messages.push_back(protocol::MakeNewMessage(record, /*slot=*/0));
  }
  shard_.Handle(now_, std::move(late));
  auto batch = shard_.TakeBatch();
  ASSERT_TRUE(batch.has_value());
  // Meanwhile the crowd leaves the wheel.
  now_.wall_ms = due_ms + 1;
  for (int i = 0; i < kStepsOfCrowd + 1; ++i) shard_.Step(now_);
  const auto outcome = store_.Append(std::span(&batch->records, 1), batch->durability);
  shard_.OnCommitted(now_, batch->sequence, outcome);
  shard_.Step(now_);
  shard_.CheckInvariants();
}

}  // namespace
}  // namespace duetime::delivery
