// SPDX-License-Identifier: Apache-2.0
//
// Who leads a cell, and when a leader may deliver.
#include "server/cell/member.h"

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/fake_log.h"
#include "tests/support/logged_store.h"
#include "tests/support/test_seed.h"

namespace duetime::cell {
namespace {

using storage::AppendOutcome;
using test::Dice;
using test::FakeLog;

constexpr uint64_t kSuspectMs = 1'500;
constexpr uint64_t kServeForMs = 1'000;
// The longest that a member waits before it suspects.
constexpr uint64_t kSuspectMostMs = kSuspectMs + kSuspectMs / 5;
constexpr uint64_t kYieldMs = MemberOptions::kYieldSuspects * kSuspectMs;
constexpr uint64_t kDifferenceMaxMs = 250;
// In this time the clocks of members become known: by two reports, and some steps.
constexpr uint64_t kKnownMs = 12'000;

class FakeClock final : public base::Clock {
 public:
  base::Now Read() override { return {.wall_ms = now_ms, .mono_ms = now_ms}; }
  base::ClockState state() override { return base::ClockState::kNormal; }
  uint64_t now_ms = 1'000'000;
};

// A machine's clocks: the wall clock is ahead of the others' by so much.
class MachineClock final : public base::Clock {
 public:
  explicit MachineClock(const FakeClock* time) : time_(time) {}
  base::Now Read() override {
    return {.wall_ms = time_->now_ms + static_cast<uint64_t>(ahead_ms), .mono_ms = time_->now_ms};
  }
  base::ClockState state() override { return base::ClockState::kNormal; }
  int64_t ahead_ms = 0;

 private:
  const FakeClock* const time_;
};

// A machine with the state of its member.
class Machine {
 public:
  Machine(const std::string& name, FakeLog* log, FakeClock* clock, Dice* dice, uint32_t shards = 1)
      : options_{.self = {.name = name, .address = name + ":7400", .shards = shards}},
        log_(log),
        time_(clock),
        clock_(clock),
        dice_(dice) {
    Restart();
  }

