// SPDX-License-Identifier: Apache-2.0
//
// Who leads a cell, and when a leader may deliver.
#include "server/cell/member.h"

#include <memory>
#include <string>
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

class FakeClock final : public base::Clock {
 public:
  base::Now Read() override { return {.wall_ms = now_ms, .mono_ms = now_ms}; }
  base::ClockState state() override { return base::ClockState::kNormal; }
  uint64_t now_ms = 1'000'000;
};

// A machine with the state of its member.
class Machine {
 public:
  Machine(const std::string& name, FakeLog* log, FakeClock* clock, Dice* dice, uint32_t shards = 1)
      : options_{.self = {.name = name, .address = name + ":7400", .shards = shards}},
        log_(log),
        clock_(clock),
        dice_(dice) {
    Restart();
  }

  void Restart() {
    leads = false;
    member_ = std::make_unique<Member>(options_, log_, &state_, state_.store(), clock_,
                                       [this] { return dice_->Below(1'000'000'000); });
  }
  Member& member() { return *member_; }
  bool MayServe() { return member_->journal()->MayServe(clock_->now_ms); }
  AppendOutcome Beat() { return member_->journal()->Append({}, storage::Durability::kBuffered); }

  bool leads = false;
  // A call of this machine waits for the log.
  bool busy = false;

 private:
  const MemberOptions options_;
  FakeLog* const log_;
  FakeClock* const clock_;
  Dice* const dice_;
  test::LoggedStore state_;
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

}  // namespace
}  // namespace duetime::cell
