// SPDX-License-Identifier: Apache-2.0
#include "server/shard/shard.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "storage/message_record.h"
#include "tests/support/shard_parts.h"
#include "tests/support/test_store.h"

namespace duetime::shard {
namespace {

using storage::SubscriptionId;
using storage::TopicId;

constexpr TopicId kTopic{1};
constexpr SubscriptionId kFirst = storage::FirstSubscription(kTopic);
constexpr SubscriptionId kSecond{storage::kSecondSubscription};

class ShardTest : public testing::Test {
 protected:
  ShardTest() { EXPECT_TRUE(shard_.Recover(now_).ok()); }

  // One turn of the engine. Acks what is handed out.
  void Turn() {
    shard_.Step(now_);
    while (auto batch = shard_.TakeBatch()) {
      EXPECT_EQ(store_.Append(std::span(&batch->records, 1), batch->durability),
                storage::AppendOutcome::kAccepted);
      shard_.OnCommitted(now_, batch->sequence, storage::AppendOutcome::kAccepted);
    }
    Ack(now_, shard_.TakeEffects(), &shard_);
  }
  void Ack(base::Now now, const protocol::Effects& effects, Shard* shard) {
    told_ = effects.failed || told_;
    for (const protocol::DeliveryFrame& frame : effects.frames) {
      protocol::SettleCommand acks;
      acks.stream = frame.stream;
      for (const protocol::Delivery& delivery : frame.deliveries) {
        acks.settlements.push_back({.token = delivery.token});
      }
      delivered_[frame.stream] += acks.settlements.size();
      shard->Handle(now, std::move(acks));
    }
  }
  // Runs until the shard is closed, or for long enough.
  void Rest() {
    for (int i = 0; i < 100 && !shard_.closed(); ++i) Turn();
  }
  // A call meets a read error. The next step decides what follows.
  void FailARead() {
    store_.FailReads(absl::InternalError("disk"));
    protocol::CancelCommand command;
    command.target.id = storage::MessageId::Make(store_.epoch(), 1, 0, now_.wall_ms);
    shard_.Handle(now_, std::move(command));
    store_.FailReads(absl::OkStatus());
  }

  // A message that is due.
  void Schedule() { Schedule(now_.wall_ms, "", &shard_); }
  void Schedule(uint64_t deliver_ms, const std::string& key, Shard* shard) {
    storage::MessageRecord record;
    record.header = {.topic = kTopic, .deliver_ms = deliver_ms, .accept_ms = now_.wall_ms};
    record.key = key;
    protocol::ScheduleCommand command;
    command.messages.push_back(protocol::MakeNewMessage(record, /*slot=*/0));
    if (!key.empty()) {
      command.messages.back().options = std::make_unique<protocol::ScheduleOptions>();
      command.messages.back().options->key = key;
    }
    shard->Handle(now_, std::move(command));
  }
  // A stream with the number of the subscription.
  void Attach(SubscriptionId subscription) { Attach(subscription, &shard_); }
  void Attach(SubscriptionId subscription, Shard* shard) {
    protocol::AttachCommand command;
    command.stream = StreamOf(subscription);
    command.topic = kTopic;
    command.subscription = subscription;
    command.lease_ms = 30'000;
    command.credit = std::make_shared<protocol::StreamCredit>(10, int64_t{1} << 20);
    shard->Handle(now_, std::move(command));
  }
  static protocol::StreamId StreamOf(SubscriptionId subscription) {
    return protocol::StreamId{static_cast<uint64_t>(subscription)};
  }

