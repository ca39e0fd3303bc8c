// SPDX-License-Identifier: Apache-2.0
//
// The life of messages, call by call, against a model. To replay a seed: DUETIME_SEED=<seed>
// DUETIME_SIM_SEEDS=1. More seeds: DUETIME_SIM_SEEDS=<n>, or DUETIME_TEST_SCALE.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/simulation/lifecycle_world.h"
#include "tests/support/from_environment.h"
#include "tests/support/test_scale.h"

namespace duetime::simulation {
namespace {

using storage::TopicId;

constexpr int kEvents = 400;

TEST(LifecycleTest, EachAnswerIsTheModels) {
  const uint64_t first = test::FromEnvironment("DUETIME_SEED", 1);
  const uint64_t seeds =
      test::FromEnvironment("DUETIME_SIM_SEEDS", static_cast<uint64_t>(test::Scaled(1000)));
  std::cout << "seeds " << first << " to " << first + seeds - 1 << "\n";
  LifecycleReport total;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    LifecycleWorld world(seed, LifecycleSabotage::kNone);
    const LifecycleReport report = world.Run(kEvents);
    ASSERT_EQ(report.violation, "") << "seed " << seed << ", event " << report.events << "\n"
                                    << report.history;
    total.Add(report);
  }
  std::cout << total.created << " created, " << total.replaced << " replaced, " << total.unchanged
            << " unchanged, " << total.refused << " refused, " << total.cancelled << " cancelled, "
            << total.rescheduled << " rescheduled, " << total.deliveries << " deliveries, "
            << total.expired << " expired, " << total.uncertain << " uncertain, " << total.crashes
            << " crashes, " << total.lost_ends << " ends lost, " << total.spilled << " spilled\n";
  // A run in which nothing happened is not a pass.
  EXPECT_GT(total.created, seeds * 20);
  EXPECT_GT(total.replaced, seeds * 5);
  EXPECT_GT(total.unchanged, seeds);
  EXPECT_GT(total.refused, seeds * 3);
  EXPECT_GT(total.cancelled, seeds * 5);
  EXPECT_GT(total.rescheduled, seeds * 5);
  EXPECT_GT(total.deliveries, seeds * 20);
  EXPECT_GT(total.expired, seeds);
  EXPECT_GT(total.uncertain, seeds / 10);
  EXPECT_GT(total.crashes, seeds * 2);
  EXPECT_GT(total.lost_ends, seeds / 30);
  EXPECT_GT(total.spilled, seeds);
}

// The test has teeth: each planted fault is found.
class PlantedFaultTest : public testing::TestWithParam<LifecycleSabotage> {};

TEST_P(PlantedFaultTest, IsFound) {
  constexpr uint64_t kSeeds = 200;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    LifecycleWorld world(seed, GetParam());
    const LifecycleReport report = world.Run(kEvents);
    if (!report.violation.empty()) {
      std::cout << "seed " << seed << ": " << report.violation << "\n";
      return;
    }
  }
  FAIL() << "not found in " << kSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(
    All, PlantedFaultTest,
    testing::Values(LifecycleSabotage::kForgetMoves, LifecycleSabotage::kForgetFates,
                    LifecycleSabotage::kForgetKeyEnds, LifecycleSabotage::kForgetRequests,
                    LifecycleSabotage::kKeepOldPlace, LifecycleSabotage::kMiscount,
                    LifecycleSabotage::kForgetClaim, LifecycleSabotage::kUnsyncedAppends,
                    LifecycleSabotage::kIgnoreEtags, LifecycleSabotage::kPullForward));

// A heartbeat: one key is pushed back over and over. It costs one pending message and a timer or
// two, and is delivered once, at its last time.
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

  void Take(const delivery::Effects& effects) {
    for (const delivery::ScheduleReply& reply : effects.schedules) {
      ASSERT_TRUE(reply.status.ok());
      for (const delivery::AcceptedMessage& accepted : reply.accepted) {
        ASSERT_TRUE(accepted.status.ok());
        ++accepted_;
        ASSERT_EQ(accepted.outcome, accepted_ == 1 ? delivery::ScheduleOutcome::kCreated
                                                   : delivery::ScheduleOutcome::kReplaced);
        last_ms_ = accepted.deliver_ms;
      }
    }
    for (const delivery::DeliveryFrame& frame : effects.frames) {
      for (const delivery::Delivery& delivery : frame.deliveries) {
        deliveries_.push_back(delivery.dispatch_ms);
      }
    }
  }

  void Push(uint64_t delay_ms, delivery::ScheduleCommand* command) {
    storage::MessageRecord record;
    record.header = {
        .topic = kTopic, .deliver_ms = now_.wall_ms + delay_ms, .accept_ms = now_.wall_ms};
    record.key = "heartbeat";
    scheduler::NewMessage message;
    message.topic = kTopic;
    message.deliver_ms = record.header.deliver_ms;
    message.record = storage::EncodeMessageRecord(record);
    message.flags = storage::MessageFlags::kKeyed;
    message.terms = std::make_unique<scheduler::Terms>();
    message.terms->key = "heartbeat";
    message.terms->content.low = ++pushes_;
    message.terms->on_conflict = scheduler::OnConflict::kPushBack;
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
  delivery::Shard shard_{0, {}, &store_};
  uint64_t pushes_ = 0;
  uint64_t accepted_ = 0;
  uint64_t last_ms_ = 0;
  uint64_t timers_max_ = 0;
  std::vector<uint64_t> deliveries_;
};

TEST_P(HeartbeatTest, AMillionPushesLeaveOneMessage) {
  const auto pushes = static_cast<uint64_t>(test::Scaled(1'000'000));
  ASSERT_TRUE(shard_.Recover(now_).ok());
  shard_.Handle(now_, delivery::AttachCommand{
                          .stream = delivery::StreamId{1},
                          .topic = kTopic,
                          .subscription = storage::FirstSubscription(kTopic),
                          .lease_ms = 1'000'000,
                          .credit = std::make_shared<delivery::StreamCredit>(10, 10'000)});
  while (pushes_ < pushes) {
    delivery::ScheduleCommand command;
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

// Within the window that is loaded, and beyond it.
INSTANTIATE_TEST_SUITE_P(Delays, HeartbeatTest, testing::Values(5'000, 100'000));

}  // namespace
}  // namespace duetime::simulation
