// SPDX-License-Identifier: Apache-2.0
//
// The threads around real shards, over a store in memory. Time is real, and each test waits for
// events, never for time alone.
#include "server/runtime/node.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/base/error.h"
#include "server/protocol/commands.h"
#include "server/protocol/stream_credit.h"
#include "server/runtime/drain.h"
#include "server/runtime/signals.h"
#include "server/runtime/system_clock.h"
#include "storage/message_record.h"
#include "tests/support/test_store.h"
#include "tests/unit/runtime/recording_sink.h"

namespace duetime::runtime {
namespace {

using protocol::CallTag;
using protocol::LeaseToken;
using protocol::StreamId;

constexpr uint16_t kShards = 2;
constexpr storage::TopicId kTopic{1};
constexpr StreamId kStream{1};

// Counts the engines' clock reads: one per turn, and one more before some sleeps.
class CountingClock final : public base::Clock {
 public:
  base::Now Read() override {
    ++reads_;
    return clock_.Read();
  }
  base::ClockState state() override { return clock_.state(); }
  int reads() const { return reads_; }

 private:
  SystemClock clock_;
  std::atomic<int> reads_{0};
};

// A function gives its steady time. The argument is the number of reads so far.
class SteppedClock final : public base::Clock {
 public:
  explicit SteppedClock(std::function<uint64_t(int)> mono_ms) : mono_ms_(std::move(mono_ms)) {}
  base::Now Read() override { return {.wall_ms = 0, .mono_ms = mono_ms_(++reads_)}; }
  base::ClockState state() override { return {}; }

 private:
  const std::function<uint64_t(int)> mono_ms_;
  int reads_ = 0;
};

class NodeTest : public ::testing::Test {
 protected:
  NodeTest() { options_.startup_rate = options_.failure_rate = 0; }
  void TearDown() override { sink_.SetClosed(false); }

  void StartNode() { StartNode(&disk_); }
  void StartNode(test::TestDisk* disk) {
    store_ = std::make_unique<test::TestStore>(disk);
    node_ = std::make_unique<Node>(options_, store_.get(), store_.get(), &clock_, &sink_);
    ASSERT_TRUE(node_->Start().ok());
  }

  // Destroys the node, then its store. The disk stays.
  void StopNode() {
    node_.reset();
    store_.reset();
  }

  protocol::ScheduleCommand Schedule(uint64_t tag, uint16_t shard, uint64_t deliver_ms,
                                     size_t messages = 1) {
    protocol::ScheduleCommand command{.tag = CallTag{tag}, .messages = {}};
    uint32_t slot = 0;
    while (storage::ShardOfSlot(slot, kShards) != shard) ++slot;
    for (size_t i = 0; i < messages; ++i) {
      command.messages.push_back(
          protocol::MakeNewMessage({.header = {.topic = kTopic,
                                               .deliver_ms = deliver_ms,
                                               .accept_ms = clock_.Read().wall_ms},
                                    .payload = "payload"},
                                   slot));
    }
    return command;
  }

  void Subscribe(int64_t credit) {
    credit_ = std::make_shared<protocol::StreamCredit>(credit, int64_t{1} << 30);
    for (uint16_t shard = 0; shard < kShards; ++shard) {
      ASSERT_TRUE(node_
                      ->Post(shard, protocol::AttachCommand{.stream = kStream,
                                                            .topic = kTopic,
                                                            .subscription =
                                                                storage::FirstSubscription(kTopic),
                                                            .lease_ms = 30'000,
                                                            .credit = credit_})
                      .ok());
    }
  }

  void Ack(const std::vector<protocol::Delivery>& deliveries, bool may_wait = false) {
    std::map<uint16_t, protocol::SettleCommand> settles;
    for (const protocol::Delivery& delivery : deliveries) {
      protocol::SettleCommand& settle = settles[protocol::ShardOfLease(delivery.token)];
      settle.stream = kStream;
      settle.may_wait = may_wait;
      settle.settlements.push_back({.token = delivery.token});
    }
    for (auto& [shard, settle] : settles) {
      ASSERT_TRUE(node_->Post(shard, std::move(settle)).ok());
    }
  }