  const base::Now now_{.wall_ms = 1'800'000'000'000, .mono_ms = 1'000'000};
  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  Shard shard_{0, test::LimitsWithRetriesAtOnce(), &store_};
  // The runtime was told of a failure.
  bool told_ = false;
  std::map<protocol::StreamId, size_t> delivered_;
};

// Ids tell what is of a topic that took a number over, so no message of it may have a lower one.
TEST_F(ShardTest, TheNextIdIsAtLeastTheFirstOfATopic) {
  const auto next_after = [this](uint64_t epoch, uint64_t sequence) {
    protocol::TopicCommand command;
    command.topic = kTopic;
    command.first_id = storage::MessageId::Make(epoch, sequence, 0, 0);
    std::vector<storage::MessageId> next;
    for (int i = 0; i < 2; ++i) {
      shard_.Handle(now_, command);
      for (const protocol::Reply& reply : shard_.TakeEffects().replies) {
        next.push_back(std::get<protocol::TopicReply>(reply).next_id);
      }
    }
    return next;
  };
  const uint64_t epoch = store_.epoch();
  const storage::MessageId begin = next_after(epoch, 0).at(0);
  const uint64_t far = begin.sequence() + 100;
  const storage::MessageId first = storage::MessageId::Make(epoch, far, 0, 0);
  using Ids = std::vector<storage::MessageId>;
  EXPECT_EQ(next_after(epoch - 1, far), (Ids{begin, begin}));
  EXPECT_EQ(next_after(epoch, far), (Ids{begin, first}));
  EXPECT_EQ(next_after(epoch, far - 1), (Ids{first, first}));
}

TEST_F(ShardTest, ACleanStopIsNoFailure) {
  Turn();
  shard_.Close();
  Rest();
  EXPECT_TRUE(shard_.closed());
  EXPECT_FALSE(shard_.failed());
  EXPECT_FALSE(told_);
}

TEST_F(ShardTest, AReadErrorBeforeTheCleanStopIsAFailure) {
  Turn();
  FailARead();
  shard_.Close();
  Rest();
  EXPECT_TRUE(shard_.failed());
  EXPECT_TRUE(told_);
}

TEST_F(ShardTest, AReadErrorAfterTheCleanStopIsAFailure) {
  Turn();
  shard_.Close();
  Rest();
  EXPECT_TRUE(shard_.closed());
  FailARead();
  EXPECT_FALSE(shard_.closed());
  Rest();
  EXPECT_TRUE(shard_.failed());
  EXPECT_TRUE(told_);
}

// Each command that the shard answers. A call that is not answered hangs, and a second answer would
// go to another call.
TEST_F(ShardTest, AFailedShardAnswersEachCommandOnce) {
  FailARead();
  Rest();
  ASSERT_TRUE(shard_.failed());
  shard_.TakeEffects();
  uint64_t tag = 0;
  const auto refused = [&](auto command) {
    command.tag = protocol::CallTag{++tag};
    if constexpr (requires { command.position; }) command.position = 7;
    if constexpr (requires { command.topic; }) command.topic = kTopic;
    shard_.Handle(now_, std::move(command));
  };
  refused(protocol::ScheduleCommand());
  refused(protocol::CancelCommand());
  refused(protocol::RescheduleCommand());
  refused(protocol::GetCommand());
  refused(protocol::InspectCommand());
  refused(protocol::TopicCommand());
  refused(protocol::SubscriptionCommand());
  refused(protocol::OperationCommand());
  refused(protocol::RecurrenceCommand());
  protocol::CancelBatchCommand batch;
  batch.items.resize(2);
  for (protocol::CancelCommand& item : batch.items) {
    item.tag = protocol::CallTag{++tag};
    item.position = 7;
  }
  shard_.Handle(now_, std::move(batch));
  const uint64_t last_refused = tag;
  // Nothing of these is wrong.
  refused(protocol::PullCommand());
  refused(protocol::InspectSubscriptionCommand());
  // The runtime ends the streams.
  Attach(kFirst);
  shard_.Handle(now_, protocol::SettleCommand{});
  shard_.Handle(now_, protocol::CreditCommand{});
  shard_.Handle(now_, protocol::EndPullCommand{});
  shard_.Handle(now_, protocol::DetachCommand{});

  uint64_t answered = 0;
  for (const protocol::Reply& reply : shard_.TakeEffects().replies) {
    EXPECT_EQ(protocol::TagOf(reply), protocol::CallTag{++answered});
    std::visit(
        [&](const auto& one) {
          if constexpr (requires { one.status; }) {
            const auto detail = base::GetErrorDetail(one.status);
            const std::string reason = detail.has_value() ? detail->reason : "";
            EXPECT_EQ(reason, answered <= last_refused ? "STORAGE_FAILED" : "") << answered;
          }
          if constexpr (requires { one.position; }) {
            EXPECT_EQ(one.position, 7u) << answered;
          }
          if constexpr (requires { one.topic; }) {
            EXPECT_EQ(one.topic, kTopic);
          }
        },
        reply);
  }
  EXPECT_EQ(answered, tag);
}

// The shard has lost the object of the second subscription. The first one would end the message.
TEST_F(ShardTest, P1_ASuspendedShardEndsNothingBeforeALostSubscriptionIsBack) {
  shard_.Suspend();
  Schedule();
  Attach(kFirst);
  Rest();
  EXPECT_EQ(delivered_.size(), 0u);
  protocol::SubscriptionCommand restore;
  restore.state.id = kSecond;
  restore.state.topic = kTopic;
  restore.state.name = "s";
  shard_.Handle(now_, std::move(restore));
  Rest();
  EXPECT_EQ(delivered_.size(), 0u);
  shard_.Begin();
  Rest();
  EXPECT_EQ(delivered_[StreamOf(kFirst)], 1u);
  Attach(kSecond);
  Rest();
  EXPECT_EQ(delivered_[StreamOf(kSecond)], 1u);
}

// The store shows a batch before the shard learns of its commit, so the loader may read its
// messages.
TEST_F(ShardTest, TheKeyOfAMessageEndsWithTheMessageHoweverSoonThatIs) {
  delivery::ShardLimits limits;
  limits.scheduler.load_window_ms = 10;
  Shard shard(0, limits, &store_);
  ASSERT_TRUE(shard.Recover(now_).ok());
  Attach(kFirst, &shard);
  base::Now now = now_;
  std::deque<uint64_t> unreported;
  // Steps the shard, appends its batches without reporting their commits, and acks all deliveries.
  const auto turn = [&] {
    shard.Step(now);
    while (auto batch = shard.TakeBatch()) {
      EXPECT_EQ(store_.Append(std::span(&batch->records, 1), batch->durability),
                storage::AppendOutcome::kAccepted);
      unreported.push_back(batch->sequence);
    }
    Ack(now, shard.TakeEffects(), &shard);
  };
  const auto turn_and_report = [&] {
    for (int i = 0; i < 5; ++i) {
      turn();
      for (; !unreported.empty(); unreported.pop_front()) {
        shard.OnCommitted(now, unreported.front(), storage::AppendOutcome::kAccepted);
      }
    }
  };
  // The claim of the first message also covers the second.
  Schedule(now.wall_ms, "first", &shard);
  turn_and_report();
  Schedule(now.wall_ms + 100, "second", &shard);
  turn();
  now.wall_ms += 100;
  for (int i = 0; i < 5; ++i) turn();
  turn_and_report();
  EXPECT_EQ(delivered_[StreamOf(kFirst)], 2u);
  for (const char* key : {"first", "second"}) {
    const auto entry = store_.GetIndex(0, kTopic, storage::IndexKind::kUserKey, key);
    ASSERT_TRUE(entry.ok() && entry->has_value()) << key;
    EXPECT_GT((*entry)->expire_ms, now.wall_ms) << key;
  }
}

TEST_F(ShardTest, ASuspendedShardCloses) {
  shard_.Suspend();
  Rest();
  EXPECT_FALSE(shard_.closed());
  shard_.Close();
  Rest();
  EXPECT_TRUE(shard_.closed());
  EXPECT_FALSE(shard_.failed());
}

// Otherwise no batch is taken any more, and the start would wait for a commit for ever.
TEST_F(ShardTest, AReadErrorOfASuspendedShardIsAFailure) {
  shard_.Suspend();
  FailARead();
  Turn();
  EXPECT_TRUE(shard_.failed());
  EXPECT_TRUE(told_);
}

}  // namespace
}  // namespace duetime::shard
