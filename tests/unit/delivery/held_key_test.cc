// SPDX-License-Identifier: Apache-2.0
//
// Ordering keys with more messages than memory holds, in steps of the shard: a held key holds up
// no other message, its own messages come in their order, and none is lost.
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "server/protocol/commands.h"
#include "server/shard/shard.h"
#include "storage/message_record.h"
#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"
#include "tests/support/test_store.h"

namespace duetime::delivery {
namespace {

constexpr storage::TopicId kTopic{1};
constexpr size_t kDueMax = 1'000;
// The messages of this key are settled at once.
constexpr const char* kFast = "fast";

ShardLimits SmallLimits() {
  ShardLimits limits;
  limits.due_max = kDueMax;
  limits.due_idle_max = 100;
  return limits;
}

class HeldKeyTest : public ::testing::Test {
 protected:
  HeldKeyTest() : shard_(0, SmallLimits(), &store_) {
    EXPECT_TRUE(shard_.Recover(now_).ok());
    protocol::TopicCommand command;
    command.topic = kTopic;
    shard_.Handle(now_, std::move(command));
  }

  // The payload of message `i` of a key is its number; without a key it has no order.
  void Schedule(const std::string& key, int count, uint64_t delay_ms = 0) {
    protocol::ScheduleCommand command;
    for (int i = 0; i < count; ++i) {
      storage::MessageRecord record;
      record.header = {
          .topic = kTopic, .deliver_ms = now_.wall_ms + delay_ms, .accept_ms = now_.wall_ms};
      const std::string payload = absl::StrCat(++scheduled_[key]);
      record.payload = payload;
      record.ordering_key = key;
      command.messages.push_back(protocol::MakeNewMessage(record, /*slot=*/0));
    }
    shard_.Handle(now_, std::move(command));
    Run();
  }

  void Attach(int64_t credit = 100'000) {
    stream_ = static_cast<protocol::StreamId>(static_cast<uint64_t>(stream_) + 1);
    shard_.Handle(now_, protocol::AttachCommand{.stream = stream_,
                                                .topic = kTopic,
                                                .subscription = storage::FirstSubscription(kTopic),
                                                .lease_ms = 3'600'000,
                                                .credit = std::make_shared<protocol::StreamCredit>(
                                                    credit, int64_t{1} << 30)});
    Run();
  }

  void Pass(uint64_t ms) {
    now_.wall_ms += ms;
    now_.mono_ms += ms;
    Run();
  }

