// SPDX-License-Identifier: Apache-2.0
//
// What could make a recurrence go silent: a zone that left the machine, a clock that was ahead, a
// damaged template. It is reported, and it ends by itself.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/protocol/commands.h"
#include "server/protocol/recurrence_state.h"
#include "server/shard/shard.h"
#include "storage/message_record.h"
#include "tests/support/temp_directory.h"
#include "tests/support/test_store.h"

namespace duetime::recurrences {
namespace {

using protocol::RecurrenceState;
using protocol::RecurrenceStatus;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kHourMs = 3'600'000;
// A full hour, UTC.
constexpr uint64_t kStartMs = 472'000 * kHourMs;

// One shard that is stepped by hand.
class SilentRecurrencesTest : public ::testing::Test {
 protected:
  SilentRecurrencesTest() { Open(); }

  // A shard with an empty disk.
  void Renew() {
    shard_.reset();
    store_.reset();
    disk_ = std::make_unique<test::TestDisk>(1);
    Open();
  }
  void Open() {
    shard_.reset();
    store_ = std::make_unique<test::TestStore>(disk_.get());
    shard_ = std::make_unique<shard::Shard>(0, delivery::ShardLimits{}, store_.get());
    ASSERT_TRUE(shard_->Recover(now_).ok());
    Run();
  }
  void Run() {
    bool more = true;
    for (int i = 0; more && i < 1'000; ++i) {
      more = shard_->Step(now_).more;
      if (auto batch = shard_->TakeBatch(); batch.has_value()) {
        more = true;
        shard_->OnCommitted(now_, batch->sequence,
                            store_->Append(std::span(&batch->records, 1), batch->durability));
      }
      for (std::string& notice : shard_->TakeEffects().notices) {
        notices_.push_back(std::move(notice));
      }
    }
    ASSERT_FALSE(more);
    shard_->CheckInvariants();
  }
  // Both clocks go on, second by second.
  void Advance(uint64_t seconds) {
    for (uint64_t i = 0; i < seconds; ++i) {
      now_.wall_ms += 1'000;
      now_.mono_ms += 1'000;
      Run();
    }
  }

  void Create(const std::string& name, const calendar::RecurrenceRule& rule) {
    protocol::RecurrenceCommand command;
    command.kind = protocol::RecurrenceCommand::Kind::kCreate;
    command.name = name;
    command.spec.topic = storage::TopicId{1};
    command.spec.rule = rule;
    storage::MessageRecord message;
    message.payload = "content";
    command.spec.message = storage::EncodeMessageRecord(message);
    shard_->Handle(now_, std::move(command));
    Run();
  }
  RecurrenceState Stored(const std::string& name) {
    const auto value = store_->GetObject(storage::ObjectKind::kRecurrence, 0, name);
    EXPECT_TRUE(value.ok() && value->has_value());
    auto state = protocol::DecodeRecurrence(name, **value);
    EXPECT_TRUE(state.ok()) << state.status();
    return *std::move(state);
  }
  // Changes what the disk holds, while the shard is down.
  template <typename Change>
  void ChangeStored(const std::string& name, Change change) {
    RecurrenceState state = Stored(name);
    change(&state);
    storage::Record record;
    record.type = storage::RecordType::kObject;
    record.kind = static_cast<uint8_t>(storage::ObjectKind::kRecurrence);
    record.name = name;
    record.value = protocol::EncodeRecurrence(state);
    const std::vector<storage::RecordBatch> group = {{record}};
    ASSERT_EQ(store_->Append(group, storage::Durability::kSynced),
              storage::AppendOutcome::kAccepted);
  }

  base::Now now_{.wall_ms = kStartMs, .mono_ms = 1'000};
  std::unique_ptr<test::TestDisk> disk_ = std::make_unique<test::TestDisk>(1);
  std::unique_ptr<test::TestStore> store_;
  std::unique_ptr<shard::Shard> shard_;
  std::vector<std::string> notices_;
};

calendar::RecurrenceRule Every(uint64_t interval_ms) {
  calendar::RecurrenceRule rule;
  rule.interval_ms = static_cast<int64_t>(interval_ms);
  rule.start_ms = kStartMs;
  return rule;
}
calendar::RecurrenceRule Cron(const std::string& cron) {
  calendar::RecurrenceRule rule;
  rule.cron = cron;
  return rule;
}

// A tz database of the test's own, while it exists.
class ZoneDatabase {
 public:
  ZoneDatabase() { setenv("TZDIR", directory_.path().c_str(), /*overwrite=*/1); }
  ~ZoneDatabase() { unsetenv("TZDIR"); }

