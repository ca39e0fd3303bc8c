// SPDX-License-Identifier: Apache-2.0
//
// Deliveries and settlements that are more than one step may make.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/protocol/commands.h"
#include "server/shard/shard.h"
#include "storage/message_record.h"
#include "tests/support/settles.h"
#include "tests/support/shard_parts.h"
#include "tests/support/test_store.h"

namespace duetime::delivery {
namespace {

constexpr storage::TopicId kTopic{1};
constexpr storage::TopicId kDeadLetters{2};
constexpr protocol::StreamId kStream{1};
constexpr protocol::StreamId kOther{2};
constexpr size_t kLarge = 1 << 20;
// What one step may write: the dead letters of what was settled and of what time has done, and a
// little more than their payloads.
constexpr size_t kBytesPerStep = 17 << 20;

using protocol::SettleAction;

// One shard that is stepped by hand.
class SettleTest : public ::testing::Test {
 protected:
  SettleTest() : shard_(0, test::LimitsWithRetriesAtOnce(), &store_) {
    EXPECT_TRUE(shard_.Recover(now_).ok());
    protocol::TopicCommand topic;
    topic.topic = kTopic;
    topic.dead_letter = kDeadLetters;
    shard_.Handle(now_, std::move(topic));
  }

  void Attach(protocol::StreamId stream, size_t messages, bool reports_begun = false,
              storage::TopicId topic = kTopic) {
    shard_.Handle(now_, protocol::AttachCommand{.stream = stream,
                                                .topic = topic,
                                                .subscription = storage::FirstSubscription(topic),
                                                .lease_ms = 30'000,
                                                .credit = std::make_shared<protocol::StreamCredit>(
                                                    static_cast<int64_t>(messages),
                                                    static_cast<int64_t>(messages * 2 * kLarge)),
                                                .reports_begun = reports_begun});
  }
  // The first failed attempt of the topic's first subscription is the last one.
  void AllowOneAttempt() {
    protocol::SubscriptionCommand change;
    change.kind = protocol::SubscriptionCommand::Kind::kCreate;
    change.state.id = storage::FirstSubscription(kTopic);
    change.state.topic = kTopic;
    change.state.name = "s";
    protocol::RetryPolicy* const retry = change.state.settings.mutable_retry();
    *retry = test::AtOnce();
    retry->set_max_attempts(1);
    shard_.Handle(now_, std::move(change));
  }
  void Post(size_t count, size_t bytes, const std::string& ordering_key = "") {
    const std::string payload(bytes, 'p');
    protocol::ScheduleCommand command;
    for (size_t i = 0; i < count; ++i) {
      storage::MessageRecord record;
      record.header = {.topic = kTopic, .deliver_ms = now_.wall_ms, .accept_ms = now_.wall_ms};
      record.payload = payload;
      record.ordering_key = ordering_key;
      command.messages.push_back(protocol::MakeNewMessage(record, /*slot=*/0));
    }
    shard_.Handle(now_, std::move(command));
  }
  // Schedules as many and lets the streams that are there have them.
  void Schedule(size_t count, size_t bytes) {
    const size_t before = tokens_.size();
    Post(count, bytes);
    for (int i = 0; i < 1000 && tokens_.size() < before + count; ++i) Step();
    ASSERT_EQ(tokens_.size(), before + count);
  }

  // One step, whose batch is committed. Returns the bytes of the batch.
  size_t Step() {
    const shard::StepResult result = shard_.Step(now_);
    more_ = result.more;
    batch_may_wait_ = result.batch_may_wait;
    size_t bytes = 0;
    auto batch = shard_.TakeBatch();
    if (batch.has_value()) {
      for (const storage::Record& record : batch->records) bytes += record.value.size();
      const auto outcome = store_.Append(std::span(&batch->records, 1), batch->durability);
      shard_.OnCommitted(now_, batch->sequence, outcome);
    }
    protocol::Effects effects = shard_.TakeEffects();
    size_t handed_out = 0;
    for (protocol::DeliveryFrame& frame : effects.frames) {
      for (const protocol::Delivery& delivery : frame.deliveries) {
        tokens_.push_back(delivery.token);
        confirm_begun_ += delivery.confirm_begun ? 1 : 0;
        last_id_ = delivery.id;
        handed_out += delivery.record.size();
      }
    }
    most_handed_out_ = std::max(most_handed_out_, handed_out);
    for (protocol::SettleReply& reply : effects.settles) {
      for (const protocol::LeaseToken token : reply.settled)
        settled_.emplace_back(reply.stream, token);
      for (const protocol::RefusedSettlement& refused : reply.refused) {
        refused_.emplace_back(reply.stream, refused.token);
        last_refusal_ = refused.refusal;
      }
    }
    shard_.CheckInvariants();
    return bytes;
  }
  void StepUntilQuiet() {
    do {
      EXPECT_LE(Step(), kBytesPerStep);
    } while (more_ || shard_.settles_waiting());
  }

