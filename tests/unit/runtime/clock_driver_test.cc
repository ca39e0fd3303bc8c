// SPDX-License-Identifier: Apache-2.0
//
// A node with a test clock, its threads, and subscribers of its own.
#include "server/runtime/clock_driver.h"

#include <chrono>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "server/base/error.h"
#include "server/base/mix.h"
#include "server/protocol/commands.h"
#include "server/protocol/stream_credit.h"
#include "server/runtime/effect_sink.h"
#include "server/shard/shard.h"
#include "storage/message_record.h"
#include "storage/slot.h"
#include "tests/support/test_scale.h"
#include "tests/support/test_seed.h"
#include "tests/support/test_store.h"

namespace duetime::runtime {
namespace {

using protocol::Command;
using protocol::Delivery;
using protocol::LeaseToken;
using protocol::SettleAction;
using protocol::StreamId;

constexpr uint16_t kShards = 2;
constexpr storage::TopicId kTopic{1};
constexpr StreamId kStream{1};
// Half an hour before the clocks of Berlin change.
constexpr uint64_t kStartMs = 1'806'193'800'000;
constexpr uint64_t kHourMs = 3'600'000;
constexpr uint64_t kDayMs = 24 * kHourMs;

// What a subscriber does with a delivery.
enum class Handler : uint8_t { kAck, kNack, kHold };
using Decide = std::function<Handler(const Delivery&)>;

Handler Acks(const Delivery&) { return Handler::kAck; }

// A delivery as a subscriber sees it.
using Seen = std::tuple<uint64_t, std::string, uint32_t>;
using SeenByShard = std::map<uint16_t, std::vector<Seen>>;

// The settlements of the subscriber of a frame, which it also notes.
protocol::SettleCommand Answer(const Decide& decide, const std::vector<Delivery>& deliveries,
                               std::vector<Seen>* seen) {
  protocol::SettleCommand command{.stream = kStream};
  for (const Delivery& delivery : deliveries) {
    seen->emplace_back(delivery.dispatch_ms, delivery.id.ToString(), delivery.attempt);
    const Handler handler = decide(delivery);
    if (handler == Handler::kHold) continue;
    command.settlements.push_back(
        {.token = delivery.token,
         .action = handler == Handler::kAck ? SettleAction::kAck : SettleAction::kNack});
  }
  return command;
}

Command Attach(const std::shared_ptr<protocol::StreamCredit>& credit) {
  return protocol::AttachCommand{.stream = kStream,
                                 .topic = kTopic,
                                 .subscription = storage::FirstSubscription(kTopic),
                                 .lease_ms = 30'000,
                                 .credit = credit};
}

uint32_t SlotOf(uint16_t shard) {
  uint32_t slot = 0;
  while (storage::ShardOfSlot(slot, kShards) != shard) ++slot;
  return slot;
}

Command Schedule(uint16_t shard, uint64_t now_ms, uint64_t deliver_ms, uint32_t ttl_ms = 0,
                 const std::string& key = "") {
  storage::MessageRecord record;
  record.header = {.topic = kTopic, .deliver_ms = deliver_ms, .accept_ms = now_ms};
  record.payload = "payload";
  record.key = key;
  record.ttl_ms = ttl_ms;
  protocol::ScheduleCommand command;
  command.messages.push_back(protocol::MakeNewMessage(record, SlotOf(shard)));
  if (!key.empty()) {
    auto options = std::make_unique<protocol::ScheduleOptions>();
    options->key = key;
    options->on_conflict = protocol::OnConflict::kReplace;
    command.messages.back().options = std::move(options);
  }
  return command;
}

Command CreateRecurrence(const std::string& name, const calendar::RecurrenceRule& rule) {
  protocol::RecurrenceCommand command;
  command.kind = protocol::RecurrenceCommand::Kind::kCreate;
  command.name = name;
  command.spec.topic = kTopic;
  command.spec.rule = rule;
  storage::MessageRecord message;
  message.payload = "content";
  command.spec.message = storage::EncodeMessageRecord(message);
  return command;
}

// Answers for subscribers on the threads of the engines.
class AnsweringSink final : public EffectSink {
 public:
  void Deliver(uint16_t shard, protocol::Effects effects) override {
    for (const protocol::DeliveryFrame& frame : effects.frames) {
      std::vector<Seen> seen;
      protocol::SettleCommand command = duetime::runtime::Answer(decide, frame.deliveries, &seen);
      {
        base::MutexLock lock(&mutex_);
        auto& all = seen_[shard];
        all.insert(all.end(), seen.begin(), seen.end());
        for (const Delivery& delivery : frame.deliveries) last_ = delivery.token;
      }
      if (!command.empty()) node->PostAlways(shard, std::move(command));
    }
  }
  void Answer(std::vector<catalog::Reply>, bool) override {}