  // A zone like UTC, in the first version of the format.
  void Add(const std::string& name) {
    const std::filesystem::path path = std::filesystem::path(directory_.path()) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file << "TZif" << std::string(16, '\0') << std::string("\0\0\0\0\0\0\0\0\0\0\0\0", 12)
         << std::string("\0\0\0\0\0\0\0\1\0\0\0\4", 12) << std::string("\0\0\0\0\0\0", 6)
         << std::string("UTC\0", 4);
  }

 private:
  test::TempDirectory directory_;
};

TEST_F(SilentRecurrencesTest, AZoneThatLeftTheMachineIsReportedAndGoesOnWhenItIsBack) {
  ZoneDatabase zones;
  Create("minutely", Cron("* * * * *"));
  ChangeStored("minutely",
               [](RecurrenceState* state) { state->spec.rule.time_zone = "Test/Gone"; });
  Open();
  EXPECT_EQ(shard_->stats().recurrences_stalled, 1u);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("\"minutely\" makes no occurrences"));
  EXPECT_THAT(notices_[0], HasSubstr("Test/Gone"));

  // Its pending occurrence is delivered, and nothing is saved that nobody asked for.
  uint64_t fired = shard_->stats().fired;
  Advance(70);
  EXPECT_EQ(shard_->stats().fired, fired + 1);
  EXPECT_EQ(Stored("minutely").status, RecurrenceStatus::kActive);
  EXPECT_EQ(Stored("minutely").current.id, storage::MessageId{});
  Open();
  EXPECT_EQ(shard_->stats().recurrences_stalled, 1u);