  // Steps until nothing is left to do.
  void Run() {
    for (int steps = 0; more_ || steps == 0; ++steps) {
      ASSERT_LT(steps, 100'000) << "the shard does not come to rest";
      more_ = shard_.Step(now_).more;
      if (auto batch = shard_.TakeBatch(); batch.has_value()) {
        const auto outcome = store_.Append(std::span(&batch->records, 1), batch->durability);
        shard_.OnCommitted(now_, batch->sequence, outcome);
        more_ = true;
      }
      for (protocol::DeliveryFrame& frame : shard_.TakeEffects().frames) {
        for (protocol::Delivery& delivery : frame.deliveries) Receive(std::move(delivery));
      }
    }
    more_ = false;
    shard_.CheckInvariants();
  }

  void Receive(protocol::Delivery delivery) {
    storage::MessageRecord record;
    ASSERT_TRUE(storage::DecodeMessageRecord(delivery.record, &record).ok());
    const std::string key(record.ordering_key);
    ++received_[key];
    if (key.empty()) fast_before_ = received_[kFast];
    if (key.empty() || key == kFast) return Settle({.token = delivery.token});
    EXPECT_FALSE(in_flight_.contains(key)) << key << " has two messages in flight";
    in_flight_[key] = delivery.token;
    int number = 0;
    ASSERT_TRUE(absl::SimpleAtoi(record.payload, &number));
    if (delivery.attempt > 1) return;
    const std::pair place = {record.header.deliver_ms, number};
    EXPECT_LT(last_[key], place) << key << " is out of order";
    last_[key] = place;
  }

  void Settle(const protocol::Settlement& settlement) {
    shard_.Handle(now_, protocol::SettleCommand{.stream = stream_, .settlements = {settlement}});
    more_ = true;
  }
  void Ack(std::string key) {
    Settle({.token = in_flight_.at(key)});
    in_flight_.erase(key);
    ++acked_[key];
    Run();
  }
  void Nack(const std::string& key, uint64_t delay_ms) {
    Settle({.token = in_flight_.at(key), .action = protocol::SettleAction::kNack, .ms = delay_ms});
    in_flight_.erase(key);
    Run();
  }

  base::Now now_{.wall_ms = 1'000'000'000, .mono_ms = 1};
  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  shard::Shard shard_;
  bool more_ = false;
  protocol::StreamId stream_{};
  std::map<std::string, int> scheduled_;
  std::map<std::string, int> received_;
  std::map<std::string, int> acked_;
  // The messages of kFast that came before the last message without a key.
  int fast_before_ = 0;
  // The due time and number of the last first delivery.
  std::map<std::string, std::pair<uint64_t, int>> last_;
  std::map<std::string, protocol::LeaseToken> in_flight_;
};

TEST_F(HeldKeyTest, OneHeldKeyLetsTheOthersPass) {
  struct Case {
    const char* what;
    int held_keys;
    int messages;
    bool attach_first;
    int64_t credit;
  };
  for (const Case& c : std::vector<Case>{
           {"a subscriber comes later", 1, 2'500, false, 1'000},
           {"a subscriber is there", 1, 2'500, true, 1'000},
           {"with little credit", 1, 2'500, false, 2},
           {"several keys", 7, 700, false, 1'000},
           {"more keys than may wait in memory", 900, 4, true, 1'000},
       }) {
    SCOPED_TRACE(c.what);
    received_.clear();
    if (c.attach_first) Attach(c.credit);
    std::vector<std::string> keys;
    for (int i = 0; i < c.held_keys; ++i) keys.push_back(absl::StrCat(c.what, i));
    for (const std::string& key : keys) Schedule(key, c.messages);
    Schedule("", 20);
    for (int i = 0; i < 20; ++i) Schedule(absl::StrCat("other ", c.what, i), 1);
    if (!c.attach_first) Attach(c.credit);
    EXPECT_EQ(received_[""], 20);
    for (int rounds = 0; rounds < 20; ++rounds) {
      for (const auto& [key, lease] : std::map(in_flight_)) {
        if (key.starts_with("other")) Ack(key);
      }
    }
    for (int i = 0; i < 20; ++i) EXPECT_EQ(received_[absl::StrCat("other ", c.what, i)], 1) << i;
    for (const std::string& key : keys) {
      EXPECT_EQ(received_[key], 1) << key;
    }
    while (!in_flight_.empty()) Ack(in_flight_.begin()->first);
    for (const std::string& key : keys) EXPECT_EQ(received_[key], c.messages) << key;
    if (HasFailure()) return;
    shard_.Handle(now_, protocol::DetachCommand{.stream = stream_});
    Run();
    in_flight_.clear();
  }
}

// Held keys leave no room to wait in memory, so the messages of the next key are read from disk one
// by one. The reader must come to the messages behind them all the same.
TEST_F(HeldKeyTest, AKeyWithoutRoomToWaitLetsTheOthersPass) {
  for (int i = 0; i < 12; ++i) Schedule(absl::StrCat("held ", i), 300);
  Schedule(kFast, 300);
  Schedule("held 0", 20'000);
  Schedule("", 20);
  Attach();
  EXPECT_EQ(received_[""], 20);
  EXPECT_LT(fast_before_, 20);
  EXPECT_EQ(received_[kFast], 300);
}

// Keys come and go, fail and wait at random, with far more messages than memory holds.
TEST_F(HeldKeyTest, NoMessageIsLostOrPassesAnother) {
  std::mt19937_64 random(test::TestSeed());
  Attach(/*credit=*/20);
  const auto key_of = [](uint64_t number) { return absl::StrCat("key ", number); };
  for (int64_t i = test::Scaled(3'000); i > 0 && !HasFailure(); --i) {
    const std::string key = key_of(random() % 12);
    const uint64_t dice = random() % 20;
    if (dice < 2) {
      // One in three is long, so that some keys have a rest on disk.
      Schedule(key, static_cast<int>(random() % 3 == 0 ? random() % 600 : 3),
               random() % 2 == 0 ? 0 : 1 + random() % 50);
    } else if (dice == 2) {
      Pass(random() % 40);
    } else if (in_flight_.contains(key)) {
      if (dice == 3) {
        Nack(key, random() % 2 == 0 ? 0 : 1 + random() % 100);
      } else {
        Ack(key);
      }
    }
  }
  for (int rounds = 0; rounds < 200'000 && !HasFailure(); ++rounds) {
    if (in_flight_.empty()) Pass(1'000);
    if (in_flight_.empty()) break;
    Ack(in_flight_.begin()->first);
  }
  for (const auto& [key, count] : scheduled_) EXPECT_EQ(acked_[key], count) << key;
}

}  // namespace
}  // namespace duetime::delivery
