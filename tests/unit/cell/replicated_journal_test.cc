// SPDX-License-Identifier: Apache-2.0
//
// The journal of a cell, with several members on one log with faults.
#include "server/cell/replicated_journal.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>
#include <xxhash.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/cell/leader_search.h"
#include "server/cell/roster.h"
#include "storage/byte_order.h"
#include "tests/support/fake_log.h"
#include "tests/support/number_state.h"

namespace duetime::cell {
namespace {

using storage::AppendOutcome;
using storage::Durability;
using storage::JournalRecordHead;
using Kind = storage::JournalRecordHead::Kind;
using test::Dice;
using test::FakeLog;
using test::GroupOf;
using test::NumberState;
using ::testing::ElementsAre;

// A member of a cell; Restart is a crash and a start.
class Member {
 public:
  Member(FakeLog* log, Dice* dice) : log_(log), dice_(dice) { Restart(0); }

  void Restart(size_t lost) {
    state.LoseLast(lost);
    journal.reset();
    replica_ = std::make_unique<Replica>(log_, &state);
    journal = std::make_unique<ReplicatedJournal>(log_, replica_.get(),
                                                  [this] { return dice_->Below(1'000'000'000); });
  }

  NumberState state;
  std::unique_ptr<ReplicatedJournal> journal;
  // A call of this member runs.
  bool busy = false;

 private:
  FakeLog* const log_;
  Dice* const dice_;
  std::unique_ptr<Replica> replica_;
};

// Members that lead, append, follow and crash, also within a call. While one waits for the log, the
// others act: any whole call of one can fall between any two steps of another.
class Cell {
 public:
  explicit Cell(uint64_t seed) : dice_(seed) {
    for (int i = 0; i < 3; ++i) members_.push_back(std::make_unique<Member>(&log_, &dice_));
    log_.meanwhile = [this] {
      if (depth_ < 3 && dice_.OneIn(5)) Step();
    };
  }

  void Step() {
    Member* const member = members_[dice_.Below(members_.size())].get();
    if (member->busy) {
      if (dice_.OneIn(4)) member->journal->Stop();
      return;
    }
    ++depth_;
    member->busy = true;
    switch (dice_.Below(8)) {
      case 0:
        Crash(member);
        break;
      case 1:
        Lead(member);
        break;
      case 2:
        if (absl::IsCancelled(member->journal->Follow())) Crash(member);
        break;
      default:
        Append(member);
    }
    member->busy = false;
    --depth_;
  }

  // Checks what must be true of every history.
  void Check() {
    log_.Heal();
    log_.meanwhile = [] {};
    for (const auto& member : members_) {
      Crash(member.get());
      ASSERT_TRUE(member->journal->Follow().ok());
    }
    const std::vector<uint32_t>& all = members_[0]->state.numbers();
    for (const auto& member : members_) EXPECT_EQ(member->state.numbers(), all);
    const std::set<uint32_t> once(all.begin(), all.end());
    EXPECT_EQ(once.size(), all.size()) << "a group was applied twice";
    for (const auto& [number, epoch] : accepted) EXPECT_EQ(once.count(number), 1u) << "lost";
    for (const uint32_t number : fenced) EXPECT_EQ(once.count(number), 0u) << "fenced and applied";
    // A leader has applied every group that an earlier leader accepted. Otherwise it could
    // contradict an answer that a client has.
    for (const auto& [epoch, known] : led) {
      for (const auto& [number, of_epoch] : accepted) {
        EXPECT_TRUE(of_epoch >= epoch || known.count(number) == 1) << "led without it";
      }
    }
  }

  // The accepted groups, each with the epoch.
  std::vector<std::pair<uint32_t, uint64_t>> accepted;
  std::vector<uint32_t> fenced;
  // Groups whose author has crashed: there or not.
  size_t unknown = 0;
  // The epochs, each with the groups that its leader knew.
  std::vector<std::pair<uint64_t, std::set<uint32_t>>> led;
  uint64_t failed_appends() const { return log_.unknown(); }

 private:
  void Crash(Member* member) { member->Restart(dice_.Below(4)); }
  void Lead(Member* member) {
    const absl::Status status = member->journal->Lead();
    if (absl::IsCancelled(status) || absl::IsFailedPrecondition(status)) return Crash(member);
    EXPECT_TRUE(status.ok() || absl::IsAborted(status)) << status;
    EXPECT_EQ(status.ok(), member->journal->leads().has_value());
    if (!status.ok()) return;
    const auto& known = member->state.numbers();
    led.emplace_back(*member->journal->leads(), std::set<uint32_t>(known.begin(), known.end()));
  }
  void Append(Member* member) {
    const std::optional<uint64_t> epoch = member->journal->leads();
    if (!epoch.has_value()) return;
    const uint32_t number = ++groups_;
    switch (member->journal->Append(GroupOf(number), Durability::kSynced)) {
      case AppendOutcome::kAccepted:
        accepted.emplace_back(number, *epoch);
        break;
      case AppendOutcome::kFenced:
        EXPECT_FALSE(member->journal->leads().has_value());
        fenced.push_back(number);
        break;
      case AppendOutcome::kUnknown:
        ++unknown;
        Crash(member);
    }
  }

  Dice dice_;
  FakeLog log_{&dice_};
  std::vector<std::unique_ptr<Member>> members_;
  uint32_t groups_ = 0;
  int depth_ = 0;
};

TEST(ReplicatedJournalTest, NoHistoryLosesOrRepeatsAGroup) {
  size_t accepted = 0;
  size_t fenced = 0;
  size_t led = 0;
  size_t unknown = 0;
  uint64_t failed_appends = 0;
  for (uint64_t seed = 1; seed <= 20'000 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Cell cell(seed);
    for (int i = 0; i < 60; ++i) cell.Step();
    cell.Check();
    accepted += cell.accepted.size();
    fenced += cell.fenced.size();
    led += cell.led.size();
    unknown += cell.unknown;
    failed_appends += cell.failed_appends();
  }
  // Enough has happened.
  EXPECT_GT(accepted, 100'000u);
  EXPECT_GT(fenced, 5'000u);
  EXPECT_GT(led, 50'000u);
  EXPECT_GT(unknown, 5'000u);
  EXPECT_GT(failed_appends, 50'000u);
}

class OneMemberTest : public ::testing::Test {
 protected:
  OneMemberTest() { log_.Heal(); }
  static AppendOutcome Append(Member* member, uint32_t number) {
    return member->journal->Append(GroupOf(number), Durability::kSynced);
  }

  Dice dice_{1};
  FakeLog log_{&dice_};
  Member a_{&log_, &dice_};
  Member b_{&log_, &dice_};
};

TEST_F(OneMemberTest, LeadsOnceAndOnlyAfterItHasAsked) {
  EXPECT_EQ(a_.journal->leads(), std::nullopt);
  EXPECT_EQ(Append(&a_, 1), AppendOutcome::kFenced);
  ASSERT_TRUE(a_.journal->Lead().ok());
  EXPECT_EQ(a_.journal->leads(), 1u);
  EXPECT_EQ(Append(&a_, 2), AppendOutcome::kAccepted);
  EXPECT_THAT(a_.state.numbers(), ElementsAre(2));
  EXPECT_EQ(a_.state.place().epoch, 1u);
  EXPECT_EQ(a_.state.place().groups, 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(a_.journal->Lead()));
}

TEST_F(OneMemberTest, TheNextLeaderHasAllAndFencesTheLast) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  ASSERT_EQ(Append(&a_, 1), AppendOutcome::kAccepted);
  ASSERT_TRUE(b_.journal->Lead().ok());
  EXPECT_THAT(b_.state.numbers(), ElementsAre(1));
  EXPECT_EQ(Append(&a_, 2), AppendOutcome::kFenced);
  EXPECT_EQ(a_.journal->leads(), std::nullopt);
  EXPECT_EQ(Append(&a_, 3), AppendOutcome::kFenced);
  EXPECT_EQ(Append(&b_, 4), AppendOutcome::kAccepted);
  ASSERT_TRUE(a_.journal->Follow().ok());
  EXPECT_THAT(a_.state.numbers(), ElementsAre(1, 4));
}

TEST_F(OneMemberTest, AnIdleLeaderNoticesItsSuccessor) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  ASSERT_TRUE(b_.journal->Lead().ok());
  EXPECT_EQ(a_.journal->leads(), 1u);
  ASSERT_TRUE(a_.journal->Follow().ok());
  EXPECT_EQ(a_.journal->leads(), std::nullopt);
}

// Changes the version, and the checksum with it.
std::string WithVersion(std::string bytes, char version) {
  bytes[0] = version;
  const size_t checked = bytes.size() - sizeof(uint64_t);
  storage::StoreLittleEndian<uint64_t>(XXH3_64bits(bytes.data(), checked), &bytes[checked]);
  return bytes;
}

TEST_F(OneMemberTest, OnlyAGroupThatCountsOfALaterVersionStopsAMember) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  const uint64_t log = a_.state.place().log;
  JournalRecordHead head = {.kind = Kind::kGroup, .epoch = 0, .number = 1, .log = log};
  ASSERT_TRUE(log_.Append(WithVersion(EncodeJournalRecord(head, GroupOf(1)), 9)).ok());
  EXPECT_EQ(Append(&a_, 2), AppendOutcome::kAccepted);
  head = {.kind = Kind::kEpoch, .epoch = 2, .number = 77, .log = log};
  ASSERT_TRUE(log_.Append(WithVersion(EncodeJournalRecord(head, {}), 9)).ok());
  EXPECT_TRUE(b_.journal->Follow().ok());
  head = {.kind = Kind::kGroup, .epoch = 2, .number = 2, .log = log};
  ASSERT_TRUE(log_.Append(WithVersion(EncodeJournalRecord(head, GroupOf(3)), 9)).ok());
  EXPECT_TRUE(absl::IsUnimplemented(b_.journal->Follow()));
  EXPECT_EQ(Append(&a_, 4), AppendOutcome::kFenced);
}

// Entries that no author can have written if it has read what this member has read.
TEST_F(OneMemberTest, StopsIfTheLogContradictsIt) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  ASSERT_EQ(Append(&a_, 1), AppendOutcome::kAccepted);
  ASSERT_TRUE(b_.journal->Lead().ok());
  ASSERT_EQ(Append(&b_, 2), AppendOutcome::kAccepted);
  const uint64_t end = *log_.End();
  const uint64_t log = a_.state.place().log;
  for (const JournalRecordHead& head :
       {JournalRecordHead{Kind::kEpoch, 4, 5, log}, JournalRecordHead{Kind::kGroup, 3, 3, log},
        JournalRecordHead{Kind::kGroup, 2, 4, log}, JournalRecordHead{Kind::kGroup, 2, 1, log}}) {
    Member reader(&log_, &dice_);
    ASSERT_TRUE(log_.Append(EncodeJournalRecord(head, {})).ok());
    EXPECT_TRUE(absl::IsDataLoss(reader.journal->Follow())) << head.epoch << "/" << head.number;
    EXPECT_TRUE(absl::IsDataLoss(reader.journal->Lead()));
    log_.Lose(end);
  }
}

TEST_F(OneMemberTest, StopsIfTheLogHasLostWhatItHasRead) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  ASSERT_EQ(Append(&a_, 1), AppendOutcome::kAccepted);
  log_.Lose(1);
  EXPECT_TRUE(absl::IsDataLoss(a_.journal->Follow()));
  EXPECT_EQ(Append(&a_, 2), AppendOutcome::kUnknown);
}

// Somebody gave the member another topic, or made the topic anew.
TEST_F(OneMemberTest, StopsBeforeItWritesIfItIsAnotherLog) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  ASSERT_EQ(Append(&a_, 1), AppendOutcome::kAccepted);
  FakeLog empty(&dice_);
  empty.Heal();
  FakeLog of_another_cell(&dice_);
  of_another_cell.Heal();
  Member stranger(&of_another_cell, &dice_);
  ASSERT_TRUE(stranger.journal->Lead().ok());
  for (uint32_t number = 1; number < 20; ++number) {
    ASSERT_EQ(Append(&stranger, number), AppendOutcome::kAccepted);
  }
  // It has the same history, but another number.
  FakeLog twin(&dice_);
  twin.Heal();
  const LogPlace place = a_.state.place();
  twin.Put(place.offset - 1, storage::EncodeJournalRecord({Kind::kGroup, 1, 1, place.log + 1}, {}));
  for (FakeLog* const log : {&empty, &of_another_cell, &twin}) {
    const uint64_t end = *log->End();
    Replica replica(log, &a_.state);
    ReplicatedJournal journal(log, &replica, [] { return 5; });
    EXPECT_TRUE(absl::IsDataLoss(journal.Lead())) << end;
    EXPECT_TRUE(absl::IsDataLoss(replica.Step().status()));
    EXPECT_EQ(*log->End(), end);
  }
  // The same log again.
  Replica replica(&log_, &a_.state);
  EXPECT_TRUE(replica.Step().ok());
}

TEST_F(OneMemberTest, StopsIfAnotherCellWritesIntoItsLog) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  const uint64_t log = a_.state.place().log;
  // Lost the race for the first epoch.
  ASSERT_TRUE(log_.Append(storage::EncodeJournalRecord({Kind::kEpoch, 1, 7, log + 1}, {})).ok());
  ASSERT_EQ(Append(&a_, 1), AppendOutcome::kAccepted);
  ASSERT_TRUE(log_.Append(storage::EncodeJournalRecord({Kind::kGroup, 1, 2, log + 1}, {})).ok());
  EXPECT_TRUE(absl::IsDataLoss(a_.journal->Follow()));
}

TEST_F(OneMemberTest, NeedsACheckpointIfItsPlaceWasRemoved) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  ASSERT_EQ(Append(&a_, 1), AppendOutcome::kAccepted);
  ASSERT_TRUE(b_.journal->Follow().ok());
  for (uint32_t number = 2; number < 5; ++number) {
    ASSERT_EQ(Append(&a_, number), AppendOutcome::kAccepted);
  }
  ASSERT_TRUE(log_.Trim(a_.state.place().offset - 1).ok());
  Member fresh(&log_, &dice_);
  for (Member* const member : {&b_, &fresh}) {
    EXPECT_TRUE(absl::IsOutOfRange(member->journal->Follow()));
    EXPECT_TRUE(absl::IsOutOfRange(member->journal->Lead()));
  }
  // The store of a.
  Replica copied(&log_, &a_.state);
  EXPECT_TRUE(copied.Step().ok());
}

TEST_F(OneMemberTest, ReportsGoToTheRosterAndDoNotCount) {
  a_.journal->Report({.name = "a", .address = "a:1", .durable_offset = 1});
  ASSERT_TRUE(a_.journal->Lead().ok());
  log_.time_ms = 5'000;
  ASSERT_EQ(Append(&a_, 1), AppendOutcome::kAccepted);
  ASSERT_TRUE(b_.journal->Follow().ok());
  b_.journal->Report({.name = "b", .address = "b:1", .durable_offset = 2});
  b_.journal->PostReport();
  b_.journal->PostReport();
  test::NumberState state;
  Roster roster;
  Replica reader(&log_, &state, &roster);
  while (true) {
    const auto entry = reader.Step();
    ASSERT_TRUE(entry.ok()) << entry.status();
    if (!entry->has_value()) break;
  }
  EXPECT_EQ(state.numbers(), a_.state.numbers());
  const std::vector<RosterEntry> members = roster.List();
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].report.address, "a:1");
  EXPECT_TRUE(members[0].report.leads);
  EXPECT_FALSE(members[1].report.leads);
  EXPECT_EQ(members[1].report.durable_offset, 2u);
  for (const RosterEntry& member : members) {
    EXPECT_EQ(member.epoch, 1u);
    EXPECT_EQ(member.groups, 1u);
    EXPECT_EQ(member.report_ms, 5'000u);
  }
}

TEST_F(OneMemberTest, TheNextReportTellsWhoLeads) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  int waits = 0;
  const auto find = [&](const LogPlace& place) {
    waits = 0;
    return FindLeader(&log_, place, [&] {
      a_.journal->Report({.name = "a", .address = "a:1", .durable_offset = 1});
      if (waits == 2) a_.journal->PostReport();
      return ++waits > 10;
    });
  };
  EXPECT_EQ(find(a_.state.place()).value_or("none"), "a:1");
  EXPECT_EQ(find({}).value_or("none"), "a:1");
  LogPlace other = a_.state.place();
  ++other.log;
  EXPECT_TRUE(absl::IsDataLoss(find(other).status()));
  // Not of one that follows.
  waits = 0;
  EXPECT_TRUE(absl::IsCancelled(FindLeader(&log_, {}, [&] {
                                  b_.journal->Follow().IgnoreError();
                                  b_.journal->Report(
                                      {.name = "b", .address = "b:1", .durable_offset = 1});
                                  b_.journal->PostReport();
                                  return ++waits > 10;
                                }).status()));
}

