// SPDX-License-Identifier: Apache-2.0
//
// LeaseEnds: settlements, lease ends and ended streams.
#include "server/delivery/endings/lease_ends.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/delivery/endings/retries.h"
#include "server/delivery/leases.h"
#include "tests/support/settles.h"
#include "tests/unit/delivery/delivery_world.h"

namespace duetime::delivery {
namespace {

using protocol::LeaseToken;
using protocol::SettleAction;
using protocol::SettleCommand;
using protocol::SettleReply;

constexpr size_t kSettlesPerStep = LeaseEnds::kSettlesPerStep;
// How much longer a lease lasts while settlements wait.
constexpr uint64_t kGraceMaxMs = 1000;

class LeaseEndsTest : public DeliveryWorld {
 protected:
  LeaseEndsTest() { p_.lease_ends->Step(now_); }

  LeaseToken Lease(Stream* stream, const storage::MessageRef& message) {
    EXPECT_TRUE(stream->credit->Take(0, message.bytes));
    return core_.leases.Begin(now_, stream, Take(stream->subscription, message));
  }
  LeaseToken Lease(Stream* stream) { return Lease(stream, Put()); }
  // As many tokens, none of which is of a lease.
  static std::vector<LeaseToken> Unknown(size_t count) {
    return std::vector<LeaseToken>(count, LeaseToken{1});
  }
  void Ack(const std::vector<LeaseToken>& tokens, protocol::StreamId stream = kStream) {
    p_.lease_ends->Settle(now_, test::Settles(stream, tokens));
  }
  // Answers since the last call, as one.
  SettleReply Answers() {
    SettleReply all;
    for (SettleReply& reply : std::exchange(effects_.settles, {})) {
      all.settled.insert(all.settled.end(), reply.settled.begin(), reply.settled.end());
      all.extended.insert(all.extended.end(), reply.extended.begin(), reply.extended.end());
      all.begun.insert(all.begun.end(), reply.begun.begin(), reply.begun.end());
      all.refused.insert(all.refused.end(), reply.refused.begin(), reply.refused.end());
    }
    return all;
  }
};

TEST_F(LeaseEndsTest, AnAckIsAnsweredAfterItsCommit) {
  Stream* const stream = Attach(one_);
  const storage::MessageRef message = Put();
  const LeaseToken token = Lease(stream, message);
  Ack({token});
  EXPECT_TRUE(Answers().settled.empty());
  EXPECT_EQ(stream->credit->messages(), 1);
  Commit();
  EXPECT_EQ(Answers().settled, std::vector<LeaseToken>{token});
  EXPECT_EQ(stream->credit->messages(), 0);
  EXPECT_FALSE(Stored(message.key));
  EXPECT_EQ(stats_.acked, 1u);
}

TEST_F(LeaseEndsTest, AnAckThatIsNotCommittedIsNotAnswered) {
  Ack({Lease(Attach(one_))});
  Commit(/*accepted=*/false);
  EXPECT_TRUE(Answers().settled.empty());
  EXPECT_EQ(stats_.acked, 0u);
}

TEST_F(LeaseEndsTest, ATokenWithoutALeaseIsRefused) {
  Stream* const stream = Attach(one_);
  const LeaseToken token = Lease(stream);
  Ack({token, token, LeaseToken{1}});
  EXPECT_EQ(Answers().refused.size(), 2u) << "the second ack, and the unknown token";
  Commit();
  EXPECT_EQ(Answers().settled.size(), 1u);
  EXPECT_EQ(stats_.settle_refused, 2u);
}

TEST_F(LeaseEndsTest, ADeadLetterThatCannotBeReadHasNoAnswer) {
  one_->topic->dead_letter = kDeadLetters;
  const LeaseToken token = Lease(Attach(one_));
  store_.FailReads(absl::DataLossError("broken"));
  p_.lease_ends->Settle(now_,
                        test::Settles(kStream, {token}, {.action = SettleAction::kDeadLetter}));
  store_.FailReads(absl::OkStatus());
  const SettleReply reply = Answers();
  EXPECT_TRUE(reply.refused.empty()) << "the shard stops, and the lease has not ended";
  EXPECT_TRUE(reply.settled.empty());
  EXPECT_NE(core_.leases.Find(token), kNoEntry);
}

TEST_F(LeaseEndsTest, TheSettlementsOfALeaseKeepTheirOrder) {
  const LeaseToken token = Lease(Attach(one_));
  const auto one = [&](SettleAction action) {
    return protocol::Settlement{.token = token, .action = action, .ms = 0};
  };
  p_.lease_ends->Settle(now_, {.stream = kStream,
                               .begun = {token},
                               .settlements = {one(SettleAction::kExtend), one(SettleAction::kNack),
                                               one(SettleAction::kAck)}});
  Commit();
  const SettleReply reply = Answers();
  EXPECT_EQ(reply.begun, std::vector<LeaseToken>{token});
  EXPECT_EQ(reply.extended, std::vector<LeaseToken>{token});
  EXPECT_EQ(reply.settled, std::vector<LeaseToken>{token});
  EXPECT_EQ(reply.refused.size(), 1u) << "the ack, of a lease that has ended";
  EXPECT_EQ(stats_.nacked, 1u);
}

TEST_F(LeaseEndsTest, ANackIsAnsweredAfterItsCommitAndAnExtensionAtOnce) {
  Stream* const stream = Attach(one_);
  const LeaseToken nacked = Lease(stream);
  const LeaseToken extended = Lease(stream);
  p_.lease_ends->Settle(
      now_, {.stream = kStream,
             .settlements = {{.token = nacked, .action = SettleAction::kNack, .ms = 0},
                             {.token = extended, .action = SettleAction::kExtend, .ms = 5'000}}});
  const SettleReply reply = Answers();
  EXPECT_TRUE(reply.settled.empty());
  EXPECT_EQ(reply.extended, std::vector<LeaseToken>{extended});
  EXPECT_EQ(core_.table.count(EntryState::kReady), 1u);
  Commit();
  EXPECT_EQ(Answers().settled, std::vector<LeaseToken>{nacked});
  Pass(1'001);
  p_.lease_ends->Step(now_);
  EXPECT_NE(core_.leases.Find(extended), kNoEntry);
  EXPECT_EQ(stats_.leases_lost, 0u);
}

TEST_F(LeaseEndsTest, ALeaseEndsByTime) {
  Stream* const stream = Attach(one_);
  const LeaseToken token = Lease(stream);
  Pass(999);
  p_.lease_ends->Step(now_);
  EXPECT_NE(core_.leases.Find(token), kNoEntry);
  Pass(1);
  p_.lease_ends->Step(now_);
  EXPECT_EQ(core_.leases.Find(token), kNoEntry);
  EXPECT_EQ(stats_.leases_lost, 1u);
  EXPECT_EQ(core_.table.count(EntryState::kReady), 1u);
  EXPECT_EQ(stream->credit->messages(), 0);
}

TEST_F(LeaseEndsTest, ALeaseLastsFromTheBegin) {
  Stream* const stream = Attach(one_);
  stream->reports_begun = true;
  const LeaseToken token = Lease(stream);
  Pass(900);
  p_.lease_ends->Settle(now_, {.stream = kStream, .begun = {token, LeaseToken{1}}});
  const SettleReply answers = Answers();
  EXPECT_EQ(answers.begun, std::vector<LeaseToken>{token});
  EXPECT_EQ(answers.refused.size(), 1u);
  Pass(999);
  p_.lease_ends->Step(now_);
  EXPECT_NE(core_.leases.Find(token), kNoEntry);
  Pass(1);
  p_.lease_ends->Step(now_);
  EXPECT_EQ(core_.leases.Find(token), kNoEntry);
}

// What counts as failed, and waits; and which message is alone on its next stream.
TEST_F(LeaseEndsTest, OnlyAMessageThatWasBegunHasFailed) {
  enum End { kLease, kClosed, kBroke, kReleased, kNacked };
  const struct {
    bool reports;
    bool begun;
    End end;
    uint32_t half_failures;
    bool suspect;
  } cases[] = {
      {false, false, kLease, 2, false},  {false, false, kClosed, 1, false},
      {false, false, kBroke, 1, false},  {false, false, kReleased, 0, false},
      {true, false, kLease, 0, true},    {true, false, kClosed, 0, false},
      {true, false, kBroke, 0, true},    {true, false, kReleased, 0, false},
      {true, false, kNacked, 2, false},  {true, true, kLease, 2, false},
      {true, true, kClosed, 2, false},   {true, true, kBroke, 2, true},
      {true, true, kReleased, 0, false}, {true, true, kNacked, 2, false},
  };
  one_->state.settings.mutable_retry()->set_min_backoff_ms(100);
  one_->state.settings.mutable_retry()->set_jitter_percent(0);
  uint64_t number = 10;
  for (const auto& one : cases) {
    SCOPED_TRACE(testing::Message() << "case " << number - 10);
    const protocol::StreamId id{number++};
    Stream* const stream = Attach(one_, id);
    stream->reports_begun = one.reports;
    const storage::MessageRef message = Put();
    const LeaseToken token = Lease(stream, message);
    SettleCommand command{.stream = id};
    if (one.begun) command.begun = {token};
    if (one.end == kReleased) {
      command.settlements = {{.token = token, .action = SettleAction::kRelease}};
    }
    if (one.end == kNacked) {
      command.settlements = {{.token = token, .action = SettleAction::kNack}};
    }
    p_.lease_ends->Settle(now_, std::move(command));
    if (one.end == kLease) Pass(1'000);
    if (one.end == kClosed || one.end == kBroke) {
      core_.streams.Detach({.stream = id, .broke = one.end == kBroke});
    }
    p_.lease_ends->Step(now_);
    Commit();
    const EntryIndex index = core_.table.Find(message.key.id, one_);
    EXPECT_EQ(At(index).half_failures, one.half_failures);
    EXPECT_EQ(At(index).suspect, one.suspect);
    EXPECT_EQ(At(index).state, one.half_failures > 0 ? EntryState::kDelayed : EntryState::kReady);
    const auto row = Row(message.key, *one_);
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(row->half_failures(), one.half_failures);
    EXPECT_EQ(Retries::IsSuspect(&*row), one.suspect) << "the next run must know";
  }
}

TEST_F(LeaseEndsTest, AStepSettlesItsShareAndKeepsTheOrderOfAStream) {
  const LeaseToken token = Lease(Attach(one_));
  Ack(Unknown(kSettlesPerStep + 1));
  EXPECT_EQ(Answers().refused.size(), kSettlesPerStep);
  Ack({token});
  EXPECT_EQ(p_.lease_ends->waiting(), 1u) << "one stream";
  EXPECT_NE(core_.leases.Find(token), kNoEntry);
  EXPECT_FALSE(p_.lease_ends->Step(now_));
  EXPECT_EQ(p_.lease_ends->waiting(), 0u);
  EXPECT_EQ(Answers().refused.size(), 1u);
  EXPECT_EQ(core_.leases.Find(token), kNoEntry);
}

TEST_F(LeaseEndsTest, StreamsThatWaitTakeTurns) {
  Attach(one_);
  const LeaseToken token = Lease(Attach(one_, kOtherStream));
  Ack(Unknown(4 * kSettlesPerStep));
  Ack({token}, kOtherStream);
  EXPECT_TRUE(p_.lease_ends->Step(now_));
  EXPECT_NE(core_.leases.Find(token), kNoEntry) << "the first stream came first";
  EXPECT_TRUE(p_.lease_ends->Step(now_));
  EXPECT_EQ(core_.leases.Find(token), kNoEntry);
  EXPECT_EQ(p_.lease_ends->waiting(), 1u);
}

// Otherwise an ack that came in time would be refused.
TEST_F(LeaseEndsTest, ALeaseLastsLongerWhileItsSettlementMayWait) {
  const LeaseToken token = Lease(Attach(one_));
  const LeaseToken of_other = Lease(Attach(one_, kOtherStream));
  Ack(Unknown(100 * kSettlesPerStep));
  Pass(1'000);
  p_.lease_ends->Step(now_);
  EXPECT_NE(core_.leases.Find(token), kNoEntry);
  EXPECT_EQ(core_.leases.Find(of_other), kNoEntry) << "its stream has nothing that waits";
  for (uint64_t ms = 0; ms < kGraceMaxMs; ms += 100) {
    EXPECT_NE(core_.leases.Find(token), kNoEntry) << ms;
    Pass(100);
    p_.lease_ends->Step(now_);
  }
  EXPECT_EQ(core_.leases.Find(token), kNoEntry) << "but not for ever";
}

TEST_F(LeaseEndsTest, AnEndedStreamGivesItsLeasesBackAfterItsSettlements) {
  Stream* const stream = Attach(one_);
  const LeaseToken acked = Lease(stream);
  Lease(stream);
  std::vector<LeaseToken> tokens = Unknown(2 * kSettlesPerStep);
  tokens.push_back(acked);
  Ack(tokens);
  core_.streams.Detach({.stream = kStream});
  EXPECT_TRUE(p_.lease_ends->Step(now_));
  EXPECT_NE(core_.leases.Find(acked), kNoEntry);
  EXPECT_EQ(core_.table.count(EntryState::kInFlight), 2u);
  EXPECT_FALSE(p_.lease_ends->Step(now_));
  Commit();
  EXPECT_EQ(Answers().settled, std::vector<LeaseToken>{acked});
  EXPECT_EQ(core_.table.count(EntryState::kReady), 1u) << "the other lease";
  EXPECT_EQ(core_.streams.Find(kStream), nullptr);
}

}  // namespace
}  // namespace duetime::delivery
