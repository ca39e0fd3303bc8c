// SPDX-License-Identifier: Apache-2.0
//
// A server without a cell becomes the first member of one.
#include "server/cell/prepare_log.h"

#include <optional>
#include <utility>

#include "gtest/gtest.h"

#include "server/cell/replicated_journal.h"
#include "tests/support/fake_log.h"
#include "tests/support/logged_store.h"
#include "tests/support/test_seed.h"

namespace duetime::cell {
namespace {

using storage::AppendOutcome;
using test::Dice;
using test::FakeLog;

constexpr uint64_t kEpoch = 5;
constexpr uint64_t kRounds = 500;

// A member that begins at `place`.
struct OneMember {
  OneMember(FakeLog* log, Dice* dice, const LogPlace& place) {
    EXPECT_TRUE(state.Apply({}, place).ok());
    replica.emplace(log, &state);
    journal.emplace(log, &*replica, [dice] { return dice->Below(1'000'000); });
  }

  test::LoggedStore state;
  std::optional<Replica> replica;
  std::optional<ReplicatedJournal> journal;
};

// The server leads the log, a copy of it goes on, and an empty member needs a copy.
void CheckLog(FakeLog* log, Dice* dice, const LogPlace& place) {
  EXPECT_EQ(place.epoch, kEpoch);
  OneMember first(log, dice, place);
  ASSERT_TRUE(first.journal->Lead().ok());
  EXPECT_EQ(first.replica->place().epoch, kEpoch + 1);
  EXPECT_EQ(first.replica->place().log, place.log);
  ASSERT_EQ(first.journal->Append({}, storage::Durability::kSynced), AppendOutcome::kAccepted);
  OneMember empty(log, dice, {});
  absl::Status status;
  while (status.ok()) status = empty.replica->Step().status();
  EXPECT_TRUE(absl::IsOutOfRange(status)) << status;
  OneMember copied(log, dice, place);
  ASSERT_TRUE(copied.journal->Lead().ok());
  EXPECT_EQ(copied.replica->place().epoch, kEpoch + 2);
}

TEST(PrepareLogTest, TheServerLeadsAndOthersNeedACopy) {
  const uint64_t seed = test::TestSeed();
  uint64_t prepared = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    Dice dice(seed + round);
    FakeLog log(&dice);
    const auto place = PrepareLog(&log, kEpoch, 77);
    log.Heal();
    if (!place.ok()) continue;
    ++prepared;
    CheckLog(&log, &dice, *place);
  }
  // Else the log has failed, or damaged the entry.
  EXPECT_GT(prepared, kRounds / 2);
}

// Whatever an empty member does meanwhile, and whenever: one of them has the log.
TEST(PrepareLogTest, AnEmptyMemberThatLeadsMeanwhileIsNoticed) {
  const uint64_t seed = test::TestSeed();
  uint64_t prepared = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    Dice dice(seed + round);
    FakeLog log(&dice);
    log.Heal();
    OneMember empty(&log, &dice, {});
    std::optional<absl::Status> led;
    log.meanwhile = [&] {
      if (led.has_value() || !dice.OneIn(5)) return;
      led.emplace();
      led = empty.journal->Lead();
    };
    const auto place = PrepareLog(&log, kEpoch, 77);
    log.meanwhile = [] {};
    if (!led.has_value()) led = empty.journal->Lead();
    ASSERT_NE(place.ok(), led->ok()) << place.status() << ", " << *led;
    if (!place.ok()) {
      EXPECT_TRUE(absl::IsFailedPrecondition(place.status()));
      continue;
    }
    ++prepared;
    EXPECT_TRUE(absl::IsOutOfRange(*led)) << *led;
    CheckLog(&log, &dice, *place);
  }
  EXPECT_GT(prepared, kRounds / 10);
  EXPECT_LT(prepared, kRounds - kRounds / 10);
}

TEST(PrepareLogTest, OfTwoServersOneHasTheLog) {
  const uint64_t seed = test::TestSeed();
  for (uint64_t round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << " round " << round);
    Dice dice(seed + round);
    FakeLog log(&dice);
    log.Heal();
    std::optional<absl::StatusOr<LogPlace>> second;
    log.meanwhile = [&] {
      if (!dice.OneIn(3)) return;
      const auto none = std::exchange(log.meanwhile, [] {});
      second = PrepareLog(&log, kEpoch, 78);
    };
    const auto first = PrepareLog(&log, kEpoch, 77);
    log.meanwhile = [] {};
    if (!second.has_value()) second = PrepareLog(&log, kEpoch, 78);
    ASSERT_NE(first.ok(), second->ok());
    CheckLog(&log, &dice, first.ok() ? *first : **second);
    EXPECT_TRUE(absl::IsFailedPrecondition((first.ok() ? *second : first).status()));
  }
}

TEST(PrepareLogTest, ALogInUseIsLeftAlone) {
  Dice dice(1);
  FakeLog log(&dice);
  log.Heal();
  OneMember member(&log, &dice, {});
  ASSERT_TRUE(member.journal->Lead().ok());
  const uint64_t end = log.end();
  EXPECT_TRUE(absl::IsFailedPrecondition(PrepareLog(&log, kEpoch, 77).status()));
  EXPECT_EQ(log.end(), end);
}

}  // namespace
}  // namespace duetime::cell