// What two members have on disk, and had an hour ago, may go.
TEST(RosterTest, TrimsWhatTwoMembersHaveHadForLongEnough) {
  constexpr uint64_t kMinute = 60'000;
  Roster roster;
  const auto report = [&](const char* name, uint64_t minute, uint64_t offset) {
    roster.NoteTime(minute * kMinute);
    roster.Note({.report = {.name = name, .address = "", .durable_offset = offset},
                 .report_ms = minute * kMinute});
  };
  report("a", 1, 100);
  EXPECT_EQ(roster.TrimTo(0), std::nullopt) << "a is alone";
  report("b", 1, 50);
  EXPECT_EQ(roster.TrimTo(0), 50u);
  report("c", 1, 70);
  EXPECT_EQ(roster.TrimTo(0), 70u) << "b may need it, but two have it";
  EXPECT_EQ(roster.TrimTo(5 * kMinute), std::nullopt) << "no call was so long ago";
  report("a", 4, 400);
  report("b", 4, 300);
  EXPECT_EQ(roster.TrimTo(2 * kMinute), 70u) << "so much had two members two minutes ago";
  report("b", 5, 40);
  EXPECT_EQ(roster.TrimTo(kMinute), 40u) << "b has lost its disk, and reads the log again";
  report("a", 5, 500);
  report("b", 5, 450);
  EXPECT_EQ(roster.TrimTo(kMinute), 40u) << "that was just now";
  roster.ForgetMarks();
  EXPECT_EQ(roster.TrimTo(kMinute), std::nullopt) << "a copy was made";
  report("a", 7, 600);
  EXPECT_EQ(roster.TrimTo(0), std::nullopt) << "the others are away";
  EXPECT_EQ(roster.List()[1].age_ms, 2 * kMinute);
  report("a", 4 + 8 * 24 * 60, 600);
  report("a", 4 + 8 * 24 * 60, 600);
  EXPECT_EQ(roster.List().size(), 1u) << "others are forgotten";
}