  protocol::SettleCommand Reject(protocol::StreamId stream, size_t from, size_t until) const {
    const auto first = tokens_.begin();
    return test::Settles(
        stream, {first + static_cast<ptrdiff_t>(from), first + static_cast<ptrdiff_t>(until)},
        {.action = SettleAction::kDeadLetter, .reason = "bad"});
  }

  base::Now now_{.wall_ms = 1'000'000'000, .mono_ms = 1};
  test::TestDisk disk_{1};
  test::TestStore store_{&disk_};
  shard::Shard shard_;
  bool more_ = false;
  bool batch_may_wait_ = false;
  // Bytes of the deliveries of one step.
  size_t most_handed_out_ = 0;
  std::vector<protocol::LeaseToken> tokens_;
  // Deliveries whose begin the server must confirm.
  size_t confirm_begun_ = 0;
  storage::MessageId last_id_;
  std::vector<std::pair<protocol::StreamId, protocol::LeaseToken>> settled_;
  std::vector<std::pair<protocol::StreamId, protocol::LeaseToken>> refused_;
  protocol::SettleRefusal last_refusal_{};
};

TEST_F(SettleTest, LargeMessagesAreHandedOutAFewInEachStep) {
  constexpr size_t kCount = 100;
  Attach(kStream, kCount);
  Schedule(kCount, kLarge);
  EXPECT_GE(most_handed_out_, kLarge);
  EXPECT_LE(most_handed_out_, kBytesPerStep);
}

TEST_F(SettleTest, LargeDeadLettersAreMadeAFewInEachStep) {
  constexpr size_t kCount = 60;
  Attach(kStream, kCount);
  Schedule(kCount, kLarge);
  shard_.Handle(now_, Reject(kStream, 0, kCount));
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(shard_.stats().dead_lettered, kCount);
}

TEST_F(SettleTest, SoAreThoseOfAttemptsThatWereTheLast) {
  constexpr size_t kCount = 40;
  AllowOneAttempt();
  Attach(kStream, kCount);
  Schedule(kCount, kLarge);
  shard_.Handle(now_, test::Settles(kStream, tokens_, {.action = SettleAction::kNack}));
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount);
  EXPECT_EQ(shard_.stats().dead_lettered, kCount);
}

TEST_F(SettleTest, ManySmallOnesTakeSeveralSteps) {
  constexpr size_t kCount = 10'000;
  Attach(kStream, kCount);
  Schedule(kCount, 10);
  shard_.Handle(now_, test::Settles(kStream, tokens_));
  Step();
  EXPECT_LE(settled_.size(), kCount / 2);
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount);
  EXPECT_EQ(shard_.stats().acked, kCount);
}

TEST_F(SettleTest, ABatchMayWaitIfItHasOnlyAcksForWhichNothingWaits) {
  const auto rest = [this] {
    for (int i = 0; i < 5; ++i) Step();
  };
  // Settles the oldest message. Returns whether the batch may wait.
  const auto settle = [this](bool may_wait, SettleAction action = SettleAction::kAck) {
    protocol::SettleCommand command =
        test::Settles(kStream, {tokens_.front()}, {.action = action, .ms = 60'000});
    command.may_wait = may_wait;
    tokens_.erase(tokens_.begin());
    shard_.Handle(now_, std::move(command));
    Step();
    return batch_may_wait_;
  };
  Step();
  EXPECT_FALSE(batch_may_wait_) << "nothing to write";
  Attach(kStream, 9);
  Schedule(9, 10);
  rest();
  EXPECT_TRUE(settle(true));
  EXPECT_FALSE(settle(false));
  EXPECT_FALSE(settle(false, SettleAction::kNack));
  shard_.Handle(now_, test::Settles(kStream, {tokens_.back()}));
  tokens_.pop_back();
  EXPECT_FALSE(settle(true)) << "another ack of the batch may not";
  Post(1, 10);
  EXPECT_FALSE(settle(true)) << "the answer of the accept waits";
  rest();
  EXPECT_TRUE(settle(true));
  Post(2, 10, "key");
  rest();
  EXPECT_FALSE(settle(true)) << "the second message of a key waits for the first";
  Post(9, 10);
  rest();
  EXPECT_FALSE(settle(true)) << "a message waits for credit";
}

// The limit of waiting commands counts the cancel, so the gauge does, too.
TEST_F(SettleTest, ACancelThatWaitsForASettlementIsInTheGauge) {
  Attach(kStream, 1);
  Schedule(1, 10);
  shard_.Handle(now_, test::Settles(kStream, tokens_));
  EXPECT_EQ(shard_.stats().waiting, 0u);
  protocol::CancelCommand cancel;
  cancel.target = {.id = last_id_, .topic = kTopic, .key = ""};
  shard_.Handle(now_, std::move(cancel));
  EXPECT_EQ(shard_.stats().waiting, 1u);
  Step();
  EXPECT_EQ(shard_.stats().waiting, 0u);
}

// Somebody else's are not held up, and what a stream says later comes behind what it said before.
TEST_F(SettleTest, EachStreamWaitsForItselfOnly) {
  constexpr size_t kCount = 30;
  Attach(kStream, kCount + 2);
  Schedule(kCount + 2, kLarge);
  shard_.Handle(now_, Reject(kStream, 0, kCount));
  // The last one again, which then is settled already.
  shard_.Handle(now_, test::Settles(kStream, {tokens_[kCount - 1], tokens_[kCount]}));
  shard_.Handle(now_, test::Settles(kOther, {tokens_[kCount + 1]}));
  Step();
  ASSERT_FALSE(settled_.empty());
  EXPECT_NE(std::find(settled_.begin(), settled_.end(), std::pair(kOther, tokens_[kCount + 1])),
            settled_.end());
  EXPECT_TRUE(shard_.settles_waiting());
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount + 2);
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(refused_[0].second, tokens_[kCount - 1]);
  EXPECT_EQ(settled_.back().second, tokens_[kCount]);
}

// Settings that let dead letters circle are refused, but older versions took them.
TEST_F(SettleTest, DeadLettersDoNotCircleForEver) {
  protocol::TopicCommand back;
  back.topic = kDeadLetters;
  back.dead_letter = kTopic;
  shard_.Handle(now_, std::move(back));
  Attach(kStream, 1);
  Attach(kOther, 1, /*reports_begun=*/false, kDeadLetters);
  Schedule(1, 10);
  for (size_t hops = 0; hops < 16; ++hops) {
    ASSERT_EQ(tokens_.size(), hops + 1);
    shard_.Handle(now_, Reject(hops % 2 == 0 ? kStream : kOther, hops, hops + 1));
    for (int i = 0; i < 10; ++i) Step();
  }
  ASSERT_EQ(tokens_.size(), 17u);
  EXPECT_TRUE(refused_.empty());
  shard_.Handle(now_, Reject(kStream, 16, 17));
  StepUntilQuiet();
  ASSERT_EQ(refused_.size(), 1u);
  EXPECT_EQ(last_refusal_, protocol::SettleRefusal::kNoMoreHops);
  EXPECT_EQ(shard_.stats().dead_lettered, 16u);
  EXPECT_EQ(shard_.stats().dead_letter_hops_refused, 1u);
}

// Where there is no topic for its dead letter a message is tried again rather than lost, after a
// second, although it is nacked without a delay.
TEST_F(SettleTest, WithoutATopicForItTheLastAttemptIsNotTheLast) {
  protocol::TopicCommand topic;
  topic.topic = kTopic;
  shard_.Handle(now_, std::move(topic));
  AllowOneAttempt();
  Attach(kStream, 1);
  Schedule(1, 10);
  shard_.Handle(now_, Reject(kStream, 0, 1));
  StepUntilQuiet();
  EXPECT_EQ(refused_.size(), 1u);
  EXPECT_EQ(shard_.stats().dead_letters_refused, 0u) << "the sender may send it again";
  protocol::SettleCommand again = Reject(kStream, 0, 1);
  again.settlements[0].again = true;
  shard_.Handle(now_, std::move(again));
  StepUntilQuiet();
  EXPECT_EQ(refused_.size(), 2u);
  EXPECT_EQ(shard_.stats().dead_letters_refused, 1u);
  shard_.Handle(now_,
                test::Settles(kStream, {tokens_[0]}, {.action = SettleAction::kNack, .ms = 0}));
  StepUntilQuiet();
  EXPECT_EQ(tokens_.size(), 1u) << "it comes at once, for ever";
  now_.wall_ms += 999;
  now_.mono_ms += 999;
  StepUntilQuiet();
  EXPECT_EQ(tokens_.size(), 1u);
  ++now_.wall_ms;
  ++now_.mono_ms;
  StepUntilQuiet();
  EXPECT_GT(shard_.stats().dead_letters_refused, 1u);
  EXPECT_EQ(shard_.stats().dead_lettered, 0u);
  EXPECT_EQ(tokens_.size(), 2u);
}

// A stream that settles and goes has settled.
TEST_F(SettleTest, AStreamThatGoesGivesBackOnlyTheRest) {
  constexpr size_t kCount = 40;
  Attach(kStream, kCount);
  Schedule(kCount, kLarge);
  shard_.Handle(now_, Reject(kStream, 0, kCount - 1));
  shard_.Handle(now_, protocol::DetachCommand{.stream = kStream});
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount - 1);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(shard_.stats().dead_lettered, kCount - 1);
  EXPECT_EQ(shard_.stats().retried, 1u);
}

// A server that stops takes its messages back, however often that happens. The message of a
// subscriber that has gone was perhaps not begun: its attempt counts half.
TEST_F(SettleTest, WhatEndsWithItsStreamIsNobodysFault) {
  constexpr size_t kCount = 100;
  AllowOneAttempt();
  Attach(kStream, kCount);
  Schedule(kCount, 10);
  shard_.Handle(now_, protocol::DetachCommand{.stream = kStream});
  StepUntilQuiet();
  EXPECT_EQ(shard_.stats().retried, kCount);
  EXPECT_EQ(shard_.stats().dead_lettered, 0u);
  Attach(kOther, kCount);
  StepUntilQuiet();
  ASSERT_EQ(tokens_.size(), 2 * kCount);
  shard_.StopDispatch();
  shard_.Handle(now_, protocol::DetachCommand{.stream = kOther});
  StepUntilQuiet();
  EXPECT_EQ(shard_.stats().retried, 2 * kCount);
  EXPECT_EQ(shard_.stats().dead_lettered, 0u);
}

// The first message ends its subscriber's process every time. It becomes a dead letter, and costs
// its neighbours no attempt. Each of them is alone on its stream once.
TEST_F(SettleTest, AMessageThatKillsItsSubscriberDoesNotTakeItsNeighboursWithIt) {
  constexpr size_t kCount = 40;
  AllowOneAttempt();
  Attach(kStream, kCount, /*reports_begun=*/true);
  Schedule(kCount, 10);
  // The process ends before its report of the first message has left it.
  shard_.Handle(now_, protocol::DetachCommand{.stream = kStream, .broke = true});
  StepUntilQuiet();
  EXPECT_EQ(shard_.stats().dead_lettered, 0u);
  Attach(kOther, kCount, /*reports_begun=*/true);
  StepUntilQuiet();
  ASSERT_EQ(tokens_.size(), kCount + 1) << "the first message, alone";
  shard_.Handle(now_, protocol::SettleCommand{.stream = kOther, .begun = {tokens_.back()}});
  StepUntilQuiet();
  shard_.Handle(now_, protocol::DetachCommand{.stream = kOther, .broke = true});
  StepUntilQuiet();
  EXPECT_EQ(shard_.stats().dead_lettered, 1u);
  constexpr protocol::StreamId kThird{3};
  Attach(kThird, kCount, /*reports_begun=*/true);
  for (size_t i = 1; i < kCount; ++i) {
    Step();  // commits the ack before
    StepUntilQuiet();
    ASSERT_EQ(tokens_.size(), kCount + 1 + i);
    shard_.Handle(now_, test::Settles(kThird, {tokens_.back()}));
  }
  StepUntilQuiet();
  EXPECT_EQ(confirm_begun_, kCount);
  EXPECT_EQ(settled_.size(), kCount - 1);
  EXPECT_EQ(shard_.stats().dead_lettered, 1u);
}

// The last deliveries were on their way to the stream's owner when the stream ended.
TEST_F(SettleTest, WhatTheStreamDidNotReceiveIsNoFailedAttempt) {
  constexpr size_t kCount = 100;
  constexpr size_t kReceived = 60;
  AllowOneAttempt();
  Attach(kStream, kCount);
  Schedule(kCount, 10);
  shard_.Handle(now_, protocol::DetachCommand{.stream = kStream, .received = kReceived});
  StepUntilQuiet();
  EXPECT_EQ(shard_.stats().retried, kCount);
  Attach(kOther, kCount);
  StepUntilQuiet();
  ASSERT_EQ(tokens_.size(), 2 * kCount);
  shard_.Handle(now_, protocol::DetachCommand{.stream = kOther, .received = kCount});
  StepUntilQuiet();
  EXPECT_EQ(shard_.stats().dead_lettered, kReceived) << "two ended streams are one failed attempt";
  EXPECT_EQ(shard_.stats().retried, kCount + (kCount - kReceived));
}

TEST_F(SettleTest, AReleaseIsNoFailedAttempt) {
  constexpr size_t kCount = 40;
  AllowOneAttempt();
  Attach(kStream, kCount);
  Schedule(kCount, kLarge);
  shard_.Handle(now_,
                test::Settles(kStream, tokens_, {.action = SettleAction::kRelease, .ms = 1'000}));
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount);
  EXPECT_EQ(shard_.stats().delayed, kCount);
  EXPECT_EQ(shard_.stats().dead_lettered, 0u);
}

// Who settles much takes turns, and time goes on.
TEST_F(SettleTest, StreamsTakeTurnsAndLeasesEnd) {
  constexpr size_t kCount = 80;
  Attach(kStream, kCount + 1);
  Schedule(kCount + 1, kLarge);
  shard_.Handle(now_, Reject(kStream, 0, kCount));
  shard_.Handle(now_, Reject(kOther, kCount, kCount + 1));
  now_.mono_ms += 29'999;
  for (int i = 0; i < 3; ++i) Step();
  EXPECT_TRUE(shard_.settles_waiting());
  EXPECT_EQ(shard_.stats().settling, 1u);
  EXPECT_NE(std::find(settled_.begin(), settled_.end(), std::pair(kOther, tokens_[kCount])),
            settled_.end());
  now_.mono_ms += 2'000;
  Step();
  EXPECT_TRUE(shard_.settles_waiting());
  EXPECT_GT(shard_.stats().leases_lost, 0u);
}

// It was said in time, by a stream or by another call.
TEST_F(SettleTest, ALeaseWaitsForWhatWasSaidOfIt) {
  constexpr size_t kCount = 80;
  Attach(kStream, kCount);
  Schedule(kCount, kLarge);
  shard_.Handle(now_, Reject(kStream, 0, kCount / 2));
  shard_.Handle(now_, Reject(kOther, kCount / 2, kCount));
  now_.mono_ms += 30'000;
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount);
  EXPECT_TRUE(refused_.empty());
  EXPECT_EQ(shard_.stats().leases_lost, 0u);
}

// What it has not said anything about ends a little later.
TEST_F(SettleTest, ALeaseEndsWhenNothingIsSaidOfItAnyMore) {
  constexpr size_t kCount = 60;
  Attach(kStream, kCount + 1);
  Schedule(kCount + 1, kLarge);
  shard_.Handle(now_, Reject(kStream, 0, kCount));
  now_.mono_ms += 30'000;
  StepUntilQuiet();
  EXPECT_EQ(settled_.size(), kCount);
  EXPECT_EQ(shard_.stats().leases_lost, 0u);
  now_.mono_ms += 100;
  StepUntilQuiet();
  EXPECT_EQ(shard_.stats().leases_lost, 1u);
}

}  // namespace
}  // namespace duetime::delivery