  uint64_t Now() { return clock_.Read().wall_ms; }

  // A figure of all shards together.
  uint64_t Sum(uint64_t protocol::ShardStats::*figure) {
    uint64_t sum = 0;
    for (const protocol::ShardStats& stats : node_->shard_stats()) sum += stats.*figure;
    return sum;
  }
  uint64_t Acked() { return Sum(&protocol::ShardStats::acked); }
  uint64_t InFlight() { return Sum(&protocol::ShardStats::in_flight); }

  NodeOptions options_;
  CountingClock clock_;
  RecordingSink sink_;
  test::TestDisk disk_{kShards};
  std::unique_ptr<test::TestStore> store_;
  std::shared_ptr<protocol::StreamCredit> credit_;
  std::unique_ptr<Node> node_;
};

TEST_F(NodeTest, AMessageGoesFromScheduleToAck) {
  StartNode();
  EXPECT_EQ(node_->shard_count(), kShards);
  Subscribe(100);
  const uint64_t deliver_ms = Now() + 20;
  for (uint16_t shard = 0; shard < kShards; ++shard) {
    ASSERT_TRUE(node_->Post(shard, Schedule(shard, shard, deliver_ms)).ok());
  }
  for (uint64_t tag = 0; tag < kShards; ++tag) {
    const protocol::ScheduleReply reply = sink_.WaitForSchedule(CallTag{tag});
    ASSERT_TRUE(reply.status.ok()) << reply.status;
    EXPECT_EQ(reply.accepted.size(), 1u);
  }
  const auto deliveries = sink_.WaitForDeliveries(2);
  for (const protocol::Delivery& delivery : deliveries) {
    EXPECT_GE(delivery.dispatch_ms, deliver_ms);
    EXPECT_EQ(delivery.attempt, 1u);
  }
  Ack(deliveries);
  sink_.WaitForSettled(2);
  node_->Stop();
  EXPECT_EQ(Acked(), 2u);
  EXPECT_EQ(node_->mailbox_commands(), 0u);
  EXPECT_FALSE(node_->failed());
  EXPECT_GE(node_->commit_stats().syncs, 1u);
}

// They may wait, but not for long: nothing else comes.
TEST_F(NodeTest, AcksThatMayWaitShareAnAppendAndAreConfirmed) {
  constexpr size_t kMessages = 500;
  StartNode();
  Subscribe(1'000);
  ASSERT_TRUE(node_->Post(0, Schedule(0, 0, Now(), kMessages)).ok());
  const auto deliveries = sink_.WaitForDeliveries(kMessages);
  const uint64_t before = node_->commit_stats().batches;
  for (const protocol::Delivery& delivery : deliveries) {
    Ack({delivery}, /*may_wait=*/true);
    // So that each is decided in a turn of its own.
    while (node_->mailbox_commands() > 0) std::this_thread::yield();
  }
  sink_.WaitForSettled(kMessages);
  EXPECT_LT(node_->commit_stats().batches - before, kMessages / 2);
}

// Says when a node may deliver, as the journal of a cell does.
class GatedJournal final : public storage::Journal {
 public:
  explicit GatedJournal(storage::Journal* journal) : journal_(journal) {}
  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override {
    return journal_->Append(group, durability);
  }
  uint64_t idle_append_ms() const override { return 10; }
  bool MayServe(uint64_t) const override { return open; }
  std::atomic<bool> open{false};

 private:
  storage::Journal* const journal_;
};

TEST_F(NodeTest, DeliversAndAnswersNothingWhileTheJournalForbidsIt) {
  test::TestStore store(&disk_);
  GatedJournal journal(&store);
  node_ = std::make_unique<Node>(options_, &journal, &store, &clock_, &sink_);
  ASSERT_TRUE(node_->Start().ok());
  Subscribe(100);
  for (size_t round = 1; round <= 2; ++round) {
    EXPECT_FALSE(node_->MayServe());
    ASSERT_TRUE(node_->Post(1, Schedule(round, 1, Now())).ok());
    // Many turns later there is still nothing.
    for (const int reads = clock_.reads() + 100; clock_.reads() < reads;) std::this_thread::yield();
    EXPECT_EQ(sink_.schedule_replies(), round - 1);
    EXPECT_EQ(sink_.deliveries(), round - 1);
    journal.open = true;
    EXPECT_TRUE(sink_.WaitForSchedule(CallTag{round}).status.ok());
    sink_.WaitForDeliveries(round);
    journal.open = false;
  }
  node_.reset();
}

TEST_F(NodeTest, PendingMessagesSurviveARestart) {
  StartNode();
  const uint64_t deliver_ms = Now() + 50;
  ASSERT_TRUE(node_->Post(1, Schedule(1, 1, deliver_ms, 10)).ok());
  ASSERT_TRUE(sink_.WaitForSchedule(CallTag{1}).status.ok());
  StopNode();
  StartNode();
  Subscribe(100);
  for (const auto& delivery : sink_.WaitForDeliveries(10)) {
    EXPECT_GE(delivery.dispatch_ms, deliver_ms);
  }
}

TEST_F(NodeTest, TwoServersThatDoTheSameGiveDifferentTokens) {
  test::TestDisk other_disk{kShards};
  std::vector<protocol::Delivery> deliveries;
  for (test::TestDisk* disk : {&disk_, &other_disk}) {
    StartNode(disk);
    Subscribe(100);
    ASSERT_TRUE(node_->Post(1, Schedule(deliveries.size(), 1, Now())).ok());
    deliveries = sink_.WaitForDeliveries(deliveries.size() + 1);
    StopNode();
  }
  EXPECT_NE(deliveries[0].token, deliveries[1].token);
}

TEST_F(NodeTest, StopAnswersEverythingThatWasPosted) {
  StartNode();
  constexpr uint64_t kSenders = 3;
  std::atomic<uint64_t> posted{0};
  std::vector<std::thread> senders;
  for (uint64_t sender = 0; sender < kSenders; ++sender) {
    senders.emplace_back([this, sender, &posted] {
      for (uint64_t i = 0;; ++i) {
        const uint64_t tag = sender * 1'000'000 + i;
        const uint16_t shard = static_cast<uint16_t>(i % kShards);
        const absl::Status status = node_->Post(shard, Schedule(tag, shard, Now() + 60'000, 3));
        if (absl::IsUnavailable(status)) break;
        if (status.ok()) ++posted;
      }
    });
  }
  sink_.WaitForSchedule(CallTag{2 * 1'000'000 + 50});
  node_->Stop();
  for (std::thread& sender : senders) sender.join();
  EXPECT_GE(posted, 50u);
  EXPECT_EQ(sink_.schedule_replies(), posted);
  EXPECT_TRUE(absl::IsUnavailable(node_->Post(0, protocol::GetCommand{})));
}

TEST_F(NodeTest, AFullMailboxRefusesAndRecovers) {
  options_.mailbox.commands_max = 10;
  StartNode();
  sink_.SetClosed(true);
  ASSERT_TRUE(node_->Post(0, protocol::GetCommand{.tag = CallTag{1}, .target = {}}).ok());
  sink_.WaitForBlockedEngines();
  // The engine is blocked. Commands that it has handled may or may not count.
  uint64_t accepted = 0;
  absl::Status status;
  while (status.ok() && accepted < 100) {
    status = node_->Post(0, Schedule(100 + accepted, 0, Now() + 60'000));
    if (status.ok()) ++accepted;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GE(accepted, 9u);
  EXPECT_LE(accepted, 10u);
  EXPECT_GE(node_->mailbox_commands(), 10u);
  // The other shard is not affected.
  EXPECT_TRUE(node_->Post(1, protocol::GetCommand{.tag = CallTag{2}, .target = {}}).ok());
  sink_.SetClosed(false);
  for (uint64_t i = 0; i < accepted; ++i) {
    EXPECT_TRUE(sink_.WaitForSchedule(CallTag{100 + i}).status.ok());
  }
  EXPECT_EQ(node_->mailbox_stats()[0].refused, 1u);
  sink_.WaitForGet(CallTag{2});
}

TEST_F(NodeTest, P7_AFailedAppendStopsEveryShardForGood) {
  StartNode();
  ASSERT_TRUE(node_->Post(0, Schedule(1, 0, Now() + 60'000)).ok());
  ASSERT_TRUE(sink_.WaitForSchedule(CallTag{1}).status.ok());
  store_->FailNextAppend(test::TestStore::Fault::kUnknownApplied);
  ASSERT_TRUE(node_->Post(0, Schedule(2, 0, Now() + 60'000)).ok());
  const absl::Status status = sink_.WaitForSchedule(CallTag{2}).status;
  EXPECT_EQ(base::GetErrorDetail(status)->reason, "STORAGE_FAILED");
  EXPECT_TRUE(node_->failed());
  for (uint16_t shard = 0; shard < kShards; ++shard) {
    const uint64_t tag = 10u + shard;
    ASSERT_TRUE(node_->Post(shard, Schedule(tag, shard, Now() + 60'000)).ok());
    const absl::Status later = sink_.WaitForSchedule(CallTag{tag}).status;
    EXPECT_EQ(base::GetErrorDetail(later)->reason, "STORAGE_FAILED");
  }
  node_->Stop();
  EXPECT_EQ(sink_.failed_mask(), 3u);
  EXPECT_TRUE(node_->commit_stats().failed);
}

TEST_F(NodeTest, TheCatalogAnswersWhenEveryShardHasTheChange) {
  StartNode();
  ASSERT_TRUE(node_
                  ->PostToCatalog(catalog::CreateSubscription{
                      .tag = catalog::RequestTag{7}, .topic = "a", .name = "s"})
                  .ok());
  const catalog::Reply reply = sink_.WaitForCatalog();
  EXPECT_EQ(reply.tag, catalog::RequestTag{7});
  ASSERT_TRUE(reply.status.ok()) << reply.status;
  const catalog::TopicPtr topic = node_->snapshots().Read().FindTopic("a");
  ASSERT_NE(topic, nullptr);
  EXPECT_NE(node_->snapshots().Read().FindSubscription(topic->id, "s"), nullptr);
  for (uint16_t shard = 0; shard < kShards; ++shard) {
    std::vector<storage::ObjectRef> objects;
    ASSERT_TRUE(
        store_->ScanObjects(storage::ObjectKind::kSubscription, shard, "", 10, &objects).ok());
    EXPECT_EQ(objects.size(), 1u);
  }
  StopNode();
  StartNode();
  EXPECT_EQ(node_->snapshots().Read().subscriptions(), 1u) << "published when Start returns";
}

// The nice values of this process's engine threads.
std::vector<int> EngineNice() {
  std::vector<int> values;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    if (name.rfind("dt-engine-", 0) != 0) continue;
    const auto id = static_cast<id_t>(std::stoul(thread.path().filename()));
    values.push_back(getpriority(PRIO_PROCESS, id));
  }
  return values;
}

TEST_F(NodeTest, EnginesHaveAHigherPriorityIfTheSystemAllowsIt) {
  int own = 0;
  int best = 0;
  // The nice value of a thread is its own.
  std::thread([&] {
    own = best = getpriority(PRIO_PROCESS, 0);
    if (setpriority(PRIO_PROCESS, 0, -10) == 0) best = -10;
  }).join();
  for (const bool wanted : {true, false}) {
    options_.engine_priority = wanted;
    StartNode();
    for (uint16_t shard = 0; shard < kShards; ++shard) {
      while (node_->turns()[shard] == 0) std::this_thread::yield();
    }
    EXPECT_EQ(EngineNice(), std::vector<int>(kShards, wanted ? best : own));
    StopNode();
  }
}

TEST_F(NodeTest, TurnsTellWhichEngineHangs) {
  StartNode();
  sink_.SetClosed(true);
  ASSERT_TRUE(node_->Post(0, protocol::GetCommand{.tag = CallTag{1}, .target = {}}).ok());
  sink_.WaitForBlockedEngines();
  const std::vector<uint64_t> before = node_->turns();
  ASSERT_EQ(before.size(), kShards);
  // The idle engine makes turns, too.
  while (node_->turns()[1] < before[1] + 2) std::this_thread::yield();
  EXPECT_EQ(node_->turns()[0], before[0]);
  sink_.SetClosed(false);
  while (node_->turns()[0] == before[0]) std::this_thread::yield();
}

// Requests for one topic run one after the other, and each waits for all shards. Both shards are
// blocked, because their answers count against the mailbox, too.
TEST_F(NodeTest, RequestsThatWaitInTheCatalogCountAgainstItsMailbox) {
  options_.mailbox.commands_max = 10;
  StartNode();
  sink_.SetClosed(true);
  for (uint16_t shard = 0; shard < kShards; ++shard) {
    ASSERT_TRUE(node_->Post(shard, protocol::GetCommand{.tag = CallTag{1}, .target = {}}).ok());
  }
  sink_.WaitForBlockedEngines(kShards);
  const auto post = [this](uint64_t number) {
    return node_->PostToCatalog(catalog::CreateSubscription{
        .tag = catalog::RequestTag{number}, .topic = "a", .name = absl::StrCat("s", number)});
  };
  // The catalog answers before it reports a request as handled. The requests of the start may still
  // count.
  const auto wait_until_none = [this] {
    while (node_->mailbox_stats().back().commands > 0) std::this_thread::yield();
  };
  wait_until_none();
  uint64_t accepted = 0;
  while (accepted < 100 && post(accepted + 1).ok()) ++accepted;
  EXPECT_EQ(accepted, 10u);
  EXPECT_EQ(node_->mailbox_stats().back().commands, 10u);
  sink_.SetClosed(false);
  for (uint64_t i = 0; i < accepted; ++i) EXPECT_TRUE(sink_.WaitForCatalog().status.ok());
  wait_until_none();
  EXPECT_TRUE(post(100).ok());
}

TEST_F(NodeTest, P7_AFailedAppendOfTheCatalogStopsTheServer) {
  StartNode();
  store_->FailNextAppend(test::TestStore::Fault::kUnknownApplied);
  ASSERT_TRUE(
      node_->PostToCatalog(catalog::EnsureTopic{.tag = catalog::RequestTag{1}, .name = "a"}).ok());
  EXPECT_EQ(base::GetErrorDetail(sink_.WaitForCatalog().status)->reason, "STORAGE_FAILED");
  EXPECT_TRUE(sink_.catalog_failed());
  EXPECT_TRUE(node_->failed());
  ASSERT_TRUE(node_->Post(0, Schedule(1, 0, Now() + 60'000)).ok());
  EXPECT_EQ(base::GetErrorDetail(sink_.WaitForSchedule(CallTag{1}).status)->reason,
            "STORAGE_FAILED");
}

// When the client gets the answer to a message for a deleted topic, the topic is visible again.
TEST_F(NodeTest, AWatchedTopicThatGetsAMessageIsVisible) {
  StartNode();
  const auto ask = [this](auto command) {
    command.tag = catalog::RequestTag{1};
    ASSERT_TRUE(node_->PostToCatalog(std::move(command)).ok());
    ASSERT_TRUE(sink_.WaitForCatalog().status.ok());
  };
  // The first topic has the topic number that Schedule uses.
  ask(catalog::EnsureTopic{.name = "a"});
  ask(catalog::DeleteTopic{.name = "a"});
  ASSERT_EQ(node_->snapshots().Read().FindTopic("a"), nullptr);
  ASSERT_TRUE(node_->Post(1, Schedule(1, 1, Now() + 60'000)).ok());
  ASSERT_TRUE(sink_.WaitForSchedule(CallTag{1}).status.ok());
  EXPECT_NE(node_->snapshots().Read().FindTopic("a"), nullptr);
  ask(catalog::EnsureTopic{.name = "a"});
  EXPECT_FALSE(node_->snapshots().Read().FindTopic("a")->deleted);
}

TEST_F(NodeTest, AfterStopDispatchNothingIsHandedOutButAcksCount) {
  StartNode();
  Subscribe(1);
  ASSERT_TRUE(node_->Post(0, Schedule(1, 0, Now(), 10)).ok());
  const auto first = sink_.WaitForDeliveries(1);
  node_->StopDispatch();
  // The answer shows that the engine has seen StopDispatch, because it handles its mailbox in
  // order.
  ASSERT_TRUE(node_->Post(0, Schedule(2, 0, Now() + 60'000)).ok());
  sink_.WaitForSchedule(CallTag{2});
  Ack({first[0]});
  sink_.WaitForSettled(1);
  node_->Stop();
  EXPECT_EQ(sink_.deliveries(), 1u);
  EXPECT_EQ(Acked(), 1u);
}

// A drain waits for leases until they are settled, the grace is over, or another signal arrives.
TEST_F(NodeTest, ADrainWaitsForLeasesButNotForever) {
  BlockSignals();
  StartNode();
  EXPECT_EQ(StopDispatchAndWait(node_.get(), &clock_, 0), 0u);
  StopNode();
  StartNode();
  Subscribe(10);
  ASSERT_TRUE(node_->Post(0, Schedule(1, 0, Now(), 2)).ok());
  const auto deliveries = sink_.WaitForDeliveries(2);
  // The figures are published a moment later.
  while (InFlight() < 2) std::this_thread::yield();
  EXPECT_EQ(StopDispatchAndWait(node_.get(), &clock_, 1), 2u);
  ASSERT_EQ(pthread_kill(pthread_self(), SIGTERM), 0);
  EXPECT_EQ(StopDispatchAndWait(node_.get(), &clock_, 3'600'000), 2u);
  Ack(deliveries);
  EXPECT_EQ(StopDispatchAndWait(node_.get(), &clock_, 3'600'000), 0u);
}

// A drain waits for leases that a shard has given but not yet published.
TEST_F(NodeTest, ADrainWaitsForAShardThatIsBusy) {
  BlockSignals();
  StartNode();
  ASSERT_TRUE(node_->Post(0, Schedule(1, 0, Now(), 2)).ok());
  sink_.WaitForSchedule(CallTag{1});
  sink_.SetClosed(true);
  Subscribe(10);
  sink_.WaitForBlockedEngines();
  constexpr uint64_t kGraceMs = 1'000;
  // The shard is busy during the first look. The grace is over once its leases are known.
  SteppedClock clock([&](int reads) {
    if (reads == 3) sink_.SetClosed(false);
    return InFlight() == 2 ? kGraceMs : 0;
  });
  EXPECT_EQ(StopDispatchAndWait(node_.get(), &clock, kGraceMs), 2u);
}

TEST_F(NodeTest, ItSleepsBetweenEventsAndIsOnTime) {
  StartNode();
  Subscribe(1'000);
  // Ten due times, 40 ms apart.
  const uint64_t begin_ms = Now() + 100;
  std::map<uint64_t, uint64_t> due;
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(node_->Post(0, Schedule(i, 0, begin_ms + 40 * i)).ok());
    sink_.WaitForSchedule(CallTag{i});
  }
  const int reads_before = clock_.reads();
  const auto deliveries = sink_.WaitForDeliveries(10);
  const int reads = clock_.reads() - reads_before;
  std::vector<uint64_t> late;
  for (const protocol::Delivery& delivery : deliveries) {
    ASSERT_GE(delivery.dispatch_ms, delivery.id.due_ms());
    late.push_back(delivery.dispatch_ms - delivery.id.due_ms());
  }
  std::sort(late.begin(), late.end());
  RecordProperty("lateness_median_ms", static_cast<int>(late[5]));
  RecordProperty("clock_reads", reads);
  // Half of the messages are on time, even on a busy machine.
  EXPECT_LE(late[5], 20u);
  // The run takes 460 ms. A thread that polled every millisecond would read the clock 460 times,
  // and a spinning one far more often.
  EXPECT_LE(reads, 200) << "between due times an engine should sleep";
}

}  // namespace
}  // namespace duetime::runtime
