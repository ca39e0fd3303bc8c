// SPDX-License-Identifier: Apache-2.0
//
// A key whose message is pushed back over and over.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/simulation/world.h"
#include "tests/support/replies.h"
#include "tests/support/test_scale.h"

namespace duetime::simulation {
namespace {

constexpr storage::TopicId kTopic{1};
constexpr int kPushesPerCall = 4;

// A heartbeat costs one pending message and one or two timers, and is delivered once, at its last
// time.
class Heartbeat final : public World {
 public:
  explicit Heartbeat(uint64_t delay_ms)
      : World({}, /*shards_max=*/1, Lead::kKept), delay_ms_(delay_ms) {
    limits_ = {};
    Open();
    Send(0, NewStream(storage::FirstSubscription(kTopic), kTopic, 10, 1'000'000));
  }

 private:
  void Event() override {
    protocol::ScheduleCommand command;
    for (int i = 0; i < kPushesPerCall; ++i) {
      Ask ask;
      ask.topic = kTopic;
      ask.key = "heartbeat";
      ask.fingerprint = ++pushes_;
      ask.deliver_ms = now_.wall_ms + delay_ms_;
      ask.on_conflict = protocol::OnConflict::kPushBack;
      command.messages.push_back(MakeMessage(ask, /*slot=*/0));
    }
    Pass(1);
    Send(0, std::move(command));
    if (!deliveries_.empty()) Violate("delivered before the last push");
  }

  void Send(uint16_t shard, protocol::Command command) override {
    shards_[shard]->Handle(now_, std::move(command));
    Take(RunToRest());
  }

  void Pass(uint64_t ms) {
    now_.wall_ms += ms;
    now_.mono_ms += ms;
  }

  void Take(const protocol::Effects& effects) {
    for (const auto& reply : test::RepliesOf<protocol::ScheduleReply>(effects)) {
      for (const protocol::AcceptedMessage& accepted : reply.accepted) {
        const auto outcome = ++accepted_ == 1 ? protocol::ScheduleOutcome::kCreated
                                              : protocol::ScheduleOutcome::kReplaced;
        if (!accepted.status.ok() || accepted.outcome != outcome) Violate("a push was refused");
        last_ms_ = accepted.deliver_ms;
      }
    }
    for (const protocol::DeliveryFrame& frame : effects.frames) {
      for (const protocol::Delivery& delivery : frame.deliveries) {
        deliveries_.push_back(delivery.dispatch_ms);
      }
    }
  }

  void OnCommitted(size_t shard, uint64_t sequence, storage::AppendOutcome outcome) override {
    World::OnCommitted(shard, sequence, outcome);
    CountMost("timers", shards_[shard]->stats().wheel_timers);
  }

  void Drain() override {
    storage::Page<storage::MessageRef> page;
    const auto end = storage::MessageKey::FirstAt(storage::MessageId::kDueMax);
    EXPECT_TRUE(store_->Scan(0, {}, end, {}, &page).ok());
    EXPECT_EQ(page.items.size(), 1u);
    EXPECT_EQ(accepted_, pushes_);
    EXPECT_LE(report_.counts["timers"], 4u);
    while (now_.wall_ms < last_ms_ + 100'000) {
      Pass(now_.wall_ms < last_ms_ && now_.wall_ms + 10 >= last_ms_ ? 1 : 10);
      Take(RunToRest());
    }
    EXPECT_EQ(deliveries_, std::vector<uint64_t>{last_ms_});
  }

  const uint64_t delay_ms_;
  uint64_t pushes_ = 0;
  uint64_t accepted_ = 0;
  uint64_t last_ms_ = 0;
  std::vector<uint64_t> deliveries_;
};

// Delays within the loaded window and beyond it.
class HeartbeatTest : public testing::TestWithParam<uint64_t> {};
TEST_P(HeartbeatTest, AMillionPushesLeaveOneMessage) {
  const auto calls = static_cast<int>(test::Scaled(1'000'000) / kPushesPerCall);
  const Report report = Heartbeat(GetParam()).Run(calls);
  EXPECT_EQ(report.violation, "");
}
INSTANTIATE_TEST_SUITE_P(Delays, HeartbeatTest, testing::Values(5'000, 100'000));

}  // namespace
}  // namespace duetime::simulation