  SeenByShard seen() {
    base::MutexLock lock(&mutex_);
    return seen_;
  }
  LeaseToken last() {
    base::MutexLock lock(&mutex_);
    return last_;
  }

  // Set before the node starts.
  Node* node = nullptr;
  Decide decide = Acks;

 private:
  base::Mutex mutex_;
  SeenByShard seen_ ABSL_GUARDED_BY(mutex_);
  LeaseToken last_ ABSL_GUARDED_BY(mutex_){};
};

class ClockDriverTest : public ::testing::Test {
 protected:
  ClockDriverTest() {
    // The packaged abseil makes a mutex when the first zone is loaded, which ThreadSanitizer does
    // not see.
    absl::TimeZone zone;
    EXPECT_TRUE(absl::LoadTimeZone("Europe/Berlin", &zone));
  }
  void Start(Decide decide = Acks, int64_t credit = 1'000) {
    NodeOptions options;
    FitTestClock(&options);
    options.failure_rate = 0;
    options.engine_priority = false;
    node_ = std::make_unique<Node>(options, &store_, &store_, &clock_, &sink_);
    sink_.node = node_.get();
    sink_.decide = std::move(decide);
    ASSERT_TRUE(node_->Start().ok());
    driver_ = std::make_unique<ClockDriver>(&clock_, node_.get());
    driver_->Start();
    const auto shared = std::make_shared<protocol::StreamCredit>(credit, int64_t{1} << 30);
    for (uint16_t shard = 0; shard < kShards; ++shard) Post(shard, Attach(shared));
  }
  void TearDown() override {
    if (driver_ != nullptr) driver_->Stop();
    if (node_ != nullptr) node_->Stop();
  }

  void Post(uint16_t shard, Command command) {
    ASSERT_TRUE(node_->Post(shard, std::move(command)).ok());
  }
  std::future<absl::StatusOr<AdvanceReport>> Begin(AdvanceOptions options) {
    if (options.timeout_ms == 0) options.timeout_ms = 60'000;
    const auto promise = std::make_shared<std::promise<absl::StatusOr<AdvanceReport>>>();
    const absl::Status begun = driver_->Advance(
        options, gone_, [promise](auto report) { promise->set_value(std::move(report)); });
    if (!begun.ok()) promise->set_value(begun);
    return promise->get_future();
  }
  AdvanceReport Advance(const AdvanceOptions& options) {
    absl::StatusOr<AdvanceReport> report = Begin(options).get();
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : AdvanceReport{};
  }
  uint64_t Now() { return clock_.Read().wall_ms; }