  void Restart() {
    leads = false;
    member_.reset();
    roster_ = std::make_unique<Roster>(kDifferenceMaxMs);
    member_ = std::make_unique<Member>(
        options_, log_, &state_, state_.store(), &clock_,
        [this] { return dice_->Below(1'000'000'000); }, roster_.get());
  }
  // Does what is to be done now: the work of the daemon's thread.
  void Act() {
    if (time_->now_ms >= report_ms_) {
      report_ms_ = time_->now_ms + 5'000;
      member_->journal()->Report({.name = options_.self.name,
                                  .address = options_.self.address,
                                  .ahead_most_ms = roster_->TakeAheadMost()});
    }
    if (leads) {
      if (time_->now_ms < beat_ms_) return;
      beat_ms_ = time_->now_ms + options_.heartbeat_ms;
      // A journal leads once.
      if (Beat() != AppendOutcome::kAccepted) Restart();
      return;
    }
    const auto stepped = member_->Step();
    ASSERT_TRUE(stepped.ok()) << stepped.status();
    if (!*stepped) return;
    leads = member_->Announce() == AppendOutcome::kAccepted;
    if (!leads) Restart();
  }
  Member& member() { return *member_; }
  bool MayServe() { return member_->journal()->MayServe(time_->now_ms); }
  MachineClock& clock() { return clock_; }
  const std::string& name() const { return options_.self.name; }
  LeadVerdict verdict() const { return roster_->JudgeLead(name()); }
  AppendOutcome Beat() { return member_->journal()->Append({}, storage::Durability::kBuffered); }

  bool leads = false;
  // A call of this machine waits for the log.
  bool busy = false;

 private:
  const MemberOptions options_;
  FakeLog* const log_;
  const FakeClock* const time_;
  MachineClock clock_;
  Dice* const dice_;
  test::LoggedStore state_;
  std::unique_ptr<Roster> roster_;
  uint64_t report_ms_ = 0;
  uint64_t beat_ms_ = 0;
  std::unique_ptr<Member> member_;
};

class MemberTest : public ::testing::Test {
 protected:
  MemberTest() { log_.Heal(); }

  // Steps until the member leads, at most for `ms`. Returns whether it does.
  bool LeadsWithin(Machine* machine, uint64_t ms) {
    for (const uint64_t until = clock_.now_ms + ms; clock_.now_ms <= until; clock_.now_ms += 10) {
      const auto leads = machine->member().Step();
      EXPECT_TRUE(leads.ok()) << leads.status();
      if (leads.ok() && *leads) return true;
    }
    return false;
  }
  // Both follow to the end of the log, and `first` leads.
  void LetLead(Machine* first, Machine* second) {
    ASSERT_TRUE(LeadsWithin(first, 0));
    ASSERT_EQ(first->member().Announce(), AppendOutcome::kAccepted);
    ASSERT_FALSE(LeadsWithin(second, 100));
  }

  Dice dice_{7};
  FakeLog log_{&dice_};
  FakeClock clock_;
};

TEST_F(MemberTest, TheFirstMemberLeadsAtOnceAndTheOthersKnowIt) {
  Machine a("a", &log_, &clock_, &dice_);
  Machine b("b", &log_, &clock_, &dice_);
  LetLead(&a, &b);
  EXPECT_EQ(b.member().leader().address, "a:7400");
  EXPECT_TRUE(a.MayServe());
  EXPECT_FALSE(b.MayServe());
}

TEST_F(MemberTest, ASilentLeaderIsReplacedAfterItsDeliveriesHaveStopped) {
  Machine a("a", &log_, &clock_, &dice_);
  Machine b("b", &log_, &clock_, &dice_);
  LetLead(&a, &b);
  ASSERT_EQ(a.Beat(), AppendOutcome::kAccepted);
  EXPECT_TRUE(a.member().journal()->MayServe(clock_.now_ms + kServeForMs - 1));
  EXPECT_FALSE(a.member().journal()->MayServe(clock_.now_ms + kServeForMs));
  EXPECT_FALSE(LeadsWithin(&b, kSuspectMs - 10));
  EXPECT_TRUE(LeadsWithin(&b, kSuspectMostMs));
  EXPECT_TRUE(b.MayServe());
  EXPECT_EQ(a.Beat(), AppendOutcome::kFenced);
  EXPECT_FALSE(a.MayServe());
}

TEST_F(MemberTest, ALeaderThatAppendsStaysLeader) {
  Machine a("a", &log_, &clock_, &dice_);
  Machine b("b", &log_, &clock_, &dice_);
  LetLead(&a, &b);
  for (int beat = 0; beat < 20; ++beat) {
    ASSERT_EQ(a.Beat(), AppendOutcome::kAccepted);
    ASSERT_FALSE(LeadsWithin(&b, 300));
  }
}

TEST_F(MemberTest, AfterAResignationAnotherMemberLeadsAtOnce) {
  Machine a("a", &log_, &clock_, &dice_);
  Machine b("b", &log_, &clock_, &dice_);
  LetLead(&a, &b);
  ASSERT_EQ(a.member().Resign(), AppendOutcome::kAccepted);
  EXPECT_FALSE(a.MayServe());
  EXPECT_TRUE(LeadsWithin(&b, 20));
  EXPECT_TRUE(b.MayServe());
}

TEST_F(MemberTest, AnEpochWithoutAnnouncementIsNoResignation) {
  Machine a("a", &log_, &clock_, &dice_);
  Machine b("b", &log_, &clock_, &dice_);
  ASSERT_TRUE(LeadsWithin(&a, 0));
  EXPECT_FALSE(LeadsWithin(&b, kSuspectMs - 10));
  EXPECT_TRUE(LeadsWithin(&b, kSuspectMostMs));
}

TEST_F(MemberTest, AMemberThatCannotReadTheLogSuspectsNobody) {
  Machine a("a", &log_, &clock_, &dice_);
  Machine b("b", &log_, &clock_, &dice_);
  LetLead(&a, &b);
  log_.Fail(absl::UnavailableError("cut off"));
  EXPECT_FALSE(LeadsWithin(&b, 10 * kSuspectMs));
  log_.Fail(absl::OkStatus());
  EXPECT_FALSE(LeadsWithin(&b, kSuspectMs - 10));
  EXPECT_TRUE(LeadsWithin(&b, kSuspectMostMs));
}

// Two members wait for the log, and get it back at the same time. The whole attempt of one falls
// into any call of the other.
TEST_F(MemberTest, TwoMembersThatTryAtOnceBeginOneEpoch) {
  for (int call = 1; call <= 12; ++call) {
    SCOPED_TRACE(call);
    log_.meanwhile = [] {};
    Machine a("a", &log_, &clock_, &dice_);
    Machine b("b", &log_, &clock_, &dice_);
    Machine c("c", &log_, &clock_, &dice_);
    // Of the run before this one, nobody is left.
    ASSERT_TRUE(LeadsWithin(&a, 2 * kSuspectMostMs));
    ASSERT_EQ(a.member().Announce(), AppendOutcome::kAccepted);
    ASSERT_FALSE(LeadsWithin(&b, 1'000) || LeadsWithin(&c, 1'000));
    const uint64_t epoch = a.member().place().epoch;
    clock_.now_ms += kSuspectMostMs;
    int left = call;
    bool c_leads = false;
    log_.meanwhile = [&] {
      if (--left != 0) return;
      const auto stepped = c.member().Step();
      ASSERT_TRUE(stepped.ok()) << stepped.status();
      c_leads = *stepped;
    };
    const auto b_leads = b.member().Step();
    ASSERT_TRUE(b_leads.ok()) << b_leads.status();
    EXPECT_NE(*b_leads, c_leads);
    log_.meanwhile = [] {};
    EXPECT_EQ((c_leads ? c : b).member().place().epoch, epoch + 1);
  }
}

TEST_F(MemberTest, AMemberWithOtherShardsStops) {
  Machine a("a", &log_, &clock_, &dice_);
  Machine b("b", &log_, &clock_, &dice_, /*shards=*/2);
  ASSERT_TRUE(LeadsWithin(&a, 0));
  ASSERT_EQ(a.member().Announce(), AppendOutcome::kAccepted);
  absl::Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) status = b.member().Step().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

// Three members and a log with faults. Time passes in every call; a member may stop for long, also
// within a call. Two members never may deliver at the same moment.
class Alternation {
 public:
  explicit Alternation(uint64_t seed) : dice_(seed) {
    for (const char* const name : {"a", "b", "c"}) {
      machines_.push_back(std::make_unique<Machine>(name, &log_, &clock_, &dice_));
    }
    log_.meanwhile = [this] {
      Pass();
      if (depth_ < 3 && dice_.OneIn(4)) Step();
    };
  }

  void Step() {
    Machine* const machine = machines_[dice_.Below(machines_.size())].get();
    if (machine->busy) return;
    ++depth_;
    machine->busy = true;
    const bool led = machine->leads;
    Act(machine);
    if (machine->leads && !led) ++epochs_;
    // A journal leads once.
    if (led && !machine->leads) machine->Restart();
    machine->busy = false;
    --depth_;
    Pass();
  }
  int epochs() const { return epochs_; }

 private:
  void Pass() {
    clock_.now_ms += dice_.OneIn(50) ? dice_.Below(4'000) : dice_.Below(60);
    std::string who;
    for (const auto& machine : machines_) {
      if (machine->MayServe()) who += machine->member().self().name;
    }
    ASSERT_LE(who.size(), 1u) << who << " may deliver at the same time";
  }
  void Act(Machine* machine) {
    if (machine->leads) {
      machine->leads = machine->Beat() == AppendOutcome::kAccepted;
      if (!machine->leads || !dice_.OneIn(30)) return;
      static_cast<void>(machine->member().Resign());
      machine->leads = false;
      return;
    }
    const auto leads = machine->member().Step();
    ASSERT_TRUE(leads.ok()) << leads.status();
    if (!*leads) return;
    machine->leads = machine->member().Announce() == AppendOutcome::kAccepted;
    if (!machine->leads) machine->Restart();
  }

  Dice dice_;
  FakeLog log_{&dice_};
  FakeClock clock_;
  std::vector<std::unique_ptr<Machine>> machines_;
  int depth_ = 0;
  int epochs_ = 0;
};

TEST(MembersTest, TwoMembersNeverMayServeAtTheSameTime) {
  const uint64_t first = test::TestSeed();
  int epochs = 0;
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    SCOPED_TRACE(seed);
    Alternation alternation(seed);
    for (int step = 0; step < 2'000; ++step) alternation.Step();
    epochs += alternation.epochs();
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(epochs, 3'000);
}

// A member that took over from a live leader resigned within the second for which it had to wait.
TEST(MembersTest, AResignationDoesNotEndTheWaitForTheLeaderBefore) {
  Alternation alternation(1'078'119'261);
  for (int step = 0; step < 2'000; ++step) alternation.Step();
}

// Three members whose clocks differ, on a log whose clock is wrong, too. Time passes in every call.
class Clocks {
 public:
  explicit Clocks(uint64_t seed) : dice_(seed) {
    log_.Heal();
    for (const char* const name : {"a", "b", "c"}) {
      machines_.push_back(std::make_unique<Machine>(name, &log_, &time_, &dice_));
    }
    log_.meanwhile = [this] {
      time_.now_ms += dice_.Below(20);
      log_.time_ms = time_.now_ms + log_ahead_ms;
    };
  }

  // All but `stopped` run for so long. Ends early if `until` is set and returns true.
  void Run(uint64_t ms, const std::function<bool()>& until = nullptr) {
    const uint64_t end_ms = time_.now_ms + ms;
    while (time_.now_ms < end_ms && !(until && until()) && !testing::Test::HasFailure()) {
      time_.now_ms += dice_.Below(20);
      Machine* const machine = machines_[dice_.Below(machines_.size())].get();
      if (stopped.count(machine) == 0) machine->Act();
    }
  }
  // The name of the next leader after `last` has stopped, and how long that takes; "" if no machine
  // leads in time.
  std::pair<std::string, uint64_t> Next() {
    const uint64_t begin_ms = time_.now_ms;
    Run(4 * kYieldMs, [this] { return leader() != nullptr; });
    return {leader() == nullptr ? "" : leader()->name(), time_.now_ms - begin_ms};
  }

  // Of those that run.
  Machine* leader() {
    for (const auto& machine : machines_) {
      if (machine->leads && stopped.count(machine.get()) == 0) return machine.get();
    }
    return nullptr;
  }
  Machine* machine(size_t i) { return machines_[i].get(); }
  Dice& dice() { return dice_; }

  uint64_t log_ahead_ms = 0;
  std::set<const Machine*> stopped;

 private:
  Dice dice_;
  FakeLog log_{&dice_};
  FakeClock time_;
  std::vector<std::unique_ptr<Machine>> machines_;
};

class ClocksTest : public ::testing::Test {
 protected:
  // Machine 0 leads, and the clocks are ahead by so much.
  void Begin(int64_t a_ms, int64_t b_ms, int64_t c_ms) {
    clocks_.machine(0)->Act();
    ASSERT_EQ(clocks_.leader(), clocks_.machine(0));
    size_t i = 0;
    for (const int64_t ahead_ms : {a_ms, b_ms, c_ms}) {
      clocks_.machine(i++)->clock().ahead_ms = ahead_ms;
    }
    clocks_.Run(kKnownMs);
    ASSERT_EQ(clocks_.leader(), clocks_.machine(0));
  }
  void Stop(size_t i) { clocks_.stopped.insert(clocks_.machine(i)); }

  Clocks clocks_{test::TestSeed()};
};

TEST_F(ClocksTest, AMemberWhoseClockIsAloneLeadsOnlyIfNoOtherDoes) {
  Begin(0, 400, 0);
  EXPECT_TRUE(clocks_.machine(1)->verdict().yields);
  Stop(0);
  Stop(2);
  clocks_.Run(kSuspectMostMs + kYieldMs / 2);
  EXPECT_EQ(clocks_.leader(), nullptr) << "the other member may come back";
  EXPECT_EQ(clocks_.Next().first, "b") << "but that is not waited for for ever";
  EXPECT_FALSE(clocks_.machine(1)->verdict().hands_over) << "no other member follows it";
}

TEST_F(ClocksTest, ALeaderWhoseClockIsAloneHandsOver) {
  Begin(-400, 0, 20);
  EXPECT_TRUE(clocks_.machine(0)->verdict().hands_over);
}

TEST_F(ClocksTest, OfTwoClocksNoneIsTheWrongOne) {
  Stop(2);
  Begin(0, 400, 0);
  for (const size_t i : {0u, 1u}) {
    EXPECT_EQ(clocks_.machine(i)->verdict().apart, 1u);
    EXPECT_FALSE(clocks_.machine(i)->verdict().yields);
    EXPECT_FALSE(clocks_.machine(i)->verdict().hands_over);
  }
  Stop(0);
  const auto [name, after_ms] = clocks_.Next();
  EXPECT_EQ(name, "b");
  EXPECT_LT(after_ms, kSuspectMostMs + 500);
}

// In each round one clock may be wrong. The leader stops, or hands over because its own is wrong.
// The next one has a right clock if a member with one runs; and there is a next one.
TEST(MembersTest, AMemberWithAWrongClockDoesNotLeadWhileAnotherCan) {
  const uint64_t first = test::TestSeed();
  int yielded = 0;
  int handed_over = 0;
  for (uint64_t seed = first; seed < first + 100; ++seed) {
    SCOPED_TRACE(seed);
    Clocks clocks(seed);
    Dice& dice = clocks.dice();
    for (int round = 0; round < 6 && !testing::Test::HasFailure(); ++round) {
      clocks.stopped.clear();
      clocks.log_ahead_ms = dice.Below(2'000'000) - 500'000;
      const size_t wrong = dice.Below(4);
      for (size_t i = 0; i < 3; ++i) {
        const auto far_ms = static_cast<int64_t>(400 + dice.Below(3'000));
        clocks.machine(i)->clock().ahead_ms = i != wrong ? static_cast<int64_t>(dice.Below(100))
                                              : dice.OneIn(2) ? far_ms
                                                              : -far_ms;
      }
      clocks.Run(kKnownMs + dice.Below(3'000));
      Machine* const leader = clocks.leader();
      ASSERT_NE(leader, nullptr);
      Machine* const bad = wrong < 3 ? clocks.machine(wrong) : nullptr;
      EXPECT_EQ(leader->verdict().hands_over, leader == bad);
      if (leader == bad) ++handed_over;
      if (dice.OneIn(2)) {
        ASSERT_EQ(leader->member().Resign(), AppendOutcome::kAccepted);
        leader->Restart();
      }
      clocks.stopped.insert(leader);
      const auto [name, after_ms] = clocks.Next();
      EXPECT_NE(name, "");
      if (bad == nullptr) continue;
      EXPECT_NE(name, bad->name());
      EXPECT_LT(after_ms, kSuspectMostMs + 1'000);
      if (leader != bad) ++yielded;
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(yielded, 100);
  EXPECT_GT(handed_over, 30);
}

}  // namespace
}  // namespace duetime::cell