  zones.Add("Test/Gone");
  Advance(10);
  EXPECT_EQ(shard_->stats().recurrences_stalled, 0u);
  EXPECT_THAT(notices_.back(), HasSubstr("not stalled any more"));
  EXPECT_EQ(Stored("minutely").nominal_ms, kStartMs + 120'000);
  fired = shard_->stats().fired;
  Advance(60);
  EXPECT_EQ(shard_->stats().fired, fired + 1);
  EXPECT_EQ(Stored("minutely").nominal_ms, kStartMs + 180'000);
}

TEST_F(SilentRecurrencesTest, OccurrencesOfAClockThatWasAheadAreMadeAnew) {
  for (const calendar::RecurrenceRule& rule : {Every(kHourMs), Cron("0 * * * *")}) {
    for (const bool restarts : {false, true}) {
      for (const bool made_before : {false, true}) {
        now_.wall_ms = kStartMs + 1'000;
        Renew();
        notices_.clear();
        if (made_before) Create("hourly", rule);
        now_.wall_ms += 8 * kHourMs;
        Open();
        if (!made_before) Create("hourly", rule);
        EXPECT_EQ(Stored("hourly").nominal_ms, kStartMs + 9 * kHourMs);
        const uint64_t made = Stored("hourly").made;

        now_.wall_ms -= 8 * kHourMs;
        now_.mono_ms += 1;
        if (restarts) {
          Open();
        } else {
          Run();
        }
        EXPECT_EQ(Stored("hourly").nominal_ms, kStartMs + kHourMs);
        EXPECT_EQ(Stored("hourly").made, made);
        EXPECT_EQ(shard_->stats().recurrences_made_anew, 1u);
        ASSERT_EQ(notices_.size(), 1u);
        EXPECT_THAT(notices_[0], HasSubstr("\"hourly\": the clock was ahead"));
        // Once is enough, also over a restart.
        Open();
        EXPECT_EQ(notices_.size(), 1u);
        now_.wall_ms += kHourMs;
        now_.mono_ms += kHourMs;
        Run();
        EXPECT_EQ(Stored("hourly").nominal_ms, kStartMs + 2 * kHourMs);
      }
    }
  }
}

TEST_F(SilentRecurrencesTest, AnEndThatCameByAClockThatWasAheadDoesNotCount) {
  calendar::RecurrenceRule rule = Every(kHourMs);
  rule.end_ms = static_cast<int64_t>(kStartMs + 5 * kHourMs);
  Create("until", rule);
  now_.wall_ms += 8 * kHourMs;
  Open();
  EXPECT_EQ(Stored("until").status, RecurrenceStatus::kCompleted);
  now_.wall_ms = kStartMs - 2 * kHourMs;
  Open();
  EXPECT_EQ(Stored("until").status, RecurrenceStatus::kActive);
  EXPECT_EQ(Stored("until").nominal_ms, kStartMs);
}

// The clock is set right after the last occurrence that it let pass was due.
TEST_F(SilentRecurrencesTest, AnEndThatCameByAClockThatWasAheadDoesNotCountLater) {
  for (const bool restarts : {false, true}) {
    now_.wall_ms = kStartMs;
    Renew();
    calendar::RecurrenceRule rule = Every(kHourMs);
    rule.end_ms = static_cast<int64_t>(kStartMs + 5 * kHourMs);
    Create("until", rule);
    now_.wall_ms += 8 * kHourMs;
    Run();
    EXPECT_EQ(Stored("until").status, RecurrenceStatus::kCompleted);
    now_.wall_ms = kStartMs + kHourMs + kHourMs / 2;
    if (restarts) {
      Open();
    } else {
      Run();
    }
    EXPECT_EQ(Stored("until").status, RecurrenceStatus::kActive);
    EXPECT_EQ(Stored("until").nominal_ms, kStartMs + 2 * kHourMs);
  }
}

// The last occurrence came before its time because a client moved or cancelled it.
TEST_F(SilentRecurrencesTest, AnEndThatAClientBroughtStays) {
  calendar::RecurrenceRule rule = Every(kHourMs);
  rule.end_ms = static_cast<int64_t>(kStartMs + kHourMs + 1);
  Create("until", rule);
  ASSERT_EQ(Stored("until").nominal_ms, kStartMs + kHourMs);
  protocol::CancelCommand cancel;
  cancel.target.id = Stored("until").current.id;
  shard_->Handle(now_, std::move(cancel));
  Run();
  ASSERT_EQ(Stored("until").status, RecurrenceStatus::kCompleted);
  now_.wall_ms += kHourMs / 2;
  Open();
  EXPECT_EQ(Stored("until").status, RecurrenceStatus::kCompleted);
}

// What has ended makes nothing, so nothing is wrong.
TEST_F(SilentRecurrencesTest, ACompletedOneIsNotStalled) {
  ZoneDatabase zones;
  for (const bool damaged : {false, true}) {
    Renew();
    notices_.clear();
    Create("ended", Cron("0 * * * *"));
    ChangeStored("ended", [damaged](RecurrenceState* state) {
      state->status = RecurrenceStatus::kCompleted;
      state->current = {};
      if (damaged) state->spec.message.back() ^= 1;
      if (!damaged) state->spec.rule.time_zone = "Test/Gone";
    });
    Open();
    EXPECT_EQ(shard_->stats().recurrences_stalled, 0u);
    EXPECT_THAT(notices_, IsEmpty());
  }
}

// A client is cancelling the occurrence, for as long as the disk needs.
TEST_F(SilentRecurrencesTest, AReviewWaitsForACommitWithoutSpinning) {
  Create("hourly", Every(kHourMs));
  protocol::CancelCommand cancel;
  cancel.target.id = Stored("hourly").current.id;
  shard_->Handle(now_, std::move(cancel));
  auto batch = shard_->TakeBatch();
  ASSERT_TRUE(batch.has_value());
  now_.wall_ms -= 2 * kHourMs;
  bool more = true;
  for (int i = 0; more && i < 100; ++i) more = shard_->Step(now_).more;
  EXPECT_FALSE(more);
  shard_->OnCommitted(now_, batch->sequence,
                      store_->Append(std::span(&batch->records, 1), batch->durability));
  Run();
  EXPECT_EQ(shard_->stats().recurrences_made_anew, 1u);
}

// An occurrence that was made just before would come twice.
TEST_F(SilentRecurrencesTest, ASmallStepBackMakesNothingTwice) {
  Create("hourly", Every(kHourMs));
  for (const uint64_t back_ms : {1'000u, 59'000u}) {
    now_.wall_ms = kStartMs + kHourMs;
    Run();
    const uint64_t made = Stored("hourly").made;
    now_.wall_ms -= back_ms;
    Run();
    Open();
    EXPECT_EQ(Stored("hourly").made, made);
    EXPECT_EQ(Stored("hourly").nominal_ms, kStartMs + 2 * kHourMs);
  }
  EXPECT_THAT(notices_, IsEmpty());
}

TEST_F(SilentRecurrencesTest, ADamagedTemplateIsReportedAndSkipped) {
  Create("broken", Every(kHourMs));
  Create("whole", Every(kHourMs));
  ChangeStored("broken", [](RecurrenceState* state) { state->spec.message.back() ^= 1; });
  Open();
  EXPECT_EQ(shard_->stats().recurrences_stalled, 1u);
  EXPECT_THAT(notices_, ElementsAre(HasSubstr("\"broken\" makes no occurrences: its template")));
  const uint64_t fired = shard_->stats().fired;
  now_.wall_ms += kHourMs;
  now_.mono_ms += kHourMs;
  Run();
  EXPECT_EQ(Stored("whole").nominal_ms, kStartMs + 2 * kHourMs);
  EXPECT_EQ(Stored("broken").status, RecurrenceStatus::kActive);
  EXPECT_EQ(shard_->stats().fired, fired + 2);

  protocol::RecurrenceCommand update;
  update.kind = protocol::RecurrenceCommand::Kind::kUpdate;
  update.name = "broken";
  update.update_message = true;
  update.spec.message = Stored("whole").spec.message;
  shard_->Handle(now_, std::move(update));
  Run();
  EXPECT_EQ(shard_->stats().recurrences_stalled, 0u);
  EXPECT_EQ(Stored("broken").nominal_ms, kStartMs + 2 * kHourMs);
}

TEST_F(SilentRecurrencesTest, APausedOneWithADamagedTemplateIsNotResumedSilently) {
  Create("broken", Every(kHourMs));
  ChangeStored("broken", [](RecurrenceState* state) {
    state->status = RecurrenceStatus::kPaused;
    state->spec.message.back() ^= 1;
  });
  Open();
  EXPECT_THAT(notices_, IsEmpty());
  protocol::RecurrenceCommand resume;
  resume.kind = protocol::RecurrenceCommand::Kind::kResume;
  resume.name = "broken";
  now_.wall_ms += 9 * kHourMs;
  shard_->Handle(now_, std::move(resume));
  Run();
  EXPECT_EQ(shard_->stats().recurrences_stalled, 1u);
  EXPECT_EQ(notices_.size(), 1u);
}

TEST_F(SilentRecurrencesTest, EverySkippedOccurrenceIsCounted) {
  constexpr uint64_t kWeekSeconds = 604'800;
  for (const calendar::RecurrenceRule& rule : {Every(1'000), Cron("* * * * * *")}) {
    for (const bool paused : {false, true}) {
      now_.wall_ms = kStartMs;
      Renew();
      Create("often", rule);
      const uint64_t first_ms = Stored("often").nominal_ms;
      if (paused) {
        protocol::RecurrenceCommand pause;
        pause.kind = protocol::RecurrenceCommand::Kind::kPause;
        pause.name = "often";
        shard_->Handle(now_, std::move(pause));
        Run();
      }
      now_.wall_ms = first_ms + kWeekSeconds * 1'000;
      Open();
      if (paused) {
        protocol::RecurrenceCommand resume;
        resume.kind = protocol::RecurrenceCommand::Kind::kResume;
        resume.name = "often";
        shard_->Handle(now_, std::move(resume));
        Run();
      }
      // Of the first one and those of the week, one is delivered.
      const RecurrenceState state = Stored("often");
      EXPECT_EQ(state.skipped, kWeekSeconds) << rule.cron << " " << paused;
      EXPECT_EQ(state.nominal_ms, now_.wall_ms + 1'000);
    }
  }
}

}  // namespace
}  // namespace duetime::recurrences