  test::TestDisk disk_{kShards};
  test::TestStore store_{&disk_};
  TestClock clock_{kStartMs, {.frozen = true}};
  AnsweringSink sink_;
  std::unique_ptr<Node> node_;
  std::unique_ptr<ClockDriver> driver_;
  std::shared_ptr<std::atomic<bool>> gone_ = std::make_shared<std::atomic<bool>>(false);
};

TEST_F(ClockDriverTest, EachMessageComesAtItsOwnTimeAlsoAcrossShards) {
  Start();
  // The nearer one last, so that the first to be found is not the first to be due.
  Post(0, Schedule(0, Now(), kStartMs + 3 * kHourMs));
  Post(1, Schedule(1, Now(), kStartMs + 2 * kHourMs));
  Post(0, Schedule(0, Now(), kStartMs + kHourMs));
  const AdvanceReport report = Advance({.to_ms = kStartMs + kDayMs, .listed_max = 2});
  EXPECT_EQ(report.stop, AdvanceStop::kReached);
  EXPECT_EQ(report.wall_ms, kStartMs + kDayMs);
  EXPECT_EQ(Now(), kStartMs + kDayMs);
  EXPECT_EQ(report.events, (ClockEvents{.fired = 3, .handed_out = 3, .acked = 3}));
  EXPECT_EQ(report.hand_outs.total, 3u);
  ASSERT_EQ(report.hand_outs.first.size(), 2u);
  EXPECT_EQ(report.hand_outs.first[0].time_ms, kStartMs + kHourMs);
  EXPECT_EQ(report.hand_outs.first[1].time_ms, kStartMs + 2 * kHourMs);
  EXPECT_EQ(std::get<0>(sink_.seen()[0].at(1)), kStartMs + 3 * kHourMs);
}

TEST_F(ClockDriverTest, ItStopsAtTheNextThingThatHappens) {
  Start([](const Delivery& delivery) { return delivery.attempt < 2 ? Handler::kNack : Acks({}); });
  EXPECT_EQ(Advance({.to_ms = kStartMs + kDayMs, .to_next = true}).stop, AdvanceStop::kNothing);
  EXPECT_LE(Now(), kStartMs + kDayMs);
  const uint64_t due_ms = kStartMs + 2 * kDayMs;
  Post(0, Schedule(0, Now(), due_ms));
  AdvanceReport next = Advance({.to_ms = due_ms + kDayMs, .to_next = true});
  EXPECT_EQ(next.stop, AdvanceStop::kReached);
  EXPECT_EQ(next.wall_ms, due_ms);
  EXPECT_EQ(next.events.handed_out, 1u);
  // The retry.
  next = Advance({.to_ms = due_ms + kDayMs, .to_next = true});
  EXPECT_EQ(next.events, (ClockEvents{.handed_out = 1, .acked = 1}));
  EXPECT_GE(next.wall_ms, due_ms + 1'000);
  EXPECT_LE(next.wall_ms, due_ms + 1'200);
}

TEST_F(ClockDriverTest, AHandlerThatRunsHoldsTheClockAtTheEndOfItsLease) {
  Start([](const Delivery&) { return Handler::kHold; });
  const uint64_t due_ms = kStartMs + kHourMs;
  Post(0, Schedule(0, Now(), due_ms));
  const AdvanceOptions day{.to_ms = kStartMs + kDayMs, .timeout_ms = 500};
  AdvanceReport held = Advance(day);
  EXPECT_EQ(held.stop, AdvanceStop::kSubscribers);
  EXPECT_LT(held.wall_ms, due_ms + 30'000);
  EXPECT_EQ(held.events.leases_lost, 0u);
  held = Advance({.to_ms = Now() + 1, .until_idle = true, .timeout_ms = 500});
  EXPECT_EQ(held.stop, AdvanceStop::kSubscribers);

  // It goes on as soon as the handler settles.
  auto advance = Begin({.to_ms = kStartMs + kDayMs});
  EXPECT_FALSE(driver_->SetPace({}).ok());
  const auto second = Begin({.to_ms = kStartMs + kDayMs}).get();
  EXPECT_EQ(base::GetErrorDetail(second.status())->reason, "ADVANCE_RUNNING");
  protocol::SettleCommand ack{.stream = kStream};
  ack.settlements.push_back({.token = sink_.last()});
  Post(0, std::move(ack));
  const auto report = advance.get();
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->stop, AdvanceStop::kReached);
  // The ack may have come before the report began to count.
  uint64_t acked = 0;
  for (const protocol::ShardStats& stats : node_->shard_stats()) acked += stats.acked;
  EXPECT_EQ(acked, 1u);

  Post(0, Schedule(0, Now(), Now() + kHourMs));
  const AdvanceReport ended =
      Advance({.to_ms = Now() + kHourMs + 30'000, .end_leases = true, .listed_max = 0});
  EXPECT_EQ(ended.stop, AdvanceStop::kReached);
  EXPECT_EQ(ended.events.leases_lost, 1u);
  EXPECT_EQ(ended.hand_outs.first.size(), 0u);
}

TEST_F(ClockDriverTest, AClientThatGoesAndAStopEndAnAdvance) {
  Start([](const Delivery&) { return Handler::kHold; });
  Post(0, Schedule(0, Now(), kStartMs + kHourMs));
  auto advance = Begin({.to_ms = kStartMs + kDayMs});
  gone_->store(true);
  EXPECT_TRUE(absl::IsCancelled(advance.get().status()));
  gone_->store(false);
  advance = Begin({.to_ms = kStartMs + kDayMs});
  driver_->Stop();
  EXPECT_TRUE(absl::IsUnavailable(advance.get().status()));
}

TEST_F(ClockDriverTest, TheClockRunsAtItsPaceAndIsHeldDuringAnAdvance) {
  Start();
  ASSERT_TRUE(driver_->SetPace({.frozen = false, .speed = TestClock::kSpeedMax}).ok());
  // Some days pass in the time that this takes.
  Post(0, Schedule(0, Now(), Now() + kHourMs));
  while (sink_.seen()[0].empty()) std::this_thread::yield();
  const uint64_t later_ms = Now() + kDayMs * 1'000;
  const AdvanceReport report = Advance({.to_ms = later_ms});
  EXPECT_EQ(report.wall_ms, later_ms);
  EXPECT_GE(Now(), later_ms);
  ASSERT_TRUE(driver_->SetPace({.frozen = true}).ok());
  const uint64_t frozen_ms = Now();
  EXPECT_EQ(Now(), frozen_ms);
}

// tests/bench/RESULTS.md has how long it takes.
TEST_F(ClockDriverTest, AYearOfMessagesAndRecurrences) {
  constexpr int kMessages = 10'000;
  constexpr int kRecurrences = 50;
  const char* const zones[] = {
      "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo",
      "Asia/Kolkata",  "Africa/Cairo",     "Pacific/Auckland",    "UTC"};
  // One message in a hundred fails once, one in five hundred keeps its first lease until its end.
  Start([](const Delivery& delivery) {
    const uint64_t draw = base::Mix(delivery.id.low) % 500;
    if (delivery.attempt > 1 || draw > 5) return Handler::kAck;
    return draw > 0 ? Handler::kNack : Handler::kHold;
  });
  std::mt19937_64 random(test::TestSeed(1));
  for (int i = 0; i < kMessages; ++i) {
    const auto shard = static_cast<uint16_t>(i % kShards);
    Post(shard, Schedule(shard, Now(), kStartMs + 1 + random() % (364 * kDayMs)));
  }
  for (int i = 0; i < kRecurrences; ++i) {
    const std::string name = absl::StrCat("recurrence", i);
    calendar::RecurrenceRule rule;
    rule.cron = absl::StrCat(i, " 9 * * MON");
    rule.time_zone = zones[static_cast<size_t>(i) % std::size(zones)];
    rule.start_ms = static_cast<int64_t>(kStartMs);
    rule.max_count = 52;
    Post(storage::ShardOfSlot(storage::SlotOfName("", name), kShards),
         CreateRecurrence(name, rule));
  }
  const AdvanceReport report = Advance({.to_ms = kStartMs + 365 * kDayMs, .end_leases = true});
  EXPECT_EQ(report.stop, AdvanceStop::kReached);
  EXPECT_EQ(report.events.fired, uint64_t{kMessages + 52 * kRecurrences});
  EXPECT_EQ(report.events.acked, report.events.fired);
  EXPECT_GT(report.events.nacked, 0u);
  EXPECT_GT(report.events.leases_lost, 0u);
}

// ---- The same order as in real time

// Commands at their times. The same seed gives the same commands.
struct Planned {
  uint64_t at_ms = 0;
  uint16_t shard = 0;
  std::function<Command()> make;
};

std::vector<Planned> MakeProgram(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&random](uint64_t below) { return random() % below; };
  const char* const zones[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"};
  const char* const crons[] = {"*/20 0-4 * * *", "30 2 * * *", "15 1,2,3 * * *", "0 */5 * * *"};
  std::vector<Planned> program;
  uint64_t at_ms = kStartMs;
  for (int i = 0; i < 60; ++i) {
    at_ms += pick(2) == 0 ? pick(5'000) : pick(kHourMs);
    const auto shard = static_cast<uint16_t>(pick(kShards));
    const uint64_t due_ms = at_ms + (pick(3) == 0 ? pick(3'000) : pick(kDayMs));
    const std::string key = absl::StrCat("key", pick(5), "-", shard);
    const uint64_t kind = pick(10);
    if (kind < 5) {
      const auto ttl_ms = static_cast<uint32_t>(pick(4) == 0 ? 1 + pick(60'000) : 0);
      program.push_back({at_ms, shard, [=] { return Schedule(shard, at_ms, due_ms, ttl_ms); }});
    } else if (kind < 7) {
      program.push_back({at_ms, shard, [=] { return Schedule(shard, at_ms, due_ms, 0, key); }});
    } else if (kind == 7) {
      program.push_back({at_ms, shard, [=] {
                           protocol::CancelCommand command;
                           command.target.topic = kTopic;
                           command.target.key = key;
                           return Command(std::move(command));
                         }});
    } else if (kind == 8) {
      program.push_back({at_ms, shard, [=] {
                           protocol::RescheduleCommand command;
                           command.target.topic = kTopic;
                           command.target.key = key;
                           command.deliver_ms = due_ms;
                           return Command(std::move(command));
                         }});
    } else {
      calendar::RecurrenceRule rule;
      rule.cron = crons[pick(4)];
      rule.time_zone = zones[pick(4)];
      rule.start_ms = static_cast<int64_t>(at_ms);
      rule.max_count = 40;
      const std::string name = absl::StrCat("recurrence", i);
      const uint16_t its_shard = storage::ShardOfSlot(storage::SlotOfName("", name), kShards);
      program.push_back({at_ms, its_shard, [=] { return CreateRecurrence(name, rule); }});
    }
  }
  return program;
}

// A handler whose outcome follows from the delivery alone.
Decide HandlerOf(uint64_t seed) {
  return [seed](const Delivery& delivery) {
    if (delivery.attempt >= 4) return Handler::kAck;
    const uint64_t draw = base::Mix(seed ^ delivery.id.high ^ delivery.id.low ^ delivery.attempt);
    return draw % 10 < 6 ? Handler::kAck : draw % 10 < 8 ? Handler::kNack : Handler::kHold;
  };
}

// The shards alone, on one thread, as the simulation runs them. They also look at the clock between
// their times.
class PlainShards {
 public:
  PlainShards(uint64_t seed, Decide decide) : random_(seed), decide_(std::move(decide)) {
    const auto credit = std::make_shared<protocol::StreamCredit>(1'000, int64_t{1} << 30);
    for (uint16_t shard = 0; shard < kShards; ++shard) {
      shards_.push_back(std::make_unique<shard::Shard>(shard, delivery::ShardLimits{}, &store_));
      EXPECT_TRUE(shards_.back()->Recover(Now()).ok());
      Handle(shard, Attach(credit));
    }
  }

  void Handle(uint16_t shard, Command command) {
    shards_[shard]->Handle(Now(), std::move(command));
    Run(shard);
  }
  void AdvanceTo(uint64_t to_ms) {
    while (now_ms_ < to_ms) {
      uint64_t next_ms = std::min(to_ms, now_ms_ + 1 + random_() % kHourMs);
      for (uint16_t shard = 0; shard < kShards; ++shard) {
        const shard::StepResult result = Run(shard);
        next_ms = std::min({next_ms, result.wake_wall_ms, result.wake_mono_ms});
      }
      now_ms_ = std::max(now_ms_ + 1, next_ms);
    }
    for (uint16_t shard = 0; shard < kShards; ++shard) Run(shard);
  }
  const SeenByShard& seen() const { return seen_; }

 private:
  base::Now Now() const { return {.wall_ms = now_ms_, .mono_ms = now_ms_}; }

  // Steps until there is nothing to do at this time.
  shard::StepResult Run(uint16_t index) {
    shard::Shard& shard = *shards_[index];
    for (;;) {
      const shard::StepResult result = shard.Step(Now());
      bool more = result.more;
      if (auto batch = shard.TakeBatch(); batch.has_value()) {
        more = true;
        shard.OnCommitted(Now(), batch->sequence,
                          store_.Append(std::span(&batch->records, 1), batch->durability));
      }
      for (const protocol::DeliveryFrame& frame : shard.TakeEffects().frames) {
        protocol::SettleCommand command = Answer(decide_, frame.deliveries, &seen_[index]);
        more = true;
        if (!command.empty()) shard.Handle(Now(), std::move(command));
      }
      if (!more) return result;
    }
  }

  std::mt19937_64 random_;
  const Decide decide_;
  uint64_t now_ms_ = kStartMs;
  test::TestDisk disk_{kShards};
  test::TestStore store_{&disk_};
  std::vector<std::unique_ptr<shard::Shard>> shards_;
  SeenByShard seen_;
};

class SameOrderTest : public ClockDriverTest, public ::testing::WithParamInterface<int> {};

TEST_P(SameOrderTest, AdvancesHandOutAsThePlainShardsDo) {
  const uint64_t seed = test::TestSeed(static_cast<uint64_t>(GetParam()));
  const std::vector<Planned> program = MakeProgram(seed);
  const uint64_t end_ms = program.back().at_ms + 3 * kDayMs;
  PlainShards plain(seed, HandlerOf(seed));
  for (const Planned& planned : program) {
    plain.AdvanceTo(planned.at_ms);
    plain.Handle(planned.shard, planned.make());
  }
  plain.AdvanceTo(end_ms);

  Start(HandlerOf(seed));
  for (const Planned& planned : program) {
    if (planned.at_ms > Now()) Advance({.to_ms = planned.at_ms, .end_leases = true});
    Post(planned.shard, planned.make());
  }
  Advance({.to_ms = end_ms, .end_leases = true});

  SeenByShard seen = sink_.seen();
  for (const auto& [shard, expected] : plain.seen()) {
    EXPECT_GT(expected.size(), 10u) << "the program delivers too little to show anything";
    EXPECT_EQ(seen[shard], expected) << "shard " << shard;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SameOrderTest,
                         ::testing::Range(1, 1 + static_cast<int>(test::Scaled(40))));

}  // namespace
}  // namespace duetime::runtime
