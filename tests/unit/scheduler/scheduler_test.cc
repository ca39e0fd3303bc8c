// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "server/scheduler/message_writer.h"
#include "storage/message_record.h"
#include "tests/support/test_store.h"

namespace duetime::scheduler {
namespace {

using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;
using storage::TopicId;

constexpr TopicId kTopic{1};
constexpr uint64_t kStart = 1'800'000'000'000;
const SchedulerOptions kOptions = {.shard = 0,
                                   .limits = {.load_window_ms = 10'000,
                                              .loaded_max = 8,
                                              .claim_ahead_ms = 1'000,
                                              .claim_renew_ms = 500,
                                              .low_watermark_period_ms = 1'000}};

// A scheduler over a disk that survives restarts.
class SchedulerTest : public testing::Test, public DueSink {
 protected:
  SchedulerTest() { Start(); }

  void OnDue(base::Now now, const MessageRef& message) override {
    EXPECT_LE(message.key.due_ms, now.wall_ms);                 // G1
    EXPECT_LE(message.key.due_ms, store_->Marks(0)->claim_ms);  // G3
    fired_.push_back(message.key);
    fired_flags_ = message.flags;
  }

  // Starts the scheduler, again after the first time.
  void Start() { Start(std::make_unique<test::TestStore>(&disk_)); }
  void Start(std::unique_ptr<test::TestStore> store) {
    scheduler_.reset();
    writer_.reset();
    writes_.reset();
    store_ = std::move(store);
    writes_ = std::make_unique<PendingWrites>();
    writer_ = std::make_unique<MessageWriter>(0, store_.get(), writes_.get());
    scheduler_ = std::make_unique<Scheduler>(kOptions, store_.get(), writes_.get(), writer_.get());
    EXPECT_TRUE(scheduler_->Recover(now_).ok());
  }

  void Commit() {
    EXPECT_TRUE(writer_->BeginWaitingCounts().ok());
    while (auto batch = writes_->Take()) {
      EXPECT_EQ(store_->Append(std::span(&batch->records, 1), batch->durability),
                storage::AppendOutcome::kAccepted);
      writes_->Complete(now_, batch->sequence, true);
    }
  }

  // Accepts a message. The next commit writes it to the store.
  MessageKey Accept(uint64_t delay_ms, uint8_t flags = 0) {
    const uint64_t deliver_ms = now_.wall_ms + delay_ms;
    std::string record = storage::EncodeMessageRecord(
        {.header = {.topic = kTopic, .deliver_ms = deliver_ms, .accept_ms = now_.wall_ms}});
    const MessageRef message = {.key = scheduler_->NewKey(now_, 0, deliver_ms, 0),
                                .topic = kTopic,
                                .bytes = static_cast<uint32_t>(record.size()),
                                .flags = flags};
    scheduler_->Put(now_, message, std::move(record));
    writes_->Then([this, message](base::Now, bool ok) {
      if (ok) scheduler_->OnPut(message);
    });
    return message.key;
  }

  // Moves a message from its place `from`.
  MessageKey Move(const MessageKey& from, uint64_t due_ms) {
    std::string record = storage::EncodeMessageRecord(
        {.header = {.topic = kTopic, .deliver_ms = due_ms, .accept_ms = kStart}});
    const MessageRef to = {.key = {.due_ms = scheduler_->PlaceOf(now_, due_ms), .id = from.id},
                           .topic = kTopic,
                           .bytes = static_cast<uint32_t>(record.size()),
                           .flags = 0};
    const bool was_loaded = scheduler_->Loaded(from);
    writer_->Erase(from, kTopic, to.bytes, storage::Durability::kSynced);
    scheduler_->Put(now_, to, std::move(record));
    writes_->Then([this, from, was_loaded, to](base::Now, bool ok) {
      if (ok) scheduler_->OnMoved(from.due_ms, was_loaded, to);
    });
    Commit();
    return to.key;
  }

  void Step() {
    bool more = true;
    for (int i = 0; i < 100 && more; ++i) {
      more = false;
      ASSERT_TRUE(scheduler_->Step(now_, 100, this, &more).ok());
      more = more || !writes_->idle();
      Commit();
      scheduler_->CheckInvariants();
    }
  }
  void Pass(uint64_t ms) {
    now_.wall_ms += ms;
    now_.mono_ms += ms;
    Step();
  }
  void StepBack(uint64_t ms) {
    now_.wall_ms -= ms;
    scheduler_->FollowClock(now_);
  }
  // Passes time in steps of at most 5 s.
  void PassUntil(uint64_t wall_ms) {
    while (now_.wall_ms < wall_ms) Pass(std::min<uint64_t>(5'000, wall_ms - now_.wall_ms));
  }
  std::vector<MessageKey> TakeFired() { return std::exchange(fired_, {}); }

  base::Now now_{.wall_ms = kStart, .mono_ms = 1'000};
  test::TestDisk disk_{1};
  std::unique_ptr<test::TestStore> store_;
  std::unique_ptr<PendingWrites> writes_;
  std::unique_ptr<MessageWriter> writer_;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<MessageKey> fired_;
  // The flags of the last fired message.
  uint8_t fired_flags_ = 0;
};

TEST_F(SchedulerTest, TheSequenceBeginsWhereTheStoreSays) {
  class LateStore final : public test::TestStore {
   public:
    using TestStore::TestStore;
    uint64_t first_sequence() const override { return storage::MessageId::kFirstSequenceMax; }
  };
  EXPECT_EQ(scheduler_->NewKey(now_, 0, kStart, 0).id.sequence(), 1u);
  Start(std::make_unique<LateStore>(&disk_));
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(scheduler_->NewKey(now_, 0, kStart, 0).id.sequence(),
              storage::MessageId::kFirstSequenceMax + i);
  }
}

TEST_F(SchedulerTest, G1_FiresAtTheTimeAndNotBefore) {
  const MessageKey key = Accept(2'000);
  Commit();
  Pass(1'999);
  EXPECT_TRUE(TakeFired().empty());
  Pass(1);
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{key});
  Pass(5'000);
  EXPECT_TRUE(TakeFired().empty());
}

TEST_F(SchedulerTest, G2_LoadsWhatLiesBeyondItsWindow) {
  const MessageKey key = Accept(25'000);
  Commit();
  Step();
  EXPECT_FALSE(scheduler_->Loaded(key));
  EXPECT_EQ(scheduler_->timers(), 0u);
  for (int i = 0; i < 5; ++i) Pass(5'000);
  EXPECT_TRUE(scheduler_->Loaded(key));
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{key});
}

TEST_F(SchedulerTest, G3_NothingFiresBeforeItsClaimIsDurable) {
  Accept(100);
  Commit();
  now_.wall_ms += 200;
  bool more = false;
  // The step may begin a new claim, but fires only messages within the durable one.
  scheduler_->CheckInvariants();
  ASSERT_TRUE(scheduler_->Step(now_, 100, this, &more).ok());
  for (const MessageKey& key : TakeFired()) EXPECT_LE(key.due_ms, store_->Marks(0)->claim_ms);
  Step();
  EXPECT_GE(store_->Marks(0)->claim_ms, kStart + 100);
}

TEST_F(SchedulerTest, G4_KeepsTheOrderOfDueTimeAndAcceptance) {
  std::vector<MessageKey> keys;
  for (const uint64_t delay_ms : {300u, 100u, 200u, 100u, 300u}) keys.push_back(Accept(delay_ms));
  Commit();
  Pass(1'000);
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(TakeFired(), keys);
}

TEST_F(SchedulerTest, G4_OlderMessagesFireFirstThoughTheLoaderNeedsTwoSteps) {
  Step();
  std::vector<MessageKey> keys;
  for (size_t i = 0; i < kOptions.limits.loaded_max; ++i) keys.push_back(Accept(900));
  // The wheel is full, so these stay on disk: more than the loader reads in one step.
  for (int i = 0; i < 1'100; ++i) keys.push_back(Accept(100));
  Commit();
  now_.wall_ms += 950;
  bool more = false;
  // The budget is enough to empty the wheel.
  ASSERT_TRUE(scheduler_->Step(now_, 1'000, this, &more).ok());
  Step();
  std::vector<MessageKey> fired = TakeFired();
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end(),
                             [](const auto& a, const auto& b) { return a.due_ms < b.due_ms; }));
  // The loader offers the messages of the full wheel again.
  std::sort(fired.begin(), fired.end());
  fired.erase(std::unique(fired.begin(), fired.end()), fired.end());
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(fired, keys);
}

TEST_F(SchedulerTest, G5_TheWheelHoldsNoMoreThanItsLimit) {
  std::vector<MessageKey> keys;
  for (uint64_t i = 0; i < 100; ++i) {
    keys.push_back(Accept(5'000 + i));
    Commit();
    Step();
    EXPECT_LE(scheduler_->timers(), 2 * kOptions.limits.loaded_max);
  }
  for (int i = 0; i < 12; ++i) Pass(500);
  std::vector<MessageKey> fired = TakeFired();
  std::sort(fired.begin(), fired.end());
  fired.erase(std::unique(fired.begin(), fired.end()), fired.end());
  EXPECT_EQ(fired, keys);
}

TEST_F(SchedulerTest, G5_TheLoaderStopsAtAFullWheel) {
  std::vector<MessageKey> keys;
  for (uint64_t i = 0; i < 10; ++i) keys.push_back(Accept(8'000 + i));
  for (uint64_t i = 0; i < 10; ++i) keys.push_back(Accept(12'000 + i));
  Commit();
  Start();
  Step();
  EXPECT_EQ(scheduler_->timers(), 10u);
  Pass(6'000);  // the other ten messages are within the window now
  EXPECT_EQ(scheduler_->timers(), 10u);
  for (int i = 0; i < 14; ++i) Pass(500);
  EXPECT_EQ(TakeFired(), keys);
}

TEST_F(SchedulerTest, LoadsAWindowOfMoreThanOnePage) {
  std::vector<MessageKey> keys;
  for (uint64_t i = 0; i < 1'500; ++i) keys.push_back(Accept(1'000 + i));
  Commit();
  Start();
  for (int i = 0; i < 6; ++i) Pass(500);
  EXPECT_EQ(TakeFired(), keys);
}

TEST_F(SchedulerTest, OnlyAMessageThatIsDueSoonBringsItsClaim) {
  Accept(kOptions.limits.claim_renew_ms + 1);
  Commit();
  EXPECT_EQ(scheduler_->counters().claims, 0u);
  const uint64_t appends = store_->accepted_appends();
  Accept(kOptions.limits.claim_renew_ms);
  Commit();
  EXPECT_EQ(store_->Marks(0)->claim_ms, kStart + kOptions.limits.claim_ahead_ms);
  EXPECT_EQ(store_->accepted_appends(), appends + 1);  // the claim is in the message's batch
}

TEST_F(SchedulerTest, AMessageFiresWithItsFlagOfARecurrence) {
  for (const uint8_t flags : {uint8_t{0}, storage::MessageFlags::kRecurs}) {
    Accept(100, flags);
    Commit();
    Pass(200);
    EXPECT_EQ(TakeFired().size(), 1u);
    EXPECT_EQ(fired_flags_, flags);
  }
}

TEST_F(SchedulerTest, AMessageIsNeverPlacedInThePast) {
  const MessageKey key = Accept(0);
  EXPECT_EQ(key.due_ms, kStart);
  EXPECT_EQ(scheduler_->PlaceOf(now_, 5), kStart);
  EXPECT_EQ(scheduler_->PlaceOf(now_, kStart + 5), kStart + 5);
  Commit();
  Step();
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{key});
}

// The low watermark is one millisecond ahead of the clock when everything due until now is settled.
TEST_F(SchedulerTest, AMessageIsNeverPlacedBelowTheLowWatermark) {
  Pass(kOptions.limits.low_watermark_period_ms);
  Accept(0);
  Commit();
  Step();
  scheduler_->WriteLowWatermark(now_);
  Commit();
  ASSERT_EQ(scheduler_->low_watermark_ms(), now_.wall_ms + 1);
  TakeFired();
  const MessageKey key = Accept(0);
  EXPECT_EQ(key.due_ms, now_.wall_ms + 1);
  Commit();
  now_.wall_ms += 1;
  Start();
  Step();
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{key});
}

TEST_F(SchedulerTest, IdsGrowAcrossRestarts) {
  const MessageKey first = Accept(1'000'000);
  const MessageId next = scheduler_->NextId();
  EXPECT_LT(next, Accept(1'000'000).id);
  EXPECT_LT(first.id, scheduler_->NextId());
  Commit();
  const MessageId last = scheduler_->NextId();
  Start();
  EXPECT_LT(last, Accept(1'000'000).id);
  Commit();
}

TEST_F(SchedulerTest, ASpreadPointIsStableAndWithinTheSpread) {
  EXPECT_EQ(Scheduler::SpreadPoint(1, 2, 0), 0u);
  uint64_t sum = 0;
  for (uint64_t sequence = 0; sequence < 1'000; ++sequence) {
    const uint64_t point = Scheduler::SpreadPoint(1, sequence, 100);
    EXPECT_LE(point, 100u);
    EXPECT_EQ(point, Scheduler::SpreadPoint(1, sequence, 100));
    sum += point;
  }
  EXPECT_NEAR(static_cast<double>(sum), 50'000.0, 5'000.0);
}

TEST_F(SchedulerTest, AMovedMessageFiresOnceAtItsNewTime) {
  const std::pair<uint64_t, uint64_t> moves[] = {
      {2'000, 4'000}, {4'000, 2'000}, {2'000, 60'000}, {60'000, 2'000}};
  for (const auto& [from_ms, to_ms] : moves) {
    SCOPED_TRACE(from_ms);
    const uint64_t start_ms = now_.wall_ms;
    const MessageKey from = Accept(from_ms);
    Commit();
    Step();
    const MessageKey to = Move(from, start_ms + to_ms);
    while (now_.wall_ms < start_ms + to_ms - 1) {
      Pass(std::min<uint64_t>(1'000, start_ms + to_ms - 1 - now_.wall_ms));
    }
    EXPECT_TRUE(TakeFired().empty());
    Pass(1);
    EXPECT_EQ(TakeFired(), std::vector<MessageKey>{to});
    for (int i = 0; i < 70; ++i) Pass(1'000);
    EXPECT_TRUE(TakeFired().empty());
    EXPECT_EQ(scheduler_->moved(), 0u);
  }
}

TEST_F(SchedulerTest, AMessageThatIsPushedBackAgainAndAgainHasOneTimer) {
  MessageKey key = Accept(1'000);
  Commit();
  Step();
  for (uint64_t i = 0; i < 50; ++i) key = Move(key, kStart + 2'000 + i);
  EXPECT_EQ(scheduler_->timers(), 1u);
  EXPECT_EQ(scheduler_->moved(), 1u);
  for (int i = 0; i < 5; ++i) Pass(500);
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{key});
}

TEST_F(SchedulerTest, TheLowWatermarkStaysBelowWhatIsHeld) {
  const MessageKey key = Accept(5'000);
  Commit();
  Step();
  const uint64_t held_ms = key.due_ms - 2'000;
  scheduler_->low_watermark()->Pin(held_ms);
  Pass(10'000);
  scheduler_->NoteProgress();
  Pass(2'000);
  scheduler_->WriteLowWatermark(now_);
  Commit();
  EXPECT_LE(store_->Marks(0)->low_watermark_ms, held_ms);
  scheduler_->low_watermark()->Release(held_ms);
  scheduler_->NoteProgress();
  Pass(2'000);
  scheduler_->WriteLowWatermark(now_);
  Commit();
  EXPECT_GT(store_->Marks(0)->low_watermark_ms, held_ms);
}

TEST_F(SchedulerTest, ARestartFiresAgainWhatMayHaveBeenDelivered) {
  const MessageKey early = Accept(100);
  const MessageKey late = Accept(30'000);
  Commit();
  Pass(200);
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{early});
  Start();
  EXPECT_TRUE(scheduler_->MaybeDelivered(early));
  EXPECT_FALSE(scheduler_->MaybeDelivered(late));
  Step();
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{early});
  EXPECT_FALSE(scheduler_->MaybeDelivered(Accept(0)));
  Commit();
}

TEST_F(SchedulerTest, ACleanStopGivesTheClaimBack) {
  const MessageKey early = Accept(100);
  Commit();
  Pass(200);
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{early});
  scheduler_->low_watermark()->Pin(early.due_ms);  // as delivery does
  scheduler_->GiveBackClaim();
  Commit();
  Start();
  EXPECT_FALSE(scheduler_->MaybeDelivered(early));
  EXPECT_TRUE(scheduler_->MayRepeat(early)) << "there may be records of it";
  Step();
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{early});
  // This run has claimed again, and does not stop cleanly.
  Start();
  EXPECT_TRUE(scheduler_->MaybeDelivered(early));
}

TEST_F(SchedulerTest, ACleanStopDoesNotKnowMoreThanItsRunDid) {
  const MessageKey early = Accept(100);
  Commit();
  Pass(200);
  Start();
  ASSERT_TRUE(scheduler_->MaybeDelivered(early));
  const MessageKey next = Accept(0);
  Commit();
  Step();
  scheduler_->GiveBackClaim();
  Commit();
  Start();
  EXPECT_TRUE(scheduler_->MaybeDelivered(early));
  EXPECT_FALSE(scheduler_->MaybeDelivered(next));
}

TEST_F(SchedulerTest, AMessageThatThisRunMovedWasNotDeliveredBefore) {
  Accept(0);
  const MessageKey late = Accept(30'000);
  Commit();
  Step();
  Start();
  const MessageKey moved = Move(late, now_.wall_ms);
  ASSERT_LE(moved.due_ms, scheduler_->claim_ms());
  EXPECT_FALSE(scheduler_->MaybeDelivered(moved));
}

TEST_F(SchedulerTest, AClockThatWasAheadDoesNotHoldNewMessagesBack) {
  now_.wall_ms = kStart + 1'000'000;
  Accept(0);
  Commit();
  Step();
  scheduler_->NoteProgress();
  Pass(2'000);
  scheduler_->WriteLowWatermark(now_);
  Commit();
  TakeFired();
  now_.wall_ms = kStart;
  Start();
  EXPECT_LE(scheduler_->low_watermark_ms(), kStart);
  const MessageKey key = Accept(100);
  EXPECT_EQ(key.due_ms, kStart + 100);
  Commit();
}

TEST_F(SchedulerTest, G6_AfterAStepBackEverythingFiresByTheCorrectedClock) {
  constexpr uint64_t kHour = 3'600'000;
  const MessageKey first = Accept(0);
  Commit();
  Pass(2'000);
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{first});
  scheduler_->NoteProgress();
  scheduler_->WriteLowWatermark(now_);
  const MessageKey loaded = Accept(3'000);
  Commit();
  Step();
  EXPECT_EQ(scheduler_->timers(), 1u);
  EXPECT_GT(store_->Marks(0)->low_watermark_ms, kStart);

  StepBack(kHour);
  EXPECT_EQ(scheduler_->restarts(), 1u);
  EXPECT_LE(scheduler_->low_watermark_ms(), now_.wall_ms);
  const MessageKey absolute = Accept(1'800'000);
  EXPECT_EQ(absolute.due_ms, now_.wall_ms + 1'800'000) << "not at the low watermark of before";
  const MessageKey soon = Accept(100);
  EXPECT_EQ(soon.due_ms, now_.wall_ms + 100);
  Commit();
  EXPECT_LE(store_->Marks(0)->low_watermark_ms, now_.wall_ms);
  for (const MessageKey& next : {soon, absolute, first, loaded}) {
    PassUntil(next.due_ms - 1);
    EXPECT_TRUE(TakeFired().empty());
    Pass(1);
    EXPECT_EQ(TakeFired(), std::vector<MessageKey>{next});
  }
  EXPECT_TRUE(scheduler_->MayRepeat(first)) << "it was fired before the step, too";
  EXPECT_EQ(scheduler_->restarts(), 1u);
}

TEST_F(SchedulerTest, G6_AfterASmallStepBackTimeStandsStill) {
  Accept(0);
  const MessageKey last = Accept(2'000);
  Commit();
  Pass(2'000);
  EXPECT_EQ(TakeFired().size(), 2u);
  StepBack(Scheduler::kStandStillMs);
  EXPECT_EQ(scheduler_->restarts(), 0u);
  const MessageKey key = Accept(300);
  Commit();
  Step();
  EXPECT_TRUE(TakeFired().empty()) << "the wheel would hand it out at once";
  EXPECT_EQ(scheduler_->NextWakeWall(now_), last.due_ms);
  PassUntil(last.due_ms - 1);
  EXPECT_TRUE(TakeFired().empty());
  Pass(1);
  EXPECT_EQ(TakeFired(), std::vector<MessageKey>{key});
}

TEST_F(SchedulerTest, WakesInTimeForItsClaim) {
  const MessageKey key = Accept(3'000);
  Commit();
  Step();
  EXPECT_LE(scheduler_->NextWakeWall(now_), key.due_ms - kOptions.limits.claim_renew_ms);
  EXPECT_GT(scheduler_->NextWakeWall(now_), now_.wall_ms);
}

TEST_F(SchedulerTest, AReadErrorIsReturned) {
  Accept(100);
  Commit();
  store_->FailReads(absl::DataLossError("disk"));
  bool more = false;
  now_.wall_ms += 20'000;
  EXPECT_FALSE(scheduler_->Step(now_, 100, this, &more).ok());
}

TEST_F(SchedulerTest, AMessageThatIsReadableAgainIsFiredAfterARestart) {
  const MessageKey before = Accept(100'000);
  const MessageKey key = Accept(200'000);
  const MessageKey after = Accept(250'000);
  Commit();
  disk_.Damage(0, key);
  PassUntil(kStart + 300'000);
  EXPECT_EQ(TakeFired(), (std::vector{before, after}));
  scheduler_->WriteLowWatermark(now_);
  Commit();
  EXPECT_LE(store_->Marks(0)->low_watermark_ms, key.due_ms);
  disk_.Repair();
  Start();
  PassUntil(kStart + 301'000);
  const std::vector<MessageKey> fired = TakeFired();
  EXPECT_EQ(std::count(fired.begin(), fired.end(), key), 1);
}

}  // namespace
}  // namespace duetime::scheduler