TEST(RosterTest, AgesBeginAnewIfTheClockOfTheLogGoesBack) {
  Roster roster;
  const auto report = [&](const char* name, uint64_t time_ms) {
    roster.NoteTime(time_ms);
    roster.Note(
        {.report = {.name = name, .address = "", .durable_offset = 7}, .report_ms = time_ms});
  };
  report("a", 1'000'000);
  report("b", 1'000'000);
  EXPECT_EQ(roster.TrimTo(0), 7u);
  roster.NoteTime(996'000);
  EXPECT_EQ(roster.TrimTo(10'000), std::nullopt);
  roster.NoteTime(100'000);
  report("a", 101'000);
  ASSERT_EQ(roster.List().size(), 2u);
  EXPECT_EQ(roster.List()[1].age_ms, 1'000u);
  EXPECT_EQ(roster.TrimTo(10'000), std::nullopt) << "no mark is so old";
}

TEST_F(OneMemberTest, StopsIfAnEntryCannotBeApplied) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  a_.state.error = absl::AbortedError("not a fence");
  EXPECT_EQ(Append(&a_, 1), AppendOutcome::kUnknown);
  a_.state.error = absl::OkStatus();
  EXPECT_TRUE(absl::IsInternal(a_.journal->Follow()));
  EXPECT_THAT(a_.state.numbers(), ElementsAre());
}

// An entry that the log will never take.
TEST_F(OneMemberTest, GivesUpWhatCannotSucceed) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  log_.Fail(absl::InvalidArgumentError("too large"));
  EXPECT_EQ(Append(&a_, 1), AppendOutcome::kUnknown);
  EXPECT_EQ(a_.journal->leads(), std::nullopt);
}

TEST_F(OneMemberTest, WaitsForTheLogUntilStop) {
  ASSERT_TRUE(a_.journal->Lead().ok());
  log_.Fail(absl::UnavailableError("no leader"));
  int calls = 0;
  log_.meanwhile = [&] {
    if (++calls == 100) a_.journal->Stop();
  };
  EXPECT_EQ(Append(&a_, 1), AppendOutcome::kUnknown);
  EXPECT_GE(calls, 100);
  EXPECT_EQ(a_.journal->leads(), std::nullopt);
  b_.journal->Stop();
  EXPECT_TRUE(absl::IsCancelled(b_.journal->Lead()));
}

}  // namespace
}  // namespace duetime::cell
